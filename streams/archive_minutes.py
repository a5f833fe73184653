"""Telemetry that has become old: an hour of full-rate rows as one-minute rows, by the same windows as live. Pure.

Of each component and minute: `n` rows, `covered_ms` as of windows; of a gauge `x` (mean), `x__min`, `x__max`; of a
counter `x__increase`, counted on from the hour before. `end_ms` and `time` are the minute's end. Missing is null.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sickbay.schema import MISSING_COUNTER, TABLES, Column, Table, counter, gauge
from streams.archive_rows import TIME
from streams.archive_telemetry import DAY_MS, HOUR_MS, TAKEN
from streams.window_core import folded
from streams.window_counters import Before, never
from streams.window_rows import Rows

WIDTH_MS = 60_000
KEYS: dict[str, pl.DataType] = {
    "day": pl.Date(), "time": TIME, "component": pl.String(), "end_ms": pl.Int64(), "n": pl.Int64(),
    "covered_ms": pl.Int64(),
}  # fmt: skip


class Shape(NamedTuple):
    """A table as the archive has it: its own columns and those that newer versions told, and what minutes say of it."""

    table: Table
    gauges: tuple[str, ...]
    counters: tuple[str, ...]

    @property
    def needed(self) -> list[str]:
        """The columns to be read."""
        return ["component", "time", *self.gauges, *self.counters]

    @property
    def schema(self) -> pl.Schema:
        """The columns of its one-minute rows."""
        return pl.Schema(KEYS | dict.fromkeys(self.features, pl.Float32()))

    @property
    def features(self) -> list[str]:
        """The names of what is told of each minute."""
        of_gauges = [f"{name}{kind}" for name in self.gauges for kind in ("", "__min", "__max")]
        return of_gauges + [f"{name}__increase" for name in self.counters]


def shape(table: str, types: Mapping[str, pl.DataType]) -> Shape:
    """The shape of a table with these columns. What is known by another type than it has there is left out."""
    known = TABLES[table]
    columns = tuple(
        column for name, dtype in types.items() if name not in TAKEN and (column := _column(known, name, dtype))
    )
    gauges, counters = (tuple(c.name for c in columns if c.type == kind) for kind in ("gauge", "counter"))
    return Shape(Table(table, known.component, columns), gauges, counters)


def _column(known: Table, name: str, dtype: pl.DataType) -> Column | None:
    if name in known.names:
        return known.column(name)  # an older archive has counters as numbers with a fraction
    if "__" in name or not dtype.is_numeric():
        return None
    made = counter if dtype == pl.Int64() else gauge
    return made(name, "", "of a newer version")


def minutes(rows: pl.DataFrame, before: pl.DataFrame, shape: Shape, hour: int) -> pl.DataFrame:
    """The one-minute rows of an hour (counted from 1970). `rows`, `before`: what is needed (see `Shape`) of it and of
    the hour before it, in any order, for the same components; rows that were told twice count once."""
    told = [name for name in (*shape.gauges, *shape.counters) if rows[name].null_count() < rows.height]
    gauges = tuple(name for name in shape.gauges if name in told)
    counters = tuple(name for name in shape.counters if name in told)
    names = pl.concat([rows["component"], before["component"]]).unique().sort()
    last = _last(_rows(before, names, (), counters), len(names), shape.table)
    wanted = [name for name in shape.features if name.partition("__")[0] in told]
    found = folded(_rows(rows, names, gauges, counters), last, counters, shape.table, WIDTH_MS, wanted)
    columns = {
        "component": names.gather(found.code),
        "end_ms": found.end_ms,
        "n": found.n,
        "covered_ms": found.covered_ms,
        **{name: found.values[place] for place, name in enumerate(found.columns)},
    }
    frame = pl.DataFrame(columns).with_columns(
        pl.lit(hour * HOUR_MS // DAY_MS, pl.Int32).cast(pl.Date).alias("day"),
        (pl.col("end_ms") * 1000).cast(TIME).alias("time"),
        pl.when(pl.col("covered_ms") >= 0).then("covered_ms"),
        pl.col(list(found.columns)).fill_nan(None),
    )
    absent = [pl.lit(None, pl.Float32).alias(name) for name in shape.features if name not in found.columns]
    return frame.with_columns(*absent).select(shape.schema.names())


def _last(rows: Rows, components: int, table: Table) -> Before:
    """What was last heard of each component in the hour before."""
    known = never(components, len(rows.counter_columns), np.dtype(np.int64))
    if len(rows.at_ms):
        found = folded(rows, known, rows.counter_columns, table, WIDTH_MS, ())
        known.at_ms[found.heard], known.counters[found.heard] = found.after.at_ms, found.after.counters
    return known


def _rows(frame: pl.DataFrame, names: pl.Series, gauges: Sequence[str], counters: Sequence[str]) -> Rows:
    code = frame["component"].cast(pl.Enum(names)).to_physical().cast(pl.Int32).to_numpy()
    at_ms = frame["time"].dt.epoch("ms").to_numpy()
    wide = _matrix(frame, gauges, pl.Float32(), np.nan).astype(np.float32, copy=False)
    tall = _matrix(frame, counters, pl.Int64(), MISSING_COUNTER).astype(np.int64, copy=False)
    return Rows(code, at_ms, tuple(gauges), wide, tuple(counters), tall)


def _matrix(
    frame: pl.DataFrame, columns: Sequence[str], dtype: pl.DataType, missing: float
) -> NDArray[np.float32] | NDArray[np.int64]:
    if not columns:
        return np.empty((frame.height, 0), np.float32)
    told = frame.select(pl.col(list(columns)).cast(dtype, strict=False).fill_null(missing))
    matrix: NDArray[np.float32] | NDArray[np.int64] = np.ascontiguousarray(told.to_numpy())
    return matrix
