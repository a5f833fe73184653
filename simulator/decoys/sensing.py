"""Sensors that err, go blank or count what was corrected, while all goes on."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.decoys.kit import around, nothing
from simulator.parts.cluster import Card
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World


@dataclass(slots=True)
class CorrectedErrors:
    """Errors that the hardware corrected: two on a host link, a few in main memory."""

    at: int
    card: Card

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s in (self.at, self.at + 90):
            world.now.replays[world.cluster.row(self.card.component)] = 1
            yield from lines.corrected_bus_error(world.ms(at_s, 77), self.card)
        if at_s in (self.at + 20, self.at + 65):
            world.now.memory_errors[world.cluster.host_index[self.card.host]] = 1
            yield lines.corrected_memory(world.ms(at_s, 12), self.card.host)

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        hosts = around(world, self.card.host)
        return nothing(world, hosts, "corrected_errors", "errors that were corrected", self.at, family="explicit")


@dataclass(slots=True)
class Glitch:
    """One sample of one sensor is absurd."""

    at: int
    card: Card
    column: str = "temperature_celsius"
    value: float = 127.0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at:
            world.now.overlay.put("accelerator", self.column, world.cluster.row(self.card.component), self.value)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        hosts = around(world, self.card.host)
        return nothing(world, hosts, "glitch", "one absurd sample", self.at, family="telemetry", ends=self.at + 1)


@dataclass(slots=True)
class ExporterGap:
    """An exporter restarts: its host is blind for a while and the job moves on."""

    at: int
    host: str
    seconds: int = 40

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.at <= at_s < self.at + self.seconds:
            world.now.seen[world.cluster.rows(self.host)] = False
            world.now.source_up[world.cluster.host_index[self.host]] = False
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing: a gap while the job moves is a gap."""
        hosts, ends = around(world, self.host), self.at + self.seconds
        title = "exporter restarts, job moves"
        return nothing(world, hosts, "exporter_gap", title, self.at, family="telemetry", ends=ends)


@dataclass(slots=True)
class ProfilingBlank:
    """Somebody else holds the profiling counters of a host: these columns go blank, the job moves on."""

    at: int
    host: str
    seconds: int = 60

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.at <= at_s < self.at + self.seconds:
            columns = ("compute_active_ratio", "matrix_active_ratio", "memory_active_ratio",
                       "scale_up_tx_bytes_per_second", "scale_up_rx_bytes_per_second")  # fmt: skip
            world.now.overlay.hide("accelerator", world.cluster.rows(self.host), columns)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        hosts, ends = around(world, self.host), self.at + self.seconds
        title = "profiling counters blank, job moves"
        return nothing(world, hosts, "profiling_blank", title, self.at, family="telemetry", ends=ends)
