"""A synchronous training job, second by second: warm-up, steps, checkpoint pauses, stalls, its end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec.structs import replace as changed
from numpy.typing import NDArray

from sickbay.messages import Placement, Progress, RankPlace, Step
from simulator.parts.cluster import Cluster
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.workload.coupling import waits_from
from simulator.workload.cycle import Cycle
from simulator.workload.groups import Groups, Kind
from simulator.workload.job import Job as Job
from simulator.workload.job import Mode as Mode
from simulator.workload.plan import Plan
from simulator.workload.shares import Shares
from simulator.workload.told import OPEN_S, Done, Said, columns, memberships, messages

Floats = NDArray[np.float64]
EVALUATES = 0.55, 0.3  # work and bytes of a forward pass alone, of a step's
EVEN = Plan(phases=False)  # of a job without a plan
SAMPLED = 64  # ranks whose hooks are heard, unless others are asked for
MISSED = 0.3  # of the second in which a rank does not come, it still works


@dataclass(slots=True)
class Run:
    """One job over time. Effects set `stalled`, `ended` and `slow`; `tick` advances by one second.

    Of single ranks: `absent` (what a rank does while all others wait for it), `late` (more time that its own work
    takes), `clock` (factors on its cards' clocks, that the world sets). `load` and `flow`: work and bytes of this
    second over those of the mode, None: as the mode has it.
    """

    job: Job
    cluster: Cluster
    rng: np.random.Generator
    attempt: int = 0
    step: int = 0
    started_s: int = 0
    stalled: bool = False
    ended: bool = False
    slow: dict[str, float] = field(default_factory=dict)  # share of lost time, by the effect that causes it
    alike: set[str] = field(default_factory=set)  # of `slow`: what makes the own work of all ranks longer
    gradient: float = 1.0  # its norm, of the usual; not a number where it is none
    absent: dict[int, Mode] = field(default_factory=dict)
    late: dict[int, float] = field(default_factory=dict)
    clock: Floats | None = None
    traffic: float = 1.0  # bytes to the network that a step moves, of the usual
    load: Floats | float | None = None
    flow: Floats | float | None = None
    news: list[Placement] = field(default_factory=list)  # attempts that began or ended by themselves in this second
    _length: float = 0.0  # of the step under way, seconds
    _left: float = 0.0
    _since_checkpoint: float = 0.0
    _pause: float = 0.0
    mode: Mode = Mode.IDLE
    _usual: float = 0.0  # length of the step under way, with nobody slow
    _held: tuple[int, float] | None = None  # the rank that holds this step up by itself, and for how long
    _evaluates: int = 0
    _starved: bool = False
    _saving: bool = False
    _first: int = 0  # step from which this attempt went on
    _begun_ms: int | None = None  # when the step under way began; None: none did
    _stood_s: int | None = None  # second in which the job stopped
    _waits: Floats | None = None  # when each rank began to wait, seconds
    _done: list[Done] = field(default_factory=list)
    _said: list[Said] = field(default_factory=list)
    _parts: tuple[Groups, Shares, Cycle] | None = None

    def __post_init__(self) -> None:
        self.step = self.step or self.job.first_step
        self._first, self.started_s = self.step, self.started_s or self.begins_s
        self._begin_step()

    @property
    def pace(self) -> float:
        """Speed of the job: 1 = as planned. The slowest card sets it."""
        return 1.0 / (1.0 + max(self.slow.values(), default=0.0))

    @property
    def moves(self) -> bool:
        """The job makes steps (or will, after its pause)."""
        return not (self.stalled or self.ended)

    @property
    def begins_s(self) -> int:
        """Second of the night in which its first attempt begins."""
        return self.job.plan.begins_s if self.job.plan else 0

    @property
    def groups(self) -> Groups:
        """Which ranks form which parallel groups."""
        return self._made()[0]

    def group_of(self, rank: int, kind: Kind) -> tuple[int, ...]:
        """The ranks of the parallel group of a kind that a rank is in, itself included."""
        return self.groups.group_of(rank, kind)

    def restart(self, at_s: int, step: int, hosts: tuple[str, ...] = ()) -> None:
        """A new attempt of the job, from a step, on other hosts where some are given."""
        self.attempt += 1
        self.job = replace(self.job, hosts=hosts or self.job.hosts)
        self.step, self._first, self.started_s = step, step, at_s
        self.stalled = self.ended = False
        self._left, self._since_checkpoint, self._pause = 0.0, 0.0, 0.0
        self._begun_ms, self._evaluates, self._parts, self._saving = None, 0, None, False
        self.absent.clear()
        self._begin_step()

    def tick(self, at_s: int, start_ms: int) -> Iterator[Printed]:
        """One second of the job: its mode, and the lines that its log gets."""
        self._done, self._said, self.load, self.flow = [], [], None, None
        now_ms = start_ms + at_s * 1000
        if (plan := self.job.plan) is not None:
            yield from self._live(plan, at_s, now_ms)
        self.mode = self._mode(at_s)
        self._stand(at_s, now_ms)
        if self.mode is Mode.LOAD and at_s == self.started_s:
            self._said.append(Said("load", self.step, now_ms))
        if self._starved:
            self._starved = False
        elif self.mode is Mode.PAUSE:
            yield from self._save(now_ms)
        elif self.mode is Mode.STEP and self._evaluates:
            yield from self._evaluate(now_ms)
        elif self.mode is Mode.STEP:
            yield from self._work(now_ms)
        if self.traffic != 1.0 and self.mode is Mode.STEP:
            self.load = 1.0 if self.load is None else self.load
            self.flow = self.traffic * (1.0 if self.flow is None else self.flow)

    def _mode(self, at_s: int) -> Mode:
        if self.ended or at_s < self.begins_s:
            return Mode.IDLE
        if self.stalled:
            return Mode.WAIT
        if at_s - self.started_s < self.job.warmup_s:
            return Mode.LOAD
        return Mode.PAUSE if self._pause > 0 or self._starved else Mode.STEP

    def modes(self, at_s: int) -> int | NDArray[np.int64]:
        """What each card does in this second, [ranks]; one number where all do the same."""
        if self.mode is not Mode.WAIT or (self._waits is None and not self.absent):
            return int(self.mode)
        found = np.full(self.groups.ranks, int(Mode.WAIT))
        if self._waits is not None:
            found[self._waits > at_s + 0.5] = Mode.STEP
        for rank, mode in self.absent.items():
            found[rank] = mode
        return found

    def _live(self, plan: Plan, at_s: int, now_ms: int) -> Iterator[Printed]:
        """It begins, and its owner ends it."""
        if at_s == plan.begins_s > 0:
            self.news.append(self.placement(now_ms))
        if at_s == plan.cancelled_s and not self.ended:
            yield lines.cancelled(now_ms + 100, self.job.id, self.job.hosts[0])
            self._end(now_ms + 100, "cancelled")

    def _end(self, at_ms: int, state: str) -> None:
        self.ended = True
        self._said.append(Said("exit", self.step, at_ms))
        self.news.append(changed(self.placement(at_ms), from_ms=None, to_ms=at_ms, state=state))

    def _stand(self, at_s: int, now_ms: int) -> None:
        """From when on each rank waits, and what the agents tell of a step that does not end."""
        if self.mode is not Mode.WAIT:
            self._stood_s = self._waits = None
            return
        if self._stood_s is None:
            self._stood_s = at_s
            if self.absent and self.job.plan:
                self._waits = waits_from(self.groups, self.absent, at_s + MISSED, self._left)
        if at_s - self._stood_s == OPEN_S and self._begun_ms is not None:
            begun = frozenset(rank for rank, mode in self.absent.items() if mode is not Mode.WAIT)
            self._said.append(Said("begin", self.step + 1, self._begun_ms, begun))

    def _begin_step(self) -> None:
        """Draw the length of the next step: two parts in a hundred of noise."""
        noise = 1 + 0.02 * self.rng.standard_normal()
        usual, self._held = self.job.step_s, None
        if self.job.plan:
            _, shares, _ = self._made()
            usual *= shares.common(self.step, self.step - self._first) * shares.longest(self.step)
            self._held = shares.collects(self.step)
        self._usual = float(usual * noise)
        self._length = float(usual / self.pace * noise) + (self._held[1] if self._held else 0.0)
        self._left += self._length

    def _work(self, now_ms: int) -> Iterator[Printed]:
        if self._begun_ms is None:
            self._begun_ms = now_ms
        if self.job.plan:
            self._phase()
        self._since_checkpoint += 1.0
        self._left -= 1.0
        if self._left <= 0:
            yield from self._finish_step(now_ms)

    def _phase(self) -> None:
        """Work and bytes of every rank in this second of its step."""
        groups, shares, cycle = self._made()
        begins = 1.0 - self._left / self._length
        work = shares.of_ranks(self.step)
        self.load, self.flow = work / work.max(), 1.0
        if cycle.plan.phases:
            load, self.flow = (of[groups.stage] for of in cycle.between(begins, begins + 1.0 / self._length))
            self.load = self.load * load

    def _finish_step(self, now_ms: int) -> Iterator[Printed]:
        done_ms = now_ms + round(1000 * (1 + self._left))
        self._begun_ms = done_ms
        self._done.append(Done(self.step + 1, done_ms - round(1000 * self._length), done_ms, self._usual, self._held))
        self.step += 1
        loss = 2.1 + 0.02 * float(self.rng.standard_normal())
        yield lines.iteration(done_ms, self.job.id, self.step, self._length * 1000, loss, self.gradient)
        self._begin_step()
        if self._since_checkpoint >= self.job.checkpoint_every_s:
            self._since_checkpoint, self._pause = 0.0, self.job.checkpoint_s
            yield lines.checkpoint(done_ms, self.job.id, self.step, begins=True)
        elif (plan := self.job.plan) and plan.evaluate_every and self.step % plan.evaluate_every == 0:
            self._evaluates = plan.evaluate_s
            self._said.append(Said("evaluate", self.step, done_ms))
        if self.job.plan and self.step == self.job.plan.ends_step:
            yield lines.checkpoint(done_ms, self.job.id, self.step, begins=False)
            self._end(done_ms, "completed")

    def _evaluate(self, now_ms: int) -> Iterator[Printed]:
        """Forward only, and no step."""
        self.load, self.flow = EVALUATES
        self._evaluates -= 1
        if not self._evaluates:
            yield lines.evaluation(now_ms + 400, self.job.id, self.step)

    def _save(self, now_ms: int) -> Iterator[Printed]:
        if not self._saving:
            self._saving = True
            self._said.append(Said("checkpoint_begin", self.step, now_ms))
        self._pause -= 1.0
        if self._pause <= 0:
            self._saving = False
            self._said.append(Said("checkpoint_end", self.step, now_ms + 900))
            yield lines.checkpoint(now_ms + 900, self.job.id, self.step, begins=False)

    def hold_back(self) -> None:
        """The step under way takes a second longer."""
        self._left += 1.0

    def adopt(self, plan: Plan) -> None:
        """Work by another plan from now on, in the same attempt."""
        self.job, self._parts = replace(self.job, plan=plan), None

    def starve(self) -> None:
        """For this second the cards wait for their input, and the step takes as much longer."""
        if self.mode in (Mode.STEP, Mode.PAUSE) and self.moves and self._pause <= 0:
            self._starved, self._length = True, self._length + 1.0

    def plan_anew(self, plan: Plan) -> None:
        """From the next step on its steps are made like that."""
        self.job, self._parts = replace(self.job, plan=plan), None

    def pause_now(self, seconds: float) -> None:
        """Begin a checkpoint at the next second."""
        self._pause, self._since_checkpoint = seconds, 0.0

    def steps(self, ranks: Sequence[int] | None = None) -> list[Step]:
        """What the training hooks told in the last second. `ranks`: whose; None: of some, spread over the job."""
        asked = self.sample(SAMPLED) if ranks is None else ranks
        return messages(self.job.id, [self._columns(one) for one in self._done], self._said, asked)

    def sample(self, most: int) -> Sequence[int]:
        """So many ranks, or all where there are no more, spread over the job and over the places in its hosts."""
        ranks, per_host = self.groups.ranks, self.cluster.per_host
        if ranks <= most:
            return range(ranks)
        hosts = np.linspace(0, ranks // per_host, most, endpoint=False).astype(int)
        return sorted({int(host * per_host + place % per_host) for place, host in enumerate(hosts)})

    def step_columns(self) -> list[Mapping[str, Floats]]:
        """Steps that ended in the last second, of all ranks: `told.columns` of each."""
        return [self._columns(one) for one in self._done]

    def memberships(self, ranks: Sequence[int]) -> list[Progress]:
        """What the hooks tell of the parallel groups that these ranks are in."""
        return memberships(self.job.id, self.groups, ranks)

    def _columns(self, done: Done) -> Mapping[str, Floats]:
        _, shares, _ = self._made()
        extra = 1.0 + max((self.slow.get(what, 0.0) for what in self.alike), default=0.0)
        return columns(done, shares, self.clock, self.late, extra)

    def _made(self) -> tuple[Groups, Shares, Cycle]:
        """Made when asked for, anew with each attempt."""
        if self._parts is None:
            plan = self.job.plan or EVEN
            groups = plan.shape.over(self.cluster.per_host * len(self.job.hosts), self.cluster.per_host)
            seed = tuple(f"{self.job.id}/{self.attempt}".encode())
            self._parts = groups, Shares(plan, groups, seed), Cycle(plan, groups.pp)
        return self._parts

    def placement(self, from_ms: int) -> Placement:
        """Which rank runs on which card."""
        cards = [card for host in self.job.hosts for card in self.cluster.of(host)]
        role = self.groups.role if self.job.plan else lambda rank: ""
        return Placement(
            job=self.job.id,
            attempt=self.attempt,
            hosts=self.job.hosts,
            ranks=tuple(
                RankPlace(rank=r, host=c.host, component=c.component, role=role(r)) for r, c in enumerate(cards)
            ),
            from_ms=from_ms,
            state="running",
            user=self.job.user,
            name=self.job.name,
            exclusive=True,
        )
