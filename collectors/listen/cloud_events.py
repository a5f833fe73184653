"""CloudEvents over HTTP, structured, in batches, or binary (attributes as `ce-` headers); NVSentinel's health events.

The host is the event's `subject`, or `?host=` of the address; of NVSentinel it is the node that the event names. Other
types are conditions of the host. Sources: see collectors/codes/conditions.toml.
"""

from collections.abc import Mapping
from typing import Any

from collectors.listen import Allowed, Request, Told, Unfit
from collectors.listen.node_conditions import items, part, tree_of
from collectors.listen.told_conditions import Condition, at_of, severity_of, tell, word
from sickbay.messages import Severity

STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
HEALTH = "com.nvidia.nvsentinel.health.v1"
_ACTIONS = {  # of RecommendedAction, health_event.proto
    0: "NONE", 2: "COMPONENT_RESET", 5: "CONTACT_SUPPORT", 6: "RUN_FIELDDIAG", 15: "RESTART_VM", 24: "RESTART_BM",
    25: "REPLACE_VM", 26: "RUN_DCGMEUD", 39: "RESTART_APP", 99: "UNKNOWN",
}  # fmt: skip


def read(request: Request, memory: Any, allowed: Allowed) -> Told:
    """What the events tell."""
    told = Told()
    for one in _events(request):
        if not isinstance(one, Mapping) or word(one, "specversion") not in ("1.0", "0.3") or not word(one, "type"):
            raise Unfit("no CloudEvent: specversion and type are wanted")
        data = part(one, "data")
        found = _health(one, data) if word(one, "type") == HEALTH else _generic(one, data, request)
        tell(found, request, allowed, told)
    return told


def _events(request: Request) -> list[Any]:
    if request.media_type in (STRUCTURED, BATCH):
        return items(tree_of(request.body))
    if "ce-specversion" in request.headers:
        told = {name[3:]: value for name, value in request.headers.items() if name.startswith("ce-")}
        return [{**told, "data": tree_of(request.body) if request.body else None}]
    if request.media_type == "application/json":
        return items(tree_of(request.body))
    raise Unfit(f"Content-Type must be {STRUCTURED} or {BATCH}, or ce- headers beside application/json", 415, "type")


def _health(one: Any, data: Any) -> Condition:
    event = part(data, "healthEvent") or {}
    entities = [row for row in items(part(event, "entitiesImpacted") or []) if isinstance(row, Mapping)]
    named = {word(row, "entityType"): word(row, "entityValue", 128) for row in entities}
    codes, action = part(event, "errorCode"), part(event, "recommendedAction")
    severity = severity_of("nvsentinel", "fatal" if part(event, "isFatal") is True else "other")
    return Condition(
        source="nvsentinel",
        host=word(event, "nodeName", 253),
        name=word(event, "componentClass", 100),
        severity=None if part(event, "isHealthy") is True else severity,
        at_ms=at_of(part(event, "generatedTimestamp")) or at_of(part(one, "time")),
        reason=word(event, "checkName", 100),
        message=word(event, "message"),
        device=named.get("PCI") or named.get("GPU_UUID") or named.get("GPU", ""),
        code=str(codes[0])[:16] if isinstance(codes, list) and codes and "XID" in word(event, "checkName") else "",
        advice=_ACTIONS.get(action, "") if isinstance(action, int) else "",
    )


def _generic(one: Any, data: Any, request: Request) -> Condition:
    severity = severity_of("cloudevents", word(data, "severity") or "warning") or Severity.INFO
    return Condition(
        source="cloudevents",
        host=request.query.get("host", "") or word(one, "subject", 253),
        name=word(one, "type", 100),
        severity=severity,
        at_ms=at_of(part(one, "time")),
        reason=word(one, "source", 200),
        message=word(data, "message") or word(one, "type", 200),
    )
