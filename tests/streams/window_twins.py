"""Two naive twins of the windows: one of data frames, one of plain loops."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import polars as pl

from sickbay.schema import Column, Table

HORIZON_MS, RESTART_GAP_MS = 3_600_000, 60_000
STUCK_32, STUCK_64 = 2**32 - 1, 2**63 - 1
WRAPS = {("port", "retransmits_total"), ("port", "retries_exceeded_total")}
WRAP_STEP = 2**28

Row: TypeAlias = tuple[str, int, dict[str, float]]  # component, at_ms, told values
Found: TypeAlias = dict[tuple[str, int], dict[str, float]]  # (component, end_ms) -> features, missing left out


def loops(rows: Iterable[Row], table: Table, width_ms: int) -> Found:
    """Every feature, one row and value at a time."""
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    heard: dict[str, tuple[int, dict[str, float]]] = {}
    for (component, at_ms), values in sorted(_merged(rows, table).items()):
        window = found.setdefault((component, (at_ms // width_ms + 1) * width_ms), defaultdict(list))
        window["n"].append(1)
        before_ms, before = heard.get(component, (None, {}))
        gap = None if before_ms is None or at_ms - before_ms > HORIZON_MS else at_ms - before_ms
        if gap is None:
            before = {}
        else:
            window["covered_ms"].append(gap)
        for name, value in values.items():
            if table.column(name).type == "gauge":
                window[name].append(value)
            elif name in before and gap is not None:
                short = gap <= max(RESTART_GAP_MS, 2 * width_ms)
                window[f"{name}__increase"] += _grown(before[name], value, short, (table.name, name) in WRAPS)
        counters = {name: value for name, value in values.items() if table.column(name).type == "counter"}
        heard[component] = (at_ms, {**before, **counters})
    return {key: _numbers(window, table) for key, window in found.items()}


def _merged(rows: Iterable[Row], table: Table) -> dict[tuple[str, int], dict[str, float]]:
    merged: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for component, at_ms, values in rows:
        kept = merged[component, at_ms]
        for name, value in values.items():
            column = table.column(name)
            if not math.isnan(value) and (column.type == "gauge" or (0 <= value < STUCK_64 and value != STUCK_32)):
                kept[name] = (min if column.low else max)(kept.get(name, value), value)
    return merged


def _grown(before: float, now: float, short: bool, wraps: bool) -> list[float]:
    if now >= before:
        return [now - before]
    if 2 * now >= before:
        return [0]
    if not short:
        return []
    around = now + 2**32 - before
    return [around if wraps and before < 2**32 and around <= WRAP_STEP else now]


def _numbers(window: dict[str, list[float]], table: Table) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, told in window.items():
        if name in table.names:
            numbers[name] = sum(told) / len(told)
            numbers[f"{name}__max"], numbers[f"{name}__min"] = max(told), min(told)
            numbers[f"{name}__spread"] = max(told) - min(told)
        elif told:
            numbers[name] = sum(told)
    return {name: float(np.float32(value)) for name, value in numbers.items()}


def frames(frame: pl.DataFrame, table: Table, width_ms: int) -> pl.DataFrame:
    """The features of a frame with `component`, `at_ms` and the told columns, by expressions."""
    told = [column for column in table.columns if column.name in frame.columns]
    rows = _stepped(_clean(frame, told), [column.name for column in told if column.type == "counter"], table, width_ms)
    aggregates = [expression for column in told for expression in _aggregates(column)]
    windows = rows.group_by("unit", "end_ms", maintain_order=True).agg(
        pl.col("component").first(),
        pl.len().cast(pl.Int64).alias("n"),
        _total("gap_ms").alias("covered_ms"),
        *aggregates,
    )
    return windows.select("component", "end_ms", "n", "covered_ms", *(e.meta.output_name() for e in aggregates))


def _clean(frame: pl.DataFrame, told: list[Column]) -> pl.DataFrame:
    values = [_told(column).cast(pl.Float64).fill_nan(None).alias(column.name) for column in told]
    key = ["component", "at_ms"]
    rows = frame.select(pl.col("component").cast(pl.String), pl.col("at_ms").cast(pl.Int64), *values).sort(key)
    return rows.group_by(key, maintain_order=True).agg(
        pl.col(c.name).min() if c.low else pl.col(c.name).max() for c in told
    )


def _told(column: Column) -> pl.Expr:
    value = pl.col(column.name)
    if column.type == "gauge":
        return value
    return pl.when((value >= 0) & (value < float(STUCK_64)) & (value != float(STUCK_32))).then(value)


def _stepped(rows: pl.DataFrame, counters: list[str], table: Table, width_ms: int) -> pl.DataFrame:
    rows = rows.with_columns(
        pl.col("component").rle_id().alias("unit"),
        ((pl.col("at_ms") // width_ms + 1) * width_ms).alias("end_ms"),
    )
    rows = rows.with_columns(pl.col("at_ms").diff().over("unit").alias("gap_ms"))
    rows = rows.with_columns(pl.when(pl.col("gap_ms") <= HORIZON_MS).then(pl.col("gap_ms")))
    rows = rows.with_columns(pl.col("gap_ms").is_null().cum_sum().alias("stretch"))
    return rows.with_columns(_increase(name, width_ms, (table.name, name) in WRAPS) for name in counters)


def _increase(name: str, width_ms: int, wraps: bool) -> pl.Expr:
    now, before = pl.col(name), pl.col(name).forward_fill().shift(1).over("stretch")
    around = now + 2.0**32 - before
    return (
        pl.when(pl.col("gap_ms").is_null() | before.is_null() | now.is_null())
        .then(None)
        .when(now >= before)
        .then(now - before)
        .when(now >= 0.5 * before)
        .then(0.0)
        .when(pl.col("gap_ms") > max(RESTART_GAP_MS, 2 * width_ms))
        .then(None)
        .when(pl.lit(wraps) & (before < 2.0**32) & (around <= WRAP_STEP))
        .then(around)
        .otherwise(now)
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
