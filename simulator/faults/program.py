"""Faults of the program: no host is to blame."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.faults.kit import JOB, LEAVE, Faults, host_name, job_name, ranks_of
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World


@dataclass(slots=True)
class Deadlock:
    """Half of the ranks wait in another operation; the next attempt stops at the same step (night 25)."""

    at: int
    host: str
    attempts: int = 2
    _stopped: int = -1
    _seen: int = 0
    _step: int = 0
    _job: str = ""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self._find(world)) is None or at_s < self.at:
            return
        if self._stopped < 0 and (self._seen == 0 or run.step >= self._step):
            self._stopped, self._step, self._seen = at_s, run.step, self._seen + 1
        if self._stopped < 0:
            return
        run.stalled = not run.ended
        waited = at_s - self._stopped - run.job.timeout_s
        if waited == 0:
            for rank, _ in ranks_of(run):
                op, seq = "ALLREDUCE" if rank % 2 else "_ALLGATHER_BASE", 71_904 + self._step
                yield from lines.watchdog(world.ms(at_s, 37 + rank), run.job.id, rank, seq, op, run.job.timeout_s)
        if waited == 3:
            run.ended = True
        if waited == 20 and self._seen < self.attempts:
            run.restart(at_s, self._step - 3, self._others(run, world))
            self._stopped = -1
            world.news.append(run.placement(world.ms(at_s)))

    def _find(self, world: World) -> Run | None:
        """The job, wherever it runs by now."""
        if not self._job and (run := world.run_on(self.host)):
            self._job = run.job.id
        return world.runs.get(self._job)

    @staticmethod
    def _others(run: Run, world: World) -> tuple[str, ...]:
        """As many idle hosts as the job needs, none where there are too few: then it starts where it was."""
        idle = [host for host in world.cluster.hosts if world.run_on(host) is None]
        return tuple(idle[: len(run.job.hosts)]) if len(idle) >= len(run.job.hosts) else ()

    def expect(self, world: World) -> Expectation:
        """The program: no host is at fault."""
        run = world.run_on(self.host)
        jobs = frozenset({job_name(run)}) if run else frozenset()
        hosts = {host_name(host) for host in run.job.hosts} if run else set()
        return Expectation(
            name="collective_mismatch", title="ranks wait in different operations", at_ms=world.ms(self.at),
            touched=jobs | hosts, verdicts=JOB, components=jobs,
            faults=frozenset({"collective_mismatch", "job_same_step"}), actions=LEAVE,
        )  # fmt: skip


FAULTS: Faults = {
    "collective_mismatch": Deadlock,
}
