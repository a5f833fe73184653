"""Faults of a host's own disks, on which its jobs keep their data caches and their logs."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, Name, name
from sickbay.messages import Action
from simulator.faults.bearing import HANDS_OFF, LOOK, NETWORK, OnHost, dies, drags
from simulator.faults.kit import Faults, host_name
from simulator.printing import board_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

WAITS_S = 30  # the kernel waits so long for a command before it says so
DIES_S = 62  # and so long, in all, before it gives the controller up
STARVES_S = 20  # the loaders have so much read ahead


@dataclass(slots=True, kw_only=True)
class DiskFails(OnHost):
    """A disk stops answering: tasks wait, then it is disabled and its file system is read-only; the job dies of it."""

    disk: str = "nvme2"

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, run, row = self.since(at_s), self.run(world), world.cluster.host_index[self.host]
        if 0 <= since < DIES_S:
            world.now.overlay.put("host", "tasks_blocked", row, min(64, 4 + since))
            world.now.overlay.put("host", "pressure_io_ratio", row, min(0.95, 0.2 + since / 40))
        if since == WAITS_S and self.coded:
            for place in range(4):
                yield board_lines.disk_late(world.ms(at_s, 40 + 9 * place), self.host, self.disk, 263 + place)
        if since == DIES_S:
            yield from board_lines.disk_dies(world.ms(at_s, 80), self.host, self.disk)
        if run and not run.ended and STARVES_S <= since < DIES_S:
            run.stalled = True
        yield from dies(run, at_s, self.at + DIES_S + 3, world, 0, 1)

    def expect(self, world: World) -> Expectation:
        """The disk, or its host."""
        return self.right(
            world, "disk_failed", "disk fails", disks_of(self.host, self.disk),
            frozenset({Action.DRAIN_HOST, Action.REBOOT_HOST, Action.REPLACE_PART}), family="hang",
            faults=("disk_degrading",), forbidden=NETWORK,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class DiskDegrades(OnHost):
    """Single commands of a disk are late or fail: the data loaders of one host are slow now and then."""

    disk: str = "nvme1"
    every_s: int = 25

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        grown, since = self.grown(at_s), self.since(at_s)
        late = grown > 0 and since % self.every_s < 6
        drags(world, self.run(world), "disk", 0.1 * grown if late else 0.0)
        if late:
            row = world.cluster.host_index[self.host]
            world.now.overlay.put("host", "pressure_io_ratio", row, 0.4 * grown)
            world.now.overlay.put("host", "tasks_blocked", row, round(6 * grown))
        if late and since % self.every_s == 0 and self.coded:
            yield board_lines.disk_late(world.ms(at_s, 300), self.host, self.disk, 71, "completion polled")
            yield board_lines.disk_error(world.ms(at_s, 420), self.host, self.disk, 88_213 + 8 * since)

    def expect(self, world: World) -> Expectation:
        """The disk, watched."""
        return self.right(
            world, "disk_degrading", "disk errs", disks_of(self.host, self.disk), LOOK, family="slow",
            forbidden=HANDS_OFF,
        )  # fmt: skip


def disks_of(host: str, disk: str) -> set[Name]:
    """The names that a disk and its file system go by, and their host."""
    return {name(Kind.DISK, host, disk), name(Kind.FILESYSTEM, host, f"{disk}n1"), host_name(host)}


FAULTS: Faults = {
    "disk_failed": DiskFails,
    "disk_degrading": DiskDegrades,
}
