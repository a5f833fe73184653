"""Steps of one job: what its ranks tell of a step, folded to one row per step.

A fold over batches of rows, with a clock that it is given (append time of ticks), as windows have. What comes later
than the lateness is counted and not used; for all else order, batches, repetition and the moments at which the clock is
read change nothing. A step that is done again after a restart is a row of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sickbay.messages import Step
from sickbay.step_rows import TOGETHER_MS

LATENESS_MS = 15_000  # three sending intervals of an agent
MOST_ROWS = 2_000_000  # open at once, 80 MB: a job of 100,000 ranks with 20 steps open
WHOLE = 1 << 53  # numbers beyond it are no counts, and no float64 holds them
NO_RANK = -1  # a training log that does not say whose line it is

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class StepRows(NamedTuple):
    """What ranks told, in any order, [rows] each: step, rank (NO_RANK = not told), time, duration in ms and work
    (tokens or samples) of this rank in this step; missing = NaN."""

    step: Ints
    rank: Ints
    at_ms: Ints
    duration_ms: Floats
    work: Floats


class StepSeries(NamedTuple):
    """One row per step, ordered by end and step, [steps] each. `ranks`: that told a duration; `slowest_rank`: the
    lowest of those that took longest. `per_work_ms`: median over the ranks that told work, NaN where none did."""

    step: Ints
    end_ms: Ints
    ranks: Ints
    median_ms: Floats
    spread_ms: Floats
    max_ms: Floats
    slowest_rank: Ints
    per_work_ms: Floats


def counts(one: Step) -> bool:
    """Whether a message tells the time of a step: one with a usable duration, and of no other phase than a step itself
    (a checkpoint, a load)."""
    duration = one.duration_ms
    return duration is not None and duration >= 0 and not one.phase and -WHOLE < one.step < WHOLE and (
        one.rank is None or -WHOLE < one.rank < WHOLE
    )  # fmt: skip


def rows_of(steps: Iterable[Step], append_ms: int) -> StepRows:
    """Messages as rows, of those that tell a step time; those without a time get that of the record."""
    told = [one for one in steps if counts(one)]
    return StepRows(
        np.array([one.step for one in told], np.int64),
        np.array([NO_RANK if one.rank is None else one.rank for one in told], np.int64),
        np.array([append_ms if one.at_ms is None else one.at_ms for one in told], np.int64),
        np.array([one.duration_ms for one in told], np.float64),
        np.array([np.nan if one.work is None or one.work <= 0 else one.work for one in told], np.float64),
    )


def _no_rows() -> StepRows:
    return rows_of((), 0)


@dataclass(frozen=True, slots=True, eq=False)
class OpenSteps:
    """All that the fold remembers: the rows of open steps, and until when steps are told already."""

    parts: tuple[StepRows, ...] = ()  # as they came
    done_ms: int = -1  # rows of this time or before are late
    late: int = 0  # came after their step was told: counted, not used
    crowded: int = 0  # of the oldest steps, left out for want of room: counted

    @property
    def rows(self) -> StepRows:
        """All rows; `series` of them is what is known so far."""
        return _joined(_no_rows(), *self.parts)


def taken(state: OpenSteps, rows: StepRows) -> OpenSteps:
    """The state with more rows."""
    fresh = rows.at_ms > state.done_ms
    late = state.late + int(np.count_nonzero(~fresh))
    now = OpenSteps((*state.parts, _only(rows, fresh)), state.done_ms, late, state.crowded)
    full = sum(len(part.step) for part in now.parts) > MOST_ROWS
    return _crowded(now) if full else now


def _crowded(state: OpenSteps) -> OpenSteps:
    rows = _usable(state.rows)  # repeated ones may have filled it
    over = len(rows.step) - MOST_ROWS * 3 // 4  # room for more, so that not each batch costs a sort
    if over <= 0:
        return replace(state, parts=(rows,))
    done_ms = int(np.partition(rows.at_ms, over - 1)[over - 1])
    kept = rows.at_ms > done_ms
    return OpenSteps((_only(rows, kept),), done_ms, state.late, state.crowded + int(np.count_nonzero(~kept)))


def told(state: OpenSteps, clock_ms: int) -> tuple[OpenSteps, StepSeries]:
    """The steps to which no row can come any more that would not be late, and the state without them."""
    done_ms = clock_ms - LATENESS_MS
    if done_ms <= state.done_ms:
        return state, series(_no_rows())
    rows, before_ms = state.rows, done_ms - TOGETHER_MS
    old = rows.at_ms <= before_ms
    concerned = np.isin(rows.step, np.unique(rows.step[old]))  # only these are sorted
    some, attempt = _attempts(_usable(_only(rows, concerned)))
    over = (_newest(some, attempt) <= before_ms)[attempt]
    left = _joined(_only(rows, ~concerned), _only(some, ~over))
    return OpenSteps((left,), done_ms, state.late, state.crowded), series(_only(some, over))


def series(rows: StepRows) -> StepSeries:
    """One row per step and attempt out of all rows, whatever their order."""
    rows, attempt = _attempts(_usable(rows))
    end_ms = _newest(rows, attempt)
    rows, attempt = _once(rows, attempt)
    if not len(attempt):
        none, nan = np.empty(0, np.int64), np.empty(0)
        return StepSeries(none, none, none, nan, nan, nan, none, nan)
    start = np.flatnonzero(np.diff(attempt, prepend=-1))
    count = np.diff(start, append=len(attempt))
    most, least = (worse.reduceat(rows.duration_ms, start) for worse in (np.maximum, np.minimum))
    slowest = np.where(rows.duration_ms == np.repeat(most, count), rows.rank, np.iinfo(np.int64).max)
    found = StepSeries(
        rows.step[start],
        end_ms,
        count,
        _medians(rows.duration_ms, attempt, start),
        most - least,
        most,
        np.minimum.reduceat(slowest, start),
        _medians(rows.duration_ms / rows.work, attempt, start),
    )
    order = np.lexsort((found.step, end_ms))
    return StepSeries._make(column[order] for column in found)


FRAME = pl.Schema(
    {
        "job": pl.String, "step": pl.Int64, "end_ms": pl.Int64, "ranks": pl.Int64, "median_ms": pl.Float64,
        "spread_ms": pl.Float64, "max_ms": pl.Float64, "slowest_rank": pl.Int64, "per_work_ms": pl.Float64,
    }
)  # fmt: skip


def frame(jobs: Iterable[tuple[str, StepSeries]]) -> pl.DataFrame:
    """The steps of several jobs as one frame: `job` and the columns of `StepSeries`; missing is null."""
    told = [*jobs]
    if not told:
        return pl.DataFrame(schema=FRAME)
    columns = StepSeries._make(np.concatenate(column) for column in zip(*(one for _, one in told), strict=True))
    names = [name for name, one in told for _ in range(len(one.step))]
    return pl.DataFrame({"job": names} | columns._asdict(), schema=FRAME).with_columns(
        pl.col("per_work_ms").fill_nan(None)
    )


def _joined(*parts: StepRows) -> StepRows:
    return StepRows._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _only(rows: StepRows, kept: NDArray[np.bool_] | NDArray[np.intp]) -> StepRows:
    return StepRows._make(column[kept] for column in rows)


def _usable(rows: StepRows) -> StepRows:
    """Sorted by step and time, without repetitions and durations that are none."""
    work = np.where(np.isfinite(rows.work) & (rows.work > 0), rows.work, np.nan)
    rows = _only(rows._replace(work=work), np.isfinite(rows.duration_ms) & (rows.duration_ms >= 0))
    rows = _only(rows, np.lexsort((rows.work, rows.duration_ms, rows.rank, rows.at_ms, rows.step)))
    differs = np.zeros(len(rows.step), np.bool_)
    for column in rows:
        differs[1:] |= (column[1:] != column[:-1]) & ~(np.isnan(column[1:]) & np.isnan(column[:-1]))
    differs[:1] = True
    return _only(rows, differs)


def _attempts(rows: StepRows) -> tuple[StepRows, Ints]:
    """The rows, sorted by step and time, and the number of the attempt that each belongs to."""
    apart = (np.diff(rows.step) != 0) | (np.diff(rows.at_ms) > TOGETHER_MS)
    attempt = np.concatenate([[0], np.cumsum(apart)]) if len(rows.step) else np.empty(0, np.int64)
    return rows, attempt


def _newest(rows: StepRows, attempt: Ints) -> Ints:
    """The time of each attempt's last row."""
    last = np.flatnonzero(np.diff(attempt, append=len(attempt)))
    return rows.at_ms[last]


def _once(rows: StepRows, attempt: Ints) -> tuple[StepRows, Ints]:
    """Each rank once per attempt: its last word counts; of two told at once the longer, then the one with more work."""
    work = np.where(np.isnan(rows.work), -np.inf, rows.work)
    order = np.lexsort((work, rows.duration_ms, rows.at_ms, rows.rank, attempt))
    rank, of = rows.rank[order], attempt[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (rank[1:] != rank[:-1]) | (of[1:] != of[:-1])
    return _only(rows, order[last]), of[last]


def _medians(values: Floats, attempt: Ints, start: Ints) -> Floats:
    """Of the told values of each attempt (rows sorted by attempt); NaN where none is told."""
    order = np.lexsort((values, attempt))  # missing last
    ordered = values[order]
    count = np.add.reduceat((~np.isnan(values)).astype(np.int64), start)
    last = np.maximum(count, 1)
    return np.asarray((ordered[start + (last - 1) // 2] + ordered[start + last // 2]) / 2)
