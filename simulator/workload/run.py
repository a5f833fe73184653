"""A synchronous training job, second by second: warm-up, steps, checkpoint pauses, stalls, its end."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from sickbay.messages import Placement, RankPlace
from simulator.parts.cluster import Cluster
from simulator.printing import lines
from simulator.printing.lines import Printed


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


@dataclass(slots=True)
class Run:
    """One job over time. Effects set `stalled`, `ended` and `slow`; `tick` advances by one second."""

    job: Job
    cluster: Cluster
    rng: np.random.Generator
    attempt: int = 0
    step: int = 0
    started_s: int = 0
    stalled: bool = False
    ended: bool = False
    slow: dict[str, float] = field(default_factory=dict)  # share of lost time, by the effect that causes it
    gradient: float = 1.0  # its norm, of the usual; not a number where it is none
    _length: float = 0.0  # of the step under way, seconds
    _left: float = 0.0
    _since_checkpoint: float = 0.0
    _pause: float = 0.0
    mode: Mode = Mode.IDLE

    def __post_init__(self) -> None:
        self.step = self.step or self.job.first_step
        self._begin_step()

    @property
    def pace(self) -> float:
        """Speed of the job: 1 = as planned. The slowest card sets it."""
        return 1.0 / (1.0 + max(self.slow.values(), default=0.0))

    @property
    def moves(self) -> bool:
        """The job makes steps (or will, after its pause)."""
        return not (self.stalled or self.ended)

    def restart(self, at_s: int, step: int, hosts: tuple[str, ...] = ()) -> None:
        """A new attempt of the job, from a step, on other hosts where some are given."""
        self.attempt += 1
        self.job = replace(self.job, hosts=hosts or self.job.hosts)
        self.step, self.started_s = step, at_s
        self.stalled = self.ended = False
        self._left, self._since_checkpoint, self._pause = 0.0, 0.0, 0.0
        self._begin_step()

    def tick(self, at_s: int, start_ms: int) -> Iterator[Printed]:
        """One second of the job: its mode, and the lines that its log gets."""
        self.mode = self._mode(at_s)
        now_ms = start_ms + at_s * 1000
        if self.mode is Mode.PAUSE:
            yield from self._save(now_ms)
        elif self.mode is Mode.STEP:
            self._since_checkpoint += 1.0
            self._left -= 1.0
            if self._left <= 0:
                yield from self._finish_step(now_ms)

    def _mode(self, at_s: int) -> Mode:
        if self.ended:
            return Mode.IDLE
        if self.stalled:
            return Mode.WAIT
        if at_s - self.started_s < self.job.warmup_s:
            return Mode.LOAD
        return Mode.PAUSE if self._pause > 0 else Mode.STEP

    def _begin_step(self) -> None:
        """Draw the length of the next step: two parts in a hundred of noise."""
        self._length = float(self.job.step_s / self.pace * (1 + 0.02 * self.rng.standard_normal()))
        self._left += self._length

    def _finish_step(self, now_ms: int) -> Iterator[Printed]:
        self.step += 1
        done_ms = now_ms + round(1000 * (1 + self._left))
        loss = 2.1 + 0.02 * float(self.rng.standard_normal())
        yield lines.iteration(done_ms, self.job.id, self.step, self._length * 1000, loss, self.gradient)
        self._begin_step()
        if self._since_checkpoint >= self.job.checkpoint_every_s:
            self._since_checkpoint, self._pause = 0.0, self.job.checkpoint_s
            yield lines.checkpoint(done_ms, self.job.id, self.step, begins=True)

    def _save(self, now_ms: int) -> Iterator[Printed]:
        self._pause -= 1.0
        if self._pause <= 0:
            yield lines.checkpoint(now_ms + 900, self.job.id, self.step, begins=False)

    def hold_back(self) -> None:
        """The step under way takes a second longer."""
        self._left += 1.0

    def pause_now(self, seconds: float) -> None:
        """Begin a checkpoint at the next second."""
        self._pause, self._since_checkpoint = seconds, 0.0

    def placement(self, from_ms: int) -> Placement:
        """Which rank runs on which card."""
        cards = [card for host in self.job.hosts for card in self.cluster.of(host)]
        return Placement(
            job=self.job.id,
            attempt=self.attempt,
            hosts=self.job.hosts,
            ranks=tuple(RankPlace(rank=r, host=c.host, component=c.component) for r, c in enumerate(cards)),
            from_ms=from_ms,
            state="running",
            user=self.job.user,
            name=self.job.name,
            exclusive=True,
        )
