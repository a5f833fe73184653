"""Faults of a host's processors and of its main memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, Name, name
from sickbay.messages import Action
from simulator.faults.bearing import HANDS_OFF, LOOK, NETWORK, OnHost, dies
from simulator.faults.kit import Faults, host_name
from simulator.printing import board_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

MODULE = "CPU_SrcID#0_MC#3_Chan#0_DIMM#0"
BUS_ERROR = -7
CORRECTED_A_SECOND = 25.0  # of a module that goes bad; a storm has hundreds
OUT = frozenset({Action.DRAIN_HOST, Action.REBOOT_HOST, Action.REPLACE_PART})


@dataclass(slots=True, kw_only=True)
class ProcessorFault(OnHost):
    """A machine check that could not be corrected, in one processor: its process is killed, the host lives on."""

    cpu: int = 12

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s in (self.at - 9, self.at - 4) and self.severity < 1:
            yield board_lines.processor_corrected(world.ms(at_s, 130), self.host, self.cpu)
        if at_s == self.at and self.coded:
            yield from board_lines.processor_check(world.ms(at_s, 15), self.host, self.cpu)
        yield from dies(self.run(world), at_s, self.at, world, 2, BUS_ERROR)

    def expect(self, world: World) -> Expectation:
        """The processor, or its host."""
        parts = {name(Kind.CPU, self.host, str(self.cpu)), host_name(self.host)}
        return self.right(world, "cpu_fault", "machine check", parts, OUT, forbidden=NETWORK)


def modules_of(host: str) -> set[Name]:
    """The names that the module of main memory goes by, and its host."""
    return {name(Kind.DIMM, host, MODULE), name(Kind.DIMM, host), host_name(host)}


@dataclass(slots=True, kw_only=True)
class MemoryLost(OnHost):
    """Main memory lost a line in a process's page: that one is killed, and the job with it."""

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at:
            row = world.cluster.host_index[self.host]
            world.now.overlay.count("host", "uncorrected_memory_errors_total", row, 1)
            if self.coded:
                yield from board_lines.memory_uncorrected(world.ms(at_s, 10), self.host, MODULE, 48_125)
        yield from dies(self.run(world), at_s, self.at, world, 3, BUS_ERROR, after_ms=60)

    def expect(self, world: World) -> Expectation:
        """The module, or its host."""
        return self.right(
            world, "dimm_uncorrectable", "uncorrectable error of main memory", modules_of(self.host), OUT,
            forbidden=NETWORK, faults=("dimm_degrading",),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class MemoryDegrades(OnHost):
    """One module of main memory corrects ever more errors; nobody notices but the counters."""

    ramp_s: int = 60

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        errors = round(CORRECTED_A_SECOND * self.grown(at_s))
        if errors:
            world.now.memory_errors[world.cluster.host_index[self.host]] += errors
        if errors and self.coded and self.since(at_s) % 10 == 9:
            yield board_lines.memory_corrected(world.ms(at_s, 820), self.host, MODULE, 10 * errors)

    def expect(self, world: World) -> Expectation:
        """The module, watched."""
        return self.right(
            world, "dimm_degrading", "main memory corrects errors", modules_of(self.host), LOOK, family="ramp",
            forbidden=HANDS_OFF,
        )  # fmt: skip


FAULTS: Faults = {
    "cpu_fault": ProcessorFault,
    "dimm_uncorrectable": MemoryLost,
    "dimm_degrading": MemoryDegrades,
}
