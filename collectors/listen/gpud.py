"""gpud's states and events of a host, as its API answers /v1/states, /v1/events and /v1/info: posted by a side-car.

POST /v1/conditions/gpud?host=gx-n1
"""

from collections.abc import Iterator
from typing import Any

from collectors.listen import Allowed, Request, Told, Unfit
from collectors.listen.node_conditions import items, part, tree_of
from collectors.listen.told_conditions import Condition, at_of, severity_of, tell, word


def read(request: Request, memory: Any, allowed: Allowed) -> Told:
    """What the body tells, component by component."""
    told = Told()
    for one in items(tree_of(request.body)):
        for row in _rows(one, request.query.get("host", "")):
            tell(row, request, allowed, told)
    return told


def _rows(one: Any, host: str) -> Iterator[Condition]:
    component, info = word(one, "component", 100), part(one, "info") or one
    states, events = part(info, "states"), part(info, "events")
    if not component or not (isinstance(states, list) or isinstance(events, list)):
        raise Unfit("a list of components with their states or events is wanted, as gpud's API answers")
    for state in items(states or []):
        actions = part(state, "suggested_actions", "repair_actions")
        yield Condition(
            source="gpud", host=host, name=component, severity=severity_of("gpud", word(state, "health")),
            at_ms=at_of(part(state, "time")), reason=word(state, "name", 100),
            message=word(state, "reason") or word(state, "error"),
            advice=", ".join(str(action)[:60] for action in (actions if isinstance(actions, list) else [])[:4]),
        )  # fmt: skip
    for told in items(events or []):
        yield Condition(
            source="gpud", host=host, name=component, severity=severity_of("gpud", word(told, "type")),
            at_ms=at_of(part(told, "time")), reason=word(told, "name", 100), message=word(told, "message"),
        )  # fmt: skip
