"""A log whose group calls are timed from outside, so that one which hangs is seen by a thread that does not."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sickbay.log import Appender, Batch, Bounds, Ends, Log, Output, Position, Reader, Receipt, Record, Task, TaskLog
from sickbay.topics import Topic


class Call(NamedTuple):
    """One call under way: of which stage, what, and since when (monotonic seconds)."""

    stage: str
    what: str
    since: float


@dataclass(slots=True)
class Calls:
    """The calls under way, by thread. Safe between threads: each writes its own entry only."""

    open: dict[int, Call] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)  # stage: when its newest call succeeded

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """While the block runs the call is open."""
        thread = threading.current_thread()
        key = threading.get_ident()
        self.open[key] = Call(thread.name, what, time.monotonic())
        try:
            yield
            self.goes_on()
        finally:
            self.open.pop(key, None)

    def goes_on(self) -> None:
        """The stage of this thread has something done: its step takes long, but does not hang."""
        self.done[threading.current_thread().name] = time.monotonic()

    def longest(self, now: float) -> tuple[Call, float] | None:
        """The call that is open for the longest time, and for how long."""
        found = min(list(self.open.values()), key=lambda one: one.since, default=None)
        return None if found is None else (found, now - found.since)

    def forgive(self, now: float) -> None:
        """The whole process stood still: every call begins to count anew."""
        for key, call in list(self.open.items()):
            if key in self.open:
                self.open[key] = call._replace(since=now)


class WatchedLog:
    """A `Log` whose members are watched; everything else is the log's own."""

    def __init__(self, log: Log, calls: Calls) -> None:
        self._log, self._calls = log, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The declared topics."""
        return self._log.topics

    def appender(self) -> Appender:
        """A new appender."""
        return self._log.appender()

    def reader(self) -> Reader:
        """A reader."""
        return WatchedReader(self._log.reader(), self._calls)

    def join(self, group: str, topics: Iterable[str], member: str) -> "WatchedTasks":
        """Become `member` of `group` over `topics`."""
        return WatchedTasks(self._log.join(group, topics, member), self._calls)

    def lead(self, group: str, topics: Iterable[str], member: str) -> "WatchedTasks":
        """Stand for the lead of `group`."""
        return WatchedTasks(self._log.lead(group, topics, member), self._calls)

    def close(self) -> None:
        """Let go of everything."""
        self._log.close()


class WatchedReader:
    """A `Reader` whose reads count as work: what is read once, as a large cluster's topology, takes its time."""

    def __init__(self, reader: Reader, calls: Calls) -> None:
        self._reader, self._calls = reader, calls

    def bounds(self, task: Task) -> Bounds:
        """The offsets that are kept."""
        return self._reader.bounds(task)

    def read(self, task: Task, offset: int, limit: int = 500) -> list[Record]:
        """Up to `limit` records from `offset` on."""
        found = self._reader.read(task, offset, limit)
        self._calls.goes_on()
        return found

    def committed(self, group: str, task: Task) -> Position | None:
        """What a group committed."""
        return self._reader.committed(group, task)

    def positions(self, group: str, tasks: Sequence[Task]) -> dict[Task, Position]:
        """What a group committed, of those where it did."""
        return self._reader.positions(group, tasks)

    def ends(self, tasks: Sequence[Task]) -> dict[Task, Ends]:
        """Where the tasks end."""
        return self._reader.ends(tasks)


class WatchedTasks:
    """A `TaskLog` that tells when a call begins and ends."""

    def __init__(self, tasks: TaskLog, calls: Calls) -> None:
        self._tasks, self._calls = tasks, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tasks, name)

    def poll(self, limit: int = 500, timeout_s: float = 0.0) -> Batch:
        """The next records, or a change of tasks."""
        with self._calls.under_way("poll"):
            return self._tasks.poll(limit, timeout_s)

    def assignment(self) -> frozenset[Task]:
        """The tasks this member holds."""
        return self._tasks.assignment()

    def seek(self, task: Task, offset: int) -> None:
        """Read `task` from `offset` on."""
        with self._calls.under_way("seek"):
            self._tasks.seek(task, offset)

    def committed(self, task: Task) -> Position | None:
        """What the group committed for `task`."""
        with self._calls.under_way("question for what is committed"):
            return self._tasks.committed(task)

    def commit(self, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> list[Receipt]:
        """Append `outputs` and store `positions`, all or nothing."""
        with self._calls.under_way("commit"):
            return self._tasks.commit(outputs, positions)

    def close(self) -> None:
        """Leave the group."""
        self._tasks.close()
