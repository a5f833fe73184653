"""Work that differs between the ranks of a job and from step to step. 1 = that of a middle stage in a usual step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.workload.groups import Groups
from simulator.workload.plan import Plan

Floats = NDArray[np.float64]

KEEPS_STEPS = 40  # an expert stays a favourite for some minutes
FEW_ARE_WARM = (2.5, 1.4, 1.15)  # the first steps of an attempt, of a usual one [house]


@dataclass(frozen=True)
class Shares:
    """Work of the ranks of one attempt, drawn by step and never from anybody else's source."""

    plan: Plan
    groups: Groups
    seed: tuple[int, ...]

    def stages(self) -> Floats:
        """Work of each stage, [stages]: the first one embeds, the last one has the loss."""
        work = np.ones(self.groups.pp)
        if self.groups.pp > 1:
            work[0], work[-1] = self.plan.first_stage, self.plan.last_stage
        return work

    def longest(self, step: int) -> float:
        """Work of the rank that has most of it, over that of the longest stage."""
        even = not self.plan.ragged and not (self.plan.experts and self.groups.ep > 1)
        return 1.0 if even else float(self.of_ranks(step).max() / self.stages().max())

    def tokens(self, step: int) -> Floats:
        """Tokens of every rank in a step, of the usual number: stages have the same ones, and more or less to do."""
        return np.asarray(self.of_ranks(step) / self.stages()[self.groups.stage], float)

    def noise(self, step: int) -> Floats:
        """Jitter of the ranks' own times."""
        return self._rng(5, step).standard_normal(self.groups.ranks)

    def of_ranks(self, step: int) -> Floats:
        """Work of every rank in a step, [ranks]."""
        work = self.stages()[self.groups.stage]
        if self.plan.ragged:
            lengths = 1 + self.plan.ragged * self._rng(1, step).uniform(-1, 1, self.groups.dp)
            work = work * lengths[self.groups.places["dp"]]
        return work * self._experts(step) if self.plan.experts and self.groups.ep > 1 else work

    def _experts(self, step: int) -> Floats:
        """Some experts are favourites of the router: their ranks have more to do."""
        rng = self._rng(2, step // KEEPS_STEPS)
        tokens = rng.dirichlet(np.full(self.groups.ep, 2.0)) - 1 / self.groups.ep
        load = 1 + self.plan.experts * tokens / tokens.max()
        return np.asarray(load[self.groups.places["ep"]], float)

    def common(self, step: int, since_start: int) -> float:
        """Length of a step, of the usual one, for what all ranks share: its sequences, and a cold start."""
        length = 1 + self.plan.sequences * float(self._rng(3, step).uniform(-1, 1)) if self.plan.sequences else 1.0
        warm = FEW_ARE_WARM[: self.plan.warm_steps]
        return length * (warm[since_start] if since_start < len(warm) else 1.0)

    def collects(self, step: int) -> tuple[int, float] | None:
        """The rank that collects garbage in this step, and for how long; None: no rank does."""
        every = self.plan.collect_every
        if not every or step % every:
            return None
        rng = self._rng(4, step)
        return int(rng.integers(self.groups.ranks)), self.plan.collect_s * float(rng.uniform(0.5, 1.5))

    def _rng(self, salt: int, number: int) -> np.random.Generator:
        return np.random.default_rng([*self.seed, salt, number])
