"""Windows of one telemetry task: frames in, closed windows out, for all tables of the frames.

Every decision depends on the records of the task alone. What a restart needs is read again from the first record of
the oldest open window; what reaches further back (the last counters, which increases count from) is kept as a state
record, put out with the windows that it belongs to.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sickbay.log import Output, Receipt, Record, Task
from sickbay.schema import TABLES, Samples
from sickbay.sequences import Sequences
from sickbay.topics import FEATURES, STATE
from streams import window_state
from streams.feature_record import CLOCK_KEY, encode, encode_clock
from streams.processor import AHEAD_MS, LATENESS_MS, WindowProcessor
from streams.runner import Mark
from streams.window_state import Kept
from streams.windows import HORIZON_MS, WIDTH_MS


class Decoded(NamedTuple):
    """What a frame tells, and its place in its sender's sequence. `host` empty: not told, every record counts."""

    samples: Sequence[Samples]
    host: str = ""
    incarnation: int = 0
    sequence: int = 0


class Packed(NamedTuple):
    """What a relay's pack tells: the members that are frames, and why the others are none."""

    members: Sequence[Decoded]
    unfit: Sequence[str] = ()


class UnfitMembers(ValueError):
    """Some members of a pack could not be read; the others were taken."""


# Of a frame or a pack; raises ValueError for one that is damaged or not let in.
Decode = Callable[[Record], "Decoded | Packed"]


class WindowTask:
    """A `TaskProcessor` that puts out features. `counts`: closed, late, duplicate, missed, ..., by table where known.

    After a window is out the clock of the task goes out too, so that whoever reads features knows how far they are.
    """

    def __init__(
        self,
        task: Task,
        mark: Mark,
        decode: Decode,
        *,
        kept: Mapping[str, Kept] | None = None,
        width_ms: int = WIDTH_MS,
        lateness_ms: int = LATENESS_MS,
    ) -> None:
        self._task, self._mark, self._decode, self._width_ms = task, mark, decode, width_ms
        self._tables = {name: WindowProcessor(table, width_ms, lateness_ms) for name, table in TABLES.items()}
        self._first: dict[int, int] = {}  # end of an open window: offset of the first record that fell into it
        self._sequences = Sequences()
        self._clock_ms = mark.clock_ms  # of the newest tick: it was told
        self._states: dict[str, tuple[int, int]] = {}  # table: end of the window and offset of its newest state
        self.counts: Counter[tuple[str, str]] = Counter()
        for name, state in (kept or {}).items():
            self._tables[name].state.last, self._states[name] = state.last, (state.end_ms, state.offset)

    @property
    def windows(self) -> Mapping[str, WindowProcessor]:
        """The windows of each table: for their counts of late and clamped rows."""
        return self._tables

    def take(self, record: Record) -> Iterator[Output]:
        """One record: its samples, then every window that its append time closes.

        Raises UnfitMembers at the end, for the dead letters: where that pack is put back, its good members are known
        by their numbers.
        """
        told = self._decode(record) if record.value else Packed(())
        members, unfit = (told.members, told.unfit) if isinstance(told, Packed) else ((told,), ())
        for member in members:
            self._add(record, member)
        for name, windows in self._tables.items():
            for closed in windows.advance(record.append_ms):
                self.counts["closed", name] += 1
                key = f"{name}/{self._task.partition}".encode()
                yield Output(FEATURES, key, encode(name, closed.end_ms, closed.features), self._task.partition)
                yield from window_state.outputs(self._task, name, closed.end_ms, windows.state.last)
        if record.is_tick and record.append_ms > self._clock_ms:
            self._clock_ms = record.append_ms
            yield Output(FEATURES, CLOCK_KEY, encode_clock(record.append_ms), self._task.partition)
        if unfit:
            raise UnfitMembers(f"{len(unfit)} of {len(unfit) + len(members)} members of a pack: {unfit[0]}")

    def _add(self, record: Record, told: Decoded) -> None:
        if told.host:
            place = self._sequences.place(record.topic, told.host, told.incarnation, told.sequence)
            self.counts["missed", ""] += place.missed
            self.counts["found", ""] += place.found
            if not place.fresh:
                self.counts["duplicate", ""] += 1
                return
        for samples in told.samples:
            windows = self._tables[samples.table]
            late = windows.state.late_rows
            windows.add(samples, record.append_ms, done_ms=self._mark.frontier_ms)
            self.counts["late", samples.table] += windows.state.late_rows - late
            for end in self._ends(samples, record.append_ms):
                if end > max(windows.frontier_ms, self._mark.frontier_ms):
                    self._first.setdefault(end, record.offset)

    def _ends(self, samples: Samples, append_ms: int) -> list[int]:
        """The windows that the rows fall into, stamps far ahead clamped as the windows do."""
        at_ms = np.minimum(samples.at_ms, append_ms + AHEAD_MS)
        return [int(one) for one in np.unique((at_ms // self._width_ms + 1) * self._width_ms)]

    def mark(self, offset: int) -> Mark:
        """The frontier is that of every table: they share the clock."""
        frontier = max((windows.frontier_ms for windows in self._tables.values()), default=0)
        self._first = {end: first for end, first in self._first.items() if end > frontier}
        return Mark(
            frontier_ms=max(frontier, self._mark.frontier_ms),
            low=min(self._first.values(), default=offset),
            clock_ms=self._clock_ms,
            state=min((offset for _, offset in self._states.values()), default=self._mark.state),
        )

    def committed(self, written: Iterable[tuple[Output, Receipt]]) -> None:
        """Remembers where the newest state of each table lies, as long as it means something."""
        for output, receipt in written:
            if output.topic == STATE and output.partition == self._task.partition:
                self._states[window_state.table_of(output.key)] = (self._clock_ms, receipt.offset)
        before_ms = self._clock_ms - HORIZON_MS
        self._states = {table: (at, offset) for table, (at, offset) in self._states.items() if at >= before_ms}
