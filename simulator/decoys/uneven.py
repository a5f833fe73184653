"""Work that is not the same on every rank: some cards are busy all the time and others wait, and all are well.

A job with a plan gets another plan, and its hooks tell of the work; of a job without one only the sensors show it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simulator.decoys.kit import around, nothing, rows_of
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.plan import Plan
from simulator.workload.run import Mode, Run
from simulator.world import World

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Uneven:
    """Each rank has `work` times the mean: the most loaded one sets the pace, and the others wait for it."""

    at: int
    host: str
    severity: float = 1.0
    lasts_s: int | None = None
    _work: Floats = field(default_factory=lambda: np.ones(0))
    _drawn: int = -1
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    _before: Plan | None = None

    WHAT = "uneven"
    TITLE = ""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run is None or not run.moves or at_s < self.at:
            return
        if self.lasts_s is not None and at_s >= self.at + self.lasts_s:
            run.slow.pop(self.WHAT, None)
            if self._before is not None:
                run.adopt(self._before)
                self._before = None
            return
        if run.job.plan is not None and (plan := self.planned(run.job.plan, run.groups.pp)) is not None:
            if self._before is None:
                self._before = run.job.plan
                run.adopt(plan)
            return
        if (now := self.draw_of(run, at_s)) != self._drawn:
            place = world.cluster.host_index[self.host]
            self._rng = np.random.default_rng([self.at, place, now, 0x0E])
            self._work, self._drawn = self.work(run), now
        run.slow[self.WHAT] = max(0.0, float(self._work.max()) - 1.0)
        self._show(run, world)
        yield from ()

    def _show(self, run: Run, world: World) -> None:
        """Who has more to do is busy for more of the step; the pace already tells the share of the mean."""
        if run.mode is not Mode.STEP:
            return
        rows, pace = rows_of(world, run.job.hosts), run.pace
        share = np.minimum(self._work * pace, 1.0)
        world.now.overlay.scale("accelerator", "matrix_active_ratio", rows, share / pace)
        world.now.overlay.scale("accelerator", "memory_active_ratio", rows, share / pace)
        watts = (0.55 + 0.45 * share) / (0.55 + 0.45 * pace)  # as a step's power follows its work
        world.now.overlay.scale("accelerator", "power_watts", rows, watts)
        world.now.overlay.scale("accelerator", "memory_used_bytes", rows, 1 + 0.15 * np.clip(self._work - 1, -1, 0.5))

    def planned(self, plan: Plan, stages: int) -> Plan | None:
        """The plan that makes it so; None: no plan of a job of so many stages does."""
        raise NotImplementedError

    def draw_of(self, run: Run, at_s: int) -> int:
        """Work is drawn anew where this number changes."""
        return 0

    def work(self, run: Run) -> Floats:
        """Work of every rank over the mean."""
        raise NotImplementedError

    def expect(self, world: World) -> Expectation:
        """Nothing: all hosts are well. A word that the job's work is uneven is welcome."""
        hosts = around(world, self.host)
        return nothing(world, hosts, self.WHAT, self.TITLE, self.at, severity=self.severity)


@dataclass(slots=True)
class StageImbalance(Uneven):
    """One stage of a pipeline has more layers than the others: a band of ranks is slow from the first step on."""

    stages: int = 4
    slow_stage: int = -1  # the last one has the loss and the output layer

    WHAT = "stage_imbalance"
    TITLE = "one pipeline stage has more to do"

    def planned(self, plan: Plan, stages: int) -> Plan | None:
        """More layers on the last stage."""
        return replace(plan, last_stage=1 + 0.22 * self.severity) if stages > 1 else None

    def work(self, run: Run) -> Floats:
        """Ranks are in bands, stage by stage."""
        ranks = run.cluster.per_host * len(run.job.hosts)
        stage = np.arange(ranks) * self.stages // ranks
        slow = self.slow_stage % self.stages
        return np.where(stage == slow, 1 + 0.22 * self.severity, 1.0)


@dataclass(slots=True)
class SequenceStragglers(Uneven):
    """Sequences differ in length by 10 to 25 %: in each step other ranks are the last ones (night 26)."""

    WHAT = "sequence_stragglers"
    TITLE = "sequences of different lengths"

    def planned(self, plan: Plan, stages: int) -> Plan | None:
        """Each replica has a share of its own in each step."""
        return replace(plan, ragged=0.25 * self.severity)

    def draw_of(self, run: Run, at_s: int) -> int:
        """Anew with each step."""
        return run.step

    def work(self, run: Run) -> Floats:
        """Ranks of one host share a sequence."""
        lengths = 1 + 0.25 * self.severity * self._rng.uniform(-1, 1, len(run.job.hosts))
        return np.repeat(lengths, run.cluster.per_host)


@dataclass(slots=True)
class ExpertImbalance(Uneven):
    """Some experts get more tokens than others, the same ones for minutes."""

    keeps_s: int = 180

    WHAT = "expert_imbalance"
    TITLE = "some experts get more tokens"

    def planned(self, plan: Plan, stages: int) -> Plan | None:
        """Favourites of the router, where experts are spread over ranks."""
        return replace(plan, experts=0.25 * self.severity) if plan.shape.ep > 1 else None

    def draw_of(self, run: Run, at_s: int) -> int:
        """Which ones they are changes slowly."""
        return at_s // self.keeps_s

    def work(self, run: Run) -> Floats:
        """One rank of eight has a favoured expert."""
        ranks = run.cluster.per_host * len(run.job.hosts)
        work = 1 + 0.04 * self._rng.standard_normal(ranks)
        hot = self._rng.choice(ranks, max(1, ranks // 8), replace=False)
        work[hot] = 1 + 0.25 * self.severity * self._rng.uniform(0.8, 1.0, len(hot))
        return np.asarray(work, float)
