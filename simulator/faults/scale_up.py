"""Faults of scale-up links and of the switches between the cards of a board (mechanism 7)."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, name
from sickbay.messages import Action
from simulator.faults.bearing import ANY_TAKE_OUT, HANDS_OFF, LOOK, NETWORK, OnCard, OnHost, drags, starts_anew
from simulator.faults.kit import Faults, host_name, stall
from simulator.printing import fabric_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

NOT_READY = "Error 802: system not yet initialized"
FAILED_STATE = 2  # of the fabric's states, 3 is completed
LOCAL = NETWORK - {"check_link"}  # here a link is inside of a board


@dataclass(slots=True, kw_only=True)
class LinkDown(OnCard):
    """A link of a card dies: its own end says so, and every peer in the domain complains within half a second."""

    link: int = 9
    older: bool = False

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            row = self.row(world)
            world.now.overlay.put("accelerator", "scale_up_tx_bytes_per_second", row, 0.0)
            world.now.overlay.put("accelerator", "scale_up_rx_bytes_per_second", row, 0.0)
            world.now.overlay.count("accelerator", "scale_up_recoveries_total", row, int(self.since(at_s) < 4))
        if at_s == self.at and self.coded:
            told = fabric_lines.link_died_older if self.older else fabric_lines.link_died
            yield told(world.ms(at_s, 20), self.card, self.link)
            for place, peer in enumerate(one for one in world.cluster.of(self.card.host) if one is not self.card):
                yield fabric_lines.peer_complains(world.ms(at_s, 70 + 55 * place), peer)
        yield from stall(self.run(world), self.at, at_s, world, (self.card,))

    def expect(self, world: World) -> Expectation:
        """The card at whose end the link died; who complains is a victim."""
        return self.right(
            world, "accelerator_link_down", "scale-up link dies", self.card_or_host(),
            ANY_TAKE_OUT | {Action.CHECK_LINK}, family="hang", forbidden=LOCAL, faults=("accelerator_link_suspect",),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class LinkSuspect(OnCard):
    """A link errs and recovers: counters first, a code when it is bad; the job loses a little."""

    link: int = 8
    ramp_s: int = 30

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        grown = self.grown(at_s)
        drags(world, self.run(world), "link", 0.03 * grown)
        if not grown:
            return
        for column, more in (("crc_errors", 30), ("replays", 12), ("recoveries", 1)):
            told = round(more * grown) if column != "recoveries" else int(self.since(at_s) % 5 == 0)
            world.now.overlay.count("accelerator", f"scale_up_{column}_total", self.row(world), told)
        if self.coded and self.since(at_s) % 40 == 30:
            yield fabric_lines.link_errs(world.ms(at_s, 330), self.card, self.link)

    def expect(self, world: World) -> Expectation:
        """The link, as far as this card tells: watched."""
        return self.right(
            world, "accelerator_link_suspect", "scale-up link errs", self.card_or_host(), LOOK | {Action.CHECK_LINK},
            family="ramp", forbidden=HANDS_OFF - {"check_link"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ManagerFails(OnHost):
    """The manager of a board's fabric ends: whoever runs goes on, the next attempt finds no fabric.

    `at`: the attempt ends by order; the manager has died as the next one begins.
    """

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        died = self.at + 8
        if self.on(at_s) and at_s >= died:
            rows = world.cluster.rows(self.host)
            world.now.overlay.put("accelerator", "fabric_state", rows, FAILED_STATE)
        if at_s == died and self.coded:
            yield from fabric_lines.manager_dies(world.ms(at_s, 60), self.host)
        yield from starts_anew(self.run(world), at_s, self.at, world, 0, NOT_READY)

    def expect(self, world: World) -> Expectation:
        """The manager on that host: started again, nothing else."""
        return self.right(
            world, "fabric_manager_failed", "fabric manager fails",
            {name(Kind.FABRIC, self.host, "fabric-manager"), host_name(self.host)},
            frozenset({Action.FIX_SOFTWARE, Action.DRAIN_HOST, Action.WATCH}), seen_s=8,
            forbidden=NETWORK | {"replace_part", "reset_device"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class SwitchDies(OnHost):
    """A switch of the board gives up: all its cards lose their links at once, each tells of its own."""

    link: int = 18

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            rows = world.cluster.rows(self.host)
            world.now.overlay.put("accelerator", "scale_up_tx_bytes_per_second", rows, 0.0)
            world.now.overlay.put("accelerator", "scale_up_rx_bytes_per_second", rows, 0.0)
        if at_s == self.at and self.coded:
            yield from fabric_lines.switch_dies(world.ms(at_s, 15), self.host, self.link)
            for place, card in enumerate(world.cluster.of(self.host)):
                yield fabric_lines.link_died_older(world.ms(at_s, 60 + 20 * place), card, 3)
        yield from stall(self.run(world), self.at, at_s, world, world.cluster.of(self.host))

    def expect(self, world: World) -> Expectation:
        """The switch, or the board as a whole; no single card."""
        return self.right(
            world, "fabric_fault", "scale-up switch dies",
            {name(Kind.FABRIC, self.host, fabric_lines.SWITCH_PCI), host_name(self.host)},
            family="hang", forbidden=LOCAL,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class SwitchErrs(OnHost):
    """A switch of the board has errors that it gets over; every job on the board loses a little."""

    link: int = 7
    ramp_s: int = 20

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        grown = self.grown(at_s)
        drags(world, self.run(world), "fabric", 0.02 * grown)
        if grown:
            rows = world.cluster.rows(self.host)
            world.now.overlay.count("accelerator", "scale_up_replays_total", rows, round(3 * grown))
        if grown and self.coded and self.since(at_s) % 30 == 10:
            yield from fabric_lines.switch_errs(world.ms(at_s, 205), self.host, self.link)

    def expect(self, world: World) -> Expectation:
        """The switch, watched."""
        return self.right(
            world, "fabric_link_errors", "scale-up switch errs",
            {name(Kind.FABRIC, self.host, fabric_lines.SWITCH_PCI), host_name(self.host)}, LOOK,
            family="ramp", forbidden=HANDS_OFF,
        )  # fmt: skip


FAULTS: Faults = {
    "accelerator_link_down": LinkDown,
    "accelerator_link_suspect": LinkSuspect,
    "fabric_manager_failed": ManagerFails,
    "fabric_fault": SwitchDies,
    "fabric_link_errors": SwitchErrs,
}
