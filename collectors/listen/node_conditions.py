"""Conditions and events of nodes: node-problem-detector's status and conditions, and Kubernetes' Node and Event.

POST /v1/conditions/node?host=gx-n1   what node-problem-detector says of the host it runs on
POST /v1/conditions/node              {"kind": "Node", ...}, {"kind": "Event", ...} or a List of them
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from collectors.listen import Allowed, Request, Told, Unfit
from collectors.listen.told_conditions import Condition, at_of, severity_of, tell, word

MAX_ITEMS = 2_000
GOOD = frozenset({"Ready"})  # of this condition "True" is well


def read(request: Request, memory: Any, allowed: Allowed) -> Told:
    """What the body tells, item by item."""
    told = Told()
    for one in _conditions(tree_of(request.body), request.query.get("host", "")):
        tell(one, request, allowed, told)
    return told


def tree_of(body: bytes) -> Any:
    """The JSON of a body. Raises Unfit."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unfit(f"not JSON: {str(error)[:200]}") from None


def items(tree: Any) -> list[Any]:
    """A list's items, else the thing itself. Raises Unfit for too many."""
    found = tree if isinstance(tree, list) else [tree]
    if len(found) > MAX_ITEMS:
        raise Unfit(f"{len(found)} items, one request holds {MAX_ITEMS}", 413, "too_large")
    return found


def part(tree: Any, *keys: str) -> Any:
    """What lies at the end of the keys, None where nothing does."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _conditions(tree: Any, host: str) -> Iterator[Condition]:
    if isinstance(tree, Mapping) and isinstance(tree.get("items"), list):
        tree = tree["items"]
    for one in items(tree):
        match word(one, "kind"):
            case "Node":
                name = word(part(one, "metadata"), "name")
                yield from (_condition(row, name) for row in items(part(one, "status", "conditions") or []))
            case "Event":
                yield from _event(one)
            case _:
                yield from _status(one, host)


def _status(one: Any, host: str) -> Iterator[Condition]:
    """node-problem-detector's own: a status, or a condition alone."""
    if not isinstance(one, Mapping) or not (one.keys() & {"conditions", "events", "type"}):
        raise Unfit("neither a status or condition of node-problem-detector, nor a Node or Event of Kubernetes")
    yield from (_condition(row, host) for row in items(one.get("conditions") or []))
    for row in items(one.get("events") or []):
        severity = severity_of("node", word(row, "severity"))
        at_ms, reason = at_of(part(row, "timestamp")), word(row, "reason", 100)
        yield Condition(
            source="node", host=host, name=reason, severity=severity, at_ms=at_ms, message=word(row, "message")
        )
    if "type" in one:
        yield _condition(one, host)


def _condition(row: Any, host: str) -> Condition:
    name, status = word(row, "type", 100), word(row, "status")
    if name in GOOD and status == "Unknown":  # nobody heard of it: silence is no failure
        name = f"{name}Unknown"
    elif name in GOOD:
        status = {"True": "False", "False": "True"}.get(status, status)
    at_ms = at_of(part(row, "transition")) or at_of(part(row, "lastTransitionTime"))
    return Condition(
        source="node", host=host, name=name, severity=severity_of("node", status), at_ms=at_ms,
        reason=word(row, "reason", 200), message=word(row, "message"),
    )  # fmt: skip


def _event(one: Any) -> Iterator[Condition]:
    """An Event of Kubernetes about a node; those about anything else are others'."""
    about = part(one, "involvedObject") or part(one, "regarding")
    if word(about, "kind") == "Node":
        at_ms = at_of(part(one, "lastTimestamp")) or at_of(part(one, "eventTime"))
        yield Condition(
            source="node", host=word(about, "name"), name=word(one, "reason", 100),
            severity=severity_of("node", word(one, "type")), at_ms=at_ms, message=word(one, "message"),
        )  # fmt: skip
