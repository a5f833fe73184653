"""How a job's steps are made. A job without a plan is the plain one: even work, no phases, and nothing but steps,
checkpoints and the noise of its step time."""

from dataclasses import dataclass, field
from typing import Literal

from simulator.workload.groups import Shape


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that training jobs do besides even steps; a field at its default is off.

    `step_s` of the job is the length of a usual step with all of the even parts in it.
    """

    shape: Shape = field(default_factory=Shape)
    phases: bool = True  # forward and backward, communication, optimizer, bubbles of the pipeline
    micro_batches: int = 32
    recompute: bool = False  # activations are computed again in the backward pass: less memory, more work
    first_stage: float = 1.03  # work of the stage with the embedding, of the others' [house]
    last_stage: float = 1.08  # ... with the output layer and the loss [house]
    sequences: float = 0.0  # a step's length differs by so much to both sides, alike on all ranks: 0.1 to 0.25
    ragged: float = 0.0  # ... each replica's share of the work by itself: stragglers by data
    experts: float = 0.0  # so much more has the most loaded expert, another one every few minutes
    warm_steps: int = 0  # so many first steps of an attempt are longer
    collect_every: int = 0  # steps between two collections of garbage that hold up one rank
    collect_s: float = 0.4
    evaluate_every: int = 0  # steps between two evaluations
    evaluate_s: int = 30
    begins_s: int = 0  # second of the night in which the first attempt begins
    ends_step: int | None = None  # the job is done after this step
    cancelled_s: int | None = None  # its owner ends it in this second
    hook: Literal["own", "whole"] = "own"  # around a rank's own work, or around all of the step: see `told`
    tokens: float = 131_072.0  # of a rank in a usual step


DENSE = Plan(sequences=0.0, warm_steps=3, collect_every=50)
VARIABLE = Plan(sequences=0.18, warm_steps=3, collect_every=50)
EXPERTS = Plan(experts=0.2, warm_steps=3, collect_every=50)
