"""The night that `sickbay simulate` lives through: a busy cluster of a size, and faults that the seed draws or that are
named; what is right about it is told beside what it produces."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulator.faults import FAULTS
from simulator.moments import START_MS
from simulator.scenario import Scenario, scenario

PER_HOST, PER_JOB = 8, 16  # accelerators of a host; hosts of a job, the median of what is published
MAX_ACCELERATORS = 1_000_000
DRAWN = 3  # faults of a night whose faults nobody names
TRUTH = "truth.json"
FIRST, LAST = 0.2, 0.7  # of the night: faults begin between these


def drawn(
    accelerators: int, seconds: int, seed: int, faults: Sequence[str] = (), count: int | None = None,
    start_ms: int = START_MS,
) -> Scenario:  # fmt: skip
    """A cluster under load, with the faults that are named, else `count` drawn ones. Raises ValueError, KeyError."""
    made = busy(accelerators, seed)
    made.start_ms = start_ms
    rng = np.random.default_rng([seed, 0x51])
    wanted = [*faults, *_drawn(rng, (0 if faults else DRAWN) if count is None else count)]
    for fault in wanted:
        made.at(int(rng.uniform(FIRST, LAST) * seconds)).fault(fault)
    return made


def _drawn(rng: np.random.Generator, count: int) -> list[str]:
    """Classes of faults, each at most once until all are used."""
    known, found = sorted(FAULTS), list[str]()
    while len(found) < count:
        found += map(str, rng.permutation(known)[: count - len(found)])
    return found


def busy(accelerators: int, seed: int) -> Scenario:
    """A cluster in which every host runs a job. Raises ValueError for a size that is none."""
    if not 0 < accelerators <= MAX_ACCELERATORS:
        raise ValueError(f"a cluster has 1 to {MAX_ACCELERATORS:,} accelerators, not {accelerators:,}")
    if accelerators > PER_HOST and accelerators % PER_HOST:
        raise ValueError(f"hosts have {PER_HOST} accelerators each: {accelerators:,} is not a multiple of that")
    per_host = min(PER_HOST, accelerators)
    hosts = accelerators // per_host
    per_job = next(size for size in (PER_JOB, 8, 4, 2, 1) if hosts % size == 0 or hosts >= 4 * size)
    in_jobs = hosts // per_job * per_job
    return scenario(
        seed=seed, hosts=in_jobs, spare_hosts=hosts - in_jobs, per_host=per_host, hosts_per_job=per_job,
        hosts_per_leaf=4,
    )  # fmt: skip


def from_file(path: Path, seed: int, start_ms: int = START_MS) -> Scenario:
    """The scenario that a file tells. Raises ValueError, OSError."""
    from simulator.scenario_file import load

    made = load(path, seed=seed)
    made.start_ms = start_ms
    return made


def truth(made: Scenario) -> list[dict[str, Any]]:
    """What happens in the night, and what is right to say of it."""
    return [
        {
            "what": one.name,
            "title": one.title,
            "at_s": (one.at_ms - made.start_ms) / 1000,
            "decoy": one.decoy,
            "components": sorted(one.components),
            "verdicts": sorted(one.verdicts),
            "faults": sorted(one.faults),
            "actions": sorted(one.actions),
            "exonerated": sorted(one.exonerated),
            "forbidden": sorted(one.forbidden),
            "family": one.family,
            "severity": one.severity,
        }
        for one in made.expectations()
    ]


def write_truth(made: Scenario, folder: Path) -> None:
    """`truth.json`, beside the rest."""
    text = json.dumps({"seed": made.seed, "start_ms": made.start_ms, "effects": truth(made)}, indent=2, sort_keys=True)
    (folder / TRUTH).write_text(text + "\n", encoding="utf-8")
