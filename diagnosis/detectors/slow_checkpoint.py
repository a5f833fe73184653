"""Checkpoints that take much longer than the job's own usual ones.

All ranks alike: storage. The same host last each time: that host's client. Compared with the job's own median only.
Lines about checkpoints often have no time: the dated steps around them in the same input give it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from diagnosis.case import Case
from diagnosis.evidence import FAIR, GOOD, bucket_of, identity
from sickbay.components import UNKNOWN, Kind, Name, host_of, name
from sickbay.messages import Action, Evidence, Severity, Step

NAME, VERSION = "slow_checkpoint", "2"

LONGER = 2.5  # [house] times the job's own median
LEAST_BEFORE = 3  # checkpoints that make a median
ONE_LAST = 2.0  # slowest rank over the median rank: one client (night 23: 1.1 is storage, 3.0 a client)
REPEATS = 3  # the same host last this often


PHASES = ("checkpoint_begin", "checkpoint_end")


class Write(NamedTuple):
    """One rank's write of one checkpoint."""

    rank: int | None
    begin_ms: int
    took_ms: int


def claims(case: Case) -> Iterable[Evidence]:
    """Claims on storage or on one host's client, per job."""
    by_job: dict[str, list[Step]] = defaultdict(list)
    for step in dated(case.steps):
        if step.at_ms is not None and step.phase in PHASES:
            by_job[step.job].append(step)
    for job in sorted(by_job):
        yield from _of_job(job, rounds_of(by_job[job], case.now_ms), case)


def dated(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps; a checkpoint that no time is told for lies between the dated steps around it in its input.

    It began when the one before was told, and ended when the next one told was begun.
    """
    by_path: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        by_path[step.path].append(step)
    for path, own in sorted(by_path.items()):
        yield from _dated(sorted(own, key=lambda step: step.line)) if path else own


def _dated(own: list[Step]) -> Iterator[Step]:
    before: Step | None = None
    waiting: list[Step] = []
    for step in own:
        if step.at_ms is None:
            waiting += [step] if step.phase in PHASES and before is not None else []
            continue
        yield from (_placed(one, before, step) for one in waiting if before is not None)
        waiting = []
        before = step
        yield step
    yield from (_placed(one, before, None) for one in waiting if before is not None and one.phase == PHASES[0])


def _placed(step: Step, before: Step, after: Step | None) -> Step:
    begun = before.at_ms or 0
    if after is None or step.phase == PHASES[0]:
        placed: Step = replace(step, at_ms=begun)
        return placed
    made = max(1, after.step - before.step) * (after.duration_ms or 0.0)
    placed = replace(step, at_ms=max(begun, (after.at_ms or 0) - round(made)))
    return placed


def rounds_of(steps: list[Step], now_ms: int | None) -> list[list[Write]]:
    """The checkpoints of a job in order, each with the writes of its ranks; one that still runs lasts until now."""
    open_: dict[tuple[int | None, str], Step] = {}  # by writer: a file of its own where no rank is told
    found: dict[int, list[Write]] = defaultdict(list)
    # Of one moment: what ends an earlier checkpoint, then what begins this one, then what ends this one.
    for step in sorted(steps, key=lambda s: (s.at_ms or 0, s.step, s.phase == "checkpoint_end", s.rank or 0)):
        if step.phase == "checkpoint_begin":
            open_[_writer(step)] = step
        elif begun := open_.pop(_writer(step), None):
            found[begun.step].append(Write(step.rank, begun.at_ms or 0, (step.at_ms or 0) - (begun.at_ms or 0)))
    for (rank, _), begun in open_.items():
        if now_ms is not None and begun.at_ms is not None and now_ms > begun.at_ms:
            found[begun.step].append(Write(rank, begun.at_ms, now_ms - begun.at_ms))
    return [found[step] for step in sorted(found)]


def _writer(step: Step) -> tuple[int | None, str]:
    return (step.rank, "" if step.rank is not None else step.path)


def _of_job(job: str, rounds: list[list[Write]], case: Case) -> Iterator[Evidence]:
    if len(rounds) <= LEAST_BEFORE:
        return
    lasted = [max(write.took_ms for write in writes) for writes in rounds]
    usual = median(lasted[:-1])
    latest = rounds[-1]
    if usual <= 0 or lasted[-1] < LONGER * usual:
        return
    facts = {"seconds": str(lasted[-1] // 1000), "usual": str(round(usual) // 1000)}
    host = _last_host(job, rounds, case)
    onset = (
        latest[0].begin_ms,
        latest[0].begin_ms + round(usual),
    )  # the job idles from the first, and too long from the last
    if host:
        yield _claim(name(Kind.FILESYSTEM, host, UNKNOWN), "storage_client", "client_last", GOOD, job, onset, facts)
    else:
        says = "all_write_slowly" if len(latest) > 1 else "checkpoint_takes_long"
        yield _claim(name(Kind.STORAGE, UNKNOWN), "storage_stall", says, FAIR, job, onset, facts)


def _last_host(job: str, rounds: list[list[Write]], case: Case) -> str | None:
    """The host that was clearly last in the latest checkpoints, each time the same."""
    hosts = set()
    for writes in rounds[-REPEATS:]:
        slowest = max(writes, key=lambda write: (write.took_ms, write.rank or 0))
        middle = median(write.took_ms for write in writes)
        if len(writes) < 3 or slowest.rank is None or slowest.took_ms < ONE_LAST * middle:
            return None
        rank = name(Kind.RANK, job, str(slowest.rank))
        hosts.add(host_of(case.placements.at(slowest.begin_ms).component_of(rank) or "cluster:") or "")
    return hosts.pop() or None if len(hosts) == 1 else None


def _claim(
    component: Name, fault: str, says: str, llr: float, job: str, onset: tuple[int, int], facts: dict[str, str]
) -> Evidence:
    return Evidence(
        id=identity(NAME, VERSION, component, fault, f"{job}|{bucket_of(onset[1])}"),
        detector=NAME,
        version=VERSION,
        component=component,
        fault=fault,
        llr=llr,
        onset_from_ms=onset[0],
        onset_to_ms=onset[1],
        source_group=f"{component}|checkpoint",
        severity=Severity.WARNING,
        advice=Action.WATCH,
        job="" if job == UNKNOWN else job,
        says=says,
        facts=facts,
    )
