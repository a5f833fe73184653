"""Faults of cables and their modules: dirt between two ends, a laser that fades or dies, a module that several share.

Errors are counted at the receiver, and neither end's host is to blame.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sickbay.components import Kind, Name, link, name
from sickbay.messages import Action
from simulator.faults.kit import COMPONENT, SHARED, Faults, host_name, job_name, ranks_of
from simulator.faults.lasting import Lasting
from simulator.parts.cables import HOST, LEAF, mates, optic, serial
from simulator.parts.cluster import Card
from simulator.printing import cable_lines, lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import TAKING, Expectation
from simulator.workload.run import Run
from simulator.world import World

LOOK = frozenset({Action.CHECK_LINK})
NEVER = frozenset({"drain_host", "reset_device", "reset_board", "isolate_device", "reboot_host"})


def end_of(card: Card, side: int) -> Name:
    """The port at one end of a card's cable."""
    return card.port if side == HOST else card.switch_port


def cable(card: Card) -> Name:
    """The link as a component."""
    return link(*(end_of(card, side).partition(":")[2] for side in (HOST, LEAF)))


def carriers(at_ms: int, card: Card, state: str) -> Iterator[Printed]:
    """Both ends say that the carrier went or came, the host's kernel first."""
    yield lines.link(at_ms, card, state.capitalize())
    if card.fabric == "ethernet":  # of the other kind the subnet manager speaks, not the switch
        yield cable_lines.switch_link(at_ms + 45, card.leaf, card.leaf_port, state)


PATIENCE_S = 30  # all retries of a transport used up: a shorter loss passes unseen


def cut(
    run: Run | None, began: int, at_s: int, world: World, cards: Sequence[Card], lasts_s: int | None = None
) -> Iterator[Printed]:
    """A job that lost a link: transport errors once all retries are used up, time-outs of every rank after its time.

    `lasts_s`: the link is back then; soon enough, and the job goes on.
    """
    cards = [card for card in cards if run and card.host in run.job.hosts]
    if run is None or run.ended or at_s < began or not cards:
        return
    if lasts_s is not None and lasts_s < PATIENCE_S:
        if at_s <= began + lasts_s:
            run.stalled = at_s < began + lasts_s
        return
    run.stalled = True
    far = [card for _, card in ranks_of(run) if card.host != cards[0].host]
    if at_s == began + PATIENCE_S + 6:
        for place, card in enumerate(far[:2]):
            yield lines.retry_exceeded(world.ms(at_s, 100 + place), run.job.id, card, cards[0])
    if at_s == began + run.job.timeout_s:
        for rank, _ in ranks_of(run):
            seq = 71_904 + run.step
            yield from lines.watchdog(world.ms(at_s, 37 + rank), run.job.id, rank, seq, "ALLREDUCE", run.job.timeout_s)
    if at_s == began + run.job.timeout_s + 2:
        run.ended = True


def bystanders(card: Card, world: World) -> set[Name]:
    """Both ends of a cable with all that stands there, and the job."""
    run = world.run_on(card.host)
    ends = {end_of(card, side) for side in (HOST, LEAF)} | {optic(card, side) for side in (HOST, LEAF)}
    jobs = {job_name(run)} if run else set()
    return ends | {cable(card), host_name(card.host), name(Kind.SWITCH, card.leaf), card.component} | jobs


@dataclass(slots=True, kw_only=True)
class Dirt(Lasting):
    """Somebody touched a cable: some lanes lose light towards one end, and later the link flaps once (night 12).

    `both`: the cable itself is bent, and both directions lose.
    """

    card: Card
    fall_db: float = 2.4
    lanes: int = 2
    towards: int = HOST
    both: bool = False
    flap_after: int | None = 240

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if not self.on(at_s):
            return
        row, strain = world.cluster.row(self.card.component), world.now.cables
        for side in (HOST, LEAF) if self.both else (self.towards,):
            strain.loss_db[row, side] = self.fall_db * self.grown(at_s)
            strain.lanes[row, side] = self.lanes
        if self.flap_after is not None:
            yield from self._flap(at_s, at_s - self.at - self.flap_after, row, world)

    def _flap(self, at_s: int, since: int, row: int, world: World) -> Iterator[Printed]:
        if since in (0, 1):
            world.now.port_up[row] = False
        if since in (0, 2):
            yield from carriers(world.ms(at_s, 310), self.card, "down" if since == 0 else "up")
        if (run := world.run_on(self.card.host)) and since in (0, 3):
            run.slow |= {"flap": 1.0 if since == 0 else 0.0}  # within the library's patience: one step takes longer

    def expect(self, world: World) -> Expectation:
        """What lies between the two ends, by cleaning first."""
        return self.truth(
            world, "dirty connector", fault="link_attenuated", family="link", verdicts=COMPONENT,
            components={cable(self.card)}, actions=LOOK, touched=bystanders(self.card, world),
            forbidden=NEVER | {"isolate_port", "replace_part", "stop_job"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class WeakLaser(Lasting):
    """A laser sends ever less: the loss on the way is as ever, so the far end's low light is the laser's."""

    card: Card
    side: int = LEAF
    fall_db: float = 3.2
    ramp_s: int = 30

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            row = world.cluster.row(self.card.component)
            world.now.cables.fade_db[row, self.side] = self.fall_db * self.grown(at_s)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The module that sends."""
        return of_module(self, world, self.card, self.side, "optic_fades", "laser fades", more={"stop_job"})


@dataclass(slots=True, kw_only=True)
class DeadLaser(Lasting):
    """The laser of one end goes out: no light at the other, the link is gone (night 34)."""

    card: Card
    side: int = HOST

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        yield from cut(world.run_on(self.card.host), self.at, at_s, world, (self.card,), self.lasts_s)
        if at_s - self.at == self.lasts_s:
            yield from carriers(world.ms(at_s, 120), self.card, "up")
        if not self.on(at_s):
            return
        row = world.cluster.row(self.card.component)
        world.now.cables.dark.add((row, self.side))
        world.now.port_up[row] = False
        if at_s == self.at:
            yield from carriers(world.ms(at_s, 120), self.card, "down")

    def expect(self, world: World) -> Expectation:
        """The module whose laser is out; nobody's accelerator has to do with it."""
        return of_module(self, world, self.card, self.side, "optic_dark", "laser out")


def of_module(
    what: Lasting, world: World, card: Card, side: int, fault: str, title: str, more: Collection[str] = (),
    actions: frozenset[Action] = LOOK,
) -> Expectation:  # fmt: skip
    """The right answer for one module: looked at, and nobody's host drained for it.

    The adapter's driver calls the module in it by the adapter's own address.
    """
    names = {optic(card, side)} | ({name(Kind.OPTIC, card.host, card.nic_pci)} if side == HOST else set())
    return what.truth(
        world, title, fault=fault, family="link", verdicts=COMPONENT, components=names, faults={"optic_fault"},
        actions=actions, touched=bystanders(card, world), forbidden=NEVER | {*more},
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ModuleDies(Lasting):
    """The module at the switch dies, and with it the links of all hosts that it serves (night 13)."""

    card: Card

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s < self.at:
            return
        cards = mates(world.cluster, self.card)
        for place, card in enumerate(cards):
            row = world.cluster.row(card.component)
            if self.on(at_s):
                world.now.cables.dark.add((row, LEAF))
                world.now.port_up[row] = False
            if at_s - self.at in (0, self.lasts_s):
                yield from carriers(world.ms(at_s, 200 + 130 * place), card, "down" if at_s == self.at else "up")
        for run in {run.job.id: run for card in cards if (run := world.run_on(card.host))}.values():
            yield from cut(run, self.at, at_s, world, cards, self.lasts_s)

    def expect(self, world: World) -> Expectation:
        """The module, once for all: hosts, adapters, the switch and the jobs are innocent."""
        cards = mates(world.cluster, self.card)
        part = name(Kind.OPTIC, self.card.leaf, serial(world.cluster, self.card, LEAF))
        return self.truth(
            world, "breakout module dies", fault="optic_shared", family="shared", verdicts=SHARED, components={part},
            faults={"optic_fault"}, actions=LOOK, touched={one for card in cards for one in bystanders(card, world)},
            forbidden=NEVER | {"isolate_port", "exclude_for_job"},
        )  # fmt: skip


@dataclass(slots=True)
class PortClosed:
    """A person closes a port of a switch: its laser goes out, and nothing is broken. A decoy."""

    at: int
    card: Card

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s < self.at:
            return
        row = world.cluster.row(self.card.component)
        world.now.cables.dark.add((row, LEAF))
        world.now.port_up[row] = False
        if at_s == self.at:
            yield cable_lines.closed(world.ms(at_s, 10), self.card.leaf, self.card.leaf_port)
            yield from carriers(world.ms(at_s, 90), self.card, "down")

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        return Expectation(
            name="port_closed", title="port closed by a person", at_ms=world.ms(self.at),
            touched=frozenset(bystanders(self.card, world)), forbidden=TAKING, family="work",
            exonerated=frozenset(one for one in bystanders(self.card, world) if not one.startswith("job:")),
        )  # fmt: skip


FAULTS: Faults = {
    "link_attenuated": Dirt,
    "optic_fades": WeakLaser,
    "optic_dark": DeadLaser,
    "optic_shared": ModuleDies,
}
