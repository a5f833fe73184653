"""Faults of power and cooling: what hangs on the part suffers together, and is innocent."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, name
from sickbay.messages import Action
from simulator.faults.kit import SHARED, Faults, host_name, job_name, stall
from simulator.parts.facility import FLOW, RETURN, SUPPLY, Fed, feeds
from simulator.printing import site_lines as lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Run
from simulator.world import World


def fed_with(host: str, world: World) -> Fed:
    """What the host's rack hangs on."""
    return next(fed for fed in feeds(world.cluster, world.feeds).values() if host in fed.hosts)


@dataclass(slots=True)
class PowerLost:
    """The unit of a rack trips: its hosts, their BMCs and the management switch are gone in one second (night 18).

    `noticed`: seconds until the scheduler's own time-out says so.
    """

    at: int
    host: str
    noticed: int = 300

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s < self.at:
            return
        fed = fed_with(self.host, world)
        world.now.facility[fed.pdus[0]] = {"power_watts": 0.0, "current_amperes": 0.0}
        if len(fed.pdus) > 1:  # the other feed carries them
            return
        cards = [card for host in fed.hosts for card in world.cluster.of(host)]
        for host in fed.hosts:
            world.now.host_up[world.cluster.host_index[host]] = False
        for card in cards:
            world.now.port_up[world.cluster.row(card.component)] = False
        if at_s == self.at:
            for place, card in enumerate(cards):
                yield lines.switch_link(world.ms(at_s, 300 + 10 * place), card.leaf, card.leaf_port, "down")
        if at_s == self.at + self.noticed:
            yield lines.not_responding(world.ms(at_s), fed.hosts)
        for run in {run.job.id: run for host in fed.hosts if (run := world.run_on(host))}.values():
            yield from stall(run, self.at, at_s, world, cards)

    def expect(self, world: World) -> Expectation:
        """The unit; its hosts, their optics and the leaf are innocent."""
        fed = fed_with(self.host, world)
        cards = [card for host in fed.hosts for card in world.cluster.of(host)]
        touched = {*map(host_name, fed.hosts), *(c.port for c in cards), *(c.switch_port for c in cards), fed.manager}
        touched |= {job_name(run) for host in fed.hosts if (run := world.run_on(host))}
        return Expectation(
            name="power_lost", title="a rack loses its power", at_ms=world.ms(self.at), touched=frozenset(touched),
            verdicts=SHARED, components=frozenset(fed.pdus[:1]), faults=frozenset({"power_lost"}),
            actions=frozenset({Action.ESCALATE}),
        )  # fmt: skip


@dataclass(slots=True)
class CoolingLost:
    """A distribution unit loses a fifth of its flow: the coolant warms, then the cards, which hold back (night 20)."""

    at: int
    host: str
    flow: float = 0.8
    warms_s: int = 180
    heats_s: int = 480
    ends_s: int = 840

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = at_s - self.at
        if since < 0:
            return
        unit = fed_with(self.host, world).cdu
        warm = 3.0 * min(1.0, since / self.warms_s) + max(0.0, since - self.warms_s) / 60
        world.now.facility[unit] = {
            "flow_litres_per_minute": FLOW * self.flow * (1 + 0.004 * float(world.rng.standard_normal())),
            "supply_temperature_celsius": SUPPLY + warm,
            "return_temperature_celsius": RETURN + 2.2 + 1.4 * warm,
        }
        hosts = self.hosts(world)
        heat = 20.0 * min(1.0, max(0.0, (since - 120) / (self.heats_s - 120)))
        held = min(0.4, max(0.0, (since - self.heats_s) / 60 * 0.06))
        for host in hosts:
            rows = world.cluster.rows(host)
            world.now.heat[rows] = heat
            world.now.throttled[rows] = held
            world.now.clock[rows] = 1 - 0.7 * held
        yield from self._jobs(hosts, held, since, at_s, world)

    def hosts(self, world: World) -> list[str]:
        """Everything that the unit cools."""
        unit = fed_with(self.host, world).cdu
        return [host for fed in feeds(world.cluster, world.feeds).values() if fed.cdu == unit for host in fed.hosts]

    def _jobs(self, hosts: list[str], held: float, since: int, at_s: int, world: World) -> Iterator[Printed]:
        runs = {run.job.id: run for host in hosts if (run := world.run_on(host))}
        for run in runs.values():
            run.slow["cooling"] = held
        if since >= self.ends_s:  # the cards' own protection
            for host in hosts:
                world.now.host_up[world.cluster.host_index[host]] = False
            for run in runs.values():
                gone = [card for host in hosts for card in world.cluster.of(host)]
                yield from stall(run, self.at + self.ends_s, at_s, world, gone)

    def expect(self, world: World) -> Expectation:
        """The unit, before any card complains; the cards are innocent."""
        hosts = self.hosts(world)
        cards = [card for host in hosts for card in world.cluster.of(host)]
        touched = {*map(host_name, hosts), *(card.component for card in cards)}
        touched |= {job_name(run) for host in hosts if (run := world.run_on(host))}
        return Expectation(
            name="cooling_lost", title="a distribution unit cools too little", at_ms=world.ms(self.at),
            touched=frozenset(touched), verdicts=SHARED, components=frozenset({fed_with(self.host, world).cdu}),
            faults=frozenset({"cooling_lost"}), actions=frozenset({Action.ESCALATE}),
        )  # fmt: skip


@dataclass(slots=True)
class StorageStall:
    """A metadata server stalls: who does I/O waits and says so, who computes runs on (night 21).

    `job`s that wait are those of every second host pair from `host` on; `for_s`: how long it lasts.
    """

    at: int
    host: str
    target: str = "scratch-MDT0002"
    share: float = 0.5
    for_s: int = 400

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = at_s - self.at
        if not 0 <= since < self.for_s:
            return
        for place, run in enumerate(self.waiting(world)):
            run.stalled = True
            for row, host in enumerate(run.job.hosts):
                if since == 2 + (3 * place + row) % 8:
                    yield lines.storage_slow(world.ms(at_s, 10 * row), host, self.target)
                if since == 125 + row:
                    yield lines.task_stuck(world.ms(at_s), host, 48_000 + row)
            if since == self.for_s - 1:
                run.stalled = False

    def waiting(self, world: World) -> list[Run]:
        """The jobs that do I/O in that minute."""
        runs = list(world.runs.values())
        first = next(i for i, run in enumerate(runs) if self.host in run.job.hosts)
        ordered = runs[first:] + runs[:first]
        return ordered[: max(1, round(self.share * len(ordered)))]

    def expect(self, world: World) -> Expectation:
        """The target; its clients are innocent."""
        runs = self.waiting(world)
        touched = {job_name(run) for run in runs} | {host_name(host) for run in runs for host in run.job.hosts}
        return Expectation(
            name="storage_stall", title="a metadata server stalls", at_ms=world.ms(self.at), touched=frozenset(touched),
            verdicts=SHARED, components=frozenset({name(Kind.STORAGE, self.target)}),
            faults=frozenset({"storage_stall"}), actions=frozenset({Action.WATCH, Action.ESCALATE}),
        )  # fmt: skip


FAULTS: Faults = {
    "power_lost": PowerLost,
    "cooling_lost": CoolingLost,
    "storage_stall": StorageStall,
}
