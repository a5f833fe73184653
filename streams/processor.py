"""The live path of windows: a fold over decoded samples of one task, closing windows by the clock it is given.

Its clock is the running maximum of append time, so that every decision (late? close?) depends on the prefix of the
partition only, never on when the process looked. Features come from `windows.features`, as offline.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sickbay.schema import Samples, Table
from streams.windows import HORIZON_MS, WIDTH_MS, features, join

LATENESS_MS = 5_000  # one sending interval of an agent
AHEAD_MS = 2_000  # a source's stamp further ahead of append time is a wrong clock: clamped


class Closed(NamedTuple):
    """A window that nothing can change any more, with one row of features per component seen in it."""

    end_ms: int
    features: pl.DataFrame


@dataclass(slots=True)
class WindowState:
    """All that a processor remembers. `last` holds one row per component heard within the last hour."""

    clock_ms: int = 0
    open: dict[int, list[Samples]] = field(default_factory=dict)  # by the window's end
    last: pl.DataFrame | None = None  # component, at_ms, and the last told value of every counter
    late_rows: int = 0  # came after their window had closed: counted, not used
    ahead_rows: int = 0  # stamped too far ahead of append time: clamped


class WindowProcessor:
    """Windows of one table and one task."""

    def __init__(self, table: Table, width_ms: int = WIDTH_MS, lateness_ms: int = LATENESS_MS) -> None:
        self.table = table
        self.width_ms = width_ms
        self.lateness_ms = lateness_ms
        self.state = WindowState()

    @property
    def frontier_ms(self) -> int:
        """Windows that end here or earlier are closed."""
        return (self.state.clock_ms - self.lateness_ms) // self.width_ms * self.width_ms

    def add(self, samples: Samples, append_ms: int, done_ms: int = 0) -> None:
        """Take one record's samples, appended to the log at `append_ms`. Raises ValueError for another table's.

        Rows of windows that end at or before `done_ms` are passed over: those are out, and this is a second reading.
        """
        if samples.table != self.table.name:
            raise ValueError(f"samples of {samples.table}, not of {self.table.name}")
        state = self.state
        state.clock_ms = max(state.clock_ms, append_ms)
        latest = append_ms + AHEAD_MS
        state.ahead_rows += int(np.count_nonzero(samples.at_ms > latest))
        at_ms = np.minimum(samples.at_ms, latest)
        ends = (at_ms // self.width_ms + 1) * self.width_ms
        for end in np.unique(ends).tolist():
            rows = np.flatnonzero(ends == end)
            if end <= done_ms:
                continue
            if end <= self.frontier_ms:
                state.late_rows += len(rows)
            else:
                state.open.setdefault(end, []).append(_rows(samples, at_ms, rows))

    def advance(self, clock_ms: int) -> list[Closed]:
        """Close, oldest first, every window with samples whose end and lateness lie behind the clock."""
        self.state.clock_ms = max(self.state.clock_ms, clock_ms)
        due = sorted(end for end in self.state.open if end <= self.frontier_ms)
        return [self._close(end) for end in due]

    def _close(self, end_ms: int) -> Closed:
        state = self.state
        rows = join(state.open.pop(end_ms))[self.table.name]
        if state.last is not None:
            rows = pl.concat([state.last, rows], how="diagonal")
        state.last = _last(rows, self.table).filter(pl.col("at_ms") >= end_ms - HORIZON_MS)
        return Closed(end_ms, features(rows, self.table, self.width_ms).filter(pl.col("end_ms") == end_ms))


def _rows(samples: Samples, at_ms: NDArray[np.int64], rows: NDArray[np.intp]) -> Samples:
    if len(rows) == len(at_ms):
        return Samples(samples.table, samples.component, at_ms, samples.values)
    values = {name: column[rows] for name, column in samples.values.items()}
    return Samples(samples.table, [samples.component[row] for row in rows.tolist()], at_ms[rows], values)


def _last(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    counters = [column.name for column in table.columns if column.type == "counter" and column.name in rows.columns]
    told = (pl.col(name).drop_nulls().last() for name in counters)
    return rows.sort("component", "at_ms").group_by("component").agg(pl.col("at_ms").last(), *told)
