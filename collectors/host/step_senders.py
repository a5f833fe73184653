"""What ranks say through the training hook, judged: lines in, records and counts out.

No socket and no clock in here. State is kept per rank and bounded; whoever says too much, something that cannot be, or
something of another user's job is counted and not told.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from collectors.formats.events import event
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Event, Progress, Step

MAX_LINES = 200  # of one datagram; the hook puts some 60 into one
MAX_RANKS, MAX_JOBS, MAX_USERS = 4_096, 512, 1_024  # that are remembered: a host runs dozens
PER_RANK, PER_USER = 50.0, 2_000.0  # lines a second, with as many of `BURST_S` seconds at once
BURST_S = 4.0
OPEN_MS = 20_000  # so long a step may last before its begin is told; longer than usual steps
OLD_MS, AHEAD_MS = 600_000, 5_000  # of a line's time, which is this host's own
GONE_MS = 600_000  # after so long a silence a rank, or a job's user, is forgotten
GROUPS_MS = 600_000  # between two tellings of a rank's groups: readers look back half an hour only
MAX_GROUPS = 16
MAX_STOP_MS = 86_400_000  # the longest "do not stop before" that is passed on
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")

Record: TypeAlias = Step | Progress | Event
Short = Annotated[str, Meta(max_length=60)]


class Line(Struct, frozen=True):
    """One message of the hook, version 1. Later fields are passed over."""

    v: Literal[1]
    k: Literal["begin", "step", "phase", "group", "owner", "no_stop"]
    start: Annotated[int, Meta(ge=0, lt=2**53)]
    at: Annotated[int, Meta(ge=0, lt=2**53)]
    job: str = ""
    rank: Annotated[int, Meta(ge=0, lt=10_000_000)] | None = None
    world: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    step: Annotated[int, Meta(ge=-1, lt=2**53)] = -1
    ms: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    work: Annotated[float, Meta(ge=0, le=1e15)] | None = None
    loss: float | None = None
    grad: float | None = None
    odd: bool = False  # loss or gradient is not a finite number
    phase: Short = ""
    group: Short = ""
    ranks: Annotated[tuple[Annotated[int, Meta(ge=0, lt=10_000_000)], ...], Meta(max_length=8_192)] = ()
    owner: Short = ""
    until: Annotated[int, Meta(ge=0, lt=2**53)] = 0
    lost: Annotated[int, Meta(ge=0, lt=2**53)] = 0
    errors: Annotated[int, Meta(ge=0, lt=2**53)] = 0


class Told(NamedTuple):
    """A record to tell, and its time."""

    record: Record
    at_ms: int


@dataclass(slots=True)
class Bucket:
    """So many a second, and a burst."""

    rate: float
    left: float
    at_ms: int

    def take(self, now_ms: int) -> bool:
        """Whether one more may pass."""
        self.left = min(self.rate * BURST_S, self.left + self.rate * max(0, now_ms - self.at_ms) / 1000)
        self.at_ms = now_ms
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


def _bucket(rate: float, now_ms: int) -> Bucket:
    return Bucket(rate, rate * BURST_S, now_ms)


@dataclass(slots=True)
class Rank:
    """What is known of one rank."""

    job: str
    rank: int | None
    pid: int
    start: int
    seen_ms: int
    bucket: Bucket
    lost: int = 0
    errors: int = 0
    odd: bool = False
    begun: tuple[int, int] | None = None  # step and time; None: ended, or told
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    groups_ms: int = 0


class Senders:
    """All ranks of a host. `refused`: why how many lines were not told, since it was last emptied."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, int | None, int], Rank] = {}
        self._users: dict[int, Bucket] = {}
        self._owners: dict[str, tuple[int, int]] = {}  # job: its user, and when it last spoke
        self._decoder = msgspec.json.Decoder(Line, strict=True)
        self.refused: Counter[str] = Counter()

    def take(self, data: bytes, uid: int, pid: int, now_ms: int) -> Iterator[Told]:
        """The records of one datagram."""
        lines = data.split(b"\n", MAX_LINES)
        if len(lines) > MAX_LINES and lines.pop():
            self.refused["too many at once"] += 1
        for raw in filter(None, lines):
            if not self._may(uid, now_ms):
                self.refused["more than a user may send"] += 1
                continue
            try:
                line = self._decoder.decode(raw)
            except (msgspec.DecodeError, RecursionError):
                self.refused["not of the hook"] += 1
                continue
            yield from self._line(line, uid, pid, now_ms)

    def _may(self, uid: int, now_ms: int) -> bool:
        bucket = self._users.get(uid)
        if bucket is None:
            if len(self._users) >= MAX_USERS:
                self._users.pop(next(iter(self._users)))
            bucket = self._users[uid] = _bucket(PER_USER, now_ms)
        return bucket.take(now_ms)

    def _line(self, line: Line, uid: int, pid: int, now_ms: int) -> Iterator[Told]:
        why = self._wrong(line, uid, now_ms)
        rank = None if why else self._rank(line, pid, uid, now_ms)
        if rank is None:
            self.refused[why or "more ranks than a host has"] += 1
            return
        self._count(rank, line)
        if line.k == "begin":
            rank.begun = (line.step, line.at)
        elif not rank.bucket.take(now_ms):
            self.refused["faster than a rank may send"] += 1
        elif record := self._record(rank, line, now_ms):
            yield Told(record, line.at)
        if line.k == "step" or line.phase == "exit":
            rank.begun = None
        if line.k == "step":
            yield from _odd(rank, line)

    def _wrong(self, line: Line, uid: int, now_ms: int) -> str:
        if line.job and not _JOB.fullmatch(line.job):
            return "no job's name"
        if not now_ms - OLD_MS <= line.at <= now_ms + AHEAD_MS:
            return "of another time"
        if line.rank is not None and line.world is not None and line.rank >= line.world:
            return "no rank of its job"
        owner, seen_ms = self._owners.get(line.job, (uid, now_ms))
        if line.job and owner != uid and now_ms - seen_ms < GONE_MS:
            return "of another user's job"
        if line.job:
            self._own(line.job, uid, now_ms)
        return ""

    def _own(self, job: str, uid: int, now_ms: int) -> None:
        if job not in self._owners and len(self._owners) >= MAX_JOBS:
            self._owners.pop(min(self._owners, key=lambda one: self._owners[one][1]))
        self._owners[job] = (uid, now_ms)

    def _rank(self, line: Line, pid: int, uid: int, now_ms: int) -> Rank | None:
        key = (line.job, line.rank, uid)
        rank = self._ranks.get(key)
        if rank is None or rank.start < line.start:  # started again: its counts begin anew
            if rank is None and len(self._ranks) >= MAX_RANKS:
                return None
            bucket = rank.bucket if rank else _bucket(PER_RANK, now_ms)
            self._ranks[key] = rank = Rank(line.job or UNKNOWN, line.rank, pid, line.start, now_ms, bucket)
        rank.seen_ms, rank.pid = now_ms, pid
        return rank

    def _count(self, rank: Rank, line: Line) -> None:
        """What the hook could not send, or did wrong, each told once."""
        if rank.start == line.start:
            self.refused["lost by the hook"] += max(0, line.lost - rank.lost)
            self.refused["calls of the hook that went wrong"] += max(0, line.errors - rank.errors)
            rank.lost, rank.errors = max(rank.lost, line.lost), max(rank.errors, line.errors)

    def _record(self, rank: Rank, line: Line, now_ms: int) -> Record | None:
        match line.k:
            case "step" | "phase":
                return Step(
                    step=line.step, job=rank.job, rank=rank.rank, duration_ms=line.ms, work=line.work or None,
                    loss=line.loss, grad_norm=line.grad, phase=line.phase if line.k == "phase" else "",
                )  # fmt: skip
            case "group":
                if line.group and line.ranks and (line.group in rank.groups or len(rank.groups) < MAX_GROUPS):
                    rank.groups[line.group], rank.groups_ms = line.ranks, now_ms
                    return _membership(rank, line.group)
            case "owner" if line.owner and line.job:
                return event("job.restart_owner", name(Kind.JOB, line.job), {"owner": line.owner}, job=line.job)
            case "no_stop" if line.job:
                until = min(line.until, now_ms + MAX_STOP_MS)
                return event("job.no_stop_until", name(Kind.JOB, line.job), {"until_ms": str(until)}, job=line.job)
            case _:
                pass
        self.refused["not of the hook"] += 1
        return None

    def due(self, now_ms: int) -> Iterator[tuple[int, Told]]:
        """What the passing of time tells, each with the process that must still live: steps that do not end, groups."""
        for key, rank in list(self._ranks.items()):
            if now_ms - rank.seen_ms > GONE_MS and rank.begun is None:
                del self._ranks[key]
                continue
            if rank.begun and now_ms - rank.begun[1] > OPEN_MS:
                (step, at_ms), rank.begun = rank.begun, None
                yield rank.pid, Told(Step(step=step, job=rank.job, rank=rank.rank, phase="begin"), at_ms)
            if rank.groups and now_ms - rank.groups_ms > GROUPS_MS:
                rank.groups_ms = now_ms
                for group in rank.groups:
                    yield rank.pid, Told(_membership(rank, group), now_ms)


def _membership(rank: Rank, group: str) -> Progress:
    """Who belongs to a group. Groups of one kind share a name: the least rank tells them apart."""
    ranks = rank.groups[group]
    return Progress(
        rank=rank.rank or 0, job=rank.job, group=f"{group}:{min(ranks)}", group_name=group, group_ranks=ranks
    )  # fmt: skip


def _odd(rank: Rank, line: Line) -> Iterator[Told]:
    """A loss that is not a number, told when it begins."""
    if line.odd and not rank.odd and line.job:
        facts = {"step": str(line.step)} | ({} if line.rank is None else {"rank": str(line.rank)})
        yield Told(event("job.loss_not_finite", name(Kind.JOB, line.job), facts, job=line.job), line.at)
    rank.odd = line.odd
