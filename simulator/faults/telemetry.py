"""Only the sensors are wrong, or only they are lost. Where a job stalls in the same second, the silence is evidence;
where it moves, nobody is held."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sickbay.components import UNKNOWN, Kind, Name, name
from simulator.faults.kit import COMPONENT, TAKE_OUT, Faults, Happening, blind, host_name, stall
from simulator.faults.lasting import Lasting, hosts_of
from simulator.parts.cluster import Card
from simulator.printing import host_lines, site_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import TAKING, Expectation
from simulator.world import World

PING_S = 100  # [house] from a host's last word until the scheduler says that it does not answer


@dataclass(slots=True, kw_only=True)
class HostBlind(Lasting):
    """Every card of a host goes blank in the second in which its job stalls; the host itself is alive (night 8)."""

    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            blind(world, self.host)
            yield from stall(world.run_on(self.host), self.at, at_s, world, world.cluster.of(self.host))

    def expect(self, world: World) -> Expectation:
        """The host."""
        run = world.run_on(self.host)
        return self.truth(
            world, "cards go blank as the job stalls", fault="host_blind", family="telemetry", verdicts=COMPONENT,
            components={host_name(self.host)}, actions=TAKE_OUT,
            touched=hosts_of(world, run.job.hosts if run else (self.host,)),
            spared=[host_name(host) for host in (run.job.hosts if run else ())],
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class CardBlind(Lasting):
    """One card is told of no more in the second in which its job stalls; its siblings are."""

    card: Card

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            world.now.seen[world.cluster.row(self.card.component)] = False
            yield from stall(world.run_on(self.card.host), self.at, at_s, world, [self.card])

    def expect(self, world: World) -> Expectation:
        """The card, or its host."""
        run = world.run_on(self.card.host)
        return self.truth(
            world, "one card goes blank as the job stalls", fault="accelerator_blind", family="telemetry",
            verdicts=COMPONENT, components={self.card.component, host_name(self.card.host)},
            faults={"accelerator_blind", "host_blind"}, actions=TAKE_OUT,
            touched=hosts_of(world, run.job.hosts if run else (self.card.host,)),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class OnlySensors(Lasting):
    """What is wrong with sensors alone: jobs go on, and nobody is held. Subclasses say how it shows."""

    host: str

    fault: ClassVar[str] = "monitor_fault"
    title: ClassVar[str] = ""

    def hosts(self, world: World) -> tuple[str, ...]:
        """Hosts of which the sensors err."""
        return (self.host,)

    def named(self, world: World) -> set[Name]:
        """What a detector may say is at fault."""
        return {name(Kind.MONITOR, UNKNOWN), name(Kind.MONITOR, self.host), host_name(self.host)}

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if self.on(at_s):
            yield from self.show(at_s, world)

    def show(self, at_s: int, world: World) -> Iterator[Printed]:
        """One second of it."""
        raise NotImplementedError

    def expect(self, world: World) -> Expectation:
        """No verdict that takes anything out; the part is named where a detector can."""
        named, touched = self.named(world), hosts_of(world, self.hosts(world))
        innocent = {part for part in touched if not part.startswith(f"{Kind.JOB}:")}
        return Expectation(
            name=self.fault, title=self.title, at_ms=world.ms(self.at), touched=frozenset(touched | named),
            components=frozenset(named), faults=frozenset({self.fault}), exonerated=frozenset(innocent - named),
            forbidden=TAKING, family="telemetry", severity=self.severity,
            ends_ms=None if self.lasts_s is None else world.ms(self.at + self.lasts_s),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class HostSilent(OnlySensors):
    """A host's agent and its scheduler's daemon are not heard any more; its job goes on."""

    fault: ClassVar[str] = "host_silent"
    title: ClassVar[str] = "a host is not heard, its job moves"

    def show(self, at_s: int, world: World) -> Iterator[Printed]:
        """Silence, and the scheduler's word on it."""
        world.now.mute.add(self.host)
        if self.since(at_s) == PING_S:
            yield site_lines.no_answer(world.ms(at_s, 0), [self.host])


@dataclass(slots=True, kw_only=True)
class PollerDown(OnlySensors):
    """What collects all accelerator metrics is down: every card of the cluster goes blank, jobs move."""

    title: ClassVar[str] = "all cards go blank, jobs move"

    def hosts(self, world: World) -> tuple[str, ...]:
        """All."""
        return world.cluster.hosts

    def show(self, at_s: int, world: World) -> Iterator[Printed]:
        """Nothing of any card."""
        world.now.seen[:] = False
        world.now.source_up[:] = False
        yield from ()


@dataclass(slots=True, kw_only=True)
class ClockOff(OnlySensors):
    """The clock of one host is off: its rows and its lines lie in the future, or in the past (night 33).

    `told`: the host's time service and its metrics say so.
    """

    seconds: float = 90.0
    told: bool = True

    title: ClassVar[str] = "one host's clock is off"

    def named(self, world: World) -> set[Name]:
        """The clock."""
        return {name(Kind.MONITOR, self.host, "clock")}

    def show(self, at_s: int, world: World) -> Iterator[Printed]:
        """Other times, and the time service."""
        row, off = world.cluster.host_index[self.host], self.seconds * self.severity
        world.now.skew_ms[row] = round(1000 * off)
        if self.told:
            world.now.overlay.put("host", "clock_offset_seconds", row, off)
            if self.since(at_s) % 64 == 30:  # a poll of chronyd
                yield host_lines.clock_wrong(world.ms(at_s, 400), self.host, -off)


@dataclass(slots=True, kw_only=True)
class StaleValues(OnlySensors):
    """An exporter goes on to answer and reads no more: what it told last is told for ever."""

    title: ClassVar[str] = "an exporter tells old values"

    def show(self, at_s: int, world: World) -> Iterator[Printed]:
        """The values of the second before."""
        world.now.overlay.freeze("accelerator", world.cluster.rows(self.host))
        yield from ()


@dataclass(slots=True, kw_only=True)
class WrongUnit(OnlySensors):
    """An exporter was updated and tells one column in another unit: milliwatts, or parts of a hundred."""

    column: str = "power_watts"
    factor: float = 1_000.0

    title: ClassVar[str] = "an updated exporter tells another unit"

    def show(self, at_s: int, world: World) -> Iterator[Printed]:
        """A gap of some seconds for the update, then the other unit."""
        rows = world.cluster.rows(self.host)
        if self.since(at_s) < 8:
            blind(world, self.host)
        else:
            world.now.overlay.scale("accelerator", self.column, rows, self.factor)
        yield from ()


@dataclass(slots=True, kw_only=True)
class HalfFabric(OnlySensors):
    """What polls ports sees half of the fabric: the ports of the later half of the hosts are not told, the links
    carry on."""

    share: float = 0.5

    title: ClassVar[str] = "half of the ports are not told"

    def hosts(self, world: World) -> tuple[str, ...]:
        """Those whose ports are not told."""
        every = world.cluster.hosts
        return every[len(every) - max(1, round(len(every) * self.share)) :]

    def show(self, at_s: int, world: World) -> Iterator[Printed]:
        """No value in any column of these ports, and nothing of their leaves."""
        for host in self.hosts(world):
            world.now.overlay.hide("port", world.cluster.rows(host))
            world.now.cables.silent |= {card.leaf for card in world.cluster.of(host)}
        yield from ()


MONITORS = {
    "poller": PollerDown, "clock": ClockOff, "stale": StaleValues, "unit": WrongUnit, "half_fabric": HalfFabric,
}  # fmt: skip


def monitor_fault(at: int, host: str, how: str = "", **settings: object) -> Happening:
    """One of `MONITORS`; where it is not said, one that follows from the time and the host."""
    drawn = np.random.default_rng([at, sum(host.encode()), 0x30])
    chosen = how or str(drawn.choice(sorted(MONITORS)))
    return MONITORS[chosen](at=at, host=host, **settings)  # type: ignore[no-any-return]


FAULTS: Faults = {
    "host_blind": HostBlind,
    "accelerator_blind": CardBlind,
    "host_silent": HostSilent,
    "monitor_fault": monitor_fault,
}
