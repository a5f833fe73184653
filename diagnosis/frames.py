"""Feature tables as detectors want them: every column there, missing is null, host and job beside the component."""

from collections.abc import Iterable, Sequence

import polars as pl

from diagnosis.case import Case
from sickbay import components


def table(case: Case, name: str, columns: Sequence[str]) -> pl.DataFrame:
    """`component`, `end_ms`, `host` and the columns asked for (float64), sorted; empty where nothing was told."""
    frame = case.features.get(name)
    if frame is None or frame.height == 0:
        schema: dict[str, pl.DataType] = {"component": pl.String(), "end_ms": pl.Int64(), "host": pl.String()}
        return pl.DataFrame(schema=schema | {column: pl.Float64() for column in columns})
    values = [
        (pl.col(column).cast(pl.Float64).fill_nan(None) if column in frame.columns else pl.lit(None, pl.Float64)).alias(
            column
        )
        for column in columns
    ]
    host = pl.col("component").str.extract(r"^[a-z]+:([^/]+)").alias("host")
    return frame.select("component", pl.col("end_ms").cast(pl.Int64), host, *values).sort("component", "end_ms")


def with_jobs(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    """The frame with `job`: the attempt on each component at the last time; null where none or more than one runs.

    Where no placement is known at all, everything counts as one job named ``: peers can still be compared.
    """
    if not len(case.placements):
        return frame.with_columns(pl.lit("").alias("job"))
    components = frame["component"].unique().sort().to_list()
    last = frame["end_ms"].max()
    view = case.placements.at(int(last) - 1 if isinstance(last, int) else None)
    jobs = [place.job if (place := view.job_of(component)) else None for component in components]
    known = pl.DataFrame({"component": components, "job": jobs}, schema={"component": pl.String, "job": pl.String})
    return frame.join(known, on="component", how="left").sort("component", "end_ms")


def job_name(job: str) -> str:
    """`job:…`, of an unknown job `job:?`."""
    return components.name(components.Kind.JOB, job or components.UNKNOWN)


def runs(ends: Iterable[int], window_ms: int) -> list[tuple[int, int]]:
    """(first, last) of stretches of windows that follow each other without a gap: a gap is no agreement."""
    found: list[tuple[int, int]] = []
    for end in sorted(ends):
        if found and end - found[-1][1] <= 1.5 * window_ms:
            found[-1] = (found[-1][0], end)
        else:
            found.append((end, end))
    return found
