"""Faults of power and of the management network: what hangs on the part suffers together, and is innocent."""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.messages import Action
from simulator.faults.kit import COMPONENT, SHARED, Faults, host_name, stall
from simulator.faults.lasting import Lasting, hosts_of, jobs_on, slow_down
from simulator.parts.cables import HOST
from simulator.parts.facility import HOST_WATTS, VOLTS, Fed, feeds
from simulator.printing import site_lines as lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World


def fed_with(host: str, world: World) -> Fed:
    """What the host's rack hangs on."""
    return next(fed for fed in feeds(world.cluster, world.feeds).values() if host in fed.hosts)


@dataclass(slots=True, kw_only=True)
class PowerLost(Lasting):
    """The unit of a rack trips: its hosts, their BMCs and the management switch are gone in one second (night 18).

    `noticed`: seconds until the scheduler's own time-out says so. With a second feed that carries them, no host goes.
    """

    host: str
    noticed: int = 300

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if not self.on(at_s):
            return
        fed = fed_with(self.host, world)
        world.now.facility[fed.pdus[0]] = {"power_watts": 0.0, "current_amperes": 0.0}
        if len(fed.pdus) > 1:  # the other feed carries them
            watts = HOST_WATTS * len(fed.hosts) / (len(fed.pdus) - 1)
            watts *= 1 + 0.004 * float(self.rng(at_s).standard_normal())
            for pdu in fed.pdus[1:]:
                world.now.facility[pdu] = {"power_watts": watts, "current_amperes": watts / VOLTS}
            return
        cards = [card for host in fed.hosts for card in world.cluster.of(host)]
        for host in fed.hosts:
            world.now.host_up[world.cluster.host_index[host]] = False
        for card in cards:
            world.now.port_up[world.cluster.row(card.component)] = False
            world.now.cables.dark.add((world.cluster.row(card.component), HOST))  # loss of light at the leaf
        if at_s == self.at:
            for place, card in enumerate(cards):
                yield lines.switch_link(world.ms(at_s, 300 + 10 * place), card.leaf, card.leaf_port, "down")
        if at_s == self.at + self.noticed:
            yield lines.not_responding(world.ms(at_s), fed.hosts)
        for run in jobs_on(world, fed.hosts):
            yield from stall(run, self.at, at_s, world, cards)

    def expect(self, world: World) -> Expectation:
        """The unit; its hosts, their optics and the leaf are innocent."""
        fed = fed_with(self.host, world)
        cards = [card for host in fed.hosts for card in world.cluster.of(host)]
        touched = hosts_of(world, fed.hosts) | {card.switch_port for card in cards} | {fed.manager}
        feed = len(fed.pdus) > 1
        return self.truth(
            world, "one of two feeds gives no power" if feed else "a rack loses its power",
            fault=self.name(), family="shared", verdicts=SHARED | (COMPONENT if feed else frozenset()),
            components=fed.pdus[:1], faults={"power_feed_lost" if feed else "power_lost"},
            actions=frozenset({Action.ESCALATE}), touched=touched,
            forbidden={"power_cycle", "reboot_host", "replace_part", "drain_host"},
            spared={f"switch:{card.leaf}" for card in cards},
        )  # fmt: skip

    def name(self) -> str:
        """Its own name among the faults."""
        return "power_lost"


@dataclass(slots=True, kw_only=True)
class FeedLost(PowerLost):
    """One of the two units that feed a rack gives nothing more: nothing goes, and one more fault would stop it all.

    For racks with two feeds (`scenario(feeds=2)`).
    """

    def name(self) -> str:
        """Its own name among the faults."""
        return "power_feed_lost"


@dataclass(slots=True, kw_only=True)
class PowerBrake(Lasting):
    """A supply fails, or the rack's limit is hit: within a second clocks are halved on all cards of the host, or of the
    rack (`whole_rack`), and the brake's own bit is set. Nothing is printed."""

    host: str
    whole_rack: bool = False

    def hosts(self, world: World) -> tuple[str, ...]:
        """Whose cards are held."""
        return fed_with(self.host, world).hosts if self.whole_rack else (self.host,)

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        share = self.grown(at_s)
        hosts = self.hosts(world)
        slow_down(world, hosts, "power_brake", 1 / (1 - 0.5 * share) - 1)
        for host in hosts if share else ():
            rows = world.cluster.rows(host)
            world.now.clock[rows] *= 1 - 0.5 * share
            world.now.overlay.put("accelerator", "throttle_mask", rows, 128.0)
            if not self.whole_rack:
                world.now.overlay.put("accelerator", "power_limit_watts", rows, 700.0 * (1 - 0.45 * share))
        yield from ()

    def expect(self, world: World) -> Expectation:
        """What feeds them: all cards of one host or rack in one second are not so many bad cards."""
        fed, hosts = fed_with(self.host, world), self.hosts(world)
        right = set(fed.pdus) | {
            f"rack:{rack}" for rack, one in feeds(world.cluster, world.feeds).items() if one == fed
        }
        right = right if self.whole_rack else {host_name(self.host)}
        cards = {card.component for host in hosts for card in world.cluster.of(host)}
        return self.truth(
            world, "power brake", fault="power_brake_rack" if self.whole_rack else "power_brake", family="slow",
            verdicts=SHARED if self.whole_rack else COMPONENT, components=right,
            faults={"accelerator_power_limited", "power_lost", "power_feed_lost", "accelerator_slow"},
            actions=frozenset({Action.ESCALATE, Action.WATCH, *(() if self.whole_rack else (Action.DRAIN_HOST,))}),
            touched=hosts_of(world, hosts) | right, forbidden={"reset_device", "replace_part", "stop_job"},
            spared=cards,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class RackBrake(PowerBrake):
    """The same of a whole rack."""

    whole_rack: bool = True


@dataclass(slots=True, kw_only=True)
class ManagementLost(Lasting):
    """The management switch of a rack dies: BMCs, scrapes, agents and the scheduler's own heartbeats fall silent, and
    the data plane moves on (night 19). After `noticed` seconds the scheduler ends the jobs by its own clock."""

    host: str
    noticed: int = 300

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if not self.on(at_s):
            return
        fed = fed_with(self.host, world)
        world.now.mute |= {*fed.hosts}
        if self.since(at_s) == self.noticed:
            yield lines.not_responding(world.ms(at_s), fed.hosts)
            for run in jobs_on(world, fed.hosts):
                yield lines.node_failed(world.ms(at_s, 40), run.job.id, fed.hosts[0])
                run.ended = True

    def expect(self, world: World) -> Expectation:
        """The management network there; hosts and jobs are innocent, and nothing is to be switched off and on."""
        fed = fed_with(self.host, world)
        return self.truth(
            world, "management network of a rack lost", fault="management_lost", family="telemetry", verdicts=SHARED,
            components={fed.manager}, actions=frozenset({Action.ESCALATE}), touched=hosts_of(world, fed.hosts),
            forbidden={"drain_host", "stop_job", "requeue", "power_cycle", "reboot_host"},
        )  # fmt: skip


FAULTS: Faults = {
    "power_lost": PowerLost,
    "power_feed_lost": FeedLost,
    "power_brake": PowerBrake,
    "power_brake_rack": RackBrake,
    "management_lost": ManagementLost,
}
