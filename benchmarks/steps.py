"""What the training hook costs a step: begin and end, against the agent's own collector in a process of its own.

Short steps come in bursts that the kernel's queue holds, and tell mostly their end; long ones, a tenth of a second
apart, tell both and find cold caches. All times are of the wall clock, with all that runs beside on the machine: the
first percentile is what an undisturbed step costs.
"""

import multiprocessing
import os
import platform
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from collectors.agent.source import Host
from collectors.host.job_steps import JobSteps
from sickbay.settings import Agent
from sickbay.steps import Steps

STEPS = 4_000
BURST = 4  # steps one after the other, fewer than the kernel's queue of ten holds
SHORT_S, LONG_S = 0.001, 0.1  # between two bursts, and two long steps
LONG_SHARE = 20  # one long step for so many short ones: it takes its time
START_S = 30.0  # for the collector's process
SOCKET = "run/steps.sock"


def measure(size: int | None = None) -> dict[str, Any]:
    """Numbers over `size` steps."""
    steps = size or STEPS
    with tempfile.TemporaryDirectory(prefix="sickbay-steps-") as folder:
        heard, long, lost = _with_agent(Path(folder), steps)
        alone = _timed(Steps(job="1", rank=0, path=str(Path(folder) / "nobody")), steps, SHORT_S, BURST)
    return {
        "ns_per_step": heard[len(heard) // 2],
        "ns_per_step_p1": heard[len(heard) // 100],
        "ns_per_step_p99": heard[len(heard) * 99 // 100],
        "ns_per_long_step": long[len(long) // 2],
        "ns_per_step_without_agent": alone[len(alone) // 2],
        "conditions": {
            "steps": steps,
            "a_step_is": "begin and end, with work and loss",
            "burst": BURST,
            "pause_s": SHORT_S,
            "pause_of_long_steps_s": LONG_S,
            "messages_lost": lost,
            "queue_of_datagrams": _queue(),
            "cores": os.cpu_count(),
            "load_1min": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
    }


def _queue() -> int | None:
    try:
        return int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def collect(folder: str, end: Event) -> None:
    """The agent's collector, until it is told to end."""
    collector = JobSteps(Host("n1", Agent(host="n1", root=folder, steps_socket=SOCKET)))
    while not end.is_set():
        collector.collect(time.time_ns() // 1_000_000)
    collector.close()


def _with_agent(folder: Path, steps: int) -> tuple[list[int], list[int], int]:
    context = multiprocessing.get_context("spawn")
    end = context.Event()
    process = context.Process(target=collect, args=(str(folder), end), daemon=True)
    process.start()
    try:
        deadline = time.monotonic() + START_S
        while not (folder / SOCKET).exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"no socket within {START_S} s")
            time.sleep(0.01)
        hook = Steps(job="1", rank=0, path=str(folder / SOCKET))
        short = _timed(hook, steps, SHORT_S, BURST)
        return short, _timed(hook, max(1, steps // LONG_SHARE), LONG_S), hook.lost
    finally:
        end.set()
        process.join(10)


def _timed(hook: Steps, steps: int, pause_s: float, burst: int = 1) -> list[int]:
    """Nanoseconds of a step, by burst, sorted."""
    found = []
    for first in range(0, steps, burst):
        began = time.perf_counter_ns()
        for number in range(first, first + burst):
            hook.begin(number)
            hook.end(work=4096.0, loss=2.5)
        found.append((time.perf_counter_ns() - began) // burst)
        time.sleep(pause_s)
    return sorted(found)
