"""Windows and features: samples of one table in, one row of numbers per component and window out.

The offline side, polars in and out, of what `window_core` counts: the same code as live. The same samples give the same
features whatever their order and however they were split into batches.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.schema import MISSING_COUNTER, TABLES, Column, Samples, Table
from streams.window_core import folded
from streams.window_counters import never
from streams.window_rows import Rows, usable

WIDTH_MS = 10_000  # window of the features topic


class _Batch(NamedTuple):
    code: NDArray[np.int32]  # component, as index into the names seen so far
    at_ms: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]


def join(samples: Iterable[Samples]) -> dict[str, pl.DataFrame]:
    """One frame per table: `component`, `at_ms` (unique together, sorted), and every told column, missing = null.

    Values told twice for one component and time are merged: missing gives way, and of two different ones the larger
    stays (of a `low` column the smaller), so that the order of the inputs cannot matter. Batches may hold different
    columns; memory is one float64 per value told and per cell of the result.
    """
    codes: dict[Name, int] = {}
    told: dict[str, dict[tuple[str, ...], list[_Batch]]] = {}  # table -> columns told -> batches
    for batch in samples:
        for name in set(batch.component):
            codes.setdefault(name, len(codes))
        code = np.fromiter(map(codes.__getitem__, batch.component), np.int32, len(batch.component))
        if len(code):
            alike = told.setdefault(batch.table, {}).setdefault(tuple(batch.values), [])
            alike.append(_Batch(code, batch.at_ms, batch.values))
    names = sorted(codes)
    rank = np.empty(len(codes), np.int64)  # code -> place in the sorted names
    rank[[codes[name] for name in names]] = np.arange(len(codes))
    return {table: _frame(TABLES[table], list(alike.values()), names, rank) for table, alike in sorted(told.items())}


def _frame(table: Table, groups: list[list[_Batch]], names: list[Name], rank: NDArray[np.int64]) -> pl.DataFrame:
    at_ms = [np.concatenate([batch.at_ms for batch in group]) for group in groups]
    times = _distinct(np.concatenate(at_ms))
    rows = [
        rank[np.concatenate([batch.code for batch in group])] * len(times) + np.searchsorted(times, at)
        for group, at in zip(groups, at_ms, strict=True)
    ]
    unique = _distinct(np.concatenate(rows))
    for place, key in enumerate(rows):  # in place: one list of keys, then of rows, never both
        rows[place] = np.searchsorted(unique, key)
    columns = {"component": pl.Series(names, dtype=pl.String).gather(unique // len(times))}
    columns["at_ms"] = pl.Series(times[unique % len(times)])
    for column in table.columns:
        told = [place for place, group in enumerate(groups) if column.name in group[0].values]
        if told:
            merged, worse = np.full(len(unique), np.nan), np.fmin if column.low else np.fmax
            for place in told:
                values = np.concatenate([batch.values[column.name] for batch in groups[place]])
                worse.at(merged, rows[place], usable(values) if column.type == "counter" else values)
            if column.type == "counter":
                merged[merged < 0] = np.nan
            columns[column.name] = pl.Series(merged).fill_nan(None)
    return pl.DataFrame(columns)


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sorted, each once. numpy.unique (2.4) hashes, which takes 2 to 6 times longer for 20 M keys."""
    ordered: NDArray[np.int64] = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def features(frame: pl.DataFrame, table: Table, width_ms: int = WIDTH_MS) -> pl.DataFrame:
    """One row per component and window `[end_ms - width_ms, end_ms)` with a sample, sorted by (component, end_ms).

    The columns of `window_core` for all that the frame tells, in the order of the table; missing is null.
    """
    known = frame["component"].unique().sort()
    rows = _rows(frame, known, [column for column in table.columns if column.name in frame.columns])
    before = never(len(known), len(rows.counter_columns), np.dtype(np.float64))
    told = folded(rows, before, rows.counter_columns, table, width_ms, features_of(rows, table))
    keys = [
        known.gather(told.code).alias("component"),
        pl.Series("end_ms", told.end_ms),
        pl.Series("n", told.n),
        pl.Series("covered_ms", told.covered_ms).replace(-1, None),
    ]
    values = [pl.Series(name, told.values[at]).fill_nan(None) for at, name in enumerate(told.columns)]
    return pl.DataFrame([*keys, *values])


def features_of(rows: Rows, table: Table) -> list[str]:
    """All features that can be told of the rows' columns, in the order of the table."""
    told = {*rows.gauge_columns, *rows.counter_columns}
    ends = {"gauge": ("", "__max", "__spread"), "counter": ("__increase",)}
    return [f"{column.name}{end}" for column in table.columns if column.name in told for end in ends[column.type]]


def _rows(frame: pl.DataFrame, known: pl.Series, told: Sequence[Column]) -> Rows:
    gauges = tuple(column.name for column in told if column.type == "gauge")
    counters = tuple(column.name for column in told if column.type == "counter")
    return Rows(
        known.search_sorted(frame["component"]).to_numpy().astype(np.int64),
        frame["at_ms"].cast(pl.Int64).to_numpy(),
        gauges,
        _matrix(frame, gauges, math.nan),
        counters,
        _matrix(frame, counters, MISSING_COUNTER),
    )


def _matrix(frame: pl.DataFrame, columns: Sequence[str], missing: float) -> NDArray[np.float64]:
    """[rows, columns]; by polars in one piece: column by column costs five times as much."""
    if not columns:
        return np.empty((frame.height, 0))
    told = pl.col(columns).cast(pl.Float64).fill_null(missing).fill_nan(missing)
    return frame.select(told).to_numpy(order="c")


def sampling_ms(frame: pl.DataFrame) -> int:
    """The median time between two samples of one component, 0 where none has two. Time 0 (unknown) is left out."""
    rows = frame.select("component", "at_ms").filter(pl.col("at_ms") > 0).unique().sort("component", "at_ms")
    gaps = rows.select(pl.col("at_ms").diff().over("component").alias("gap")).drop_nulls()
    median = gaps["gap"].median() if len(gaps) else None
    return round(median) if isinstance(median, float) else 0


def width_for(sampling_ms: int) -> int:
    """The window's width for samples that far apart: at least two of them."""
    return max(WIDTH_MS, 2 * sampling_ms)
