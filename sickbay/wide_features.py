"""Wider windows made from narrower ones that lie side by side: 60 s from six of 10 s, without the samples.

Counts, covered time, extremes and increases are those of the wide window itself, where no counter was restarted after
more than a minute of silence. A mean is that of the narrow means, each weighted with its samples: exact to float32
where a column tells every sample; where some are missing, a window's told ones stand for all of it.
"""

from collections.abc import Collection

import polars as pl

WHOLE = ("n", "covered_ms")


def widened(rows: pl.LazyFrame, width_ms: int) -> pl.LazyFrame:
    """Rows of features (`component`, `end_ms`, numbers) as a row per component and wide window, sorted by both. A
    component has what its windows tell; a spread needs its maximum beside it, and is left out without."""
    schema = rows.collect_schema()
    names = [name for name, kind in schema.items() if name in WHOLE or kind == pl.Float32]
    told = [_wide(name, names).alias(name) for name in names if _can(name, names)]
    end = -(-pl.col("end_ms") // width_ms) * width_ms
    wide = rows.group_by("component", end.alias("end_ms")).agg(told)
    whole = [pl.col(name).cast(pl.Int64) for name in WHOLE if name in names]
    return wide.with_columns(*whole, pl.exclude("component", "end_ms", *WHOLE).cast(pl.Float32)).sort(
        "component", "end_ms"
    )


def _can(name: str, names: Collection[str]) -> bool:
    return not name.endswith("__spread") or f"{name[: -len('__spread')]}__max" in names


def _wide(name: str, names: Collection[str]) -> pl.Expr:
    value, (base, _, kind) = pl.col(name).cast(pl.Float64), name.partition("__")
    if name in WHOLE or kind == "increase":
        return pl.when(value.count() > 0).then(value.sum())
    if kind == "max":
        return value.max()
    if kind == "min":
        return value.min()
    if kind == "spread":
        most = pl.col(f"{base}__max").cast(pl.Float64)
        return most.max() - (most - value).min()
    weight = pl.when(value.is_not_null()).then(pl.col("n").cast(pl.Float64) if "n" in names else 1.0)
    return pl.when(value.count() > 0).then((value * weight).sum() / weight.sum())
