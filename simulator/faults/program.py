"""Faults of the program's collectives: its ranks wait in different operations, and no host is to blame."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simulator.faults.kit import Faults
from simulator.faults.on_job import OnJob, again, elsewhere, first_rank
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World

SEQ = 71_904  # of a collective in the first step


def over(run: Run, at_s: int, world: World, ops: Sequence[str]) -> Iterator[Printed]:
    """All ranks find that their time is over, each in its own operation, [ranks]."""
    for rank, op in enumerate(ops):
        at_ms, seq = world.ms(at_s, 37 + rank), SEQ + run.step
        yield from lines.watchdog(at_ms, run.job.id, rank, seq, op, run.job.timeout_s)


@dataclass(slots=True, kw_only=True)
class Deadlock(OnJob):
    """Half of the ranks wait in another operation; the next attempt stops at the same step (night 25)."""

    attempts: int = 2
    _stopped: int = -1
    _seen: int = 0
    _step: int = 0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) is None or at_s < self.at:
            return
        if self._stopped < 0 and (self._seen == 0 or run.step >= self._step):
            self._stopped, self._step, self._seen = at_s, run.step, self._seen + 1
        if self._stopped < 0:
            return
        run.stalled = not run.ended
        waited = at_s - self._stopped - run.job.timeout_s
        if waited == 0:
            yield from over(run, at_s, world, ["_ALLGATHER_BASE", "ALLREDUCE"] * (run.groups.ranks // 2))
        if waited == 3:
            run.ended = True
        if waited == 20 and self._seen < self.attempts:
            again(run, at_s, world, self._step - 3, elsewhere(run, world))
            self._stopped = -1

    def expect(self, world: World) -> Expectation:
        """The program: no host is at fault."""
        return self.right(
            world, "collective_mismatch", "ranks wait in different operations", family="hang", faults=("job_same_step",)
        )


@dataclass(slots=True, kw_only=True)
class HostMismatched(OnJob):
    """The ranks of one host take another branch than the rest: theirs is the odd operation, and their host is well."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if (run := self.run(world)) is None or run.ended or at_s < self.at:
            return
        run.stalled = True
        if self.since(at_s) == run.job.timeout_s:
            odd = first_rank(run, self.host) // world.cluster.per_host
            places = range(len(run.job.hosts))
            ops = [
                "BROADCAST" if place == odd else "ALLREDUCE" for place in places for _ in world.cluster.of(self.host)
            ]
            yield from over(run, at_s, world, ops)
            run.ended = True

    def expect(self, world: World) -> Expectation:
        """The program: the host whose ranks are elsewhere is innocent."""
        return self.right(world, "collective_mismatch", "one host's ranks wait elsewhere", family="hang")


FAULTS: Faults = {
    "collective_mismatch": Deadlock,
    "collective_mismatch_host": HostMismatched,
}
