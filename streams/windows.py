"""Windows and features: samples of one table in, one row of numbers per component and window out.

Pure and order-free: the same samples give the same features whatever their order and however they were split into
batches. Live (`processor.py`) and offline use these same functions. A threshold never stands here: features are
numbers, claims are made in diagnosis.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.schema import TABLES, Column, Samples, Table

WIDTH_MS = 10_000  # window of the features topic
# A counter's first value after a longer silence has no increase: nobody can tell when it grew, and a part that was
# swapped meanwhile brings its own lifetime count.
HORIZON_MS = 3_600_000
# A fall below this share of the value before is a restart from zero; a smaller one is a step back (two exporters a
# moment apart, a value rounded on its way), and what stands after it is no increase.
RESTART_SHARE = 0.5
# What a counter shows right after a restart counts as increase only when the sample before is no older than this (or
# two windows): after a longer gap it may hold a boot's own noise or another part's life.
RESTART_GAP_MS = 60_000


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
                worse.at(merged, rows[place], np.concatenate([batch.values[column.name] for batch in groups[place]]))
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

    `n`: samples. `covered_ms`: time that the increases of the window span, from the last sample before it to its own
    last: what an increase is divided by to get a rate (null with the first sample). Gauges: `<column>` (mean),
    `<column>__max`, `<column>__spread` (maximum - minimum). Counters: `<column>__increase`; null where no two values
    can be compared. Computed in float64, rounded to float32. Missing is null, never 0.
    """
    told = [column for column in table.columns if column.name in frame.columns]
    rows = _stepped(_clean(frame, told), [column.name for column in told if column.type == "counter"], width_ms)
    aggregates = [expression for column in told for expression in _aggregates(column)]
    windows = rows.group_by("unit", "end_ms", maintain_order=True).agg(
        pl.col("component").first(),
        pl.len().cast(pl.Int64).alias("n"),
        _total("gap_ms").alias("covered_ms"),
        *aggregates,
    )
    return windows.select("component", "end_ms", "n", "covered_ms", *(e.meta.output_name() for e in aggregates))


def _clean(frame: pl.DataFrame, told: list[Column]) -> pl.DataFrame:
    """Sorted rows, unique by (component, at_ms), missing = null; a negative counter is missing."""
    values = [
        pl.col(c.name).cast(pl.Float64).fill_nan(None)
        if c.type == "gauge"
        else pl.when(pl.col(c.name) >= 0).then(pl.col(c.name)).cast(pl.Float64).fill_nan(None).alias(c.name)
        for c in told
    ]
    key = ["component", "at_ms"]
    rows = frame.select(pl.col("component").cast(pl.String), pl.col("at_ms").cast(pl.Int64), *values).sort(key)
    twice = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in key)
    if rows.select(twice.any()).item():
        rows = rows.group_by(key, maintain_order=True).agg(
            pl.col(c.name).min() if c.low else pl.col(c.name).max() for c in told
        )
    return rows


def _stepped(rows: pl.DataFrame, counters: list[str], width_ms: int) -> pl.DataFrame:
    """The rows with `unit` (a number per component), `end_ms`, `gap_ms`, and each counter replaced by its increase."""
    rows = rows.with_columns(
        pl.col("component").rle_id().alias("unit"),
        ((pl.col("at_ms") // width_ms + 1) * width_ms).alias("end_ms"),
    )
    rows = rows.with_columns(pl.col("at_ms").diff().over("unit").alias("gap_ms"))
    rows = rows.with_columns(pl.when(pl.col("gap_ms") <= HORIZON_MS).then(pl.col("gap_ms")))
    rows = rows.with_columns(pl.col("gap_ms").is_null().cum_sum().alias("stretch"))  # of one component, no long silence
    return rows.with_columns(_increase(name, width_ms) for name in counters)


def _increase(name: str, width_ms: int) -> pl.Expr:
    now, before = pl.col(name), pl.col(name).forward_fill().shift(1).over("stretch")
    restart_known = pl.col("gap_ms") <= max(RESTART_GAP_MS, 2 * width_ms)
    return (
        pl.when(pl.col("gap_ms").is_null() | before.is_null() | now.is_null())
        .then(None)
        .when(now >= before)
        .then(now - before)
        .when(now >= RESTART_SHARE * before)
        .then(0.0)
        .when(restart_known)
        .then(now)
        .otherwise(None)
        .alias(name)
    )


def _total(name: str) -> pl.Expr:
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum())


def _aggregates(column: Column) -> list[pl.Expr]:
    value = pl.col(column.name)
    if column.type == "counter":
        return [_total(column.name).cast(pl.Float32).alias(f"{column.name}__increase")]
    return [
        value.mean().cast(pl.Float32).alias(column.name),
        value.max().cast(pl.Float32).alias(f"{column.name}__max"),
        (value.max() - value.min()).cast(pl.Float32).alias(f"{column.name}__spread"),
    ]


def sampling_ms(frame: pl.DataFrame) -> int:
    """The median time between two samples of one component, 0 where none has two. Time 0 (unknown) is left out."""
    rows = frame.select("component", "at_ms").filter(pl.col("at_ms") > 0).unique().sort("component", "at_ms")
    gaps = rows.select(pl.col("at_ms").diff().over("component").alias("gap")).drop_nulls()
    median = gaps["gap"].median() if len(gaps) else None
    return round(median) if isinstance(median, float) else 0


def width_for(sampling_ms: int) -> int:
    """The window's width for samples that far apart: at least two of them."""
    return max(WIDTH_MS, 2 * sampling_ms)
