"""The log in memory: for tests, `demo` and `diagnose`. It permutes what a real log may permute, by a seed.

A poll takes runs of random length from random tasks and returns fewer records than asked for at random, while each
task stays in order: code that leans on an order between partitions fails here first. Several members may share a group.
"""

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sickbay.log import (
    Batch,
    Bounds,
    Closed,
    Ends,
    Output,
    Position,
    Receipt,
    Record,
    Task,
    UnknownTopic,
    checks,
    tasks_of,
    wall_ms,
)
from sickbay.log.members import Group, Member
from sickbay.log.partition import Partition, expired
from sickbay.topics import TOPICS, Topic

SESSION_MS = 30_000  # a member that has not polled for so long loses its tasks as soon as another member polls


class MemoryLog:
    """A `Log` in memory. `clock` gives append times; `seed` the interleavings; `hook` may raise around a commit.

    `hook` is called with "commit:before" and "commit:after", so that tests can crash a processor there.
    """

    def __init__(
        self,
        topics: Mapping[str, Topic] = TOPICS,
        *,
        clock: Callable[[], int] = wall_ms,
        seed: int = 0,
        session_ms: int = SESSION_MS,
        hook: Callable[[str], None] = lambda moment: None,
    ) -> None:
        self.topics, self.clock, self.hook = topics, clock, hook
        self._random = random.Random(seed)
        self._session_ms = session_ms
        self._changed = threading.Condition(threading.RLock())
        self._partitions: dict[Task, Partition] = {task: Partition() for task in tasks_of(topics, topics)}
        self._positions: dict[tuple[str, Task], Position] = {}
        self._groups: dict[str, Group] = {}
        self._closed = False

    def appender(self) -> "MemoryAppender":
        """A new appender; each append is visible at once."""
        return MemoryAppender(self)

    def join(self, group: str, topics: Iterable[str], member: str) -> "MemoryTasks":
        """Become `member` of `group` over `topics`. A member of the same name is replaced and fenced."""
        return self._enter(Group(group, self._session_ms), topics, member)

    def lead(self, group: str, topics: Iterable[str], member: str) -> "MemoryTasks":
        """Stand for the lead of `group`: all tasks or none."""
        return self._enter(Group(group, self._session_ms, led=True), topics, member)

    def _enter(self, fresh: Group, topics: Iterable[str], member: str) -> "MemoryTasks":
        wanted = tasks_of(self.topics, topics)
        with self.locked():
            state = self._groups.setdefault(fresh.name, fresh)
            if state.led != fresh.led:
                raise ValueError(f"group {fresh.name!r} is either joined or led")
            return MemoryTasks(self, state, state.join(member, wanted, self.clock()))

    def reader(self) -> "MemoryReader":
        """A reader."""
        return MemoryReader(self)

    def close(self) -> None:
        """Refuse all further use."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def sweep(self, limit: int = 1000) -> int:
        """Remove up to `limit` records by age and compaction, and tell how many: call until it says 0."""
        left = limit
        with self.locked():
            for task, partition in self._partitions.items():
                gone = expired(partition, self.topics[task.topic], self.clock())[:left]
                offsets = set(gone)
                partition.records = [record for record in partition.records if record.offset not in offsets]
                if gone and self.topics[task.topic].keep_ms is not None:
                    partition.begin = max(partition.begin, gone[-1] + 1)
                left -= len(gone)
        return limit - left

    @contextmanager
    def locked(self) -> Iterator[None]:
        """All of an operation or nothing of it is seen. Raises Closed."""
        with self._changed:
            if self._closed:
                raise Closed("the log was closed")
            yield

    def wait(self, timeout_s: float) -> None:
        """Until something is appended, or a member comes or goes, or the time is over."""
        with self._changed:
            self._changed.wait(timeout_s)

    def put(self, outputs: Sequence[Output]) -> list[Receipt]:
        """Append all or none."""
        with self.locked():
            placed = [checks.placed(self.topics, output) for output in outputs]
            now = self.clock()
            self._changed.notify_all()
            return [
                self._partitions[task].append(task, output.key, output.value, now)
                for task, output in zip(placed, outputs, strict=True)
            ]

    def bounds(self, task: Task) -> Bounds:
        """The offsets that are kept. Raises UnknownTopic."""
        with self.locked():
            partition = self._partitions.get(task)
            if partition is None:
                raise UnknownTopic(*task)
            return Bounds(partition.begin, partition.end)

    def read(self, task: Task, offset: int, limit: int) -> list[Record]:
        """Records from `offset` on. Raises OffsetOutOfRange."""
        with self.locked():
            checks.in_range(task, offset, self.bounds(task))
            partition = self._partitions[task]
            start = partition.at(offset)
            return partition.records[start : start + limit]

    def position(self, group: str, task: Task) -> Position | None:
        """What a group committed."""
        with self.locked():
            checks.known(self.topics, task)
            return self._positions.get((group, task))

    def store(self, group: str, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> list[Receipt]:
        """Outputs and positions as one."""
        with self.locked():
            for task, position in positions.items():
                checks.fits(task, position)
            receipts = self.put(outputs)
            self._positions |= {(group, task): Position(*position) for task, position in positions.items()}
            return receipts

    def interleaved(self, positions: Mapping[Task, int], limit: int) -> list[Record]:
        """Up to `limit` records from the tasks' positions on, tasks interleaved at random, each in order."""
        with self.locked():
            ahead = {task: self.read(task, offset, limit) for task, offset in sorted(positions.items())}
            ahead = {task: records for task, records in ahead.items() if records}
            room = self._random.randint(1, limit) if limit > 0 else 0
            taken: list[Record] = []
            while ahead and len(taken) < room:
                task = self._random.choice(list(ahead))
                run = min(self._random.randint(1, 8), room - len(taken))
                taken += ahead[task][:run]
                ahead[task] = ahead[task][run:]
                if not ahead[task]:
                    del ahead[task]
            return taken


class MemoryOutcome:
    """An outcome that is known."""

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt

    def done(self) -> bool:
        """True."""
        return True

    def result(self) -> Receipt:
        """Where it landed."""
        return self._receipt


class MemoryAppender:
    """An `Appender` of a MemoryLog."""

    def __init__(self, log: MemoryLog) -> None:
        self._log, self._closed = log, False

    def append(self, topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> MemoryOutcome:
        """Append one record. Raises UnknownTopic or TooLarge."""
        if self._closed:
            raise Closed("the appender was closed")
        return MemoryOutcome(self._log.put([Output(topic, key, value, partition)])[0])

    def flush(self, limit_s: float | None = None) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Refuse further appends."""
        self._closed = True


class MemoryReader:
    """A `Reader` of a MemoryLog."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def bounds(self, task: Task) -> Bounds:
        """The offsets that are kept."""
        return self._log.bounds(task)

    def read(self, task: Task, offset: int, limit: int = 500) -> list[Record]:
        """Up to `limit` records from `offset` on, empty at the end. Raises OffsetOutOfRange."""
        return self._log.read(task, offset, limit)

    def committed(self, group: str, task: Task) -> Position | None:
        """What a group committed."""
        return self._log.position(group, task)

    def positions(self, group: str, tasks: Sequence[Task]) -> dict[Task, Position]:
        """What a group committed, of those where it did."""
        return {task: position for task in tasks if (position := self._log.position(group, task)) is not None}

    def ends(self, tasks: Sequence[Task]) -> dict[Task, Ends]:
        """Where the tasks end; a commit is no more than a moment."""
        return {task: Ends(end, end) for task in tasks for end in [self.bounds(task).end]}


class MemoryTasks:
    """A `TaskLog` of a MemoryLog."""

    def __init__(self, log: MemoryLog, group: Group, member: Member) -> None:
        self._log, self._group, self._member = log, group, member
        self._at: dict[Task, int] = {}
        self._closed = False

    def poll(self, limit: int = 500, timeout_s: float = 0.0) -> Batch:
        """The next records, or a change of tasks (see `TaskLog`)."""
        with self._log.locked():
            batch = self._poll(limit)
            if timeout_s > 0 and not (batch.records or batch.revoked or batch.assigned):
                self._log.wait(timeout_s)
                batch = self._poll(limit)
            return batch

    def _poll(self, limit: int) -> Batch:
        if self._closed:
            raise Closed("the member left its group: join again")
        revoked, assigned = self._group.heard(self._member, self._log.clock())
        for task in revoked:
            self._at.pop(task, None)
        for task in assigned:
            self._at[task] = self._start(task)
        if revoked or assigned:
            return Batch((), revoked, assigned)
        records = self._log.interleaved(self._at, limit)
        self._at |= {record.task: record.offset + 1 for record in records}
        return Batch(records)

    def _start(self, task: Task) -> int:
        position = self.committed(task)
        return self._log.bounds(task).begin if position is None else position.offset

    def assignment(self) -> frozenset[Task]:
        """The tasks this member holds, as told by `poll`."""
        return frozenset(self._at)

    def seek(self, task: Task, offset: int) -> None:
        """Read `task` from `offset` on. Raises OffsetOutOfRange, and Fenced for a task that is not held."""
        with self._log.locked():
            if task not in self._at:
                raise checks.fenced(self._group.name, self._member.name, f"{task.topic}[{task.partition}] is not held")
            checks.in_range(task, offset, self._log.bounds(task))
            self._at[task] = offset

    def committed(self, task: Task) -> Position | None:
        """What the group committed for `task`."""
        return self._log.position(self._group.name, task)

    def commit(self, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> list[Receipt]:
        """Append `outputs` and store `positions`, all or nothing."""
        with self._log.locked():
            self._log.hook("commit:before")
            self._group.allow(self._member, positions, self._log.clock())
            receipts = self._log.store(self._group.name, outputs, positions)
            self._log.hook("commit:after")
            return receipts

    def close(self) -> None:
        """Leave the group; its tasks go to the others."""
        with self._log.locked():
            self._group.leave(self._member)
            self._at.clear()
            self._closed = True
