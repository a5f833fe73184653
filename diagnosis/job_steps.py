"""One row per step of a job, whoever of its ranks told of it: for those who only ask how fast it is."""

from collections import defaultdict

import polars as pl

from diagnosis.case import Case
from sickbay.messages import Step
from streams.step_series import frame, rows_of, series


def step_series(case: Case) -> pl.DataFrame:
    """`job`, `step`, `end_ms` (null: not dated), `ranks`, `median_ms`, `spread_ms`, `max_ms`, `slowest_rank`,
    `per_work_ms`: see `streams.step_series`; sorted by job, end and step. A step done again is a row of its own."""
    if case.step_series is not None:
        return case.step_series
    if "step_series" not in case.memo:
        case.memo["step_series"] = _of(case)
    found: pl.DataFrame = case.memo["step_series"]
    return found


def _of(case: Case) -> pl.DataFrame:
    by_job: dict[str, list[Step]] = defaultdict(list)
    for step in case.steps:
        by_job[step.job].append(step)
    rows = frame((job, series(rows_of(steps, append_ms=0))) for job, steps in sorted(by_job.items()))
    return rows.with_columns(pl.when(pl.col("end_ms") > 0).then("end_ms"))
