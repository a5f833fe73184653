"""Steps as live diagnosis keeps them: a row for every step of every job, and the newest of what ranks told as told.

10,000 ranks tell more in ten seconds than memory should hold for half an hour; a row per job and step says how fast
each job is all the same. Everything here is decided by the order of the log and its append times.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from sickbay.messages import Step
from streams import step_series
from streams.step_series import LATENESS_MS, NO_RANK, OpenSteps, StepRows, StepSeries

MOST, MOST_OF_JOB = 100_000, 50_000  # of the newest, as they were told
MOST_ROWS = 1_000_000  # of jobs and steps, 70 MB: 30 minutes of 500 jobs with a step a second
BEAT_MS = 10_000  # how often steps that are over become rows
EDGE_MS = 30_000  # no row is told whose ranks may have begun to tell it before the horizon
MOST_JOBS = 5_000  # with steps that are not over: who makes up names of jobs must not take all the time
MANY = 20_000  # rows of a job that are put together at once

_WIDTH = len(StepRows._fields)


@dataclass(slots=True)
class _Job:
    state: OpenSteps
    fresh: "array[float]" = field(default_factory=lambda: array("d"))  # `StepRows`, row after row
    numbers: deque[int] = field(default_factory=deque)  # of the steps that are kept as told
    is_open: bool = False  # some of its steps are not over

    def settle(self) -> None:
        """Puts what came to the open steps."""
        if self.fresh:
            table = np.frombuffer(self.fresh, np.float64).reshape(-1, _WIDTH).T
            step, rank, at_ms = table[:3].astype(np.int64)
            self.state = step_series.taken(self.state, StepRows(step, rank, at_ms, table[3].copy(), table[4].copy()))
            self.fresh = array("d")


@dataclass(slots=True)
class KeptSteps:
    """What was told. `left_out`: steps that are kept as rows of their job only; `late`: that came too late for those,
    or were too many."""

    most: int = MOST
    most_of_job: int = MOST_OF_JOB
    left_out: int = 0
    late: int = 0
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _told: OrderedDict[int, tuple[int, Step]] = field(default_factory=OrderedDict)  # by number, with their times
    _number: int = 0
    _beat_ms: int = 0
    _open: int = 0  # jobs
    _rows: deque[pl.DataFrame] = field(default_factory=deque)

    def take(self, at_ms: int, step: Step, append_ms: int) -> None:
        """One message, in the order of append times; `at_ms` its own time."""
        self.clock(append_ms)
        job = self._jobs.get(step.job)
        if job is None:
            job = self._jobs[step.job] = _Job(OpenSteps(done_ms=self._beat_ms - LATENESS_MS))
        if step_series.counts(step):
            self._count(job, at_ms, step)
        self._keep(job, at_ms, step)

    def _count(self, job: _Job, at_ms: int, step: Step) -> None:
        if not job.is_open:
            if self._open >= MOST_JOBS:
                self.late += 1
                return
            job.is_open, self._open = True, self._open + 1
        rank, work = step.rank, step.work
        job.fresh.extend((
            step.step, NO_RANK if rank is None else rank, at_ms, step.duration_ms, np.nan if work is None else work,
        ))  # type: ignore[arg-type]  # fmt: skip
        if len(job.fresh) >= MANY * _WIDTH:
            job.settle()

    def _keep(self, job: _Job, at_ms: int, step: Step) -> None:
        """Of one job the newest, and of all the newest of these: so that no job takes more than its part."""
        self._number += 1
        self._told[self._number] = at_ms, step
        job.numbers.append(self._number)
        if len(job.numbers) > self.most_of_job:
            del self._told[job.numbers.popleft()]
            self.left_out += 1
        elif len(self._told) > self.most:
            _, (_, gone) = self._told.popitem(last=False)
            self._jobs[gone.job].numbers.popleft()
            self.left_out += 1

    def clock(self, now_ms: int) -> None:
        """Makes rows of the steps to which no more can come that would not be late. All before now was taken."""
        beat_ms = now_ms // BEAT_MS * BEAT_MS
        if beat_ms <= self._beat_ms:
            return
        self._beat_ms, parts = beat_ms, []
        for name in sorted(self._jobs):
            over = self._over(self._jobs[name])
            if over is not None and len(over.step):
                parts.append((name, over))
        if parts:
            self._rows.append(step_series.frame(parts))
        if sum(rows.height for rows in self._rows) > MOST_ROWS:
            newest = pl.concat(self._rows).sort("end_ms", "job", "step").tail(MOST_ROWS * 3 // 4)
            self._rows = deque([newest])

    def _over(self, job: _Job) -> StepSeries | None:
        """The job's steps that are over."""
        if not job.is_open:
            job.state = OpenSteps(done_ms=self._beat_ms - LATENESS_MS)
            return None
        job.settle()
        state, over = step_series.told(job.state, self._beat_ms)
        self.late += state.late + state.crowded
        job.state = OpenSteps(state.parts, state.done_ms)
        if not len(job.state.rows.step):
            job.is_open, self._open = False, self._open - 1
        return over

    def forget(self, before_ms: int) -> None:
        """Lets go of what is older."""
        while self._rows and self._rows[0]["end_ms"].max() < before_ms:  # type: ignore[operator]
            self._rows.popleft()
        for name, job in [*self._jobs.items()]:
            while job.numbers and self._told[job.numbers[0]][0] < before_ms:
                del self._told[job.numbers.popleft()]
            if not job.numbers and not job.is_open:
                del self._jobs[name]

    def steps(self, before_ms: int) -> Iterator[Step]:
        """The newest as told, in the order of the log, without those older than that."""
        return (step for at_ms, step in self._told.values() if at_ms >= before_ms)

    def series(self, before_ms: int) -> pl.DataFrame:
        """A row for each step of each job that is over: see `step_series.frame`."""
        rows = pl.concat([step_series.frame(()), *self._rows])
        return rows.filter(pl.col("end_ms") >= before_ms + EDGE_MS).sort("job", "end_ms", "step")
