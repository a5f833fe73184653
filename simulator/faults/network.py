"""Faults of the fabric beyond the links of hosts: an uplink lost or bad, a change of routes, a path that fails."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sickbay.components import Kind, Name, name, path
from sickbay.messages import Action, Verdict
from simulator.faults.kit import COMPONENT, SHARED, Faults, host_name, job_name, ranks_of
from simulator.faults.lasting import Lasting, count, hosts_of, slow_down
from simulator.faults.optics import LOOK, PATIENCE_S
from simulator.parts.cables import HOST
from simulator.parts.cluster import Card
from simulator.parts.uplinks import Uplink, uplinks_of
from simulator.printing import cable_lines, lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.world import World

NEVER = frozenset({"drain_host", "exclude_for_job", "reset_device", "reboot_host", "isolate_device", "stop_job"})


def mark(world: World, cards: Sequence[Card], at_s: int, packets: float, salt: int) -> None:
    """Packets arrive at these cards with a congestion mark."""
    for card in cards:
        row = world.cluster.row(card.component)
        more = packets * (0.7 + 0.6 * ((row * 2_654_435_761 + at_s * 40_503 + salt) % 1000) / 1000)
        world.now.cables.marked[row] = world.now.cables.marked.get(row, 0.0) + more
        count(world, card, HOST, "congestion_marked_total", more)


@dataclass(slots=True, kw_only=True)
class UplinkLost(Lasting):
    """One uplink of many is lost: the rest carry on, a little fuller, and steps take a little longer.

    `which`: of the leaf's uplinks, by its place. `severity`: how much steps feel of it.
    """

    leaf: str
    which: int = 1

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        here = uplinks_of(world.cluster, self.leaf)
        hosts = [card.host for card in world.cluster.under(self.leaf)]
        slow_down(world, hosts, "uplink_lost", 0.05 * self.grown(at_s))
        if not here:
            return
        row, lost = here[self.which % len(here)]
        if self.on(at_s):
            world.now.cables.uplinks_down.add(row)
            mark(world, world.cluster.under(self.leaf), at_s, 900 * self.grown(at_s), row)
        if self.since(at_s) in (0, self.lasts_s):
            state = "up" if self.since(at_s) else "down"
            yield cable_lines.switch_link(world.ms(at_s, 240), lost.leaf, lost.leaf_port, state)
            yield cable_lines.switch_link(world.ms(at_s, 280), lost.spine, lost.spine_port, state)

    def expect(self, world: World) -> Expectation:
        """The link between the switches, by a look; no host, no job, and neither switch as a whole."""
        return of_uplink(self, world, self.leaf, self.which, "uplink_lost", "one uplink of many lost", {"link_down"})


def of_uplink(
    what: Lasting, world: World, leaf: str, which: int, fault: str, title: str, faults: set[str]
) -> Expectation:
    """The right answer for one uplink."""
    here = uplinks_of(world.cluster, leaf)
    lost = here[which % len(here)][1] if here else Uplink(leaf, "1", "spine-01", "1")
    hosts = [card.host for card in world.cluster.under(leaf)]
    return what.truth(
        world, title, fault=fault, family="link", verdicts=COMPONENT, components={lost.component, *lost.ends},
        faults=faults, actions=LOOK | {Action.WATCH, Action.ESCALATE}, touched=hosts_of(world, hosts),
        forbidden=NEVER, spared={name(Kind.SWITCH, lost.leaf), name(Kind.SWITCH, lost.spine)},
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class UplinkErrs(Lasting):
    """An uplink loses symbols: what crosses it is sent again by hosts that have nothing to do with it."""

    leaf: str
    which: int = 1
    symbols: float = 60.0  # a second, at full severity

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        share, cards = self.grown(at_s), world.cluster.under(self.leaf)
        slow_down(world, [card.host for card in cards], "uplink_errors", 0.08 * share)
        here = uplinks_of(world.cluster, self.leaf)
        if share and here:
            row, _ = here[self.which % len(here)]
            lost = float(self.rng(1_000_003 * row + at_s).poisson(self.symbols * share))
            world.now.cables.uplink_counted[row, 0, "symbol_errors_total"] = lost
            world.now.cables.uplink_counted[row, 0, "rx_errors_total"] = round(0.4 * lost)
            for card in cards:
                count(world, card, HOST, "retransmits_total", 0.4 * lost / len(cards) + 1)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """The link between the switches."""
        return of_uplink(
            self, world, self.leaf, self.which, "uplink_errors", "an uplink loses symbols", {"link_errors"}
        )


@dataclass(slots=True, kw_only=True)
class RouteChanged(Lasting):
    """A person changes the hashing of a switch: a few of its uplinks are full and the others nearly empty (night 15).

    Marks follow within half a minute on two hosts in five of the jobs behind it, and their steps grow by 8 to 15 parts
    in a hundred; errors and light are as ever. `told`: the switch says who configured it.
    """

    leaf: str
    told: bool = True
    delay_s: int = 20
    full: float = 4.7  # times its even part that a preferred uplink carries

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        since, share = self.since(at_s), self.grown(at_s)
        if self.told and since == 0:
            yield cable_lines.configured(world.ms(at_s, 40), self.leaf, "rong")
        hosts = self.hosts(world)
        felt = share if since >= self.delay_s else 0.0
        for place, host in enumerate(hosts):
            slow_down(world, [host], "route", (0.08 + 0.07 * (place % 3) / 2) * felt)
        if share:
            here = uplinks_of(world.cluster, self.leaf)
            few = max(1, len(here) // 8)
            for place, (row, _) in enumerate(here):
                world.now.cables.uplink_weights[row] = 1 + ((self.full - 1) if place < few else -0.6) * share
        if felt:
            chosen = [host for place, host in enumerate(hosts) if place % 5 in (0, 2)]
            cards = [card for host in chosen for card in world.cluster.of(host)]
            mark(world, cards, at_s, 5_000 * felt, 0)

    def hosts(self, world: World) -> list[str]:
        """Hosts of all jobs of which a part hangs on the switch."""
        own = {card.host for card in world.cluster.under(self.leaf)}
        jobs = [run.job.hosts for run in world.runs.values() if own & {*run.job.hosts}]
        return [host for hosts in jobs for host in hosts]

    def expect(self, world: World) -> Expectation:
        """The switch's configuration, once for all jobs."""
        return self.truth(
            world, "a change of hashing fills single uplinks", fault="route_changed", family="shared",
            verdicts=SHARED, components={name(Kind.SWITCH, self.leaf), name(Kind.CLUSTER, "fabric")},
            actions=frozenset({Action.FIX_SOFTWARE, Action.WATCH, Action.ESCALATE}),
            touched=hosts_of(world, self.hosts(world)), seen_s=0 if self.told else self.delay_s,
            forbidden=NEVER | {"isolate_port", "cost_out_link", "check_link"},
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class PathBreaks(Lasting):
    """Packets between two hosts of a job vanish somewhere on the way: both ends run out of tries, no counter tells.

    `severity` below 0.5: one end says so, else both.
    """

    card: Card

    def far(self, world: World) -> Card:
        """The card at the other end: of the same place in another host of the job, else of the next host."""
        run = world.run_on(self.card.host)
        hosts = run.job.hosts if run else world.cluster.hosts
        others = [host for host in (*hosts, *world.cluster.hosts) if host != self.card.host]
        return world.cluster.of(others[0])[self.card.index]

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        run, since = world.run_on(self.card.host), self.since(at_s)
        if run is None or run.ended or not self.on(at_s):
            return
        run.stalled, far = True, self.far(world)
        if since == PATIENCE_S + 6:
            yield lines.retry_exceeded(world.ms(at_s, 120), run.job.id, self.card, far)
            if self.severity >= 0.5:
                yield lines.retry_exceeded(world.ms(at_s, 640), run.job.id, far, self.card)
        if since == run.job.timeout_s:
            for rank, _ in ranks_of(run):
                at_ms, seq = world.ms(at_s, 37 + rank), 71_904 + run.step
                yield from lines.watchdog(at_ms, run.job.id, rank, seq, "ALLREDUCE", run.job.timeout_s)
        run.ended = since >= run.job.timeout_s + 2

    def expect(self, world: World) -> Expectation:
        """The path: which end or hop, nothing here can tell."""
        far, run = self.far(world), world.run_on(self.card.host)
        ends = [(one.address, one.host, f"::ffff:{one.address}") for one in (self.card, far)]
        names: set[Name] = {path(here, there) for here in ends[0] for there in ends[1]}
        job = {job_name(run)} if run else set()
        return self.truth(
            world, "a path fails", fault="path_broken", family="hang",
            verdicts=COMPONENT | frozenset({Verdict.UNKNOWN}), components=names | job,
            faults={"path_broken", "collective_stall"}, actions=LOOK | {Action.WATCH, Action.RESTART_JOB},
            touched=names | job | {host_name(self.card.host), host_name(far.host)},
            forbidden={"drain_host", "reset_device", "reboot_host", "replace_part"},
        )  # fmt: skip


FAULTS: Faults = {
    "uplink_lost": UplinkLost,
    "uplink_errors": UplinkErrs,
    "route_changed": RouteChanged,
    "path_broken": PathBreaks,
}
