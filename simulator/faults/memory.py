"""Out of memory: the same words in the kernel log, two different culprits."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.messages import Action
from simulator.faults.kit import COMPONENT, JOB, LEAVE, Faults, host_name, job_name
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World


@dataclass(slots=True)
class UserMemory:
    """A process goes over its own memory limit and is killed; the job ends (night 24)."""

    at: int
    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run = world.run_on(self.host)
        if run is None or run.ended or at_s < self.at:
            return
        if at_s == self.at:
            world.now.kills[world.cluster.host_index[self.host]] = 1
            yield from lines.killed_by_own_limit(world.ms(at_s, 120), self.host, run.job.id, 48_122)
            yield lines.exit_of(world.ms(at_s, 600), run.job.id, 3, -9, 48_122)
            yield lines.exit_of(world.ms(at_s, 900), run.job.id, 5, -6, 48_124)
        run.ended = True

    def expect(self, world: World) -> Expectation:
        """The job: its own limit was hit, the host is fine."""
        run = world.run_on(self.host)
        jobs = frozenset({job_name(run)}) if run else frozenset()
        return Expectation(
            name="application_out_of_memory", title="user's process over its memory limit", at_ms=world.ms(self.at),
            touched=jobs | {host_name(self.host)}, verdicts=JOB, components=jobs,
            faults=frozenset({"application_out_of_memory"}), actions=LEAVE,
        )  # fmt: skip


@dataclass(slots=True)
class HostMemory:
    """A leaking daemon takes the memory of the whole host (the twin of night 24)."""

    at: int
    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        row, run = world.cluster.host_index[self.host], world.run_on(self.host)
        if at_s >= self.at - 60:
            world.now.memory_free[row] = 0.004 if at_s >= self.at else 0.78 * (self.at - at_s) / 60
        if at_s == self.at:
            world.now.kills[row] = 1
            yield from lines.killed_for_host(world.ms(at_s, 150), self.host, 3311)
        if run and at_s == self.at + 3 and not run.ended:
            yield lines.exit_of(world.ms(at_s, 10), run.job.id, 1, -7, 48_121)
            run.ended = True

    def expect(self, world: World) -> Expectation:
        """The host."""
        host = frozenset({host_name(self.host)})
        return Expectation(
            name="host_out_of_memory", title="host out of memory", at_ms=world.ms(self.at), touched=host,
            verdicts=COMPONENT, components=host, faults=frozenset({"host_out_of_memory"}),
            actions=frozenset({Action.DRAIN_HOST, Action.REBOOT_HOST}),
        )  # fmt: skip


FAULTS: Faults = {
    "application_out_of_memory": UserMemory,
    "host_out_of_memory": HostMemory,
}
