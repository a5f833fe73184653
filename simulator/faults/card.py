"""Faults of one accelerator that take it from its host, or make it slow by heat."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.messages import Action
from simulator.faults.kit import TAKE_OUT, Faults, blind, of_card, stall
from simulator.parts.cluster import Card
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World


@dataclass(slots=True)
class OffBus:
    """A card falls off the bus: its host's cards go blank, the job stalls (night 1)."""

    at: int
    card: Card
    coded: bool = True
    burst: bool = True

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.burst and at_s in (self.at - 40, self.at - 39):
            world.now.replays[world.cluster.row(self.card.component)] = 60
            yield from lines.corrected_bus_error(world.ms(at_s, 210), self.card)
        if at_s == self.at:
            yield from lines.off_bus(world.ms(at_s, 20), self.card, coded=self.coded)
        if at_s > self.at:
            blind(world, self.card.host)
        yield from stall(world.run_on(self.card.host), self.at + 1, at_s, world, (self.card,))

    def expect(self, world: World) -> Expectation:
        """The card; a plan that ends in a power cycle, never a reset: what left the bus cannot be reset."""
        return of_card(world, self.card, "accelerator_off_bus", "card off the bus", self.at,
                        TAKE_OUT - {Action.RESET_DEVICE})  # fmt: skip


@dataclass(slots=True)
class FirmwareHang:
    """The exporter dies as the firmware hangs; the driver says so 45 s later (night 8)."""

    at: int
    card: Card

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at:
            blind(world, self.card.host)
        if at_s == self.at + 45:
            yield lines.firmware_timeout(world.ms(at_s, 310), self.card)
        yield from stall(world.run_on(self.card.host), self.at, at_s, world, world.cluster.of(self.card.host))

    def expect(self, world: World) -> Expectation:
        """The card, or its host while only blindness speaks."""
        return of_card(world, self.card, "accelerator_firmware_hang", "firmware hang", self.at, TAKE_OUT)


@dataclass(slots=True)
class Thermal:
    """A card lowers its clock for heat; its job waits for it (night 4)."""

    at: int
    card: Card
    share: float = 0.08  # of the clock

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run, row = world.run_on(self.card.host), world.cluster.row(self.card.component)
        if at_s < self.at or run is None or not run.moves:
            return
        grown = min(1.0, (at_s - self.at) / 30)
        world.now.clock[row] = 1 - self.share * grown
        world.now.heat[row] = 16 * grown
        world.now.throttled[row] = 0.35 * grown
        run.slow["thermal"] = self.share * grown
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The card; no stop now, a drain is no cure for a job that runs."""
        actions = frozenset({Action.WATCH, Action.DRAIN_HOST, Action.REPLACE_PART, Action.ESCALATE})
        return of_card(world, self.card, "accelerator_thermal", "card slowed by heat", self.at, actions,
                        faults={"accelerator_thermal", "accelerator_slow"})  # fmt: skip


FAULTS: Faults = {
    "accelerator_off_bus": OffBus,
    "accelerator_firmware_hang": FirmwareHang,
    "accelerator_thermal": Thermal,
}
