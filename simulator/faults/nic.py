"""Faults of a network adapter: it dies, grows hot, gets stuck or is short of power. Its accelerator is innocent."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.messages import Action
from simulator.faults.kit import COMPONENT, Faults, host_name
from simulator.faults.lasting import Lasting, adapter, around, count, slow_down
from simulator.faults.optics import carriers, cut
from simulator.parts.cables import HOST
from simulator.parts.cluster import Card
from simulator.printing import adapter_lines as lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

DEAD_S = 6  # the driver polls every 2 s and counts three misses
TRIED_S = 60  # how long it tries to revive the adapter
OUT = frozenset({Action.DRAIN_HOST, Action.REBOOT_HOST, Action.REPLACE_PART})
SOFT = frozenset({Action.WATCH, Action.CHECK_LINK, Action.FIX_SOFTWARE, Action.DRAIN_HOST})


@dataclass(slots=True, kw_only=True)
class AdapterDies(Lasting):
    """The adapter's firmware stops: nothing moves at once, and the driver says so six seconds later.

    Below a severity of 0.5 nothing is said but that the link went. `gone`: it leaves its slot as well. `lasts_s`: the
    driver revives it, and the program has died of it all the same.
    """

    card: Card
    gone: bool = False

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        yield from cut(world.run_on(self.card.host), self.at, at_s, world, (self.card,))
        since, row = self.since(at_s), world.cluster.row(self.card.component)
        if since == self.lasts_s and since > DEAD_S:
            yield lines.recovery(world.ms(at_s, 40), self.card, succeeds=True)
            yield from carriers(world.ms(at_s, 900), self.card, "up")
        if not self.on(at_s) or since < DEAD_S:
            return
        world.now.port_up[row] = False
        world.now.cables.dark.add((row, HOST))
        world.now.cables.out.add((row, HOST))  # the driver reads no module of a dead adapter
        if since == DEAD_S:
            if self.severity >= 0.5:
                yield from lines.firmware_dead(world.ms(at_s, 110), self.card)
            yield from carriers(world.ms(at_s, 260), self.card, "down")
        if self.gone:
            world.now.overlay.hide("port", row)
            if since == DEAD_S + 2:
                yield lines.gone(world.ms(at_s, 15), self.card)
        if since == DEAD_S + TRIED_S and self.lasts_s is None and self.severity >= 0.5:
            yield lines.recovery(world.ms(at_s, 300), self.card, succeeds=False)

    def expect(self, world: World) -> Expectation:
        """The adapter or its host; its card, the cable and the peers are innocent."""
        own, host = adapter(self.card), host_name(self.card.host)
        return self.truth(
            world, "adapter dies", fault="nic_gone" if self.gone else "nic_failed", family="explicit",
            verdicts=COMPONENT, components={own, host} | ({self.card.port} if self.severity < 0.5 else set()),
            faults={"nic_failed"} | ({"link_down"} if self.severity < 0.5 else set()), actions=OUT,
            touched=around(world, [self.card]) | {own}, forbidden={"reset_device", "reset_board", "isolate_device"},
            spared={self.card.component},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class AdapterGone(AdapterDies):
    """The adapter leaves its slot: nobody reads its port any more."""

    gone: bool = True


@dataclass(slots=True, kw_only=True)
class AdapterHot(Lasting):
    """The adapter grows too warm and holds itself back: it drains slower, so it sends pause, and the job slows."""

    card: Card
    every_s: int = 120

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        share, row = self.grown(at_s), world.cluster.row(self.card.component)
        slow_down(world, [self.card.host], "nic_hot", 0.25 * share)
        if share:
            world.now.cables.pauses[row, HOST] = 0.06 * share
        if self.on(at_s) and self.since(at_s) >= self.ramp_s and (self.since(at_s) - self.ramp_s) % self.every_s == 0:
            yield from lines.hot(world.ms(at_s, 400), self.card)

    def expect(self, world: World) -> Expectation:
        """The adapter; no act on a job that moves."""
        return _degraded(self, world, self.card, "nic_degraded", "adapter too warm", seen_s=0)


@dataclass(slots=True, kw_only=True)
class AdapterStuck(Lasting):
    """A queue of the adapter sends nothing: the watchdogs say so after five seconds, again and again."""

    card: Card
    times: int = 4
    every_s: int = 17

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = self.since(at_s) - 5
        times = max(1, round(self.times * self.severity))
        slow_down(world, [self.card.host], "nic_stuck", 0.12 * self.grown(at_s) if since < times * self.every_s else 0)
        if self.on(at_s) and since >= 0 and since % self.every_s == 0 and since < times * self.every_s:
            yield from lines.queue_stuck(world.ms(at_s, 220), self.card, 7 + since % 5)

    def expect(self, world: World) -> Expectation:
        """The adapter; a driver that is started anew may be all."""
        return _degraded(self, world, self.card, "nic_queue_stuck", "queue of an adapter stuck", seen_s=5)


@dataclass(slots=True, kw_only=True)
class AdapterUnderpowered(Lasting):
    """The slot gives the adapter too little: it says so once, and drops what it cannot take."""

    card: Card

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        slow_down(world, [self.card.host], "nic_power", 0.1 * self.grown(at_s))
        if self.grown(at_s):
            count(world, self.card, HOST, "rx_discards_total", 40 * self.grown(at_s))
        if self.since(at_s) == 0:
            yield lines.underpowered(world.ms(at_s, 80), self.card)

    def expect(self, world: World) -> Expectation:
        """The adapter, or the slot that it stands in."""
        return _degraded(self, world, self.card, "nic_underpowered", "adapter short of power", seen_s=0)


def _degraded(what: Lasting, world: World, card: Card, fault: str, title: str, seen_s: int) -> Expectation:
    own = adapter(card)
    return what.truth(
        world, title, fault=fault, family="explicit", verdicts=COMPONENT, components={own, host_name(card.host)},
        faults={"nic_degraded"}, actions=SOFT, touched=around(world, [card]) | {own}, seen_s=seen_s,
        forbidden={"stop_job", "reset_device", "reset_board", "isolate_port"}, spared={card.component},
    )  # fmt: skip


FAULTS: Faults = {
    "nic_failed": AdapterDies,
    "nic_gone": AdapterGone,
    "nic_degraded": AdapterHot,
    "nic_queue_stuck": AdapterStuck,
    "nic_underpowered": AdapterUnderpowered,
}
