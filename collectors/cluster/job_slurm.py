"""Slurm's jobs as placements, a fold over polls: state and answer in, changed placements out.

What Slurm shows while a job ends deceives: a requeued job counts its new attempt at once, yet shows the nodes that the
old one is still leaving, and fewer each time. So hosts are taken from jobs that run or have ended, and the end of an
attempt that gave way to the next is when the poll first saw that. A job that waits has only an expected start: untold.

Ranks: the n-th host of a job holds its n-th tasks (block, the default distribution), until the controller was asked for
the step's own layout (`job_details`). Where there is one task a host it is a launcher, whose own ranks Slurm does not
know. Which accelerators of a host a job has, squeue does not say; the job's details do.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from collectors.formats import hostlist
from collectors.formats.reading import Tally
from collectors.formats.slurm_queue import Queued
from collectors.formats.slurm_records import is_job_id, job_readings
from sickbay.clock import Clock, Stamp
from sickbay.messages import Event, Placement, RankPlace
from sickbay.messages import replace as changed
from sickbay.placement import OVER, WAITING

MAX_RANKS = 50_000  # of one record: about 2 MB, half of what the topic takes; hosts are in rank order anyway
GONE_MS = 60_000  # that a job must be missing: ended ones are shown for MinJobAge (300 s), and a controller that fails
# over answers in part. A false end could not be taken back.
GONE, REQUEUED = "gone", "requeued"  # how an attempt ended that Slurm says no more of
_UNSURE = frozenset(
    {"completing", "requeued", "requeue_fed", "requeue_hold", "special_exit", "resv_del_hold", "revoked"}
)


Recipe = Mapping[str, str]


class Detailed(NamedTuple):
    """What was asked about an attempt of a job: its ranks, with their cards where these are told."""

    attempt: int
    ranks: tuple[RankPlace, ...] = ()
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Jobs:
    """What was told of each job's newest attempt, and since when a job is missing."""

    told: dict[str, Placement] = field(default_factory=dict)
    rows: dict[str, Queued] = field(default_factory=dict)  # as last read: what says the same is not looked at again
    missing: dict[str, int] = field(default_factory=dict)  # job: when it was first not in an answer
    details: dict[str, Detailed] = field(default_factory=dict)  # of jobs whose newest attempt was asked about
    recipes: dict[tuple[str, str], Recipe] = field(default_factory=dict)  # user, name: what was last run under it


@dataclass(frozen=True, slots=True)
class Step:
    """One poll's outcome. `placements`: in the order in which they must be told."""

    jobs: Jobs
    placements: tuple[Placement, ...] = ()
    events: tuple[Event, ...] = ()


def polled(jobs: Jobs, answer: Iterable[Queued], read_ms: int) -> Step:
    """The state after a whole answer of the queue, read at `read_ms`, and what has changed by it."""
    told, rows, missing = dict(jobs.told), dict[str, Queued](), dict(jobs.missing)
    placements: list[Placement] = []
    events: list[Event] = []
    for queued in answer:
        job = queued.job.id
        rows[job] = queued
        if queued == jobs.rows.get(job):
            continue
        known = told.get(job)
        for placement in _placements(queued, known, read_ms, jobs.details.get(job)):
            told[job] = placement
            placements.append(placement)
            if known is not None and known.attempt == placement.attempt and _is_open(known):
                events += _ending(queued, placement, read_ms)
    for job in sorted(told.keys() - rows.keys()):
        since = missing.setdefault(job, read_ms)
        if _is_open(told[job]) and read_ms - since >= GONE_MS:
            placements.append(_ended(told[job], since, GONE))
        if not _is_open(told[job]) or read_ms - since >= GONE_MS:
            del told[job], missing[job]
    still = {job: missing[job] for job in missing.keys() - rows.keys()}
    details = {job: one for job, one in jobs.details.items() if job in told}
    return Step(Jobs(told, rows, still, details, jobs.recipes), tuple(placements), tuple(events))


def remembered(placements: Iterable[Placement]) -> Jobs:
    """The state after what an earlier run told, in the order of the log: the jobs that it left open."""
    newest = {one.job: one for one in placements if is_job_id(one.job)}
    return Jobs({job: one for job, one in newest.items() if _is_open(one)})


def standing(jobs: Jobs) -> tuple[Placement, ...]:
    """Everything that is known, to be told again."""
    return tuple(jobs.told[job] for job in sorted(jobs.told))


def ranks_of(hosts: tuple[str, ...], tasks: int, tasks_per_host: int) -> tuple[RankPlace, ...]:
    """Where each rank runs, in blocks; none where Slurm's tasks are not the ranks, or do not come out even."""
    if tasks_per_host < 2 or tasks != len(hosts) * tasks_per_host or tasks > MAX_RANKS:
        return ()
    return tuple(RankPlace(rank=rank, host=hosts[rank // tasks_per_host]) for rank in range(tasks))


def _placements(queued: Queued, known: Placement | None, read_ms: int, detail: Detailed | None) -> Iterator[Placement]:
    """What a row adds to what is known of its job."""
    state, attempt = queued.job.state.lower(), queued.job.attempt
    if not state or (known is not None and attempt < known.attempt):  # not understood, or older than what is known
        return
    begun = _ms(queued.job.start)
    waits = state in WAITING or state in _UNSURE
    if known is not None and _is_open(known) and (attempt > known.attempt or (waits and state != "completing")):
        yield _ended(known, read_ms if waits or begun is None else min(begun, read_ms), REQUEUED)
    if waits:
        if state == "completing" and known is not None and known.attempt == attempt and _differs(known, state):
            yield changed(known, state=state)
        return
    placement = _placed(queued, read_ms, detail)
    if known is None or known.attempt < attempt or _news(known, placement):
        yield _kept(known, placement)


def _placed(queued: Queued, read_ms: int, detail: Detailed | None) -> Placement:
    job = queued.job
    hosts, state = hostlist.names(job.nodes, Tally()), job.state.lower()
    end = _ms(job.end) if state in OVER else None  # of a job that runs it is the time limit
    asked = detail.ranks if detail is not None and detail.attempt == job.attempt else ()
    ranks = asked or ranks_of(hosts, queued.tasks, queued.tasks_per_node)
    return Placement(
        job=job.id,
        attempt=job.attempt,
        hosts=hosts,
        ranks=ranks,
        from_ms=_ms(job.start),
        to_ms=(read_ms if end is None else _last_ms(end, read_ms)) if state in OVER else None,
        state=state,
        user=job.user,
        name=job.name,
        exclusive=job.exclusive,
    )


def _kept(known: Placement | None, placement: Placement) -> Placement:
    """A placement that never loses hosts within an attempt: what is over may show fewer."""
    same = known is not None and known.attempt == placement.attempt
    if not same or known is None or len(placement.hosts) >= len(known.hosts):
        return placement
    kept: Placement = changed(placement, hosts=known.hosts, ranks=known.ranks)
    return kept


def _news(known: Placement, placement: Placement) -> bool:
    if not _is_open(known) and known.state not in (GONE, REQUEUED):
        return False  # an end stands as first told
    return _kept(known, placement) != known


def _differs(known: Placement, state: str) -> bool:
    return _is_open(known) and known.state != state


def _ended(placement: Placement, at_ms: int, state: str) -> Placement:
    begun = placement.from_ms
    ended: Placement = changed(placement, to_ms=at_ms if begun is None else max(at_ms, begun), state=state)
    return ended


def _ending(queued: Queued, placement: Placement, read_ms: int) -> Iterator[Event]:
    """What became of an attempt that was seen running: failed, cancelled, lost a host ..."""
    if placement.to_ms is None or placement.state in (GONE, REQUEUED):
        return
    at = replace(queued.job, end=Stamp(Clock.ABSOLUTE, placement.to_ms), nodes=hostlist.compress(placement.hosts))
    for reading in job_readings(at, Tally()):
        if isinstance(reading.record, Event):
            yield changed(reading.record, seen_ms=read_ms)


def _is_open(placement: Placement) -> bool:
    return placement.to_ms is None


def _last_ms(end: int, read_ms: int) -> int:
    """Slurm tells whole seconds, cut off: what a job did in its last one was still the job's."""
    return max(end, min(end + 999, read_ms))


def _ms(stamp: Stamp) -> int | None:
    return stamp.ms if stamp.clock is Clock.ABSOLUTE else None
