"""Faults of the PCIe link between a host and one of its accelerators (mechanisms 1 and 9)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sickbay.components import Kind, Name, name
from sickbay.messages import Action
from simulator.faults.bearing import HANDS_OFF, LOOK, NETWORK, OnCard, drags
from simulator.faults.kit import TAKE_OUT, Faults, of_card, stall
from simulator.parts.cables import HOST
from simulator.parts.cluster import Card
from simulator.printing import board_lines, lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

REPLAYS_A_SECOND = 30.0  # of a link that fails soon; a healthy one has none for days
BURST_S = 20  # the kernel's line limit lets a burst through, then is quiet


def links_of(card: Card) -> set[Name]:
    """The names that the link to a card goes by: of the card's end and of the port above it."""
    return {name(Kind.PCIE, card.host, pci) for pci in (card.pci, f"{card.pci}.0", card.root_pci)}


@dataclass(slots=True, kw_only=True)
class Fatal(OnCard):
    """The link has a fatal error (`contained`: the port above cuts the card off): the card is gone for its driver."""

    contained: bool = False

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s) and at_s > self.at:
            world.now.seen[self.row(world)] = False
        if at_s == self.at and self.coded:
            told = board_lines.bus_contained if self.contained else board_lines.bus_fatal
            yield from told(world.ms(at_s, 12), self.card)
        if at_s == self.at + 1:
            yield from lines.off_bus(world.ms(at_s, 20), self.card, coded=self.coded)
        yield from stall(self.run(world), self.at, at_s, world, (self.card,))

    def expect(self, world: World) -> Expectation:
        """The link, or the card behind it, in one incident: a power cycle, for a reset reaches nothing."""
        return self.right(
            world, "pcie_fatal", "fatal error of the bus", self.card_or_host() | links_of(self.card),
            TAKE_OUT - {Action.RESET_DEVICE}, faults=("accelerator_off_bus", "accelerator_blind", "host_blind"),
            forbidden=NETWORK | {"reset_device"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Errors(OnCard):
    """The link corrects ever more errors: replays first, then the kernel's lines; the job loses next to nothing."""

    ramp_s: int = 40

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        grown = self.grown(at_s)
        drags(world, self.run(world), "replays", 0.01 * grown)
        if not grown:
            return
        world.now.replays[self.row(world)] += round(REPLAYS_A_SECOND * grown)
        if self.coded and self.since(at_s) % BURST_S < 2 and grown > 0.3 * self.severity:
            for place in range(6):
                yield from lines.corrected_bus_error(world.ms(at_s, 110 + 130 * place), self.card)

    def expect(self, world: World) -> Expectation:
        """The link, watched: it may lose the card later."""
        return self.right(
            world, "pcie_errors", "bus corrects errors", self.card_or_host() | links_of(self.card), LOOK,
            family="ramp", forbidden=HANDS_OFF,
        )  # fmt: skip


@dataclass(slots=True)
class NarrowBus:
    """A card whose host link has run at half width since boot: nothing ever changes (night 5 b).

    `sends_pause`: share of a second; then the link narrows at `at`, and the adapter beside it cannot drain (night 5 a).
    """

    at: int
    card: Card
    share: float = 0.05
    sends_pause: float = 0.0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.sends_pause and at_s < self.at:
            return
        row = world.cluster.row(self.card.component)
        world.now.lanes[row] = 8
        if self.sends_pause:
            world.now.cables.pauses[row, HOST] = self.sends_pause
            world.now.cables.stalled[row] = 1.0
        if run := world.run_on(self.card.host):
            run.slow["bus"] = self.share
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The card or its link, by the width alone."""
        seen = of_card(world, self.card, "pcie_degraded", "PCIe x8 since boot", 0,
                        frozenset({Action.WATCH, *TAKE_OUT}))  # fmt: skip
        links = links_of(self.card)
        return replace(
            seen, touched=seen.touched | links, components=seen.components | links, family="slow",
            exonerated=frozenset(other.component for other in world.cluster.of(self.card.host) if other != self.card),
            forbidden=frozenset({"cost_out_link"}), seen_ms=world.ms(self.at if self.sends_pause else 0),
        )  # fmt: skip


FAULTS: Faults = {
    "pcie_degraded": NarrowBus,
    "pcie_fatal": Fatal,
    "pcie_errors": Errors,
}
