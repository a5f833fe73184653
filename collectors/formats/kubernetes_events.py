"""Event objects of Kubernetes: what kubelets, node-problem-detector and controllers say of nodes and pods.

Conditions of nodes and ends of pods are read from these themselves; here is what only an Event tells. An Event object
is counted up while the same thing goes on, so each word of it is told once: the difference.
"""

from collections.abc import Iterator
from typing import NamedTuple

from collectors.codes.kubernetes import table
from collectors.formats.bodies.scheduler import Scheduler
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.kubernetes_objects import EventObject, at_ms
from collectors.formats.masking import struck
from collectors.formats.reading import Line
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import MAX_MESSAGE, Event, replace

_ELSEWHERE = frozenset({"NodeNotReady", "NodeReady", "UnexpectedAdmissionError"})  # read from the objects themselves


class Spoken(NamedTuple):
    """One Event object in short: how often so far, when last, and the event that it means."""

    uid: str
    times: int
    last_ms: int | None
    event: Event


def spoken(told: EventObject) -> Spoken | None:
    """What an Event object means, None where that is nothing, or said elsewhere."""
    host = _host(told)
    if not host or told.reason in _ELSEWHERE or told.reason.startswith("NodeHas"):
        return None
    found = next(_meaning(told, host), None)
    if found is None:
        return None
    count = max(told.count or 1, told.series.count if told.series else 0)
    times = [told.last_timestamp, told.series.last_observed_time if told.series else None, told.event_time]
    last = max((at for at in map(at_ms, times) if at is not None), default=at_ms(told.first_timestamp))
    message = struck(f"{told.reason} {told.involved_object.name} {told.message}"[: 4 * MAX_MESSAGE])
    return Spoken(told.metadata.uid, count, last, replace(found, message=" ".join(message.split())[:MAX_MESSAGE]))


def _host(told: EventObject) -> str:
    """The node that it speaks of: itself, or the one whose kubelet said it of a pod."""
    if told.involved_object.kind == "Node":
        return told.involved_object.name
    kubelet = told.source.component == "kubelet" or told.reporting_component == "kubelet"
    return (told.source.host or told.reporting_instance) if kubelet else ""


def _meaning(told: EventObject, host: str) -> Iterator[Event]:
    """Our word for it: by its reason, else as a line that `kubectl get events` would print."""
    of_node = told.involved_object.kind == "Node"
    if (kind := table().events.get(told.reason)) and of_node:
        facts = {"reason": told.reason, "source": told.source.component or told.reporting_component}
        yield event(kind, name(Kind.HOST, host), facts, code=told.reason[:80])
    elif told.reason == "Evicted" and not of_node:
        facts = {"reason": told.message, "pod": told.involved_object.name}
        yield event("scheduler.host_condition", name(Kind.HOST, host), facts, code="Evicted", advice=None)
    elif told.type == "Warning":
        line = Line(f"{told.type} {told.reason} {told.message}"[:LINE_LIMIT], 0, host=host)
        for record in Scheduler().read(line):
            if isinstance(record, Event) and record.component.startswith(f"{Kind.HOST}:"):
                component = name(Kind.HOST, host) if UNKNOWN in record.component else record.component
                yield replace(record, component=component)
