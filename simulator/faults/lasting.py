"""Faults that last: when they are on, how far they have grown, and how their truth is written down."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from sickbay.components import Kind, Name, name
from sickbay.messages import Action, Verdict
from simulator.faults.kit import host_name, job_name
from simulator.parts.cables import HOST, LEAF
from simulator.parts.cluster import Card
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World

SIDES = (HOST, LEAF)


@dataclass(slots=True, kw_only=True)
class Lasting:
    """What a fault has that begins, grows for `ramp_s` and ends by itself after `lasts_s` (None: it does not).

    `severity`: 1 as the field tells it, 0.2 is hard to see.
    """

    at: int
    severity: float = 1.0
    ramp_s: int = 0
    lasts_s: int | None = None

    def on(self, at_s: int) -> bool:
        """It is there in this second."""
        return at_s >= self.at and (self.lasts_s is None or at_s < self.at + self.lasts_s)

    def since(self, at_s: int) -> int:
        """Seconds since it began."""
        return at_s - self.at

    def grown(self, at_s: int) -> float:
        """How much of it is there: 0 before it began, `severity` when it has grown."""
        if not self.on(at_s):
            return 0.0
        return self.severity * (min(1.0, (at_s - self.at + 1) / self.ramp_s) if self.ramp_s else 1.0)

    def rng(self, salt: int) -> np.random.Generator:
        """A source of its own: the same each time it is asked for, so that nobody else's draws change."""
        return np.random.default_rng([self.at, salt, 0xFA17])

    def truth(
        self, world: World, title: str, *, fault: str, family: str, verdicts: frozenset[Verdict],
        components: Iterable[Name], actions: frozenset[Action], touched: Iterable[Name],
        faults: Collection[str] = (), forbidden: Collection[str] = (), seen_s: int = 0, spared: Iterable[Name] = (),
    ) -> Expectation:  # fmt: skip
        """The right answer. `fault`: its name; `faults`: all right classes, where they are more; `seen_s`: from when on
        any sensor or line shows it. Hosts and jobs that it touches are innocent unless they are the answer."""
        right = frozenset(components)
        around = frozenset(touched) | right
        innocent = {part for part in around if part.partition(":")[0] in ("host", "job", "switch", "accelerator")}
        return Expectation(
            name=fault, title=title, at_ms=world.ms(self.at), touched=around, verdicts=verdicts, components=right,
            faults=frozenset(faults or {fault}), actions=actions, exonerated=frozenset(innocent | {*spared}) - right,
            forbidden=frozenset(forbidden), family=family, seen_ms=world.ms(self.at + seen_s),
            ends_ms=None if self.lasts_s is None else world.ms(self.at + self.lasts_s), severity=self.severity,
        )  # fmt: skip


def jobs_on(world: World, hosts: Iterable[str]) -> list[Run]:
    """The jobs that use any of these hosts, each once, in the order of the hosts."""
    found = {run.job.id: run for host in dict.fromkeys(hosts) if (run := world.run_on(host))}
    return list(found.values())


def slow_down(world: World, hosts: Iterable[str], what: str, share: float) -> None:
    """Jobs on these hosts lose a share of their time for `what` (0: no more)."""
    for run in jobs_on(world, hosts):
        if share > 0:
            run.slow[what] = share
        else:
            run.slow.pop(what, None)


def around(world: World, cards: Iterable[Card]) -> set[Name]:
    """Both ends of the cards' cables with all that stands there, and the jobs: who may look ill with them."""
    from simulator.faults.optics import bystanders

    return {part for card in cards for part in bystanders(card, world)}


def hosts_of(world: World, hosts: Iterable[str]) -> set[Name]:
    """Hosts with their ports, cards and jobs."""
    found: set[Name] = set()
    for host in hosts:
        found |= {host_name(host)} | {part for card in world.cluster.of(host) for part in (card.port, card.component)}
        found |= {job_name(run)} if (run := world.run_on(host)) else set()
    return found


def adapter(card: Card) -> Name:
    """The card's network adapter as a component."""
    return name(Kind.NIC, card.host, card.nic_pci)


def count(world: World, card: Card, side: int, column: str, more: float) -> None:
    """The port at one end of a card's cable counted so much more in this second, for whoever reads it there."""
    row = world.cluster.row(card.component)
    if side == HOST:
        world.now.overlay.count("port", column, row, round(more))
    world.now.cables.count(row, side, column, round(more))
