"""Faults of cooling: what the unit reads comes first, and the cards that it cools are innocent."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sickbay.components import Name
from sickbay.messages import Action, Verdict
from simulator.faults.facility import fed_with
from simulator.faults.kit import COMPONENT, SHARED, Faults, host_name, stall
from simulator.faults.lasting import Lasting, hosts_of, jobs_on, slow_down
from simulator.parts.facility import FLOW, PRESSURE, RETURN, SUPPLY, feeds
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World


def cooled_by(unit: Name, world: World) -> list[str]:
    """Everything that a unit cools."""
    return [host for fed in feeds(world.cluster, world.feeds).values() if fed.cdu == unit for host in fed.hosts]


@dataclass(slots=True, kw_only=True)
class CoolingLost(Lasting):
    """A distribution unit loses a fifth of its flow: the coolant warms, then the cards, which hold back (night 20).

    At less severity less flow is lost and the cards do not come to their own protection. `lasts_s`: it is repaired.
    """

    host: str
    flow: float = 0.8
    warms_s: int = 180
    heats_s: int = 480
    ends_s: int = 840

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, hosts = self.since(at_s), self.hosts(world)
        share = self.grown(at_s)
        if not share:
            slow_down(world, hosts, "cooling", 0.0)
            return
        self.told(world, at_s, share, since)
        heat = 20.0 * share * min(1.0, max(0.0, (since - 120) / (self.heats_s - 120)))
        held = share * min(0.4, max(0.0, (since - self.heats_s) / 60 * 0.06))
        for host in hosts:
            rows = world.cluster.rows(host)
            world.now.heat[rows] += heat
            world.now.throttled[rows] = held
            world.now.clock[rows] *= 1 - 0.7 * held
        yield from self._jobs(hosts, held, since, at_s, world)

    def told(self, world: World, at_s: int, share: float, since: int) -> None:
        """What the unit reads."""
        warm = share * (3.0 * min(1.0, since / self.warms_s) + max(0.0, since - self.warms_s) / 60)
        flow = 1 - (1 - self.flow) * share
        world.now.facility[fed_with(self.host, world).cdu] = {
            "flow_litres_per_minute": FLOW * flow * (1 + 0.004 * float(self.rng(at_s).standard_normal())),
            "supply_temperature_celsius": SUPPLY + warm,
            "return_temperature_celsius": RETURN + 2.2 * share + 1.4 * warm,
        }

    def hosts(self, world: World) -> list[str]:
        """Everything that the unit cools."""
        return cooled_by(fed_with(self.host, world).cdu, world)

    def _jobs(self, hosts: list[str], held: float, since: int, at_s: int, world: World) -> Iterator[Printed]:
        slow_down(world, hosts, "cooling", held)
        if since >= self.ends_s and self.severity >= 0.5:  # the cards' own protection
            for host in hosts:
                world.now.host_up[world.cluster.host_index[host]] = False
            gone = [card for host in hosts for card in world.cluster.of(host)]
            for run in jobs_on(world, hosts):
                yield from stall(run, self.at + self.ends_s, at_s, world, gone)

    def expect(self, world: World) -> Expectation:
        """The unit, before any card complains; the cards are innocent."""
        hosts = self.hosts(world)
        return self.truth(
            world, self.title(), fault=self.name(), family="ramp", verdicts=SHARED,
            components={fed_with(self.host, world).cdu}, faults={"cooling_lost"},
            actions=frozenset({Action.ESCALATE}), touched=hosts_of(world, hosts),
            forbidden={"drain_host", "reset_device", "replace_part", "power_cycle", "reboot_host"},
        )  # fmt: skip

    def name(self) -> str:
        """Its own name among the faults."""
        return "cooling_lost"

    def title(self) -> str:
        """In a few words."""
        return "a distribution unit cools too little"


@dataclass(slots=True, kw_only=True)
class PumpFails(CoolingLost):
    """A pump of the unit stops: flow and pressure halve in seconds, and everything comes sooner."""

    flow: float = 0.5
    ramp_s: int = 6
    warms_s: int = 60
    heats_s: int = 180
    ends_s: int = 360

    def told(self, world: World, at_s: int, share: float, since: int) -> None:
        """What the unit reads."""
        CoolingLost.told(self, world, at_s, share, since)
        unit = world.now.facility[fed_with(self.host, world).cdu]
        unit |= {"pump_ratio": 1.0 - 0.6 * share, "pressure_kilopascals": PRESSURE * (1 - 0.55 * share)}

    def name(self) -> str:
        """Its own name among the faults."""
        return "pump_failed"

    def title(self) -> str:
        """In a few words."""
        return "a pump of a distribution unit stops"


@dataclass(slots=True, kw_only=True)
class CoolantLeak(CoolingLost):
    """Coolant runs out: the pressure falls first, the rope is wet a minute later, then there is less flow."""

    flow: float = 0.75
    wet_s: int = 60

    def told(self, world: World, at_s: int, share: float, since: int) -> None:
        """What the unit reads."""
        CoolingLost.told(self, world, at_s, share, since)
        fallen = share * min(1.0, since / 120)
        unit = world.now.facility[fed_with(self.host, world).cdu]
        unit |= {"pressure_kilopascals": PRESSURE * (1 - 0.4 * fallen), "leak": float(since >= self.wet_s)}
        unit["flow_litres_per_minute"] *= (1 - (1 - self.flow) * fallen) / (1 - (1 - self.flow) * share)

    def name(self) -> str:
        """Its own name among the faults."""
        return "coolant_leak"

    def title(self) -> str:
        """In a few words."""
        return "coolant leaks"


@dataclass(slots=True, kw_only=True)
class ColdPlate(Lasting):
    """The way of the coolant through one host is clogged: its cards grow warm, the more the farther down the way, and
    those of its neighbours on the same unit do not, whose flow and supply are as ever."""

    host: str
    ramp_s: int = 240
    heat: float = 26.0

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        share, rows = self.grown(at_s), world.cluster.rows(self.host)
        held = 0.3 * max(0.0, share - 0.6)
        slow_down(world, [self.host], "cold_plate", held)
        if share:
            world.now.heat[rows] += self.heat * share * np.linspace(0.8, 1.2, rows.stop - rows.start)
            world.now.throttled[rows] = held
            world.now.clock[rows] *= 1 - 0.7 * held
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The host, or its cards; the unit is innocent."""
        cards = {card.component for card in world.cluster.of(self.host)}
        return self.truth(
            world, "coolant clogged in one host", fault="cold_plate", family="ramp",
            verdicts=COMPONENT | frozenset({Verdict.UNKNOWN}), components={host_name(self.host)} | cards,
            faults={"accelerator_thermal", "accelerator_slow"}, actions=frozenset({Action.WATCH, Action.DRAIN_HOST}),
            touched=hosts_of(world, [self.host]), forbidden={"reset_device", "replace_part"},
            spared={fed_with(self.host, world).cdu}, seen_s=30,
        )  # fmt: skip


FAULTS: Faults = {
    "cooling_lost": CoolingLost,
    "pump_failed": PumpFails,
    "coolant_leak": CoolantLeak,
    "cold_plate": ColdPlate,
}
