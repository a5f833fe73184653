"""Which job an input speaks of where it does not tell: the scheduler's, if that is certain, else a stand-in.

A job log belongs to a job that the scheduler told when its name holds the job's id, when its ranks run on that job's
hosts, or when no host outside that one job is known at all. Adopting a wrong job would stop a healthy one.

Otherwise the files of one folder are one run, and two attempts are not: a rank runs in one place and waits once, so two
inputs that put the same rank on different hosts, or let it give up at times far apart, are two attempts.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from collectors.identity import hosts_told, stand_in
from collectors.inputs.gather import Gathered
from sickbay.clock import Clock, Stamp
from sickbay.components import UNKNOWN
from sickbay.messages import Event, Placement, Progress, Step

APART_MS = 300_000  # ranks of one attempt give up within its own time-out of each other, far less than this

OF_RUN = frozenset({"rank", "path"})  # components that only a run's own log speaks of

Hosts = frozenset[str]


@dataclass(slots=True)
class _Run:
    """What is known of one attempt while its inputs are collected."""

    first: str
    hosts: dict[int, str] = field(default_factory=dict)  # rank -> host
    gave_up: dict[int, Stamp] = field(default_factory=dict)  # rank -> when


def job_names(inputs: Sequence[Gathered]) -> list[str]:
    """The job of each input's ranks and steps: told by itself or the scheduler, else a stand-in for its run.

    "" for an input that speaks of no ranks and no steps.
    """
    jobs = _jobs(inputs)
    strangers = hosts_told(inputs) - set().union(*jobs.values()) if jobs else set()
    only = next(iter(jobs)) if len(jobs) == 1 and not strangers else None
    adopted = [(_told(found) or _adopted(found, jobs) or only or "") if _speaks(found) else None for found in inputs]
    loose = [found for found, job in zip(inputs, adopted, strict=True) if job == ""]
    names = dict(zip((found.path for found in loose), _stand_ins(loose), strict=True))
    return [job or (names[found.path] if job == "" else "") for found, job in zip(inputs, adopted, strict=True)]


def _speaks(found: Gathered) -> bool:
    return any(
        isinstance(record := reading.record, Progress | Step)
        or (isinstance(record, Placement) and record.job == UNKNOWN)
        or (isinstance(record, Event) and record.component.partition(":")[0] in OF_RUN)
        for reading in found.readings
    )


def _stand_ins(loose: Sequence[Gathered]) -> list[str]:
    """One run for all of them unless they contradict each other, then one for each folder, or each attempt in it."""
    whole: list[_Run] = []
    for found in loose:
        _run_of(found, whole)
    if len(whole) <= 1:
        return [stand_in(_common([_folder(found.path) for found in loose]))] * len(loose)
    runs: defaultdict[str, list[_Run]] = defaultdict(list)
    mine = [_run_of(found, runs[_folder(found.path)]) for found in loose]
    return [
        stand_in(run.first if len(runs[_folder(found.path)]) > 1 else _folder(found.path))
        for found, run in zip(loose, mine, strict=True)
    ]


def _common(folders: Sequence[str]) -> str:
    """The folder that holds all of them, the first where they share none."""
    split = [folder.split("/") for folder in folders]
    shared = takewhile(lambda pieces: len(set(pieces)) == 1, zip(*split, strict=False))
    return "/".join(pieces[0] for pieces in shared) or next(iter(folders), "")


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or path


def _jobs(inputs: Sequence[Gathered]) -> dict[str, Hosts]:
    """Jobs that a scheduler told, with the hosts of all their attempts."""
    told: defaultdict[str, set[str]] = defaultdict(set)
    for found in inputs:
        for reading in found.readings:
            record = reading.record
            if isinstance(record, Placement) and record.job != UNKNOWN:
                told[record.job].update(record.hosts, (rank.host for rank in record.ranks))
    return {job: frozenset(hosts - {UNKNOWN}) for job, hosts in told.items()}


def _told(found: Gathered) -> str | None:
    """The one job that the input itself names for its ranks or steps."""
    records = (reading.record for reading in found.readings)
    jobs = {one.job for one in records if isinstance(one, Progress | Step)} - {UNKNOWN}
    return next(iter(jobs)) if len(jobs) == 1 else None


def _adopted(found: Gathered, jobs: Mapping[str, Hosts]) -> str | None:
    """The scheduler's job whose id the file's name holds, or whose hosts alone the input's ranks run on."""
    name = found.path.rpartition("/")[2]
    named = [job for job in jobs if re.search(rf"(?<![0-9A-Za-z]){re.escape(job)}(?![0-9A-Za-z])", name)]
    if len(named) == 1:
        return named[0]
    hosts = _hosts(found)
    fitting = [job for job, known in jobs.items() if hosts and hosts <= known]
    return fitting[0] if len(fitting) == 1 else None


def _hosts(found: Gathered) -> Hosts:
    """Hosts that the input's ranks say they run on."""
    hosts = set(_places(found).values())
    for reading in found.readings:
        if isinstance(reading.record, Progress):
            hosts |= {reading.record.host, reading.host}
    return frozenset(hosts - {"", UNKNOWN})


def _places(found: Gathered) -> dict[int, str]:
    return {
        rank.rank: rank.host
        for reading in found.readings
        if isinstance(reading.record, Placement) and reading.record.job == UNKNOWN
        for rank in reading.record.ranks
        if rank.host != UNKNOWN
    }


def _run_of(found: Gathered, runs: list[_Run]) -> _Run:
    """The run of its folder that this input does not contradict, else a new one."""
    new = _Run(found.path, _places(found))
    for reading in found.readings:
        record = reading.record
        if isinstance(record, Progress) and record.state == "waiting" and reading.stamp.clock is not Clock.NONE:
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
