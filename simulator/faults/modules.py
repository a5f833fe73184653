"""Faults of optical modules beyond their light, and of what several cables share: heat, a pulled module, a trunk of
many fibres, a bad batch."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, name
from sickbay.messages import Action, Verdict
from simulator.faults.kit import COMPONENT, SHARED, Faults
from simulator.faults.lasting import SIDES, Lasting, around, count, slow_down
from simulator.faults.link import ends
from simulator.faults.optics import LOOK, NEVER, bystanders, carriers, cut, of_module
from simulator.parts.cables import HOST, LEAF, optic
from simulator.parts.cluster import Card, Cluster
from simulator.printing import adapter_lines, cable_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World


@dataclass(slots=True, kw_only=True)
class ModuleHot(Lasting):
    """The module at the host grows too warm: the receiver errs more and more, and the adapter says why.

    Below a severity of 0.5 it stays under its own alarm and says nothing.
    """

    card: Card
    ramp_s: int = 60

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        share, row = self.grown(at_s), world.cluster.row(self.card.component)
        slow_down(world, [self.card.host], "module_hot", 0.05 * share)
        if not share:
            return
        world.now.cables.noise_db[row, HOST] = 2.8 * share
        world.now.cables.warmer[row, HOST] = 28.0 * share
        if share > 0.6:
            count(world, self.card, HOST, "symbol_errors_total", float(self.rng(row + at_s).poisson(6 * share)))
        if self.severity >= 0.5 and self.since(at_s) == self.ramp_s:
            yield adapter_lines.module(world.ms(at_s, 500), self.card, "High Temperature")

    def expect(self, world: World) -> Expectation:
        """The module: what cools it is to be looked at."""
        never = {"stop_job", "isolate_port"}
        care = LOOK | {Action.WATCH}
        return of_module(self, world, self.card, HOST, "optic_fault", "module too warm", never, care)


@dataclass(slots=True, kw_only=True)
class ModulePulled(Lasting):
    """The module at the switch, or at the host, is out of its cage: both ends lose the link, one says what is gone."""

    card: Card
    side: int = HOST

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        yield from cut(world.run_on(self.card.host), self.at, at_s, world, (self.card,), self.lasts_s)
        back = self.since(at_s) == self.lasts_s
        if self.since(at_s) == 0 or back:
            yield self._says(world.ms(at_s, 60), back=back)
            yield from carriers(world.ms(at_s, 900 if back else 70), self.card, "up" if back else "down")
        if self.on(at_s):
            row = world.cluster.row(self.card.component)
            world.now.port_up[row] = False
            world.now.cables.dark.add((row, self.side))
            world.now.cables.out.add((row, self.side))

    def _says(self, at_ms: int, *, back: bool) -> Printed:
        if self.side == HOST:
            return adapter_lines.module(at_ms, self.card, "plugged" if back else "unplugged")
        return cable_lines.module(at_ms, self.card.leaf, self.card.leaf_port, "inserted" if back else "removed")

    def expect(self, world: World) -> Expectation:
        """The module, by a look at it."""
        return of_module(self, world, self.card, self.side, "optic_unplugged", "module out of its cage")


@dataclass(slots=True, kw_only=True)
class TrunkHurt(Lasting):
    """The trunk behind several cables of a leaf is bent or cut: light falls on all of them in the same moment.

    `links`: how many cables share it; `cut`: no light comes through at all, else `fall_db` is lost both ways.
    """

    card: Card
    links: int = 4
    fall_db: float = 3.0
    broken: bool = False

    def cards(self, cluster: Cluster) -> tuple[Card, ...]:
        """Whose cables run in it: neighbours under the leaf, of this card's place on."""
        own = cluster.under(self.card.leaf)
        first = own.index(self.card) // self.links * self.links
        return own[first : first + self.links]

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        cards = self.cards(world.cluster)
        for place, card in enumerate(cards):
            row = world.cluster.row(card.component)
            if self.on(at_s):
                for side in SIDES:
                    world.now.cables.loss_db[row, side] = 45.0 if self.broken else self.fall_db * self.grown(at_s)
            if not self.broken:
                continue
            if self.on(at_s):
                world.now.port_up[row] = False
            if self.since(at_s) in (0, self.lasts_s):
                yield from carriers(world.ms(at_s, 110 + 25 * place), card, "up" if self.since(at_s) else "down")
        if self.broken:
            for run in {run.job.id: run for card in cards if (run := world.run_on(card.host))}.values():
                yield from cut(run, self.at, at_s, world, cards, self.lasts_s)

    def expect(self, world: World) -> Expectation:
        """What the cables share; without a list of trunks each of the cables is as right. The leaf is innocent."""
        cards = self.cards(world.cluster)
        right = {part for card in cards for part in ends(card)} | {optic(c, side) for c in cards for side in SIDES}
        trunk = name(Kind.LINK, f"{self.card.leaf}~trunk")
        return self.truth(
            world, "trunk of fibres hurt", fault="trunk_cut" if self.broken else "trunk_bent", family="shared",
            verdicts=SHARED | COMPONENT, components=right | {trunk}, actions=LOOK | {Action.ESCALATE, Action.WATCH},
            faults={"link_attenuated", "optic_fault", "link_down", "link_errors"}, touched=around(world, cards),
            forbidden=NEVER | {"isolate_port"}, spared={name(Kind.SWITCH, self.card.leaf)},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class TrunkCut(TrunkHurt):
    """The trunk is cut."""

    broken: bool = True


@dataclass(slots=True, kw_only=True)
class BadBatch(Lasting):
    """Modules of one delivery fade one after another: each looks like a fault of its own.

    `modules`: how many, over the whole cluster; `apart_s`: between the first seconds of two of them.
    """

    card: Card
    modules: int = 3
    apart_s: int = 60
    fall_db: float = 3.4
    ramp_s: int = 45

    def chosen(self, cluster: Cluster) -> list[Card]:
        """The cards at whose leaf ports they stand: this one first, then others far apart."""
        own, others = cluster.row(self.card.component), len(cluster.cards) - 1
        picks = self.rng(own).permutation(others)[: self.modules - 1]
        return [self.card, *(cluster.cards[int(pick) + int(pick >= own)] for pick in picks)]

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        for place, card in enumerate(self.chosen(world.cluster)):
            own_s = at_s - place * self.apart_s
            if self.on(own_s):
                row = world.cluster.row(card.component)
                world.now.cables.fade_db[row, LEAF] = self.fall_db * self.grown(own_s)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Each of the modules is right; what they have in common is better."""
        cards = self.chosen(world.cluster)
        return self.truth(
            world, "modules of one delivery fade", fault="optic_batch", family="ramp",
            verdicts=COMPONENT | frozenset({Verdict.SHARED}), components={optic(card, LEAF) for card in cards},
            faults={"optic_fault", "cohort_defect"}, actions=LOOK | {Action.FIX_SOFTWARE},
            touched={part for card in cards for part in bystanders(card, world)},
            forbidden=NEVER | {"isolate_port", "stop_job"},
        )  # fmt: skip


FAULTS: Faults = {
    "optic_fault": ModuleHot,
    "optic_unplugged": ModulePulled,
    "trunk_bent": TrunkHurt,
    "trunk_cut": TrunkCut,
    "optic_batch": BadBatch,
}
