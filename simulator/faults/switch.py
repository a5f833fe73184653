"""Faults of a switch: it restarts, or its chip loses packets and nobody counts them. Its hosts are innocent."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sickbay.components import Kind, Name, name
from sickbay.messages import Action
from simulator.faults.kit import SHARED, Faults, host_name, job_name, ranks_of
from simulator.faults.lasting import Lasting, around, count, jobs_on, slow_down
from simulator.parts.cables import HOST
from simulator.parts.cluster import Card
from simulator.parts.uplinks import Uplink, uplinks, uplinks_of
from simulator.printing import cable_lines, lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World

NEVER = frozenset({"drain_host", "exclude_for_job", "reset_device", "reboot_host", "isolate_port", "replace_part"})


def under(leaf: str, world: World) -> tuple[tuple[Card, ...], Name, set[Name]]:
    """The cards of a leaf, its name as a component, and all that may look ill with it."""
    cards, switch = world.cluster.under(leaf), name(Kind.SWITCH, leaf)
    touched = {switch, *(c.port for c in cards), *(host_name(c.host) for c in cards)}
    touched |= {job_name(run) for c in cards if (run := world.run_on(c.host))}
    return cards, switch, touched


@dataclass(slots=True, kw_only=True)
class LeafReboot(Lasting):
    """A leaf switch restarts: all carriers of its hosts go and come back; the jobs die (night 14)."""

    leaf: str
    away: int = 200

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        cards = world.cluster.under(self.leaf)
        if self.at <= at_s < self.at + self.away:
            world.now.cables.silent.add(self.leaf)
        for place, card in enumerate(cards):
            back = self.at + self.away + 20 * place // len(cards)
            if self.at <= at_s < back:
                world.now.port_up[world.cluster.row(card.component)] = False
            if at_s == self.at:
                yield lines.link(world.ms(at_s, 40 + 5 * place), card, "Down")
            if at_s == back:
                yield lines.link(world.ms(at_s, 300), card, "Up")
        hit = {run.job.id: run for card in cards if (run := world.run_on(card.host))}
        for run in hit.values():
            yield from self._job(run, at_s, world)

    def _job(self, run: Run, at_s: int, world: World) -> Iterator[Printed]:
        if run.ended or at_s < self.at:
            return
        run.stalled = True
        if at_s == self.at + 38:
            cut = [card for _, card in ranks_of(run) if card.leaf == self.leaf]
            near = [card for _, card in ranks_of(run) if card.host != cut[-1].host]
            for place, card in enumerate(near[:4]):
                yield lines.retry_exceeded(world.ms(at_s, place), run.job.id, card, cut[place % len(cut)])
        run.ended = at_s >= self.at + 42

    def expect(self, world: World) -> Expectation:
        """The switch; its hosts are innocent and must not be drained."""
        _, switch, touched = under(self.leaf, world)
        return self.truth(
            world, "leaf switch restarts", fault="switch_down", family="shared", verdicts=SHARED,
            components={switch}, actions=frozenset({Action.WATCH, Action.ESCALATE}), touched=touched, forbidden=NEVER,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class SpineReboot(Lasting):
    """A spine restarts: every leaf loses its uplinks to it in one second, and no host loses its carrier. The rest
    carries what it carried; steps take a little longer until it is back.

    `leaf`: one of those below it, of which it is the `which`-th one's other end.
    """

    leaf: str
    which: int = 0
    lasts_s: int | None = 200
    below: list[tuple[int, Uplink]] | None = field(default=None, repr=False)  # found once

    def spine(self, world: World) -> str:
        """Its name; without spines, the leaf's own."""
        above = uplinks_of(world.cluster, self.leaf)
        return above[self.which % len(above)][1].spine if above else self.leaf

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, spine = self.since(at_s), self.spine(world)
        hosts = world.cluster.hosts
        slow_down(world, hosts, "spine_down", 0.08 * self.grown(at_s))
        if not self.on(at_s) and since != self.lasts_s:
            return
        if self.below is None:
            self.below = [(row, one) for row, one in enumerate(uplinks(world.cluster)) if one.spine == spine]
        if self.on(at_s):
            world.now.cables.silent.add(spine)
            world.now.cables.uplinks_down |= {row for row, _ in self.below}
        if since in (0, self.lasts_s):
            for place, (_, one) in enumerate(self.below):
                at_ms, state = world.ms(at_s, 120 + 3 * place), "up" if since else "down"
                yield cable_lines.switch_link(at_ms, one.leaf, one.leaf_port, state)

    def expect(self, world: World) -> Expectation:
        """The spine, once: neither its uplinks nor the leaves, and no host."""
        spine = self.spine(world)
        below = {part for one in uplinks(world.cluster) if one.spine == spine for part in (*one.ends, one.component)}
        leaves = {name(Kind.SWITCH, leaf) for leaf in world.cluster.leaves}
        hosts = {*map(host_name, world.cluster.hosts)} | {*map(job_name, world.runs.values())}
        return self.truth(
            world, "a spine restarts", fault="spine_down", family="shared", verdicts=SHARED,
            components={name(Kind.SWITCH, spine)}, faults={"switch_down"},
            actions=frozenset({Action.WATCH, Action.ESCALATE}), touched=below | leaves | hosts,
            forbidden=NEVER | {"stop_job"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ChipDrops(Lasting):
    """A memory of the switching chip is damaged: it loses a share of the packets, and its ports count none of them.

    What shows is that whoever hangs on it sends again. `told`: the chip says so two seconds later (a fatal event;
    at a severity below 0.5 only that errors were corrected). `breaks_s`: transports that give up, at full severity.
    """

    leaf: str
    told: bool = True
    breaks_s: int = 70

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        share, since = self.grown(at_s), self.since(at_s)
        cards = world.cluster.under(self.leaf)
        hosts = [card.host for card in cards]
        slow_down(world, hosts, "chip_drops", 0.2 * share)
        for card in cards if share else ():
            row = world.cluster.row(card.component)
            count(world, card, HOST, "retransmits_total", float(self.rng(1_000_003 * row + at_s).poisson(30 * share)))
        if self.told and since == 2:
            yield self._says(world.ms(at_s, 180))
        if self.severity >= 0.5 and since == self.breaks_s and self.on(at_s):
            for run in jobs_on(world, hosts):
                yield from self._breaks(run, at_s, world)

    def _says(self, at_ms: int) -> Printed:
        fatal = self.severity >= 0.5
        text = "uncorrectable parity error in block 7" if fatal else "parity error corrected in block 7"
        return cable_lines.asic(at_ms, self.leaf, text, fatal=fatal)

    def _breaks(self, run: Run, at_s: int, world: World) -> Iterator[Printed]:
        """Three pairs of which one end hangs on the switch run out of tries, and the job ends."""
        if run.ended:
            return
        own = [card for _, card in ranks_of(run) if card.leaf == self.leaf]
        far = [card for _, card in ranks_of(run) if card.host != own[0].host]
        for place in range(min(3, len(own), len(far))):
            yield lines.retry_exceeded(world.ms(at_s, 210 * place), run.job.id, far[-1 - place], own[place])
        run.ended = bool(far)

    def expect(self, world: World) -> Expectation:
        """The switch; the links that end there are well, and so are the hosts."""
        (cards, switch, touched), fault = under(self.leaf, world), "switch_drops" + ("" if self.told else "_untold")
        return self.truth(
            world, "a switch loses packets silently", fault=fault, family="shared", verdicts=SHARED,
            components={switch}, faults={"switch_down", "path_broken", "link_errors", "route_changed", "congestion"},
            actions=frozenset({Action.WATCH, Action.ESCALATE, Action.CHECK_LINK, Action.REPLACE_PART}),
            touched=touched | around(world, cards), forbidden=NEVER - {"replace_part"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ChipDropsUntold(ChipDrops):
    """The same, and the chip says nothing."""

    told: bool = False


FAULTS: Faults = {
    "switch_down": LeafReboot,
    "spine_down": SpineReboot,
    "switch_drops": ChipDrops,
    "switch_drops_untold": ChipDropsUntold,
}
