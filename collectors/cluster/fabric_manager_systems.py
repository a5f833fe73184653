"""A fabric manager's switches: temperature, model, and versions that changed. Pure.

`up` of a switch is left to those who ask it itself: a manager tells what the fabric sees. A state other than `active`
is a notice; one that is not listed any more is told by its links.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collectors import rows as tables
from collectors.agent.naming import identity_key
from collectors.cluster.fabric_edges import owner
from collectors.cluster.fabric_manager_events import SOURCE, bounded, outgoing
from collectors.cluster.poll import Outgoing, Polled, PollFailed
from collectors.formats.events import event
from collectors.formats.fabric_manager_json import System, Unreadable, port_of, rows
from collectors.formats.reading import Tally
from collectors.formats.text import clean_text
from sickbay.components import Kind, Name, name, parts_of
from sickbay.messages import Change, Event, Identity
from sickbay.messages import replace as changed
from sickbay.topics import CHANGES, TOPOLOGY

SYSTEMS = "resources/systems?type=switch"
ACTIVE = "active"
HOTTEST, COLDEST = 150.0, -50.0  # degC that a sensor may tell
_UNKNOWN = ("", "n/a")
_VERSIONS = (("firmware", "fw_version"), ("software", "sw_version"))


@dataclass(frozen=True, slots=True)
class Systems:
    """What was told of each switch: its versions, state and identity."""

    versions: Mapping[tuple[Name, str], str] = field(default_factory=dict)
    states: Mapping[Name, str] = field(default_factory=dict)
    identities: Mapping[Name, Identity] = field(default_factory=dict)


def systems(body: bytes, state: Systems, now_ms: int) -> Polled[Systems]:
    """Rows of the switches, and what is new of them. Nothing ends where one is missing."""
    tally = Tally()
    try:
        told = {_switch(one): one for one in rows(body, System, tally) if one.type.lower() == "switch"}
    except Unreadable as error:
        raise PollFailed(str(error)) from None
    versions = {(switch, what): value for switch, one in told.items() for what, value in _versions(one)}
    states = {switch: one.state.lower() for switch, one in told.items() if one.state}
    known = {switch: found for switch, one in told.items() if (found := _identity(switch, one)) is not None}
    changes = [
        Change(target=key[0], what=key[1], old=state.versions[key], new=value, at_ms=now_ms)
        for key, value in versions.items()
        if state.versions.get(key, value) != value
    ]
    events = [_state(switch, now, now_ms) for switch, now in states.items() if state.states.get(switch, ACTIVE) != now]
    news = [one for switch, one in known.items() if state.identities.get(switch) != one]
    sent = [Outgoing(CHANGES, one.target, one) for one in changes]
    sent += [outgoing(one) for one in bounded(events, "systems", now_ms)]
    sent += [Outgoing(TOPOLOGY, identity_key(one), one) for one in news]
    cells = {switch: {"temperature_celsius": heat} for switch, one in told.items() if (heat := _heat(one)) is not None}
    after = Systems({**state.versions, **versions}, {**state.states, **states}, {**state.identities, **known})
    return Polled(after, sent, tally.unparsed, tables.samples("switch", cells, now_ms))


def _switch(one: System) -> Name:
    """As its ports call it."""
    told = "" if one.system_name.lower() in _UNKNOWN else one.system_name
    return owner(port_of(one.name, "1", told, adapter=False))


def _versions(one: System) -> Iterator[tuple[str, str]]:
    for what, column in _VERSIONS:
        value = clean_text(getattr(one, column)).strip()[:120]
        if value.lower() not in _UNKNOWN:
            yield what, value


def _identity(switch: Name, one: System) -> Identity | None:
    """Its model, with the GUID that alarms and logs may call it."""
    model = clean_text(one.model).strip()[:120]
    if model.lower() in _UNKNOWN:
        return None
    return Identity(host=parts_of(switch)[0], kind=Kind.SWITCH, name=f"0x{clean_text(one.name)[:32]}", model=model)


def _heat(one: System) -> float | None:
    try:
        heat = float(one.temperature)
    except ValueError:
        return None
    return heat if COLDEST <= heat <= HOTTEST else None


def _state(switch: Name, now: str, now_ms: int) -> Event:
    text = f"the fabric manager tells the state of {switch}: {clean_text(now)[:100]}"
    told = event(
        "monitor.notice", name(Kind.MONITOR, SOURCE, "systems"), {"switch": switch}, code="state", message=text
    )
    return changed(told, at_ms=now_ms, seen_ms=now_ms)  # type: ignore[no-any-return]
