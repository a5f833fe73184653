"""Windows of one telemetry task: frames in, closed windows out, for all tables of the frames.

Every decision depends on the records of the task alone, and on side inputs as of an append time. What a restart needs
is read again from the first record of the oldest open window; what reaches further back (the last counters, which
increases count from) is kept as a state record, put out with the windows that it belongs to.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sickbay.frames import Matrix, samples_of
from sickbay.log import Output, Receipt, Record, Task
from sickbay.schema import LIVENESS, TABLES, Samples
from sickbay.sequences import Sequences
from sickbay.topics import FEATURES, STATE, TOPICS
from streams import crowds, window_core, window_state
from streams.feature_record import Clock, clock_key, encode_clock, key_of
from streams.liveness import Listening
from streams.open_windows import AHEAD_MS, LATENESS_MS, OpenWindows, wanted
from streams.repartition import Repartition
from streams.runner import Mark
from streams.side_inputs import SIDE_MARGIN_MS, WAIT_MS, Facts, NoSides, Sides
from streams.window_core import Features, Last
from streams.window_counters import HORIZON_MS
from streams.window_state import Kept
from streams.windows import WIDTH_MS


class Decoded(NamedTuple):
    """What a frame tells, and its place in its sender's sequence. `host` empty: not told, every record counts.

    `first_ms` and `last_ms`: of all its rows; the first is the later one where they must be looked for.
    """

    tables: Sequence[Matrix]
    host: str = ""
    incarnation: int = 0
    sequence: int = 0
    first_ms: int = 0
    last_ms: int = -1

    @property
    def samples(self) -> list[Samples]:
        """The same as samples, made anew."""
        return [samples_of(table) for table in self.tables]


class Packed(NamedTuple):
    """What a relay's pack tells: the members that are frames, and why the others are none."""

    members: Sequence[Decoded]
    unfit: Sequence[str] = ()


class UnfitMembers(ValueError):
    """Some members of a pack could not be read; the others were taken."""


# Of a frame or a pack; raises ValueError for one that is damaged or not let in.
Decode = Callable[[Record], "Decoded | Packed"]

_NOTHING = Packed(())


class WindowTask:
    """A `TaskProcessor` that puts out features. `counts`: closed, late, clamped, stale, duplicate, missed, found,
    beyond (see `crowds`), by table where known.

    After windows are out the clock of the task goes out too, to every partition of the features topic, so that whoever
    reads one knows how far it is.
    """

    def __init__(
        self,
        task: Task,
        mark: Mark,
        decode: Decode,
        *,
        kept: Mapping[str, Kept] | None = None,
        sides: Sides | None = None,
        width_ms: int = WIDTH_MS,
        lateness_ms: int = LATENESS_MS,
        partitions: int = TOPICS[FEATURES].partitions,
    ) -> None:
        self._task, self._mark, self._decode, self._sides = task, mark, decode, sides or NoSides()
        self._width_ms, self._lateness_ms, self._partitions = width_ms, lateness_ms, partitions
        self._tables = {name: OpenWindows(table, width_ms) for name, table in TABLES.items()}
        self._wanted = {name: wanted(table) for name, table in TABLES.items()}
        self._last: dict[str, Last] = {}
        self._repartition = Repartition(task.partition, partitions)
        self._first: dict[int, int] = {}  # end of an open window: offset of the first record that fell into it
        self._sequences = Sequences()
        self._now_ms = 0  # the clock: the newest append time
        self._frontier_ms = self._frontier_of(0)  # rows of windows that end here or before are late
        self._due: list[int] = []  # windows whose time is over and that are not out
        self._stale = False  # of a window that went out since the last clock
        self._clock_ms = mark.clock_ms  # of the newest tick: it was told
        self._states: dict[str, tuple[int, int]] = {}  # table: end of the window and offset of its newest state
        self.counts: Counter[tuple[str, str]] = Counter()
        for name, state in (kept or {}).items():
            self._last[name], self._states[name] = state.last, (state.end_ms, state.offset)
        told = (kept or {}).get(LIVENESS.name)
        heard_ms = max(mark.frontier_ms, told.end_ms if told else 0)
        self._listening = Listening(width_ms, self._last.pop(LIVENESS.name, None), heard_ms)

    def take(self, record: Record) -> Iterator[Output]:
        """One record: its samples, then every window that its append time closes.

        Raises UnfitMembers at the end, for the dead letters: where that pack is put back, its good members are known
        by their numbers.
        """
        told = self._decode(record) if record.value else _NOTHING
        over = self._advance(record.append_ms)
        members, unfit = (told.members, told.unfit) if isinstance(told, Packed) else ((told,), ())
        for member in members:
            self._add(record, member)
        tick = record.is_tick
        if self._due and (tick or over):
            yield from self._close_due()
        if tick and record.append_ms > self._clock_ms and not self._due:
            self._clock_ms = record.append_ms
            yield from self._clock()
        if unfit:
            raise UnfitMembers(f"{len(unfit)} of {len(unfit) + len(members)} members of a pack: {unfit[0]}")

    def _frontier_of(self, clock_ms: int) -> int:
        return (clock_ms - self._lateness_ms) // self._width_ms * self._width_ms

    def _advance(self, append_ms: int) -> bool:
        """Moves the clock. True where the frontier moves: before it does, all rows so far are put to their windows."""
        if append_ms <= self._now_ms:
            return False
        self._now_ms = append_ms
        frontier = self._frontier_of(append_ms)
        if frontier == self._frontier_ms:
            return False
        for name in self._tables:
            self._settle(name)
        self._frontier_ms = frontier
        ends = {end for windows in self._tables.values() for end in windows.ends if end <= frontier}
        self._due = sorted(ends.union(self._listening.due(frontier)))
        return True

    def _settle(self, name: str) -> None:
        settled = self._tables[name].settle(self._frontier_ms, self._mark.frontier_ms)
        if settled.late:
            self.counts["late", name] += settled.late
        if settled.ahead:
            self.counts["clamped", name] += settled.ahead

    def _add(self, record: Record, told: Decoded) -> None:
        if told.host:
            end = self._listening.hear(told.host, record.append_ms)
            if end is not None:
                self._first.setdefault(end, record.offset)
            place = self._sequences.place(record.topic, told.host, told.incarnation, told.sequence)
            if not place.fresh:
                self.counts["duplicate", ""] += 1
                return
            if place.missed or place.found:
                self.counts["missed", ""] += place.missed
                self.counts["found", ""] += place.found
        for matrix in told.tables:
            windows = self._tables[matrix.layout.table]
            windows.add(matrix, record.append_ms)
            if windows.full:
                self._settle(matrix.layout.table)
        self._begin(record, told)

    def _begin(self, record: Record, told: Decoded) -> None:
        """Remembers where reading must begin again for the windows that the rows fall into."""
        first, last = told.first_ms, told.last_ms
        if first > last:
            times = [one for matrix in told.tables for one in matrix.at_ms.tolist()]
            if not times:
                return
            first, last = min(times), max(times)
        width = self._width_ms
        latest = record.append_ms + AHEAD_MS
        done = max(self._frontier_ms, self._mark.frontier_ms)
        end = max((min(first, latest) // width + 1) * width, done // width * width + width)
        while end <= (min(last, latest) // width + 1) * width:
            if end not in self._first:
                self._first[end] = record.offset
            end += width

    def _close_due(self) -> Iterator[Output]:
        """Puts out what is over, oldest first, as far as the side inputs are complete."""
        while self._due:
            end = self._due[0]
            cutoff = end + self._lateness_ms - SIDE_MARGIN_MS
            facts = self._sides.at(cutoff, self._now_ms)
            if facts is None and self._now_ms < end + self._lateness_ms + WAIT_MS:
                return
            self._due.pop(0)
            yield from self._closed(end, facts or self._sides.known(cutoff), stale=facts is None)

    @property
    def silent(self) -> int:
        """Hosts that were silent for long at the end of the newest window."""
        return self._listening.silent

    def _folded(self, end_ms: int) -> Iterator[tuple[str, Features, Last]]:
        """The features of every table in a window that is over, and what is remembered beyond it."""
        for name, windows in self._tables.items():
            if end_ms not in windows.ends:
                continue
            rows, names = windows.taken(end_ms)
            before = self._last.get(name, Last())
            rows, beyond = crowds.within(rows, names, before)
            if beyond:
                self.counts["beyond", name] += beyond
            features, last = window_core.close(
                rows, names, before, TABLES[name], end_ms, self._width_ms, self._wanted[name]
            )
            self._last[name] = last
            yield name, features, last
        if end_ms in self._listening.due(end_ms):
            yield LIVENESS.name, *self._listening.close(end_ms)

    def _closed(self, end_ms: int, facts: Facts, *, stale: bool) -> Iterator[Output]:
        for name, features, last in self._folded(end_ms):
            self.counts["closed", name] += 1
            if stale:
                self._stale = True
                self.counts["stale", name] += 1
            key = key_of(name, self._task.partition)
            for partition, payload in self._repartition.records(name, end_ms, features, facts, stale=stale):
                yield Output(FEATURES, key, payload, partition)
            yield from window_state.outputs(self._task, name, end_ms, last)

    def _clock(self) -> Iterator[Output]:
        key = clock_key(self._task.partition)
        payload = encode_clock(Clock(self._task.partition, self._clock_ms, self._stale))
        self._stale = False
        for partition in range(self._partitions):
            yield Output(FEATURES, key, payload, partition)

    def mark(self, offset: int) -> Mark:
        """The frontier is that of every table: they share the clock. What waits for side inputs is not out."""
        out = min([self._frontier_ms, *(end - self._width_ms for end in self._due[:1])])
        frontier = max(out, self._mark.frontier_ms)
        self._first = {end: first for end, first in self._first.items() if end > frontier}
        return Mark(
            frontier_ms=frontier,
            low=min(self._first.values(), default=offset),
            clock_ms=self._clock_ms,
            state=min((offset for _, offset in self._states.values()), default=self._mark.state),
        )

    def committed(self, written: Iterable[tuple[Output, Receipt]]) -> None:
        """Remembers where the newest state of each table begins, as long as it means something."""
        found: dict[str, int] = {}
        for output, receipt in written:
            if output.topic == STATE and output.partition == self._task.partition:
                found.setdefault(window_state.table_of(output.key), receipt.offset)
        if found:
            self._states |= {table: (self._clock_ms, offset) for table, offset in found.items()}
        before_ms = self._clock_ms - HORIZON_MS
        self._states = {table: (at, offset) for table, (at, offset) in self._states.items() if at >= before_ms}
