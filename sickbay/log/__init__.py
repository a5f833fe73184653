"""The log: queue, history and state of all stages. Protocols here, one module per engine.

An engine is a `Log`. Agents and tools append through an `Appender`. Processors hold tasks (partitions of driving
topics) through a `TaskLog`, one member of a consumer group; whoever only looks uses a `Reader`. All engines pass
tests/log/test_log_contract.py:

- A partition is a sequence of records with growing offsets (gaps where compaction removed one) and append times that
  never go back. Between partitions there is no order.
- `commit` stores outputs, offsets and metadata as one: all of it or nothing, seen by readers at once.
- A member that lost a task, or was replaced by one of the same name, cannot commit: `Fenced`.
- Tasks are shared out among the members of a group (`join`), or all are one member's (`lead`).
- An offset that was removed is an error, never a silent jump: `OffsetOutOfRange`.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from sickbay.topics import Topic

MAX_METADATA = 4096  # bytes of metadata beside an offset: Kafka's offset.metadata.max.bytes
MAX_KEY = 1024  # bytes: names are at most 240 characters


class Task(NamedTuple):
    """One partition of one topic: the unit of work of a processor."""

    topic: str
    partition: int


class Record(NamedTuple):
    """One record as it lies in the log. `append_ms`: UTC, set by the log. `value` None: the key is removed."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    key: bytes
    value: bytes | None

    @property
    def task(self) -> Task:
        """The partition it lies in."""
        return Task(self.topic, self.partition)

    @property
    def is_tick(self) -> bool:
        """Whether it only carries time (see `tick`)."""
        return self.key == b"" and self.value == b""


class Output(NamedTuple):
    """A record to be appended. `partition` None: where the key's hash sends it."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int | None = None


class Position(NamedTuple):
    """How far a group is with a task: the next offset to read, and the processor's own text (<= MAX_METADATA bytes)."""

    offset: int
    metadata: str = ""


class Bounds(NamedTuple):
    """The oldest offset that is kept and the offset of the next append."""

    begin: int
    end: int


class Ends(NamedTuple):
    """Where a partition ends: for readers, and with what an open transaction hides from them. Equal where none is."""

    stable: int
    written: int


class Receipt(NamedTuple):
    """Where an append landed."""

    topic: str
    partition: int
    offset: int
    append_ms: int


class Batch(NamedTuple):
    """What a poll gives. First forget `revoked`, then set up `assigned`; a poll that tells of either has no records."""

    records: Sequence[Record] = ()
    revoked: tuple[Task, ...] = ()
    assigned: tuple[Task, ...] = ()


class LogError(Exception):
    """The log could not do it; the text says what to do about it."""


class OffsetOutOfRange(LogError):
    """The offset was removed by retention, or never existed."""

    def __init__(self, task: Task, offset: int, bounds: Bounds) -> None:
        super().__init__(
            f"{task.topic}[{task.partition}] has offsets {bounds.begin} to {bounds.end}, not {offset}: "
            f"seek to {bounds.begin} and record the gap as a blind interval"
        )
        self.task, self.offset, self.bounds = task, offset, bounds


class Fenced(LogError):
    """The task belongs to another member by now: nothing was committed. The next poll tells all that was lost."""


class Replaced(Fenced):
    """Another process joined under this member's name: it is out for good and must stop."""


class TooLarge(LogError):
    """A key, value or metadata exceeds its limit: nothing was appended."""


class UnknownTopic(LogError):
    """The topic or partition is not declared."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        which = f"partition {partition} of topic {topic!r}" if partition is not None else f"topic {topic!r}"
        super().__init__(f"no {which}: declare it in sickbay/topics.py, or correct the name")


class LogBusy(LogError):
    """The log did not answer in time: try again, nothing was appended."""


class OutcomeUnknown(LogError):
    """A commit may or may not have happened: forget the open work, read `committed` and go on from there."""


class LogFull(LogError):
    """The disk is full: free space or lower the retention; nothing was appended."""


class LogInUse(LogError):
    """Another process holds this group: an embedded log serves one process per group."""


class LogDamaged(LogError):
    """The file is not a log of ours, is damaged, or comes from a newer version."""


class UnfitPlace(LogError):
    """The log cannot lie there, for example on a network file system."""


class Closed(LogError):
    """The log or the member was closed."""


class Outcome(Protocol):
    """What became of one append."""

    def done(self) -> bool:
        """Whether the outcome is known."""
        ...

    def result(self) -> Receipt:
        """Where it landed, waiting for it if need be. Raises the LogError that stopped it."""
        ...


class Appender(Protocol):
    """Appends records, at least once: who repeats one without an outcome may have it twice. Safe between threads."""

    def append(self, topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> Outcome:
        """Hand over one record. Raises UnknownTopic or TooLarge at once; it may be held back until `flush`."""
        ...

    def flush(self, limit_s: float | None = None) -> None:
        """Wait until every append so far has an outcome. Raises the first error since the last flush.

        After `limit_s`, or the engine's own limit, it raises LogBusy; what was appended is still on its way then.
        """
        ...

    def close(self) -> None:
        """Flush and let go."""
        ...


class TaskLog(Protocol):
    """One member of a consumer group, used by one thread."""

    def poll(self, limit: int = 500, timeout_s: float = 0.0) -> Batch:
        """The next records of the assigned tasks, at most `limit`, in order within each task; or a change of tasks.

        Waits up to `timeout_s` where there is nothing. A newly assigned task stands at its committed offset, or at the
        oldest record where nothing was committed. Raises OffsetOutOfRange where retention overtook the position, and
        Replaced where another process took this member's name.
        """
        ...

    def assignment(self) -> frozenset[Task]:
        """The tasks this member holds, as told by `poll`."""
        ...

    def seek(self, task: Task, offset: int) -> None:
        """Read `task` from `offset` on. Raises OffsetOutOfRange, and Fenced for a task that is not held."""
        ...

    def committed(self, task: Task) -> Position | None:
        """What the group committed for `task`, None where it never did."""
        ...

    def commit(self, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> list[Receipt]:
        """Append `outputs` and store `positions`, all or nothing. Raises Fenced, TooLarge, UnknownTopic, LogFull ..."""
        ...

    def close(self) -> None:
        """Leave the group; its tasks go to the others."""
        ...


class Reader(Protocol):
    """Reads without a group: side inputs, features read back, lag as another process sees it."""

    def bounds(self, task: Task) -> Bounds:
        """The offsets that are kept."""
        ...

    def read(self, task: Task, offset: int, limit: int = 500) -> list[Record]:
        """Up to `limit` records from `offset` on, empty at the end. Raises OffsetOutOfRange."""
        ...

    def committed(self, group: str, task: Task) -> Position | None:
        """What a group committed."""
        ...

    def positions(self, group: str, tasks: Sequence[Task]) -> dict[Task, Position]:
        """What a group committed, of those where it did, asked at once; a commit under way is not waited for."""
        ...

    def ends(self, tasks: Sequence[Task]) -> dict[Task, Ends]:
        """Where the tasks end, asked at once."""
        ...


class Log(Protocol):
    """An engine."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The declared topics."""
        ...

    def appender(self) -> Appender:
        """A new appender."""
        ...

    def join(self, group: str, topics: Iterable[str], member: str) -> TaskLog:
        """Become `member` of `group` over `topics`. A member of the same name is replaced and fenced."""
        ...

    def lead(self, group: str, topics: Iterable[str], member: str) -> TaskLog:
        """Stand for the lead of `group`: one member holds all tasks of `topics`, the others none until it is gone.

        A standby polls, too, which gives nothing and keeps its place; it may read the topics with a `Reader`. A group
        is either joined or led, by all its members.
        """
        ...

    def reader(self) -> Reader:
        """A reader."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def wall_ms() -> int:
    """UTC milliseconds now: the default clock of the embedded engines."""
    return time.time_ns() // 1_000_000


def tasks_of(topics: Mapping[str, Topic], names: Iterable[str]) -> list[Task]:
    """All partitions of the named topics, in order. Raises UnknownTopic."""
    found = []
    for name in names:
        if name not in topics:
            raise UnknownTopic(name)
        found += [Task(name, partition) for partition in range(topics[name].partitions)]
    return found


def driving(topics: Mapping[str, Topic]) -> list[str]:
    """The names of the topics whose partitions are ticked."""
    return [topic.name for topic in topics.values() if topic.driving]


def tick(appender: Appender, topics: Mapping[str, Topic], names: Iterable[str]) -> list[Outcome]:
    """Append an empty record to every partition of the named topics, so that silence has a clock (call each second)."""
    return [appender.append(task.topic, b"", b"", partition=task.partition) for task in tasks_of(topics, names)]
