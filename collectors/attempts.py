"""Which job an input speaks of where it does not tell: the files of one run belong together, two attempts do not.

A rank runs in one place and waits once. Two inputs of a folder that put the same rank on different hosts, or let it
give up at times far apart, are two attempts.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from collectors.gather import Gathered
from collectors.identity import stand_in
from sickbay.clock import Clock, Stamp
from sickbay.components import UNKNOWN
from sickbay.messages import Placement, Progress, Step

APART_MS = 300_000  # ranks of one attempt give up within its own time-out of each other, far less than this


@dataclass(slots=True)
class _Run:
    """What is known of one attempt while its inputs are collected."""

    first: str
    hosts: dict[int, str] = field(default_factory=dict)  # rank -> host
    gave_up: dict[int, Stamp] = field(default_factory=dict)  # rank -> when


def job_names(inputs: Sequence[Gathered]) -> list[str]:
    """The job of each input's ranks and steps: the only job known, else `~` + its folder, or its first file's path."""
    told = {job for found in inputs for job in _told(found)}
    if len(told) == 1:
        return [next(iter(told))] * len(inputs)
    runs: defaultdict[str, list[_Run]] = defaultdict(list)
    mine = [_run_of(found, runs[_folder(found.path)]) for found in inputs]
    return [
        stand_in(run.first if len(runs[_folder(found.path)]) > 1 else _folder(found.path))
        for found, run in zip(inputs, mine, strict=True)
    ]


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or path


def _told(found: Gathered) -> set[str]:
    records = (reading.record for reading in found.readings)
    return {one.job for one in records if isinstance(one, Placement | Progress | Step)} - {UNKNOWN}


def _run_of(found: Gathered, runs: list[_Run]) -> _Run:
    """The run of its folder that this input does not contradict, else a new one."""
    new = _Run(found.path)
    for reading in found.readings:
        record = reading.record
        if isinstance(record, Placement):
            new.hosts.update({rank.rank: rank.host for rank in record.ranks if rank.host != UNKNOWN})
        elif isinstance(record, Progress) and record.state == "waiting" and reading.stamp.clock is not Clock.NONE:
            new.gave_up.setdefault(record.rank, reading.stamp)
    for run in runs:
        if not _contradicts(run, new):
            run.hosts |= new.hosts
            run.gave_up |= new.gave_up
            return run
    runs.append(new)
    return new


def _contradicts(run: _Run, new: _Run) -> bool:
    if any(run.hosts.get(rank, host) != host for rank, host in new.hosts.items()):
        return True
    return any(
        old.clock is stamp.clock and abs(old.ms - stamp.ms) > APART_MS
        for rank, stamp in new.gave_up.items()
        if (old := run.gave_up.get(rank))
    )
