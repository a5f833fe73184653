"""Which windows show an accelerator at work beside working peers: all that a comparison of speed may use.

A card that idles, spins in a stalled collective, pauses for a checkpoint, or was sampled for a part of the window only
has another clock, heat and power than its peers without being slower.
"""

from statistics import median

import polars as pl

from diagnosis.case import Case
from diagnosis.job_steps import step_series

COVERED = 0.75  # of the samples that the peers have in this window
BUSY = 0.5  # utilisation below which a card does no work that could be slow
ALIKE = 0.8  # of the peers' utilisation: the others worked for longer in this window
ACTIVE = 0.4  # of the usual matrix activity or power: below it a card does not train [house]
POWER_LEFT = 0.55  # of the usual power of the working: below it the job stands (peers_idle has the same)
CRAWLS = 0.75  # of the working clock: below it a card is slow even where all stand and wait for it
RESIDENT = 0.85
GROUP = ("job", "model")


def working(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows to compare, of a frame with `job`, `model`, `end_ms`, `n` and the columns read here.

    Left out: rows with fewer samples than the peers', cards at rest, and windows in which the job stands, save where
    a card crawls: then all wait for it, and it alone has a clock below that of normal work.
    """
    at_once = ("job", "model", "end_ms")
    usual = pl.col("matrix_active_ratio").quantile(0.75).over(*GROUP).alias("usual_matrix")
    usual_power = pl.col("power_watts").quantile(0.75).over(*GROUP).alias("usual_power")
    samples = pl.col("n").median().over(*at_once)
    frame = frame.filter((pl.col("n") >= COVERED * samples).fill_null(True)).with_columns(usual, usual_power)
    resident = frame.filter(pl.col("utilisation_ratio").fill_null(1.0) >= BUSY)
    medians = resident.group_by("job", "end_ms").agg(
        (pl.col("matrix_active_ratio") / pl.col("usual_matrix")).median().alias("activity"),
        (pl.col("power_watts") / pl.col("usual_power")).median().alias("power_left"),
        pl.col("utilisation_ratio").median().alias("usual_utilisation"),
    )
    stands = (pl.col("activity") < ACTIVE).fill_null(False) | (pl.col("power_left") < POWER_LEFT).fill_null(False)
    joined = resident.join(medians.with_columns(stands.alias("stands")), on=["job", "end_ms"]).with_columns(
        pl.col("clock_megahertz").filter(~pl.col("stands")).median().over(*GROUP).alias("working_clock")
    )
    crawling = joined.filter(pl.col("stands")).filter(_crawls().any().over(*at_once))
    return pl.concat([joined.filter(~pl.col("stands") & _busy()), crawling]).sort("component", "end_ms")


def _busy() -> pl.Expr:
    matrix = (pl.col("matrix_active_ratio") >= ACTIVE * pl.col("usual_matrix")).fill_null(True)
    power = (pl.col("power_watts") >= ACTIVE * pl.col("usual_power")).fill_null(True)
    alike = (pl.col("utilisation_ratio") >= ALIKE * pl.col("usual_utilisation")).fill_null(True)
    return matrix & power & alike


def _crawls() -> pl.Expr:
    slow = pl.col("clock_megahertz") < CRAWLS * pl.col("working_clock")
    return (slow & (pl.col("utilisation_ratio") >= RESIDENT)).fill_null(False)


def step_ms(case: Case, job: str) -> float:
    """The job's usual time per step in milliseconds; 0 where nothing tells it."""
    rows = step_series(case).filter(pl.col("median_ms") > 0)
    told = (rows.filter(pl.col("job") == job) if job else rows)["median_ms"].to_list()
    if not told:  # its first steps are not over yet
        told = [step.duration_ms for step in case.steps if step.duration_ms and (step.job == job or not job)]
    return median(told) if told else 0.0
