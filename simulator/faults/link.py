"""Faults of a cable or of the ports at its ends: gone, flapping, losing symbols, too narrow, misplaced.

Both ends lose the carrier within two seconds, and neither end's host is to blame.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sickbay.components import Name
from sickbay.messages import Action
from simulator.faults.kit import COMPONENT, Faults
from simulator.faults.lasting import SIDES, Lasting, around, count, slow_down
from simulator.faults.optics import LOOK, NEVER, cable, carriers, cut
from simulator.parts.cables import FLOOR_DBM, HOST, LEAF, optic
from simulator.parts.cluster import Card, Cluster
from simulator.printing import adapter_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

NO_STOP = NEVER | {"stop_job", "isolate_port", "page_owner"}


def ends(card: Card) -> set[Name]:
    """The cable and the ports at its ends."""
    return {cable(card), card.port, card.switch_port}


@dataclass(slots=True, kw_only=True)
class LinkDown(Lasting):
    """A link is gone. `how`: the cable (no light at either end), or the port of the switch (the light is well)."""

    card: Card
    how: Literal["cable", "port"] = "cable"

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        yield from cut(world.run_on(self.card.host), self.at, at_s, world, (self.card,), self.lasts_s)
        if self.since(at_s) == self.lasts_s:
            yield from carriers(world.ms(at_s, 200), self.card, "up")
        if not self.on(at_s):
            return
        row = world.cluster.row(self.card.component)
        world.now.port_up[row] = False
        if self.how == "cable":
            for side in SIDES:
                world.now.cables.loss_db[row, side] = -FLOOR_DBM + 5
        if at_s == self.at:
            yield from carriers(world.ms(at_s, 130), self.card, "down")

    def expect(self, world: World) -> Expectation:
        """The link: which end is a matter of a look."""
        modules = {optic(self.card, side) for side in SIDES}
        return self.truth(
            world, "link gone", fault="link_down" if self.how == "cable" else "switch_port_dead", family="link",
            verdicts=COMPONENT, components=ends(self.card) | (modules if self.how == "cable" else set()),
            faults={"link_down"} | ({"link_attenuated", "optic_fault"} if self.how == "cable" else set()),
            actions=LOOK, touched=around(world, [self.card]), forbidden=NEVER, spared={self.card.component},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class SwitchPortDies(LinkDown):
    """The port of the switch dies: the light at both ends stays well."""

    how: Literal["cable", "port"] = "port"


@dataclass(slots=True, kw_only=True)
class LinkFlap(Lasting):
    """A link comes and goes, each time within the library's patience, so that a step takes longer and the job lives.

    `severity`: 1 = `times` losses, less = fewer of them, two at least.
    """

    card: Card
    times: int = 6
    every_s: int = 45
    away_s: int = 2

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        number, within = divmod(self.since(at_s), self.every_s)
        flaps = self.on(at_s) and number < max(2, round(self.times * self.severity))
        away = flaps and within < self.away_s
        slow_down(world, [self.card.host], "link_flap", 1.0 if flaps and within <= self.away_s else 0.0)
        if away:
            world.now.port_up[world.cluster.row(self.card.component)] = False
        if flaps and within in (0, self.away_s):
            yield from carriers(world.ms(at_s, 310 + 20 * number), self.card, "down" if within == 0 else "up")

    def expect(self, world: World) -> Expectation:
        """The link, by a look at it; the job goes on."""
        return self.truth(
            world, "link flaps", fault="link_flap", family="link", verdicts=COMPONENT, components=ends(self.card),
            actions=LOOK | {Action.WATCH}, touched=around(world, [self.card]), forbidden=NO_STOP,
            spared={self.card.component},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class LinkErrors(Lasting):
    """A receiver loses symbols that no correction saves: packets are sent again, and steps take a little longer.

    The light is as ever: what fails is electrical. `side`: the end that receives badly.
    """

    card: Card
    side: int = HOST
    symbols: float = 40.0  # a second, at full severity

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        share, row = self.grown(at_s), world.cluster.row(self.card.component)
        slow_down(world, [self.card.host], "link_errors", 0.06 * share)
        if share:
            rng = self.rng(1_000_003 * row + at_s)
            world.now.cables.noise_db[row, self.side] = 2.6 * min(1.0, 0.5 + 0.5 * share)
            lost = float(rng.poisson(self.symbols * share))
            count(world, self.card, self.side, "symbol_errors_total", lost)
            count(world, self.card, self.side, "rx_errors_total", 0.4 * lost)
            count(world, self.card, HOST, "retransmits_total", 0.4 * lost)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The link: errors are counted at the receiver, and accuse neither end."""
        modules = {optic(self.card, side) for side in SIDES}
        return self.truth(
            world, "link loses symbols", fault="link_errors", family="link", verdicts=COMPONENT,
            components=ends(self.card) | modules, actions=LOOK | {Action.WATCH}, touched=around(world, [self.card]),
            forbidden=NO_STOP, spared={self.card.component},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class LinkNarrow(Lasting):
    """A link goes, and comes back at half its rate, as two lanes do not train: the job is held by one rail."""

    card: Card
    gigabits: float = 200.0
    away_s: int = 9

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, row = self.since(at_s), world.cluster.row(self.card.component)
        back = self.on(at_s) and since >= self.away_s
        slow_down(world, [self.card.host], "link_narrow", 1.0 if 0 <= since < self.away_s else 0.22 * back)
        if 0 <= since < self.away_s:
            world.now.port_up[row] = False
        elif back:
            world.now.overlay.put("port", "speed_gigabits_per_second", row, self.gigabits)
        if since in (0, self.away_s):
            yield from carriers(world.ms(at_s, 160), self.card, "down" if since == 0 else "up")
        run = world.run_on(self.card.host)
        if run and since == self.away_s + 1:
            rates = (400_000, round(1000 * self.gigabits))
            yield adapter_lines.slower(world.ms(at_s, 30), run.job.id, self.card, *rates)

    def expect(self, world: World) -> Expectation:
        """The link."""
        return self.truth(
            world, "link too narrow", fault="link_narrow", family="link", verdicts=COMPONENT,
            components=ends(self.card), faults={"link_errors", "link_flap"}, actions=LOOK,
            touched=around(world, [self.card]), forbidden=NO_STOP, spared={self.card.component},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class CableSwapped(Lasting):
    """Two cables of a leaf are pulled and put into each other's place: both links go and come back a little later,
    each at a port where no list has it. `away_s`: less than the library's patience."""

    card: Card
    away_s: int = 14

    def other(self, cluster: Cluster) -> Card:
        """The card whose cable is the other one: the next under the same leaf."""
        mates = cluster.under(self.card.leaf)
        return mates[(mates.index(self.card) + 1) % len(mates)]

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if not self.on(at_s):
            return
        pair, since = (self.card, self.other(world.cluster)), self.since(at_s)
        first, second = (world.cluster.row(card.component) for card in pair)
        away = since < self.away_s
        slow_down(world, [card.host for card in pair], "cable_swapped", 1.0 if away else 0.0)
        for card, row in zip(pair, (first, second), strict=True):
            if away:
                world.now.port_up[row] = False
                for side in SIDES:
                    world.now.cables.loss_db[row, side] = -FLOOR_DBM + 5
            if since in (0, self.away_s):
                plus = 150 + 900 * (card is not self.card)
                yield from carriers(world.ms(at_s, plus), card, "down" if since == 0 else "up")
        if not away and first != second:
            world.now.cables.swapped |= {first: second, second: first}

    def expect(self, world: World) -> Expectation:
        """The links that hands were on: to be looked at, as a list is wrong now."""
        pair = (self.card, self.other(world.cluster))
        right = {part for card in pair for part in ends(card)} | {optic(card, LEAF) for card in pair}
        return self.truth(
            world, "two cables swapped", fault="cable_swapped", family="link", verdicts=COMPONENT,
            components=right, faults={"link_flap", "link_down", "optic_fault"}, actions=LOOK | {Action.WATCH},
            touched=around(world, pair), forbidden=NO_STOP, spared={card.component for card in pair},
        )  # fmt: skip


FAULTS: Faults = {
    "link_down": LinkDown,
    "switch_port_dead": SwitchPortDies,
    "link_flap": LinkFlap,
    "link_errors": LinkErrors,
    "link_narrow": LinkNarrow,
    "cable_swapped": CableSwapped,
}
