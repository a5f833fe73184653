"""The open windows of one table: matrices of frames as they come, put together by window in batches.

A frame costs one entry of a list. What is decided of its rows (late, stamped ahead, which window) is decided for many
frames at once, with the frontier that held when they came: `settle` before it moves. Nothing here walks over rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.frames import Matrix
from sickbay.layouts import Layout
from sickbay.schema import MISSING_COUNTER, Table, declared
from streams.window_core import WHOLE
from streams.window_rows import Rows

LATENESS_MS = 5_000  # one sending interval of an agent
AHEAD_MS = 2_000  # a source's stamp further ahead of append time is a wrong clock: clamped
BATCH_ROWS = 2_048  # that are kept as they came: some 50 frames, as many as stay in a core's cache until sorted
LISTS = 100_000  # name lists whose codes are known at once
SPARE = 64  # names beyond a quarter of those heard that may stand unheard


Number = TypeVar("Number", np.float32, np.int64)


class Settled(NamedTuple):
    """What became of a batch: rows that came after their window, and rows stamped ahead of append time."""

    late: int = 0
    ahead: int = 0


class _Chosen(NamedTuple):
    """The columns of a layout that features are made of."""

    gauges: tuple[str, ...]
    counters: tuple[str, ...]
    gauge_at: NDArray[np.intp]
    counter_at: NDArray[np.intp]


@dataclass(slots=True)
class _Chunk:
    chosen: _Chosen
    code: NDArray[np.int32]
    at_ms: NDArray[np.int64]
    gauges: NDArray[np.float32]
    counters: NDArray[np.int64]


class _List:
    """A sender's names, their codes, and those of the rows of its newest frame."""

    __slots__ = ("codes", "device", "names", "rows")

    def __init__(self, names: tuple[Name, ...], codes: NDArray[np.int32]) -> None:
        self.names, self.codes, self.rows = names, codes, codes
        self.device: NDArray[np.uint16] | NDArray[np.uint32] | None = None


def wanted(table: Table) -> tuple[str, ...]:
    """The features that go into the topic."""
    return (*WHOLE, *(feature for _, features in declared(table) for feature in features))


class OpenWindows:
    """Rows of one table by the window that they fall into."""

    def __init__(self, table: Table, width_ms: int) -> None:
        self._table, self._width_ms = table, width_ms
        self._names: list[Name] = []  # by code
        self._code: dict[Name, int] = {}
        self._lists: dict[int, _List] = {}  # by the identity of a name list
        self._chosen: dict[Layout, _Chosen] = {}
        self._waiting: dict[Layout, list[tuple[Matrix, int]]] = {}
        self._rows = 0
        self._chunks: dict[int, list[_Chunk]] = {}  # by the window's end

    @property
    def full(self) -> bool:
        """Whether so much waits that it is to be settled."""
        return self._rows >= BATCH_ROWS

    @property
    def ends(self) -> list[int]:
        """The windows that have settled rows."""
        return list(self._chunks)

    def add(self, matrix: Matrix, append_ms: int) -> None:
        """One frame's rows; device numbers are those of its names (`wire` has checked that)."""
        rows = len(matrix.at_ms)
        if rows:
            self._waiting.setdefault(matrix.layout, []).append((matrix, append_ms))
            self._rows += rows

    def settle(self, frontier_ms: int, done_ms: int) -> Settled:
        """Sorts what waits into windows. Rows of windows that end at or before `done_ms` are passed over: those are
        out, and this is a second reading; at or before `frontier_ms`: late."""
        late = ahead = 0
        for layout, waiting in self._waiting.items():
            chunk, clamped = self._joined(self._chosen_of(layout), waiting)
            late += self._sorted_in(chunk, frontier_ms, done_ms)
            ahead += clamped
        self._waiting.clear()
        self._rows = 0
        return Settled(late, ahead)

    def taken(self, end_ms: int) -> tuple[Rows, tuple[Name, ...]]:
        """The rows of a window, and the components that their codes mean, sorted; the window is gone then."""
        chunks = self._chunks.pop(end_ms)
        self._in_order(chunks)
        return _rows(chunks, self._table), tuple(self._names)

    def _chosen_of(self, layout: Layout) -> _Chosen:
        chosen = self._chosen.get(layout)
        if chosen is None:
            names = {column.name for column, _ in declared(self._table)}
            gauges = [(at, name) for at, name in enumerate(layout.gauges) if name in names]
            counters = [(at, name) for at, name in enumerate(layout.counters) if name in names]
            chosen = self._chosen[layout] = _Chosen(
                tuple(name for _, name in gauges),
                tuple(name for _, name in counters),
                np.array([at for at, _ in gauges], np.intp),
                np.array([at for at, _ in counters], np.intp),
            )
        return chosen

    def _joined(self, chosen: _Chosen, waiting: Sequence[tuple[Matrix, int]]) -> tuple[_Chunk, int]:
        """All that waits of one layout, and how many of its rows were stamped ahead."""
        matrices = [matrix for matrix, _ in waiting]
        at_ms = np.concatenate([matrix.at_ms for matrix in matrices])
        at_ms, ahead = _clamped(at_ms, waiting)
        code = np.concatenate([self._codes(matrix) for matrix in matrices])
        # `take` keeps rows together in memory, an index would not: what reads them row by row copies all of it then.
        gauges = np.take(np.concatenate([matrix.gauges for matrix in matrices]), chosen.gauge_at, axis=1)
        counters = np.take(np.concatenate([matrix.counters for matrix in matrices]), chosen.counter_at, axis=1)
        return _Chunk(chosen, code, at_ms, gauges, counters), ahead

    def _codes(self, matrix: Matrix) -> NDArray[np.int32]:
        """The code of each row. A sender's names, and mostly its devices, are the same objects in all its frames."""
        known = self._lists.get(id(matrix.names))
        if known is None or known.names is not matrix.names:
            known = self._known(matrix.names)
        if known.device is not matrix.device:
            known.rows, known.device = known.codes[matrix.device], matrix.device
        return known.rows

    def _known(self, names: tuple[Name, ...]) -> "_List":
        for name in names:
            if name not in self._code:
                self._code[name] = len(self._names)
                self._names.append(name)
        codes = np.array([self._code[name] for name in names], np.int32)
        if len(self._lists) >= LISTS:
            self._lists.clear()
        known = self._lists[id(names)] = _List(names, codes)
        return known

    def _sorted_in(self, chunk: _Chunk, frontier_ms: int, done_ms: int) -> int:
        """Puts rows to their windows; returns how many came too late."""
        ends = (chunk.at_ms // self._width_ms + 1) * self._width_ms
        least, most = int(ends.min()), int(ends.max())
        if least == most and least > max(frontier_ms, done_ms):
            self._chunks.setdefault(least, []).append(chunk)
            return 0
        late = int(np.count_nonzero((ends <= frontier_ms) & (ends > done_ms)))
        for end in range(max(least, frontier_ms // self._width_ms * self._width_ms), most + 1, self._width_ms):
            rows = np.flatnonzero(ends == end)
            if len(rows) and end > max(frontier_ms, done_ms):
                self._chunks.setdefault(end, []).append(
                    _Chunk(chunk.chosen, chunk.code[rows], chunk.at_ms[rows], chunk.gauges[rows], chunk.counters[rows])
                )
        return late

    def _in_order(self, closing: Sequence[_Chunk]) -> None:
        """Codes in the order of the names; names that nobody speaks of any more go."""
        chunks = [*closing, *(chunk for waiting in self._chunks.values() for chunk in waiting)]
        heard = np.zeros(len(self._names), np.bool_)
        for chunk in chunks:
            heard[chunk.code] = True
        spoken = int(np.count_nonzero(heard))
        tidy = len(self._names) > spoken + spoken // 4 + SPARE
        if not tidy and all(map(str.__lt__, self._names, self._names[1:])):
            return
        kept = np.flatnonzero(heard).tolist() if tidy else range(len(self._names))
        order = sorted(kept, key=self._names.__getitem__)
        rank = np.full(len(self._names), -1, np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        for chunk in chunks:
            chunk.code = rank[chunk.code]
        self._names = [self._names[place] for place in order]
        self._code = {name: place for place, name in enumerate(self._names)}
        self._lists.clear()


def _clamped(at_ms: NDArray[np.int64], waiting: Sequence[tuple[Matrix, int]]) -> tuple[NDArray[np.int64], int]:
    """The times, those that are ahead of their append time clamped, and how many were."""
    if int(at_ms.max()) <= min(append_ms for _, append_ms in waiting) + AHEAD_MS:
        return at_ms, 0
    latest = np.repeat([append_ms + AHEAD_MS for _, append_ms in waiting], [len(one.at_ms) for one, _ in waiting])
    return np.minimum(at_ms, latest), int(np.count_nonzero(at_ms > latest))


def _rows(chunks: Sequence[_Chunk], table: Table) -> Rows:
    """One matrix of all columns that any of the chunks tells."""
    code = np.concatenate([chunk.code for chunk in chunks])
    at_ms = np.concatenate([chunk.at_ms for chunk in chunks])
    told = {name for chunk in chunks for name in (*chunk.chosen.gauges, *chunk.chosen.counters)}
    gauges = tuple(one.name for one in table.columns if one.type == "gauge" and one.name in told)
    counters = tuple(one.name for one in table.columns if one.type == "counter" and one.name in told)
    wide = [_aligned(chunk.gauges, chunk.chosen.gauges, gauges, np.nan) for chunk in chunks]
    tall = [_aligned(chunk.counters, chunk.chosen.counters, counters, MISSING_COUNTER) for chunk in chunks]
    return Rows(code, at_ms, gauges, np.concatenate(wide), counters, np.concatenate(tall))


def _aligned(
    matrix: NDArray[Number], told: tuple[str, ...], columns: tuple[str, ...], missing: int | float
) -> NDArray[Number]:
    """The matrix with exactly these columns."""
    if told == columns:
        return matrix
    whole = np.full((len(matrix), len(columns)), missing, matrix.dtype)
    whole[:, [columns.index(name) for name in told]] = matrix
    return whole
