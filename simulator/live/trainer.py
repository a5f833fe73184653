"""A training job for a simulated site: the real scheduler starts it, once on every node. Standard library only.

    srun --ntasks-per-node=1 python3 trainer.py FOLDER

Every node says several times a second what it does, in FOLDER/hosts/NODE/activity. The first one writes the log of
the job, commits checkpoints, and goes on from the newest one after a restart. A node whose card was lost, or that is
silent, makes all others wait in their collective, for ever: ending it is the scheduler's to do.
"""

import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

ACTIVITY, LOST = "activity", "lost"
BEAT_S, SILENT_S = 0.25, 3.0
LOAD_S, STEP_S, SAVE_EVERY = 2.0, 1.0, 5  # short steps and frequent checkpoints: the story should not take hours


def active(file: Path, now: float) -> str:
    """What the job on a node does at that time; empty where nothing has been said of late."""
    try:
        word, _, at = file.read_text(encoding="utf-8").partition(" ")
        return word if now - float(at) < SILENT_S else ""
    except (OSError, ValueError):
        return ""


def say(folder: Path, node: str, word: str) -> None:
    """Write what this node does: whole or not at all."""
    file = folder / "hosts" / node / ACTIVITY
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(f"{word} {time.time():.3f}", encoding="utf-8")
    draft.replace(file)


def stalled(folder: Path, nodes: list[str], began: float) -> bool:
    """Whether a node of the job lost a card, or says nothing though it had time to start."""
    if any((folder / "hosts" / node / LOST).exists() for node in nodes):
        return True
    now = time.time()
    return now - began > 2 * SILENT_S and any(not active(folder / "hosts" / node / ACTIVITY, now) for node in nodes)


def line(step: int, took_s: float) -> str:
    """What the framework prints after a step."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    loss = 1.7 + 3.0 * math.exp(-step / 900)
    return (
        f" [{stamp}] iteration {step:8d}/  500000 | consumed samples: {step * 1536:12d} | elapsed time per iteration "
        f"(ms): {took_s * 1000:.1f} | learning rate: 1.200000E-04 | global batch size:  1536 | lm loss: {loss:.6E} | "
        "loss scale: 1.0 | grad norm: 0.412 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def nodes_of(allocation: str) -> list[str]:
    """`n[1-3],n7` as names, as the scheduler spells them."""
    if not re.fullmatch(r"[\w.,\[\]-]+", allocation):
        raise SystemExit("no allocation: start it under srun")
    done = subprocess.run(["scontrol", "show", "hostnames", allocation], capture_output=True, text=True, timeout=20)
    return done.stdout.split()


def train(folder: Path, job: str, node: str, nodes: list[str], *, until: float = math.inf) -> None:
    """Train until ended from outside."""
    saved = folder / "scratch" / f"{job}.checkpoint"
    step = int(saved.read_text()) if saved.exists() else 0
    first, began, last = node == nodes[0], time.time(), time.time() + LOAD_S
    while time.time() < until:
        now = time.time()
        if stalled(folder, nodes, began):
            say(folder, node, "wait")
            last = now
        elif now - began < LOAD_S:
            say(folder, node, "load")
        else:
            say(folder, node, "step")
            if now - last >= STEP_S:
                step += 1
                if first:
                    print(line(step, now - last), flush=True)
                    if step % SAVE_EVERY == 0:
                        save(saved, step, sys.stdout)
                last = now
        time.sleep(BEAT_S)


def save(saved: Path, step: int, out: TextIO) -> None:
    """Commit a checkpoint."""
    print(f"saving checkpoint at iteration {step:7d} to {saved.parent} in torch_dist format", file=out, flush=True)
    draft = saved.with_suffix(".draft")
    draft.write_text(str(step))
    draft.replace(saved)
    print(f"  successfully saved checkpoint from iteration {step:7d} to {saved.parent}", file=out, flush=True)


if __name__ == "__main__":
    train(
        Path(sys.argv[1]), os.environ["SLURM_JOB_ID"], os.environ["SLURMD_NODENAME"],
        nodes_of(os.environ["SLURM_JOB_NODELIST"]),
    )  # fmt: skip
