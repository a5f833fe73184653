"""Carriers lost: a port that goes down, one that flaps, and the shared part behind several that go in one moment.

Siblings of a shared part that stay up speak against it. A port that a person closed is no fault.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from diagnosis.alive import Alive
from diagnosis.by_order import Orders, orders
from diagnosis.carriers import LEAST_WINDOWS, hosts_seen, lost_in_telemetry
from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build
from diagnosis.evidence import CERTAIN, FAIR, GOOD, bucket_of, cites, event_time, identity
from diagnosis.known_hosts import Hosts, known_hosts
from sickbay.components import UNKNOWN, Kind, Name, host_of, kind_of, name
from sickbay.messages import Event, Evidence, Relation, Severity, replace
from sickbay.topology import View

NAME, VERSION = "link_down", "1"

TOGETHER_MS = 2_000  # mechanisms 13 to 15: carriers of one shared part go within 2 s
FLAP_MS = 600_000  # [house] a second loss within 10 min is a flap
SAME_MS = 5_000  # [house] so soon after a first word, with none that it came back, it is the same loss
BACK_MS = 60_000  # [house] a carrier that returns within a minute was a flap
BRING_UP_MS = 300_000  # [house] a host and its drivers start within five minutes
ADMIN_MS = 5_000  # a port closed by a person, and the carrier that goes with it
MANY_HOSTS = 4  # [house] that lose their carrier together: those of which nothing was collected are left out
MANY_PORTS = 6  # [house] of one switch whose other ports nobody tells
ALL_DOWN, MANY_DOWN = 0.8, 0.5  # [house] shares of a part's hosts that lost their carrier
UNKNOWN_PART = name(Kind.SWITCH, UNKNOWN)  # what many ports hang on that no topology tells
PARTS = (Kind.OPTIC, Kind.NIC, Kind.SWITCH, Kind.PDU, Kind.RACK, Kind.CLUSTER)
CARRIES = (Relation.PART_OF, Relation.ATTACHED_TO, Relation.POWERED_BY)  # who manages a host carries none of its links
FAULT_OF = {Kind.OPTIC: "optic_fault", Kind.NIC: "nic_failed", Kind.SWITCH: "switch_down", Kind.PDU: "power_lost"}


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per port, and one per shared part of ports that went together."""
    closed, ups, known = _by_component(case, "port.admin_down"), _by_component(case, "port.up"), orders(case)
    spoken = [event for event in case.events if event.kind == "port.down" and not _by_order(event, closed, known)]
    downs = [event for event in spoken if not _brought_up(event, ups, known) and not _left_by_host(event, known)]
    by_port: dict[Name, list[Event]] = defaultdict(list)
    for event in downs:
        by_port[event.component].append(event)
    told = lost_in_telemetry(case)
    measured = [one for one in told if one.component not in by_port and not _measured_by_order(one, known, case)]
    alone = [event for event in downs if not _stopped(event, known)]  # what stopped in order shares no broken part
    groups = (*_at_once(alone, TOGETHER_MS), *_at_once(measured, case.window_ms + TOGETHER_MS))
    seen = hosts_seen(case) if groups else frozenset()
    shared = [claim for together in groups for claim in _of_part(together, case, seen)]
    orphans = {port for one in shared if one.component == UNKNOWN_PART for port in one.facts["ports"].split(", ")}
    singles = [_of_port(by_port[port], ups[port]) for port in sorted(by_port)]
    singles += [
        build([one], "link_down", one.component, detector=NAME, version=VERSION, says="link_lost", llr=GOOD)
        for one in measured
    ]
    yield from (_orphaned(one) if one.component in orphans else one for one in singles)
    yield from shared


def _orphaned(one: Evidence) -> Evidence:
    """A port that went with many others, of which nothing tells what they share."""
    marked: Evidence = replace(one, facts=one.facts | {"victim_of": UNKNOWN_PART})
    return marked


def _by_component(case: Case, kind: str) -> dict[Name, list[Event]]:
    found: dict[Name, list[Event]] = defaultdict(list)
    for event in case.events:
        if event.kind == kind:
            found[event.component].append(event)
    return found


def _by_order(event: Event, closed: dict[Name, list[Event]], known: Orders) -> bool:
    """A person closed the port, or the one at the other end of its link."""
    same = any(_near(other, event, ADMIN_MS) for other in closed.get(event.component, ()))
    return same or known.closed(event.component, event.at_ms)


def _measured_by_order(event: Event, known: Orders, case: Case) -> bool:
    at, to = event.at_ms or 0, (event.at_ms or 0) + LEAST_WINDOWS * case.window_ms
    stopped = any(known.stopped(event.component, one) for one in (at, to))
    return stopped or known.closed(event.component, at - case.window_ms, to)


def _brought_up(event: Event, ups: dict[Name, list[Event]], known: Orders) -> bool:
    """Carriers come and go while a host at either end starts: that is no fault of theirs."""
    if event.at_boot_s is not None:
        return event.at_boot_s < BRING_UP_MS / 1000
    back = [up.at_ms for up in ups.get(event.component, ()) if up.at_ms is not None]
    return event.at_ms is not None and known.started(event.component, event.at_ms, back)


def _left_by_host(event: Event, known: Orders) -> bool:
    """A switch tells the loss of a host that went down in order. The host's own word is explained by its going."""
    return any(host != host_of(event.component) for host in _stopped(event, known))


def _stopped(event: Event, known: Orders) -> tuple[str, ...]:
    return known.stopped(event.component, event.at_ms) if event.at_ms is not None else ()


def _near(first: Event, second: Event, within_ms: int) -> bool:
    a, b = event_time(first), event_time(second)
    return a is not None and b is not None and a[0] == b[0] and abs(a[1] - b[1]) <= within_ms


def _each_once(downs: list[Event]) -> list[Event]:
    """The losses of a port: of one the kernel, a job and the driver tell within a moment, each in words of its own."""
    found: list[Event] = []
    for event in downs:
        if not found or not _near(found[-1], event, SAME_MS):
            found.append(event)
    return found


def _of_port(downs: list[Event], ups: list[Event]) -> Evidence:
    returned = any(0 <= up.at_ms - down.at_ms <= BACK_MS for up in ups for down in downs if up.at_ms and down.at_ms)
    again = any(_near(first, second, FLAP_MS) for first, second in pairwise(_each_once(downs)))
    flaps = returned or again
    return build(
        downs, "link_flap" if flaps else "link_down", downs[0].component,
        detector=NAME, version=VERSION, says="link_flaps" if flaps else "link_lost",
    )  # fmt: skip


def _at_once(downs: list[Event], within_ms: int) -> Iterator[list[Event]]:
    """Losses on two or more ports in one moment, counted from the first; undated ones prove nothing about that."""
    dated = sorted((event for event in downs if event.at_ms is not None), key=lambda one: (one.at_ms, one.component))
    group: list[Event] = []
    for event in dated:
        assert event.at_ms is not None
        if group and event.at_ms - (group[0].at_ms or 0) > within_ms:
            yield from [group] if len({one.component for one in group}) > 1 else []
            group = []
        group.append(event)
    yield from [group] if len({one.component for one in group}) > 1 else []


def _of_part(together: list[Event], case: Case, seen: frozenset[str]) -> Iterator[Evidence]:
    view, alive = case.topology.at(together[0].at_ms), Alive(case, together[0].at_ms)
    known, above = known_hosts(case), dict[Name, set[Name]]()
    left = {event.component: event for event in together}
    while len(left) > 1:
        lost = _Lost(view, sorted(left), seen, alive, known, above)
        part = lost.best_part()
        if part is None:
            yield from _of_unknown(lost, [left[port] for port in sorted(left)])
            return
        yield _claim(lost, part, [left.pop(port) for port in lost.under[part]])


def _of_unknown(lost: "_Lost", events: list[Event]) -> Iterator[Evidence]:
    """Ports of many hosts, or many of one that is no known host, that went in one moment have something in common,
    whether a topology tells it or not."""
    owners = hosts_of(lost.view, (event.component for event in events))
    if len(owners) >= MANY_HOSTS or lost.many_of_a_switch(owners):
        claim = _claim(lost, UNKNOWN_PART, events)
        facts = claim.facts | {"ports": ", ".join(sorted(event.component for event in events))}
        yield replace(claim, llr=GOOD, says="carriers_lost_together", facts=facts)


class _Lost:
    """Ports that lost their carrier in one moment, by the parts that they hang on."""

    def __init__(
        self, view: View, ports: list[Name], seen: frozenset[str], alive: Alive, known: Hosts,
        above: dict[Name, set[Name]],
    ) -> None:  # fmt: skip
        self._known = known
        self.view, self._seen, self._alive, self._lost = view, seen, alive, frozenset(ports)
        self._above = above  # remembered: a storm is looked at part by part
        self._carried: dict[tuple[str, Name], bool] = {}
        self._unlinked = frozenset(host_of(port) for port in ports if not view.other_end(port))
        self.under: dict[Name, list[Name]] = defaultdict(list)
        for port in ports:
            for part in sorted(self._parts(port)):
                if kind_of(part) in PARTS:
                    self.under[part].append(port)

    def best_part(self) -> Name | None:
        """Of the parts with no or few healthy members the one behind most losses; of these one that is not seen to work
        on, and the most specific."""
        well = {part for part in self.under if self._works_on(part)}
        well |= {up for part in well for up in self.view.ancestors(part) if kind_of(up) is Kind.SWITCH}
        ranks = {
            part: (
                self._grade(part, all_members=True),
                self._grade(part),
                len(ports),
                part not in self._alive,
                -PARTS.index(kind_of(part)),
                len(self.view.ancestors(part)),
                part,
            )
            for part, ports in self.under.items()
            if self._links(ports) > 1 and not self._little_known(part) and part not in well
        }
        return max(ranks, key=lambda part: ranks[part], default=None)

    def _works_on(self, part: Name) -> bool:
        """A switch that was heard without a break while nothing was heard of the hosts on it: these went dark
        themselves, as a rack does that loses its power. Where their ends are known to be lost too, as a sweep tells,
        it must have kept all its links to other switches."""
        if kind_of(part) is not Kind.SWITCH or not self._alive.went_on(part):
            return False
        hosts = self.hosts(self.under[part])
        if not self._alive.heard.isdisjoint(hosts):
            return False
        if {host_of(port) for port in self._lost}.isdisjoint(hosts):
            return True
        ports = [one for one in self.view.children(part, Relation.PART_OF) if kind_of(one) is Kind.PORT]
        ends = {port: far for port in ports if (far := self.view.other_end(port)) and _is_switch(self.view, far)}
        return bool(ends) and self._lost.isdisjoint([*ends.keys(), *ends.values()])

    def _links(self, ports: Iterable[Name]) -> int:
        """Links that the ports are ends of: both ends of one tell of one loss."""
        return len({frozenset((port, self.view.other_end(port) or port)) for port in ports})

    def share(self, part: Name, *, all_members: bool = False) -> float:
        """How much of a part is lost: of the switches below it, else of its hosts, else of its ports. 0 to 1.

        Of few hosts the logs of the broken ones alone may have been collected. Many in one moment are no choice: then
        hosts of which nothing was collected are left out, unless all members are to count.
        """
        below = [one for one in self.view.children(part) if kind_of(part) is kind_of(one) is Kind.SWITCH]
        if below:  # a healthy switch below clears the one above
            return sum(
                self.share(one, all_members=all_members) >= ALL_DOWN for one in below if one in self.under
            ) / len(below)
        ports = self.under.get(part, [])
        if hosts := set(self.view.hosts_under(part)):
            lost = {host for host in hosts_of(self.view, ports) if host in hosts and not self._carries(host, part)}
            members = hosts if all_members or len(lost) < MANY_HOSTS else hosts & self._seen | lost
            return len(lost) / len(members)
        members = {one for one in self.view.children(part) if kind_of(one) is Kind.PORT}
        ends = {end for port in ports for end in (port, self.view.other_end(port))}
        return len(members & ends) / len(members) if members else 1.0

    def hosts(self, ports: Iterable[Name]) -> list[str]:
        """Hosts at the ends of the ports. Where one end is a known host and the other is none, that is a switch."""
        found: set[str] = set()
        for port in ports:
            ends = hosts_of(self.view, [port])
            found.update([one for one in ends if one in self._known] or ends)
        return sorted(found)

    def many_of_a_switch(self, owners: Iterable[str]) -> bool:
        """Many of the ports are those of one owner, which is no host that is known: the only one that tells of them."""
        count = Counter(host_of(port) for port in self._lost)
        return any(count[owner] >= MANY_HOSTS and owner not in self._known for owner in owners)

    def _carries(self, host: str, part: Name) -> bool:
        """The host has a link over that part, of those that are known, that was not lost: then the part is well.

        Where a lost port is none of the known ones, it may be one of them by another name: that tells nothing.
        """
        if (host, part) not in self._carried:
            self._carried[host, part] = host not in self._unlinked and self._still_linked(host, part)
        return self._carried[host, part]

    def _still_linked(self, host: str, part: Name) -> bool:
        for port in self.view.children(name(Kind.HOST, host)):
            far = self.view.other_end(port) if kind_of(port) is Kind.PORT else None
            if far and not {port, far} & self._lost and part in self._parts(port):
                return True
        return False

    def _parts(self, port: Name) -> set[Name]:
        if port not in self._above:
            self._above[port] = parts_above(self.view, port)
        return self._above[port]

    def _little_known(self, part: Name) -> bool:
        """A switch of which only its own lines tell: ports that never spoke are unknown, two of them are no switch."""
        return (
            kind_of(part) is Kind.SWITCH
            and len(self.under[part]) < MANY_PORTS
            and not self.view.hosts_under(part)
            and not self.view.children(part, Relation.ATTACHED_TO)
            and not any(self.view.other_end(port) for port in self.under[part])
        )

    def _grade(self, part: Name, *, all_members: bool = False) -> int:
        share = self.share(part, all_members=all_members)
        return (share >= ALL_DOWN) + (share >= MANY_DOWN)


def parts_above(view: View, port: Name) -> set[Name]:
    """What the carrier of a port hangs on: its own side, the other end's side, and what feeds them.

    A host's other switches are no part of it. Only where no link tells the port's own switch, the host's one switch is.
    """
    ends = [end for end in (port, view.other_end(port)) if end]
    linked = len(ends) > 1 or bool(view.parents(port, Relation.ATTACHED_TO))
    found: set[Name] = set()
    waiting = ends
    while waiting:
        fresh = {parent for part in waiting for parent in _parents(view, part, linked)} - found
        found |= fresh
        waiting = sorted(fresh)
    return found


def _parents(view: View, part: Name, linked: bool) -> tuple[Name, ...]:
    parents = view.parents(part, *CARRIES)
    if kind_of(part) is not Kind.HOST:
        return parents
    switches = [parent for parent in view.parents(part, Relation.ATTACHED_TO) if kind_of(parent) is Kind.SWITCH]
    return parents if not linked and len(switches) == 1 else tuple(one for one in parents if one not in switches)


def hosts_of(view: View, ports: Iterable[Name]) -> list[str]:
    """Hosts at either end of the ports."""
    ends = [end for port in ports for end in (port, view.other_end(port)) if end]
    known = {host for end in ends for host in [host_of(end)] if host and not _is_switch(view, end)}
    return sorted(known)


def _is_switch(view: View, port: Name) -> bool:
    return any(kind_of(part) is Kind.SWITCH for part in view.parents(port, Relation.PART_OF))


def _claim(lost: _Lost, part: Name, events: list[Event]) -> Evidence:
    ports = sorted(event.component for event in events)
    share, hosts = lost.share(part), lost.hosts(ports)
    onset = [event.at_ms for event in events if event.at_ms is not None]
    few = share < MANY_DOWN
    fault = FAULT_OF.get(kind_of(part), "switch_down")
    return Evidence(
        id=identity(NAME, VERSION, part, fault, bucket_of(min(onset))),
        detector=NAME,
        version=VERSION,
        component=part,
        fault=fault,
        llr=-GOOD if few else CERTAIN if share >= ALL_DOWN and len(ports) > 1 else FAIR,
        onset_from_ms=min(onset),
        onset_to_ms=min(onset),
        end_ms=max(onset),
        source_group=f"{part}|carriers|{bucket_of(min(onset))}",
        severity=Severity.ERROR,
        count=len(ports),
        says="siblings_well" if few else "carriers_lost",
        facts={
            "count": str(len(ports)),
            "share": str(round(100 * share)),
            "hosts": ", ".join(hosts),
            "ports": ", ".join(ports[:10]),
        },
        cites=cites(events),
    )
