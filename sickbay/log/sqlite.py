"""The embedded log: a directory with one SQLite file. One machine, one process per group, a second one refused.

A process holds its group by a lock on a file, which the kernel lets go when it dies, however it dies. Each join also
raises the group's epoch in the file, and a commit checks it in its own transaction: whoever was replaced is fenced.
"""

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sickbay.log import (
    Batch,
    Bounds,
    Closed,
    Ends,
    LogInUse,
    Output,
    Position,
    Receipt,
    Record,
    Task,
    UnfitPlace,
    checks,
    tasks_of,
    wall_ms,
)
from sickbay.log.batches import SqliteAppender
from sickbay.log.store import Store, sum_of
from sickbay.log.upkeep import Upkeep
from sickbay.topics import TOPICS, Topic

IDLE_S = 0.02  # between looks for news of other processes: an idle event must reach its processor well within 1 s


class SqliteLog:
    """A `Log` in `directory`. `max_bytes` bounds the file; append times come from `clock`."""

    def __init__(
        self,
        directory: Path,
        topics: Mapping[str, Topic] = TOPICS,
        *,
        clock: Callable[[], int] = wall_ms,
        max_bytes: int | None = None,
    ) -> None:
        self.topics, self.clock = topics, clock
        self.store = Store(directory, topics, max_bytes)
        self._upkeep = Upkeep(self.store)
        self._held: dict[str, tuple[int, SqliteTasks]] = {}
        self._lock = threading.Lock()

    def appender(self) -> SqliteAppender:
        """A new appender, which holds records back until a batch is full or flushed."""
        return SqliteAppender(self.store, self.clock)

    def join(self, group: str, topics: Iterable[str], member: str) -> "SqliteTasks":
        """Become the one `member` of `group`. Raises LogInUse where another process or another member holds it."""
        tasks = tasks_of(self.topics, topics)
        with self._lock:
            holder = self._held.get(group)
            if holder is not None and holder[1].member != member:
                raise LogInUse(f"group {group!r} is held by {holder[1].member!r} of this process: close it first")
            handle = holder[0] if holder is not None else self._claim(group)
            joined = SqliteTasks(self, group, member, tasks, self._next_epoch(group, member))
            self._held[group] = (handle, joined)
            return joined

    def lead(self, group: str, topics: Iterable[str], member: str) -> "SqliteTasks":
        """The same: a group has one member here, and a second one is refused (LogInUse) rather than left waiting."""
        return self.join(group, topics, member)

    def _claim(self, group: str) -> int:
        name = hashlib.sha256(group.encode()).hexdigest()[:16]
        try:
            handle = os.open(self.store.directory / f"group-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnfitPlace(f"{self.store.directory}: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise LogInUse(f"group {group!r} is held by another process: an embedded log serves one") from None
        return handle

    def _next_epoch(self, group: str, member: str) -> int:
        with self.store.write("full") as cursor:
            cursor.execute(
                "INSERT INTO groups (grp, member, epoch) VALUES (?, ?, 1) "
                "ON CONFLICT (grp) DO UPDATE SET member = excluded.member, epoch = epoch + 1",
                (group, member),
            )
            return int(cursor.execute(_EPOCH, (group,)).fetchone()[0])

    def leave(self, member: "SqliteTasks") -> None:
        """Let the group go, unless somebody else holds it by now."""
        with self._lock:
            holder = self._held.get(member.group)
            if holder is not None and holder[1] is member:
                del self._held[member.group]
                os.close(holder[0])

    def reader(self) -> "SqliteReader":
        """A reader."""
        return SqliteReader(self.store)

    def sweep(self, limit: int = 1000) -> int:
        """Remove up to `limit` records by age and compaction, and tell how many: call until it says 0."""
        return self._upkeep.sweep(self.clock(), limit)

    def close(self) -> None:
        """Let go of all groups and close the file."""
        for _, member in list(self._held.values()):
            self.leave(member)
        self.store.close()


class SqliteReader:
    """A `Reader` of a SqliteLog."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def bounds(self, task: Task) -> Bounds:
        """The offsets that are kept."""
        with self._store.read() as cursor:
            return self._store.bounds(cursor, task)

    def read(self, task: Task, offset: int, limit: int = 500) -> list[Record]:
        """Up to `limit` records from `offset` on, empty at the end. Raises OffsetOutOfRange."""
        with self._store.read() as cursor:
            return self._store.records(cursor, task, offset, limit)

    def committed(self, group: str, task: Task) -> Position | None:
        """What a group committed."""
        query = "SELECT next, metadata, sum FROM positions WHERE grp = ? AND partition = ?"
        number = self._store.number(task)
        with self._store.read() as cursor:
            row = cursor.execute(query, (group, number)).fetchone()
        if row is not None and row[2] != sum_of(group, number, *row[:2]):
            raise self._store.damaged(f"the position of group {group!r}")
        return None if row is None else Position(*row[:2])

    def positions(self, group: str, tasks: Sequence[Task]) -> dict[Task, Position]:
        """What a group committed, of those where it did."""
        return {task: position for task in tasks if (position := self.committed(group, task)) is not None}

    def ends(self, tasks: Sequence[Task]) -> dict[Task, Ends]:
        """Where the tasks end; what is not committed cannot be seen at all."""
        with self._store.read() as cursor:
            return {task: Ends(end, end) for task in tasks for end in [self._store.bounds(cursor, task).end]}


class SqliteTasks:
    """A `TaskLog` of a SqliteLog: the only member, so it holds all tasks from its first poll on."""

    def __init__(self, log: SqliteLog, group: str, member: str, tasks: Sequence[Task], epoch: int) -> None:
        self.group, self.member = group, member
        self._log, self._store, self._reader = log, log.store, log.reader()
        self._tasks, self._epoch = tuple(sorted(tasks)), epoch
        self._at: dict[Task, int] | None = None
        self._turn = 0
        self._quiet: int | None = None  # the file's version that had nothing new
        self._closed = False

    def poll(self, limit: int = 500, timeout_s: float = 0.0) -> Batch:
        """The next records, or at first the tasks (see `TaskLog`)."""
        until = time.monotonic() + timeout_s
        while True:
            if self._at is None:
                self._at = {task: self._start(task) for task in self._tasks}
                return Batch((), (), self._tasks)
            records = self._next(self._at, limit)
            if records or time.monotonic() >= until:
                return Batch(records)
            time.sleep(min(IDLE_S, timeout_s))

    def _start(self, task: Task) -> int:
        position = self.committed(task)
        return self._reader.bounds(task).begin if position is None else position.offset

    def _next(self, at: dict[Task, int], limit: int) -> list[Record]:
        """A fair share of each task that has news, a different one first each time."""
        with self._store.read() as cursor:
            version = cursor.execute("PRAGMA data_version").fetchone()[0]  # changes with every commit of others
            if version == self._quiet and not self._closed:
                return []
            self._allow(cursor.execute(_EPOCH, (self.group,)).fetchone())
            ready = [task for task, offset in at.items() if self._news(self._store.bounds(cursor, task), task, offset)]
            self._turn += 1
            first = self._turn % len(ready) if ready else 0
            taken: list[Record] = []
            share = -(-limit // max(1, len(ready)))
            for task in ready[first:] + ready[:first]:
                taken += self._store.records(cursor, task, at[task], min(share, limit - len(taken)))
        at |= {record.task: record.offset + 1 for record in taken}
        self._quiet = version if limit > 0 and not taken else None
        return taken

    @staticmethod
    def _news(bounds: Bounds, task: Task, offset: int) -> bool:
        checks.in_range(task, offset, bounds)
        return offset < bounds.end

    def _allow(self, row: tuple[int] | None) -> None:
        if self._closed:
            raise Closed("the member left its group: join again")
        if row is None or row[0] != self._epoch:
            raise checks.replaced(self.group, self.member)

    def assignment(self) -> frozenset[Task]:
        """The tasks this member holds, as told by `poll`."""
        return frozenset(self._at or ())

    def seek(self, task: Task, offset: int) -> None:
        """Read `task` from `offset` on. Raises OffsetOutOfRange, and Fenced for a task that is not held."""
        if self._at is None or task not in self._at:
            raise checks.fenced(self.group, self.member, f"{task.topic}[{task.partition}] is not held")
        checks.in_range(task, offset, self._reader.bounds(task))
        self._at[task], self._quiet = offset, None

    def committed(self, task: Task) -> Position | None:
        """What the group committed for `task`."""
        return self._reader.committed(self.group, task)

    def commit(self, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> list[Receipt]:
        """Append `outputs` and store `positions`, all or nothing."""
        for task, position in positions.items():
            checks.fits(task, position)
            if task not in self.assignment():
                raise checks.fenced(self.group, self.member, f"{task.topic}[{task.partition}] is not held")
        for output in outputs:
            checks.placed(self._log.topics, output)
        rows = [(self.group, self._store.number(task), *position) for task, position in positions.items()]
        with self._store.write(self._store.sync_of({output.topic for output in outputs})) as cursor:
            self._allow(cursor.execute(_EPOCH, (self.group,)).fetchone())
            receipts = self._store.put(cursor, outputs, self._log.clock())
            cursor.executemany(
                "INSERT OR REPLACE INTO positions (grp, partition, next, metadata, sum) VALUES (?, ?, ?, ?, ?)",
                [(*row, sum_of(*row)) for row in rows],
            )
        return receipts

    def close(self) -> None:
        """Leave the group, so that another process may take it."""
        if not self._closed:
            self._closed = True
            self._at = {}
            self._log.leave(self)


_EPOCH = "SELECT epoch FROM groups WHERE grp = ?"
