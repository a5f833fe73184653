"""Pause: a host that cannot drain its port holds the whole network (night 16), and what only looks like it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sickbay.components import Kind, Name, name
from sickbay.messages import Action
from simulator.faults.kit import COMPONENT, Faults, host_name, job_name
from simulator.faults.lasting import Lasting
from simulator.parts.cables import HOST, LEAF
from simulator.parts.cluster import Card, Cluster
from simulator.parts.uplinks import spines, uplinks_of
from simulator.printing import cable_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import TAKING, Expectation
from simulator.world import World


def everybody(world: World) -> set[Name]:
    """All hosts, ports, switches and jobs."""
    cluster = world.cluster
    ends = {end for card in cluster.cards for end in (card.port, card.switch_port)}
    switches = {name(Kind.SWITCH, switch) for switch in (*cluster.leaves, *spines(cluster))}
    return {*map(host_name, cluster.hosts), *ends, *switches, *map(job_name, world.runs.values())}


def hold(
    world: World, held: list[int], least: float = 0.6, most: float = 0.99, rng: np.random.Generator | None = None
) -> None:
    """The switches make these cards' adapters wait."""
    shares = (rng or world.rng).uniform(least, most, len(held))
    world.now.cables.pauses |= {(row, LEAF): float(share) for row, share in zip(held, shares, strict=True)}


@dataclass(slots=True, kw_only=True)
class PauseStorm(Lasting):
    """The bus of one adapter stalls, its port sends pause without end, and the whole network waits (night 16).

    All of it within one second. The watchdogs of the leaf and of the switch above speak: the latter of a trunk. At a
    severity below 0.5 the port sends pause for that share of the time: jobs are held, and none of them stops.
    """

    card: Card
    watchdog: bool = True

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, share = self.since(at_s), self.grown(at_s)
        if since == self.lasts_s:
            self._let_go(world)
        if not share:
            return
        own = world.cluster.row(self.card.component)
        world.now.cables.stalled[own] = share
        world.now.cables.pauses[own, HOST] = 0.97 * share
        hold(world, [row for row, card in enumerate(world.cluster.cards) if card.host != self.card.host],
             0.6 * share, 0.99 * share, self.rng(at_s))  # fmt: skip
        for run in world.runs.values():
            if self.severity >= 0.5:
                run.stalled = not run.ended
            else:
                run.slow["pause"] = 0.8 * share
        ethernet = self.card.fabric == "ethernet"  # the other kind has credits, and no such watchdog
        if self.watchdog and ethernet and since == 0 and self.severity >= 0.5:
            yield cable_lines.pause_storm(world.ms(at_s, 310), self.card.leaf, self.card.leaf_port)
            for _, above in uplinks_of(world.cluster, self.card.leaf)[:1]:
                yield cable_lines.pause_storm(world.ms(at_s, 390), above.spine, above.spine_port)

    def _let_go(self, world: World) -> None:
        for run in world.runs.values():
            run.stalled = False
            run.slow.pop("pause", None)

    def expect(self, world: World) -> Expectation:
        """The one that sends, by direction; whoever receives is a victim."""
        return self.truth(
            world, "pause storm", fault="pause_sent", family="hang" if self.severity >= 0.5 else "slow",
            verdicts=COMPONENT, components={self.card.port, host_name(self.card.host)},
            actions=frozenset({Action.DRAIN_HOST}), touched=everybody(world),
            forbidden={"reset_device", "reset_board", "reboot_host", "cost_out_link"},
        )  # fmt: skip


def _nobody(world: World, what: str, title: str, at: int) -> Expectation:
    """Of a decoy: all are innocent, jobs are touched only."""
    touched = everybody(world)
    spared = frozenset(part for part in touched if not part.startswith(f"{Kind.JOB}:"))
    return Expectation(
        what, title, world.ms(at), frozenset(touched), exonerated=spared, forbidden=TAKING, family="shared"
    )  # fmt: skip


@dataclass(slots=True)
class PauseFromAfar:
    """Hosts are held by pause that comes from beyond: none of them sends any. A decoy."""

    at: int
    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at:
            hold(world, list(range(len(world.cluster.cards))), 0.3, 0.7)
            for run in world.runs.values():
                run.slow["pause"] = 0.3
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nobody here."""
        return _nobody(world, "pause_received", "pause from afar", self.at)


@dataclass(slots=True)
class Congestion:
    """A network that is full: marks at every receiver, a little pause in every direction. A decoy."""

    at: int
    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at:
            rows = list(range(len(world.cluster.cards)))
            hold(world, rows, 0.02, 0.15)
            shares = world.rng.uniform(0.02, 0.12, len(rows))
            world.now.cables.pauses |= {(row, HOST): float(share) for row, share in zip(rows, shares, strict=True)}
            world.now.cables.marked |= {row: float(world.rng.uniform(2e4, 9e4)) for row in rows}
            for run in world.runs.values():
                run.slow["congestion"] = 0.12
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nobody."""
        return _nobody(world, "congestion", "the network is full", self.at)


@dataclass(slots=True)
class PartialSweep:
    """A sweep of the fabric that runs into the take-over of another subnet manager sees half of it (night 17)."""

    at: int
    host: str
    share: float = 0.5

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """Nothing happens to the fabric itself."""
        yield from ()

    def sweeps(self, cluster: Cluster) -> dict[int, tuple[str, ...]]:
        """A whole one before; the later half of the leaves is missing then, and back a minute later."""
        seen = max(1, round(len(cluster.leaves) * self.share))
        return {self.at - 60: (), self.at: cluster.leaves[seen:], self.at + 60: ()}

    def expect(self, world: World) -> Expectation:
        """Nobody: what a sweep does not show is not gone."""
        return _nobody(world, "partial_sweep", "half a sweep", self.at)


FAULTS: Faults = {
    "pause_sent": PauseStorm,
}
