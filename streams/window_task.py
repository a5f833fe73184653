"""Windows of one telemetry task: frames in, closed windows out, for all tables of the frames.

Every decision depends on the records of the task alone. What a restart needs is read again: records from the first
one of the oldest open window, and of the window before it, whose last counters are what increases count from.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from sickbay.log import Output, Record, Task
from sickbay.schema import TABLES, Samples
from streams.feature_record import encode
from streams.processor import LATENESS_MS, WindowProcessor
from streams.runner import Mark
from streams.windows import WIDTH_MS

FEATURES = "sickbay.features.v1"
Decode = Callable[[bytes], Iterable[Samples]]  # of a frame; raises ValueError for a damaged one


class WindowTask:
    """A `TaskProcessor` that puts out features. `damaged` counts the records that could not be read."""

    def __init__(
        self, task: Task, mark: Mark, decode: Decode, *, width_ms: int = WIDTH_MS, lateness_ms: int = LATENESS_MS
    ) -> None:
        self._task, self._done_ms, self._decode, self._width_ms = task, mark.frontier_ms, decode, width_ms
        self._tables = {name: WindowProcessor(table, width_ms, lateness_ms) for name, table in TABLES.items()}
        self._first: dict[int, int] = {}  # end of a window: offset of the first record that fell into it
        self._clock_ms = mark.clock_ms
        self.damaged = 0

    @property
    def windows(self) -> Mapping[str, WindowProcessor]:
        """The windows of each table: for their counts of late and clamped rows."""
        return self._tables

    def take(self, record: Record) -> Iterator[Output]:
        """One record: its samples, then every window that its append time closes."""
        if record.value:
            self._add(record)
        self._clock_ms = max(self._clock_ms, record.append_ms)
        for name, windows in self._tables.items():
            for closed in windows.advance(record.append_ms):
                if closed.end_ms > self._done_ms:
                    key = f"{name}/{self._task.partition}".encode()
                    yield Output(FEATURES, key, encode(name, closed.end_ms, closed.features), self._task.partition)

    def _add(self, record: Record) -> None:
        try:
            told = list(self._decode(record.value or b""))
        except ValueError:
            self.damaged += 1
            return
        for samples in told:
            if len(samples.at_ms):
                self._tables[samples.table].add(samples, record.append_ms)
                end = (int(samples.at_ms.min()) // self._width_ms + 1) * self._width_ms
                self._first.setdefault(end, record.offset)

    def mark(self, offset: int) -> Mark:
        """The frontier is that of every table: they share the clock."""
        frontier = max((windows.frontier_ms for windows in self._tables.values()), default=0)
        self._first = {end: first for end, first in self._first.items() if end >= frontier}
        low = min(self._first.values(), default=offset)
        return Mark(frontier_ms=max(frontier, self._done_ms), low=low, clock_ms=self._clock_ms)
