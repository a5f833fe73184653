"""A job as its owner wrote it, and what its cards do."""

from dataclasses import dataclass
from enum import IntEnum

from simulator.workload.plan import Plan


class Mode(IntEnum):
    """What the cards of a job do. WAIT is spinning in a collective that does not end."""

    IDLE = 0
    LOAD = 1
    STEP = 2
    PAUSE = 3
    WAIT = 4


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its owner wrote it. Ranks are the cards of `hosts`, in order."""

    id: str
    hosts: tuple[str, ...]
    step_s: float = 5.0
    checkpoint_every_s: float = 300.0
    checkpoint_s: float = 20.0
    warmup_s: float = 15.0
    timeout_s: int = 600
    first_step: int = 2600
    name: str = "pretrain-70b"
    user: str = "mlops"
    plan: Plan | None = None
