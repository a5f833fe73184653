"""A fabric manager's REST: its ports, links, switches, events and alarms, only ever read.

Nothing ends because the manager forgot it: a link counts as missing only where the same answer says that one of its
ports is not active. Of two answers that come in parts, or late, the next whole one stands.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from collectors.cluster import fabric_edges
from collectors.cluster.fabric_edges import Held, Key, end_missing, ended_ports, key_of, owner, share, with_found
from collectors.cluster.fabric_manager_alarms import Alarms, alarmed
from collectors.cluster.fabric_manager_events import SOURCE, Heard, heard, outgoing
from collectors.cluster.fabric_manager_rest import Get, Rest, telemetry
from collectors.cluster.fabric_manager_systems import SYSTEMS, Systems, systems
from collectors.cluster.fabric_manager_telemetry import Counted, counted
from collectors.cluster.fabric_ports import links_of
from collectors.cluster.poll import Outgoing, Polled, PollFailed, Source
from collectors.formats.events import event
from collectors.formats.fabric_manager_json import Link, Port, Unreadable, is_adapter, port_of, rows
from collectors.formats.port_findings import of_state
from collectors.formats.reading import Tally
from collectors.formats.text import clean_text
from collectors.http_get import address_of
from sickbay.components import Kind, Name, name
from sickbay.config import ConfigError
from sickbay.edges import log_key
from sickbay.messages import Edge, Event, Relation
from sickbay.messages import replace as changed
from sickbay.source_settings import Fabric
from sickbay.topics import TOPOLOGY

LEAST_SHARE = 0.5  # [house] of the links known: with fewer, the manager has just begun to look
NOTICE_MS = 600_000


@dataclass(frozen=True, slots=True)
class Seen:
    """What the manager told so far."""

    held: Mapping[Key, Held] = field(default_factory=dict)
    ended: frozenset[Name] = frozenset()
    states: Mapping[Name, str] = field(default_factory=dict)
    notice_ms: int | None = None


def sources(settings: Fabric) -> list[Source[Any]]:
    """The questions to a fabric manager. Raises ConfigError."""
    ask = Rest(settings)
    try:
        address_of(settings.manager_url)
        ask.access()
    except ValueError as error:
        raise ConfigError(f"[fabric] manager_url: {error}") from None
    except PollFailed as error:
        raise ConfigError(str(error)) from None
    return [*of(ask, settings), *_telemetry(ask, settings)]


def _telemetry(ask: Get, settings: Fabric) -> list[Source[Any]]:
    """The question to the manager's telemetry, where the settings name it. Raises ConfigError."""
    if not settings.telemetry_url:
        return []
    if settings.device:
        raise ConfigError("[fabric] telemetry_url: device reads the same counters itself: take one of the two out")
    counters: Source[Counted] = Source(
        "fabric_manager_telemetry",
        settings.counters_s,
        Counted(),
        lambda state, now_ms: counted(telemetry(settings), lambda: ask("resources/ports"), state, now_ms),
        limit_s=2 * settings.timeout_s + 10,
    )
    return [counters]


def of(ask: Get, settings: Fabric) -> list[Source[Any]]:
    """The questions to a manager that `ask` reaches."""
    limit_s = 2 * settings.timeout_s + 10
    fabric: Source[Seen] = Source(
        "fabric_manager",
        settings.sweep_s,
        Seen(),
        lambda state, now_ms: looked(ask("resources/links"), ask("resources/ports"), state, now_ms),
        lambda state: [_edge(one.edge) for one in state.held.values()],
        TOPOLOGY,
        lambda told: Seen(held=fabric_edges.remembered(told, SOURCE)),
        limit_s=limit_s,
    )
    events: Source[Heard] = Source(
        "fabric_manager_events",
        settings.counters_s,
        Heard(),
        lambda state, now_ms: heard(ask("app/events"), state, now_ms),
        limit_s=limit_s,
    )
    alarms: Source[Alarms] = Source(
        "fabric_manager_alarms",
        settings.counters_s,
        Alarms(),
        lambda state, now_ms: alarmed(ask("app/alarms"), state, now_ms),
        limit_s=limit_s,
    )
    switches: Source[Systems] = Source(
        "fabric_manager_systems",
        settings.sweep_s,
        Systems(),
        lambda state, now_ms: systems(ask(SYSTEMS), state, now_ms),
        limit_s=limit_s,
    )
    return [fabric, events, alarms, switches]


def looked(links: bytes, ports: bytes, state: Seen, now_ms: int) -> Polled[Seen]:
    """Links as edges, and ports whose state has changed."""
    tally = Tally()
    try:
        found = _links(rows(links, Link, tally))
        told = {_port(one): one for one in rows(ports, Port, tally)}
    except Unreadable as error:
        raise PollFailed(str(error)) from None
    held, news = with_found(state.held, found, state.ended, SOURCE, now_ms)
    few = share(found, state.held) < LEAST_SHARE or not told
    dark = {port for port, one in told.items() if not _up(one)}
    if not (few or tally.unparsed):
        unlooked = {end for key, one in held.items() if one.link and dark.isdisjoint(key[:2]) for end in key[:2]}
        news += end_missing(held, found, unlooked, now_ms)
    states = {**state.states, **{port: one.logical_state.lower() for port, one in told.items()}}
    events = [] if few else list(_changes(told, held, state.states, now_ms))
    due = few and bool(state.held) and (state.notice_ms is None or not 0 <= now_ms - state.notice_ms < NOTICE_MS)
    events += [_notice(len(found), len(state.held), now_ms)] if due else []
    notice = None if not few else now_ms if due else state.notice_ms
    after = Seen(held, state.ended | ended_ports(news), state.states if few else states, notice)
    return Polled(after, [*map(_edge, news), *map(outgoing, events)], tally.unparsed)


def _links(told: Iterable[Link]) -> dict[Key, Edge]:
    """The links, and which switch each of their ports is part of."""
    found: dict[Key, Edge] = {}
    for one in told:
        ends = sorted([_source(one), _destination(one)], key=lambda end: (not end.adapter, end.port))
        if ends[0].port == ends[1].port or any("Aggregation Node" in end.description for end in ends):
            continue
        edges = [Edge(child=ends[0].port, parent=ends[1].port, relation=Relation.LINK_END)]
        edges += [
            Edge(child=end.port, parent=owner(end.port), relation=Relation.PART_OF) for end in ends if not end.adapter
        ]
        found |= {key_of(edge): edge for edge in edges}
    return found


class _End(NamedTuple):
    port: Name
    adapter: bool
    description: str


def _source(one: Link) -> _End:
    text = one.source_port_node_description
    adapter = is_adapter(one.source_port_dname, text)
    return _End(port_of(one.source_guid, one.source_port, text, adapter=adapter), adapter, text)


def _destination(one: Link) -> _End:
    text = one.destination_port_node_description
    adapter = is_adapter(one.destination_port_dname, text)
    return _End(port_of(one.destination_guid, one.destination_port, text, adapter=adapter), adapter, text)


def _port(one: Port) -> Name:
    guid, _, number = one.name.rpartition("_")
    told = one.node_description or one.system_name
    return port_of(guid, number or one.number, told, adapter=is_adapter(one.dname, told))


def _up(one: Port) -> bool:
    return one.logical_state.lower() == "active"


def _changes(
    told: Mapping[Name, Port], held: Mapping[Key, Held], before: Mapping[Name, str], now_ms: int
) -> Iterator[Event]:
    """Ports with a link that went down or came back, as the manager tells them."""
    links = links_of(held)
    for port, one in told.items():
        known, now, peer = before.get(port), one.logical_state.lower(), links.peers.get(port)
        if known == now or peer is None or (known is None and now == "active"):
            continue
        found = of_state(port, {"inactive": "down"}.get(now, now), clean_text(one.physical_state))
        if found is not None:
            near = changed(found, at_ms=now_ms, seen_ms=now_ms, peer=peer)
            yield near
            if peer not in links.of_switches and peer not in told:  # an adapter that the manager does not see any more
                yield changed(near, component=peer, peer=port)


def _notice(links: int, known: int, now_ms: int) -> Event:
    facts = {"links": str(links), "known_links": str(known)}
    text = f"the fabric manager tells {links} links of {known} known: nothing missing is believed"
    told = event("monitor.partial_sweep", name(Kind.MONITOR, SOURCE, "links"), facts, code="few", message=text)
    return changed(told, at_ms=now_ms, seen_ms=now_ms)  # type: ignore[no-any-return]


def _edge(edge: Edge) -> Outgoing:
    return Outgoing(TOPOLOGY, log_key(edge), edge)
