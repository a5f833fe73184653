"""Slurm's word on hosts as events, a fold over polls: what is new since the last one, and what is over.

A hold that Sickbay set itself is told like any other; it is nobody's finding, so it is no evidence of a fault.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from collectors.formats.events import event
from collectors.formats.slurm_records import Node, node_readings
from sickbay.clock import Clock, Stamp, resolve
from sickbay.components import Kind, name
from sickbay.messages import Event
from sickbay.messages import replace as changed

OWN = ("sickbay ", "sickbay:")  # how the reason of our own hold begins (remediation/schedulers/reasons.py)
_CONDITION = "scheduler.host_condition"
_AGAINST = frozenset({"DRAIN", "DOWN", "FAIL", "ERROR", "NOT_RESPONDING", "INVALID_REG"})  # see node_readings
_SILENT = frozenset({"NOT_RESPONDING", "DOWN", "FAIL", "ERROR", "DRAIN"})  # the first alone: not yet given up

Standing = tuple[tuple[tuple[str, str], ...], str, str]  # kinds with severity, reason, who


@dataclass(frozen=True, slots=True)
class Hosts:
    """What stands against each host. `read_ms` None: nothing was read yet."""

    against: dict[str, Standing] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()  # not heard of in the last answer
    read_ms: int | None = None


def polled(hosts: Hosts, nodes: Iterable[Node], read_ms: int) -> tuple[Hosts, tuple[Event, ...]]:
    """The state after a whole answer, and an event for each change. Hosts that are missing from it stay as they are."""
    against = dict(hosts.against)
    events: list[Event] = []
    silent = set()
    for node in nodes:
        found = _events(node, hosts.read_ms, read_ms) if node.states & _AGAINST else []
        if node.states & _SILENT == {"NOT_RESPONDING"}:
            silent.add(node.host)
            if node.host not in hosts.silent:  # for a moment also after each start and release: wait for the next poll
                continue
        before = against.pop(node.host, None)
        if found:
            against[node.host] = (tuple((one.kind, one.severity.value) for one in found), node.reason, node.user)
            events += found if against[node.host] != before else []
        elif before is not None:
            events.append(_back(node, read_ms))
    return Hosts(against, frozenset(silent), read_ms), tuple(events)


def _events(node: Node, before_ms: int | None, read_ms: int) -> list[Event]:
    """What the scheduler says against a host, dated by its reason where that is as new as the state."""
    set_ms = resolve(node.at)  # asked with TZ=UTC
    fresh = set_ms is not None and (before_ms is None or before_ms - 1000 <= set_ms <= read_ms + 1000)
    at_ms = set_ms if fresh and set_ms is not None else read_ms
    dated = replace(node, at=Stamp(Clock.ABSOLUTE, at_ms))
    records = (reading.record for reading in node_readings(dated))
    return [
        changed(record, seen_ms=read_ms)
        for record in records
        if isinstance(record, Event) and not (record.kind == _CONDITION and node.reason.startswith(OWN))
    ]


def _back(node: Node, read_ms: int) -> Event:
    facts = {"state": "+".join(sorted(node.states))}
    message = f"NodeName={node.host} State={facts['state']}"[:500]
    host = name(Kind.HOST, node.host)
    return event("scheduler.host_back", host, facts, at_ms=read_ms, seen_ms=read_ms, message=message)
