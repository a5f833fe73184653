"""People at work: declared or not, what goes away is theirs, and it comes back."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, Name, name
from simulator.decoys.kit import around, declare, nothing
from simulator.faults.kit import host_name
from simulator.faults.optics import carriers
from simulator.faults.switch import LeafReboot
from simulator.parts.cluster import Card
from simulator.printing import host_lines, lines, site_lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

DOWN_AFTER_S = 5  # from the word that a host goes down until its agent is gone


def end_job(host: str, at_s: int, world: World) -> Iterator[Printed]:
    """The job on a host is ended by its owner, if it still runs."""
    run = world.run_on(host)
    if run is not None and not run.ended:
        yield lines.cancelled(world.ms(at_s, 50), run.job.id, run.job.hosts[0])
        run.ended = True


def away(world: World, host: str) -> None:
    """The host is off: no agent, no carrier at its ports."""
    world.now.host_up[world.cluster.host_index[host]] = False
    world.now.port_up[world.cluster.rows(host)] = False


def boot_again(world: World, host: str, at_s: int, booted_s: int) -> None:
    """From now on the host tells that it booted then."""
    if at_s >= booted_s:
        row = world.cluster.host_index[host]
        world.now.overlay.put("host", "boot_time_seconds", row, float(world.ms(booted_s) // 1000))


@dataclass(slots=True)
class OrderlyShutdown:
    """Somebody shuts hosts down, one after the other, and told nobody (night 29). They stay away for `away_s`."""

    at: int
    host: str
    hosts: int = 3
    every_s: int = 40
    away_s: int = 600

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        for place, host in enumerate(self.row(world)):
            since = at_s - self.at - place * self.every_s
            if since == 0:
                yield from host_lines.goes_down(world.ms(at_s, 300), host, again=False)
                yield from end_job(host, at_s, world)
            if DOWN_AFTER_S <= since < self.away_s:
                away(world, host)
            if since == DOWN_AFTER_S:
                for card in world.cluster.of(host):
                    yield from list(carriers(world.ms(at_s, 20 + card.index), card, "down"))[1:]
            if since == self.away_s:
                yield host_lines.boots(world.ms(at_s, 5), host)
            boot_again(world, host, at_s, self.at + place * self.every_s + self.away_s - 30)

    def row(self, world: World) -> tuple[str, ...]:
        """The host and those after it, in the order of the rack."""
        hosts, first = world.cluster.hosts, world.cluster.host_index[self.host]
        return (hosts + hosts)[first : first + min(self.hosts, len(hosts))]

    def expect(self, world: World) -> Expectation:
        """A person: an incident of the kind `maintenance` is welcome, everything else is wrong."""
        hosts = {other for host in self.row(world) for other in around(world, host)}
        title = "shut down by a person"
        return nothing(world, sorted(hosts), "orderly_shutdown", title, self.at, away=self.row(world))


@dataclass(slots=True)
class Maintenance:
    """Declared work on one host: its job was ended before, it restarts twice and comes back."""

    at: int
    host: str
    lasts_s: int = 300

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = at_s - self.at
        if since == 0:
            declare(world, [host_name(self.host)], at_s, self.at + self.lasts_s, "new memory modules")
            yield from end_job(self.host, at_s, world)
        for began, back in ((20, 20 + self.lasts_s // 3), (40 + self.lasts_s // 3, self.lasts_s - 20)):
            if since == began:
                yield from host_lines.goes_down(world.ms(at_s, 300), self.host, again=True)
            if began + DOWN_AFTER_S <= since < back:
                away(world, self.host)
            if since == back:
                yield host_lines.boots(world.ms(at_s, 5), self.host)
            boot_again(world, self.host, at_s, self.at + back - 30 if since >= back else at_s + 1)

    def expect(self, world: World) -> Expectation:
        """Nothing: it was declared."""
        hosts, ends = around(world, self.host), self.at + self.lasts_s
        title = "declared work on a host"
        return nothing(world, hosts, "maintenance", title, self.at, ends=ends, away=[self.host])


@dataclass(slots=True)
class FirmwareRollout:
    """Management controllers get new firmware, host after host, in a declared window: each is away for a while."""

    at: int
    host: str
    every_s: int = 30
    away_s: int = 60

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        overlay, hosts = world.now.overlay, world.cluster.hosts
        overlay.put("host", "management_up", slice(None), 1.0)
        overlay.put("host", "powered", slice(None), 1.0)
        if at_s == self.at:
            ends = self.at + self.every_s * len(hosts) + self.away_s
            declare(world, map(host_name, hosts), at_s, ends, "firmware of the management controllers")
        for row in range(len(hosts)):
            if 0 <= at_s - self.at - row * self.every_s < self.away_s:
                overlay.put("host", "management_up", row, 0.0)
                overlay.hide("host", row, ("powered",))
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing: jobs never noticed."""
        hosts = world.cluster.hosts
        ends = self.at + self.every_s * len(hosts) + self.away_s
        return nothing(world, hosts, "firmware_rollout", "declared roll-out of firmware", self.at, ends=ends)


@dataclass(slots=True)
class SwitchReboot:
    """A leaf restarts in a declared window: jobs were ended before."""

    at: int
    leaf: str
    away: int = 180

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at:
            declare(world, [self.switch], at_s, self.at + self.away + 120, "new image")
            for host in self.under(world):
                yield from end_job(host, at_s, world)
        yield from LeafReboot(at=self.at + 15, leaf=self.leaf, away=self.away).tick(at_s, world)

    @property
    def switch(self) -> Name:
        """Its name."""
        return name(Kind.SWITCH, self.leaf)

    def under(self, world: World) -> list[str]:
        """Hosts on it."""
        return list(dict.fromkeys(card.host for card in world.cluster.under(self.leaf)))

    def expect(self, world: World) -> Expectation:
        """Nothing: it was declared."""
        hosts = {other for host in self.under(world) for other in around(world, host)}
        ends, title = self.at + self.away + 120, "declared restart of a switch"
        return nothing(world, sorted(hosts), "switch_reboot", title, self.at, also={self.switch}, ends=ends)


@dataclass(slots=True)
class CableWork:
    """A cable is taken out, cleaned and put back, twice, in a declared window; its job was ended before."""

    at: int
    card: Card
    lasts_s: int = 150

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since = at_s - self.at
        if since == 0:
            ends = self.at + self.lasts_s + 60
            declare(world, [self.card.port, self.card.switch_port], at_s, ends, "cleaning a connector")
            yield from end_job(self.card.host, at_s, world)
        for out, back in ((20, 70), (80, self.lasts_s)):
            if out <= since < back:
                world.now.port_up[world.cluster.row(self.card.component)] = False
            if since in (out, back):
                yield from carriers(world.ms(at_s, 120), self.card, "down" if since == out else "up")

    def expect(self, world: World) -> Expectation:
        """Nothing: it was declared."""
        hosts, also = around(world, self.card.host), {name(Kind.SWITCH, self.card.leaf)}
        ends = self.at + self.lasts_s + 60
        return nothing(world, hosts, "cable_work", "declared work on a cable", self.at, also=also, ends=ends)


@dataclass(slots=True)
class DaemonRestart:
    """The scheduler's daemon on a host restarts and misses a ping: nothing else happens, the job moves."""

    at: int
    host: str

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s == self.at:
            yield site_lines.no_answer(world.ms(at_s, 0), [self.host])

    def expect(self, world: World) -> Expectation:
        """Nothing: the job moves."""
        return nothing(world, around(world, self.host), "daemon_restart", "the scheduler's daemon restarts", self.at)
