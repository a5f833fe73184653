"""Whether a job went on after an error of its program: then the error is an event that hid nothing."""

from itertools import pairwise
from statistics import median

import polars as pl

from diagnosis.case import Case
from diagnosis.frames import table
from sickbay.components import UNKNOWN, Kind, Name, kind_of, parts_of
from sickbay.messages import Event, Step

WENT_ON_MS = 60_000  # [house] of training after the error
PAUSE_MS = 120_000  # [house] a longer one between two steps may hide a restart
PAUSE_STEPS = 5
ACTIVE = 0.4  # of the card's usual matrix activity: below it, it does not train


def trained_on(case: Case, burst: list[Event], component: Name) -> bool:
    """Whether steps of the job, or matrix units of the card, go on for a minute after the burst without a restart.

    `component`: the job where it is known, else the part that reported. Without a time nothing is shown.
    """
    times = [at for event in burst for at in (event.at_ms, event.until_ms) if at is not None]
    if not times:
        return False
    job = parts_of(component)[0] if kind_of(component) is Kind.JOB else ""
    return _steps_go_on(_steps(case, job), max(times), bool(job)) or _works_on(case, burst[0].component, max(times))


def _steps(case: Case, job: str) -> list[Step]:
    """The job's dated steps; where jobs are not told apart, those of the only job that has any."""
    dated = [step for step in case.steps if step.at_ms is not None and not step.phase]
    told = {step.job for step in dated}
    alone = len(told) == 1 and (not job or told == {UNKNOWN})
    return [step for step in dated if alone or step.job == job]


def _steps_go_on(steps: list[Step], at_ms: int, named: bool) -> bool:
    numbers = sorted({(step.at_ms or 0, step.step) for step in steps})
    before, after = [one for one in numbers if one[0] <= at_ms], [one for one in numbers if one[0] > at_ms]
    if not after or after[-1][0] < at_ms + WENT_ON_MS:
        return False
    if not before:
        return named  # what was before is not known, but this job trains now
    usual = median([later[0] - earlier[0] for earlier, later in pairwise(numbers)])
    return after[0][1] >= before[-1][1] and after[0][0] - before[-1][0] <= max(PAUSE_MS, PAUSE_STEPS * usual)


def _works_on(case: Case, card: Name, at_ms: int) -> bool:
    """Whether the card itself worked before and in every window of the minute after."""
    frame = table(case, "accelerator", ("matrix_active_ratio",)).filter(pl.col("component") == card).drop_nulls()
    usual = frame["matrix_active_ratio"].quantile(0.75)
    began, width = pl.col("end_ms") - case.window_ms, case.window_ms
    around = frame.filter((pl.col("end_ms") > at_ms) & (began < at_ms + WENT_ON_MS + width)).sort("end_ms")
    if not usual or around.height < 2 or around["end_ms"][0] - width > at_ms:
        return False
    whole = around["end_ms"][-1] >= at_ms + WENT_ON_MS and (around["end_ms"].diff().drop_nulls() <= width).all()
    return bool(whole and (around["matrix_active_ratio"] >= ACTIVE * usual).all())
