"""Ports of the fabric's switches as their switches tell them: what a clean sweep says of each, and what is new. Pure.

A port is told down by its own switch only, with the port at the other end as its peer. Where that is an adapter's,
which nobody can ask any more, the same is told of it too: a host that was switched off is no fault of the leaf.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collectors import rows
from collectors.cluster.fabric_edges import Held, Key, owner
from collectors.cluster.fabric_sweep import Sweep
from collectors.formats.events import event
from collectors.formats.ibnetdiscover import End, Names
from collectors.formats.link_listing import UP, Port
from collectors.formats.port_findings import of_state
from sickbay.components import Kind, Name, host_of, kind_of
from sickbay.messages import Event, Relation, Severity
from sickbay.messages import replace as changed
from sickbay.schema import Samples

FEW_SHARE = 0.05  # [house] of the links: where more could go faster, their cables or settings want it so
_CLOSED = ("Disabled",)


@dataclass(frozen=True, slots=True)
class Links:
    """The other end of every port that has, or had, a link, and which ports are known to be switches'."""

    peers: Mapping[Name, Name]
    of_switches: Collection[Name]


def links_of(held: Mapping[Key, Held]) -> Links:
    """What the edges in force tell of links. Of two links of a port the newer counts."""
    pairs = [key[:2] for key, one in held.items() if one.link]
    peers = {near: far for pair in pairs for near, far in (pair, pair[::-1])}
    return Links(peers, {key[0] for key in held if key[2] == Relation.PART_OF.value})


class Told(NamedTuple):
    """A port as last believed. `rate` in Gb/s: of when it was last up."""

    state: str
    physical: str
    rate: float


def believed(
    sweep: Sweep, before: Mapping[End, Told], names: Names, links: Links, now_ms: int
) -> tuple[dict[End, Told], list[Event]]:
    """The switches' ports after a clean sweep, and what has changed with them since the last."""
    ports = dict(before)
    events: list[Event] = []
    better = [end for end, row in sweep.rows.items() if row.better and row.state == UP]
    closed = {names.ports[end] for end, row in sweep.rows.items() if row.physical in _CLOSED and end in names.ports}
    few = len(better) <= FEW_SHARE * len(sweep.links)
    for end, row in sweep.rows.items():
        port, known = names.ports.get(end), before.get(end)
        if port is None or end in sweep.silent:
            continue
        peer = links.peers.get(port, "")
        if row.state == "Down" and peer in closed:  # the light is off where it was switched off: at the other end
            row = row._replace(physical=_CLOSED[0])
        for told in _changes(port, row, known, peer, few=few):
            one = changed(told, at_ms=now_ms, seen_ms=now_ms, peer=peer)
            events.append(one)
            if peer and peer not in links.of_switches and one.kind != "port.speed_reduced":
                events.append(changed(one, component=peer, peer=port, host=host_of(port) or ""))
        rate = row.rate if row.state == UP else known.rate if known else 0.0
        ports[end] = Told(row.state, row.physical, rate)
    return ports, events


def _changes(port: Name, row: Port, known: Told | None, peer: Name, *, few: bool) -> Iterator[Event]:
    """What is new with a port. Of one that was never seen up and has no link nothing is said: it may be spare."""
    state = of_state(port, row.state, row.physical)
    if known is None:
        if state is not None and state.kind != "port.up" and (peer or row.far):
            yield state
        if row.better and few and row.state == UP:
            facts = {"rate": f"{row.rate:g}", "width": str(row.width)}
            yield event("port.speed_reduced", port, facts, code="could be faster", severity=Severity.WARNING)
    elif state is not None and _changed(known, row) and (peer or row.far or known.state != "Down"):
        yield state
    if known is not None and row.state == UP and 0 < row.rate < known.rate:
        facts = {"rate": f"{row.rate:g}", "before": f"{known.rate:g}", "width": str(row.width)}
        message = f"{row.rate:g} Gb/s, was {known.rate:g} Gb/s"
        yield event("port.speed_reduced", port, facts, code="slower than before", message=message)


def _changed(known: Told, row: Port) -> bool:
    return (known.state, known.physical in _CLOSED) != (row.state, row.physical in _CLOSED)


def unreachable(sweep: Sweep, before: Collection[str]) -> dict[str, Event]:
    """Switches that no neighbour has a link to any more, by GUID: of those with one neighbour only the cable may be
    it, and where a neighbour was not reached itself nobody knows. `before`: those that were told."""
    known = sweep.known
    found: dict[str, Event] = {}
    for guid in sorted(known.switches - sweep.switches - set(before)):
        ends = {end: far for end, far in known.links.items() if end.node == guid and far.node in known.switches}
        rows = [sweep.rows.get(far) for far in ends.values()]
        if len({far.node for far in ends.values()}) >= 2 and all(row and row.state == "Down" for row in rows):
            switch = owner(known.names[next(iter(ends))])
            text = f"all {len(rows)} links to it are down at the switches at their other ends"
            found[guid] = event("switch.unreachable", switch, {"links": str(len(rows))}, code="no link", message=text)
    return found


def sampled(sweep: Sweep, names: Names, links: Links, now_ms: int) -> list[Samples]:
    """State and rate of the switches' ports that have, or had, a link; the switches that answered."""
    cells = {
        port: {"up": float(row.state == UP)} | ({"speed_gigabits_per_second": row.rate} if row.rate else {})
        for end, row in sweep.rows.items()
        if (port := names.ports.get(end)) in links.peers and end not in sweep.silent
    }
    answered = {names.switches[guid]: {"up": 1.0} for guid in sorted(sweep.switches) if guid in names.switches}
    switches = {own: row for own, row in answered.items() if kind_of(own) is Kind.SWITCH and host_of(own)}
    return [
        *rows.samples("port", {port: row for port, row in cells.items() if port}, now_ms),
        *rows.samples("switch", switches, now_ms),
    ]
