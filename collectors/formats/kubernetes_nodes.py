"""What stands against a node, by what says so: each is an event that is told once and taken back once.

`True` is bad for a condition, but not for those whose names say that all is well (`Ready`, `…Ready`, `…Healthy`).
A device that a plugin marked bad is missing from `allocatable`: whether it is broken, the plugin's word does not tell.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from collectors.codes.kubernetes import table
from collectors.formats.bodies.kubernetes import condition
from collectors.formats.events import event
from collectors.formats.kubernetes_objects import Condition, Node, Owned, at_ms, quantity
from collectors.formats.masking import struck
from sickbay.components import Kind, name
from sickbay.messages import MAX_MESSAGE, Action, Edge, Event, Relation, Severity, replace

SOURCE = "kubernetes"  # of edges
MOST = 64  # things that are told of one node
_GOOD = re.compile(r"(?:Ready|Healthy|OK)$")
_FIELDS = msgspec.json.Decoder(dict[str, dict[str, object]])


class Word(NamedTuple):
    """One thing that stands against a node. `since_ms`: since when, where that is told."""

    event: Event
    since_ms: int | None


class NodeWord(NamedTuple):
    """A node in short. `against`: by what it is about, such as `condition Ready`."""

    host: str
    against: dict[str, Word]
    allocatable: dict[str, int]
    capacity: dict[str, int]
    versions: dict[str, str]
    edges: tuple[Edge, ...] = ()
    parted: bool = False  # accelerators are given out in parts: how many whole ones are left is somebody's choice


def node_word(node: Node) -> NodeWord:
    """The node in short."""
    host = node.metadata.name
    against: dict[str, Word] = {}
    for one in (node.status.conditions or ())[:MOST]:
        if word := _condition(host, one):
            against[f"condition {one.type[:80]}"] = word
    against |= dict(_held(node))
    info = node.status.node_info
    versions = {"kernel": info.kernel_version, "kubelet": info.kubelet_version, "system": info.os_image,
                "container runtime": info.container_runtime_version}  # fmt: skip
    return NodeWord(
        host,
        against,
        _counts(node.status.allocatable),
        _counts(node.status.capacity),
        {key: value[:120] for key, value in versions.items() if value},
        tuple(_edges(host, node.metadata.labels or {})),
        any(key.startswith(table().parts) and quantity(value) for key, value in (node.status.capacity or {}).items()),
    )


def _edges(host: str, labels: dict[str, str]) -> Iterator[Edge]:
    """What the host hangs on, as its labels tell."""
    child = name(Kind.HOST, host)
    for key in table().domains:
        if labels.get(key):
            yield Edge(child=child, parent=name(Kind.FABRIC, labels[key]), relation=Relation.PART_OF, source=SOURCE)
            break
    for key in table().switches:
        if labels.get(key):
            parent = name(Kind.SWITCH, labels[key])
            if parent != child:
                yield Edge(child=child, parent=parent, relation=Relation.ATTACHED_TO, source=SOURCE)
            child = parent


def fewer(host: str, resource: str, free: int, before: int) -> Event:
    """Fewer accelerators may be given out than there were, or than the node has."""
    kind = "scheduler.accelerators_fewer" if free else "scheduler.accelerators_none"
    facts = {"resource": resource, "reported": str(free), "configured": str(before)}
    code, message = f"{free} of {before} allocatable", f"{resource}: {free} of {before} allocatable"
    advice = Action.WATCH if free else Action.FIX_SOFTWARE
    severity = Severity.WARNING
    return event(kind, name(Kind.HOST, host), facts, code=code, message=message, severity=severity, advice=advice)


def _counts(told: dict[str, str] | None) -> dict[str, int]:
    return {key: quantity(value) for key, value in (told or {}).items() if key in table().accelerators}


def _condition(host: str, told: Condition) -> Word | None:
    good = bool(_GOOD.search(told.type))
    since, component = at_ms(told.last_transition_time), name(Kind.HOST, host)
    message = struck(f"{told.type} {told.status} {told.reason} {told.message}"[: 4 * MAX_MESSAGE])[:MAX_MESSAGE]
    if told.type == "Ready" and told.status != "True":
        facts = {"state": told.status, "reason": told.reason}
        kind = "scheduler.host_silent" if told.status == "Unknown" else "scheduler.host_down"
        return Word(event(kind, component, facts, code="NotReady", message=message), since)
    if told.status == ("False" if good else "True"):
        found = condition(host, told.type[:80], True, told.reason)
        return Word(replace(found, message=message), since) if isinstance(found, Event) else None
    return None


def _held(node: Node) -> Iterator[tuple[str, Word]]:
    """Whether somebody keeps work away from it, and who."""
    component, owned = name(Kind.HOST, node.metadata.name), node.metadata.managed_fields or []
    if node.spec.unschedulable:
        by = _owner(owned, "f:unschedulable")
        facts = {"reason": "unschedulable", "user": by.manager if by else ""}
        told = event("scheduler.host_drained", component, facts, code="cordoned", message="spec.unschedulable true")
        yield "unschedulable", Word(told, at_ms(by.time) if by else None)
    usual = table().usual_taints
    for taint in (node.spec.taints or ())[:MOST]:
        if taint.key in usual or taint.key in table().accelerators or taint.effect == "PreferNoSchedule":
            continue
        by = _owner(owned, "f:taints")
        facts = {"reason": taint.key, "effect": taint.effect, "user": by.manager if by else ""}
        message = f"taint {taint.key}={taint.value}:{taint.effect}"[:MAX_MESSAGE]
        told = event("scheduler.host_drained", component, facts, code=f"taint {taint.key}"[:200], message=message)
        yield f"taint {taint.key[:200]} {taint.effect[:20]}", Word(told, at_ms(taint.time_added))


def _owner(owned: list[Owned], field: str) -> Owned | None:
    """Who set a field of the spec last."""
    found = []
    for one in owned[:MOST]:
        try:
            if field in _FIELDS.decode(one.fields_v1).get("f:spec", {}):
                found.append(one)
        except (ValueError, RecursionError):
            continue
    return max(found, key=lambda one: at_ms(one.time) or 0, default=None)
