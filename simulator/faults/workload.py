"""What a job's own work does to it: data, uneven shares, ranks that do not come, programs that end. No host is ill."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sickbay.messages import Action
from simulator.faults.kit import JOB, LEAVE, Faults
from simulator.faults.on_job import AGAIN_S, OPEN, OnJob, again, elsewhere, first_rank, give_up, rank_name
from simulator.printing import error_lines, job_lines, lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.groups import Shape
from simulator.workload.plan import Plan
from simulator.workload.run import Mode, Run
from simulator.world import World

EXPLAIN = LEAVE | {Action.ESCALATE}


@dataclass(slots=True, kw_only=True)
class ProgramFails(OnJob):
    """An exception on one rank (`ranks`: on so many of its host): its trace and exit; the launcher ends the others.

    `severity` below 0.5: the trace goes elsewhere, and only exits are told.
    """

    kind: str = "exception"
    ranks: int = 1

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) is None or run.ended or at_s < self.at:
            return
        first = first_rank(run, self.host)
        own = [(first + index, index) for index in range(min(self.ranks, world.cluster.per_host))]
        run.stalled, run.absent = True, {rank: Mode.IDLE for rank, _ in own}
        if at_s == self.at:
            told = [*error_lines.fails(world.ms(at_s, 20), run.job.id, own, error_lines.MISTAKES[self.kind])]
            yield from told if self.severity >= 0.5 else [line for line in told if "exitcode" in line.text]
        if at_s == self.at + 2:
            for index in range(len(own), min(world.cluster.per_host, len(own) + 3)):
                yield lines.exit_of(world.ms(at_s, 200 + index), run.job.id, index, -15, 48_122 + index)
            run.ended = True

    def expect(self, world: World) -> Expectation:
        """The program."""
        return self.right(world, "application_error", "exception in the program", faults=("process_exit",),
                          verdicts=JOB if self.severity >= 0.5 else OPEN)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Crash(OnJob):
    """A process touches memory that is not its own and is ended: the kernel tells of it, the launcher of exit -11."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) is None or run.ended or at_s < self.at:
            return
        run.stalled, run.absent = True, {first_rank(run, self.host, 2): Mode.IDLE}
        if at_s == self.at:
            if self.severity >= 0.5:
                yield job_lines.segfault(world.ms(at_s, 40), self.host, 48_124)
            yield lines.exit_of(world.ms(at_s, 900), run.job.id, 2, -11, 48_124)
        if at_s == self.at + 2:
            yield lines.exit_of(world.ms(at_s, 300), run.job.id, 3, -15, 48_125)
            run.ended = True

    def expect(self, world: World) -> Expectation:
        """The program, as far as anyone can tell."""
        return self.right(world, "process_exit", "process crashes", faults=("application_error",), verdicts=OPEN,
                          actions=EXPLAIN)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class TimeLimit(OnJob):
    """The scheduler ends the job for its time limit: all ranks at once, and nobody's fault."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = self.run(world)
        if at_s == self.at and run and not run.ended:
            yield job_lines.time_limit(world.ms(at_s, 80), run.job.id, run.job.hosts[0])
            for index in range(2):
                yield lines.exit_of(world.ms(at_s, 700 + index), run.job.id, index, -15, 48_122 + index)
            run.ended = True

    def expect(self, world: World) -> Expectation:
        """The job's limit."""
        return self.right(world, "job_killed", "time limit of the job", faults=("process_exit",), verdicts=OPEN)


@dataclass(slots=True, kw_only=True)
class SameStep(OnJob):
    """A batch that the program cannot digest: each attempt fails at the same step, on whatever hosts (night 25)."""

    attempts: int = 3
    back: int = 2  # steps from the last checkpoint to the failing one
    _step: int = -1
    _failed: int = 0
    _ended_s: int = -1

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) is None or at_s < self.at:
            return
        self._step = run.step if self._step < 0 else self._step
        if not run.ended and run.step >= self._step and run.mode is Mode.STEP and self._failed < self.attempts:
            self._failed, self._ended_s = self._failed + 1, at_s
            own = [(rank, rank) for rank in range(min(2, world.cluster.per_host))]
            yield from error_lines.fails(world.ms(at_s, 20), run.job.id, own, error_lines.MISTAKES["shape"])
            run.ended = True
        elif run.ended and at_s == self._ended_s + AGAIN_S and self._failed < self.attempts:
            again(run, at_s, world, self._step - self.back, elsewhere(run, world))

    def expect(self, world: World) -> Expectation:
        """The program or its data."""
        return self.right(world, "job_same_step", "fails again at the same step", faults=("application_error",))


@dataclass(slots=True, kw_only=True)
class BadBatch(OnJob):
    """A batch of bad data: the gradient jumps on all ranks for a step or two, and comes back (`steps`)."""

    times: float = 25.0
    steps: int = 2

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if run := self.run(world):
            jumps = 0 <= self.since(at_s) < self.steps * run.job.step_s
            if jumps or 0 <= self.since(at_s) - self.steps * run.job.step_s < 1:
                run.gradient = 1 + (self.times - 1) * self.severity if jumps else 1.0
        yield from ()

    def expect(self, world: World) -> Expectation:
        """A question about the job: play the batch again."""
        return self.right(world, "loss_anomaly", "gradient jumps by data", verdicts=OPEN, actions=EXPLAIN)


@dataclass(slots=True, kw_only=True)
class UnevenWork(OnJob):
    """From a step on the ranks have different amounts of work: `by` data (sequences of other lengths on each replica),
    `experts` (a router with favourites) or `stages` (a pipeline cut badly). Hardware is alike on all (night 26).
    """

    by: str = "data"

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s in (self.at, self.at + (self.lasts_s or -1)) and (run := self.run(world)):
            plan = run.job.plan or Plan(phases=False)
            run.plan_anew(self._uneven(plan, run.groups.dp, len(run.job.hosts)) if at_s == self.at else plan)
        yield from ()

    def _uneven(self, plan: Plan, replicas: int, hosts: int) -> Plan:
        if self.by == "stages":
            shape = plan.shape if plan.shape.pp > 1 else Shape(pp=2 if hosts % 2 == 0 else hosts)
            return replace(plan, shape=shape, last_stage=1 + 0.3 * self.severity)
        if self.by == "experts" and replicas > 1:
            shape = replace(plan.shape, ep=replicas if plan.shape.ep == 1 else plan.shape.ep)
            return replace(plan, shape=shape, experts=0.3 * self.severity)
        return replace(plan, ragged=0.25 * self.severity)

    def expect(self, world: World) -> Expectation:
        """The job; without the hook's word on work nobody can know."""
        return self.right(world, "uneven_work", "ranks have uneven work", verdicts=OPEN, family="slow",
                          faults=("slow_steps",), actions=frozenset({Action.WATCH, Action.IGNORE}))  # fmt: skip


@dataclass(slots=True, kw_only=True)
class RankAway(OnJob):
    """One rank never leaves its data loader; all others wait for it in their collective until their time is over."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) is None or run.ended or at_s < self.at:
            return
        run.stalled, run.absent = True, {self.rank(run): Mode.PAUSE}
        if self.since(at_s) == run.job.timeout_s:
            yield from give_up(run, at_s, world, run.absent)

    def rank(self, run: Run) -> int:
        """The one that does not come."""
        return first_rank(run, self.host, 1)

    def expect(self, world: World) -> Expectation:
        """The program, or that one rank did not come: what it waits for its stack alone tells."""
        run = self.run(world)
        also = {rank_name(run, self.rank(run))} if run else ()
        return self.right(world, "rank_absent", "one rank stays in its data loader", verdicts=OPEN, family="hang",
                          faults=("collective_stall", "collective_mismatch", "peers_idle"), also=also,
                          actions=EXPLAIN)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Collects(RankAway):
    """One rank collects garbage for a minute or two and holds its interpreter: all wait, and go on (`lasts_s`)."""

    lasts_s: int | None = 75

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) and not run.ended and 0 <= self.since(at_s) <= (self.lasts_s or 0):
            run.stalled, run.absent = self.on(at_s), {self.rank(run): Mode.PAUSE} if self.on(at_s) else {}
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The program."""
        return self.right(world, "collective_stall", "one rank collects garbage", verdicts=OPEN, family="hang",
                          faults=("rank_absent", "peers_idle", "collective_mismatch"), actions=EXPLAIN)  # fmt: skip


FAULTS: Faults = {
    "application_error": ProgramFails,
    "process_exit": Crash,
    "job_killed": TimeLimit,
    "job_same_step": SameStep,
    "loss_anomaly_data": BadBatch,
    "uneven_work": UnevenWork,
    "rank_absent": RankAway,
    "collective_stall": Collects,
}
