"""One row per step of a job out of what its ranks told, as frames: for the archive. Live, `streams.step_series` folds
the same batch by batch."""

import polars as pl

TOGETHER_MS = 15_000  # ranks meet in every step: words on one step that are further apart are of two attempts at it


def by_step(steps: pl.LazyFrame) -> pl.LazyFrame:
    """Steps of one job (`time`, and the fields of `messages.Step`) as one row per step and attempt, ordered by end and
    step: `step`, `end` (the last word on it), `ranks`, `median_ms`, `spread_ms`, `max_ms`, `slowest_rank` (-1: not
    told) and `per_work_ms`, the median of time per unit of work."""
    took, work = pl.col("duration_ms"), pl.col("work")
    usable = steps.filter(pl.col("phase").fill_null("") == "", took >= 0, took.is_finite()).select(
        "step", "time", "duration_ms",
        pl.col("rank").fill_null(-1),
        pl.when((work > 0) & work.is_finite()).then(work).alias("work"),
    )  # fmt: skip
    apart = (pl.col("step").diff() != 0) | (pl.col("time").diff() > pl.duration(milliseconds=TOGETHER_MS))
    numbered = usable.sort("step", "time").with_columns(apart.fill_null(False).cum_sum().alias("attempt"))
    whole = numbered.with_columns(pl.col("time").max().over("attempt").alias("end"))
    last = whole.sort("attempt", "rank", "time", "duration_ms", "work", nulls_last=False)
    once = last.unique(["attempt", "rank"], keep="last", maintain_order=True)  # each rank's last word counts
    rows = once.group_by("attempt").agg(
        pl.col("step").first(),
        pl.col("end").first(),
        pl.len().cast(pl.Int64).alias("ranks"),
        took.median().alias("median_ms"),
        (took.max() - took.min()).alias("spread_ms"),
        took.max().alias("max_ms"),
        pl.col("rank").filter(took == took.max()).min().alias("slowest_rank"),
        (took / work).median().alias("per_work_ms"),
    )
    return rows.drop("attempt").sort("end", "step")
