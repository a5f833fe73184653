"""The phases of a step: how busy the cards of each stage, and their links, are in each second of it.

    |-- forward and backward of all micro batches --|-- gradients --|-- optimizer --|
    stage s waits s micro batches at first, and pp - 1 - s at last (one forward, one backward)

Averages over a whole step are 1 for a stage that never waits: levels stay what `levels` says.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator.workload.plan import Plan

Floats = NDArray[np.float64]

EXCHANGE, UPDATE = 0.07, 0.05  # shares of a step: exposed exchange of gradients, optimizer [house]
FORWARD, BACKWARD, AGAIN = 1.0, 2.0, 1.0  # work of a micro batch; AGAIN where activations are computed again
WAITS, EXCHANGES, UPDATES = 0.06, 0.16, 0.25  # matrix work in a bubble and in the last two phases, of the mean
FLOW_WAITS, FLOW_EXCHANGES, FLOW_UPDATES = 0.1, 2.3, 0.1  # bytes, of the mean: a 400 Gb/s port is full at 2.6


@dataclass(frozen=True)
class Cycle:
    """Phases of one plan on `stages` stages."""

    plan: Plan
    stages: int

    @cached_property
    def compute(self) -> float:
        """Share of a step that is forward and backward. Computing again makes it a larger one."""
        extra = (FORWARD + BACKWARD + AGAIN) / (FORWARD + BACKWARD) if self.plan.recompute else 1.0
        usual = 1 - EXCHANGE - UPDATE
        return usual * extra / (usual * extra + EXCHANGE + UPDATE)

    @cached_property
    def _edges(self) -> Floats:
        """Ends of phases as shares of a step, [stages, 5]: waits, computes, waits, exchanges, updates."""
        slots = self.plan.micro_batches + self.stages - 1
        stage = np.arange(self.stages)
        begins, ends = self.compute * stage / slots, self.compute * (stage + self.plan.micro_batches) / slots
        exchanged = self.compute + (1 - self.compute) * EXCHANGE / (EXCHANGE + UPDATE)
        whole = np.ones(self.stages)
        return np.stack([begins, ends, self.compute * whole, exchanged * whole, whole], axis=1)

    @cached_property
    def _levels(self) -> tuple[Floats, Floats]:
        """Work and bytes of the five phases, [5] each."""
        exchange = (1 - self.compute) * EXCHANGE / (EXCHANGE + UPDATE)
        update = 1 - self.compute - exchange
        load = (1 - EXCHANGES * exchange - UPDATES * update) / self.compute
        flow = (1 - FLOW_EXCHANGES * exchange - FLOW_UPDATES * update) / self.compute
        return (
            np.array([WAITS, load, WAITS, EXCHANGES, UPDATES]),
            np.array([FLOW_WAITS, flow, FLOW_WAITS, FLOW_EXCHANGES, FLOW_UPDATES]),
        )

    def between(self, begins: float, ends: float) -> tuple[Floats, Floats]:
        """Work and bytes of each stage over a part of the step, of its mean, [stages] each. Shares of a step; what lies
        beyond 1 is of the next one."""
        load, flow = self._levels
        total = self._until(ends) - self._until(begins)
        share = total / max(ends - begins, 1e-9)
        return share @ load, share @ flow

    def _until(self, at: float) -> Floats:
        """Time in each phase from the start of the step to `at`, [stages, 5]."""
        whole, part = divmod(at, 1.0)
        edges = self._edges
        lengths = np.diff(edges, axis=1, prepend=0.0)
        begun = np.clip(part - (edges - lengths), 0.0, lengths)
        return np.asarray(whole * lengths + begun, float)

    def phase(self, at: float) -> str:
        """Name of what most cards do at this share of a step."""
        names = ("forward_backward", "communication", "optimizer")
        return names[int(np.searchsorted(self._edges[0, 2:4], at % 1.0, side="right"))]
