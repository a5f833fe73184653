"""`kubectl describe node`: conditions, devices that can be given out, and the node's events.

`True` is bad for every condition but `Ready`. A device that a plugin marked bad is missing from `Allocatable`: whether
it is broken, the plugin's word does not tell.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from collectors.formats.bodies.kubernetes import GRAMMAR, condition
from collectors.formats.bodies.scheduler import Scheduler
from collectors.formats.events import event
from collectors.formats.masking import struck
from collectors.formats.reading import Line, Reading, Tally
from collectors.formats.text import lines
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity, replace

MAX_DEVICES = 64  # kinds of device on one node
_NAME = re.compile(r"^Name: {2,40}(?P<host>[a-z0-9][\w.-]{0,252})$")
_HEAD = re.compile(r"^\s*Type +Status +LastHeartbeatTime +LastTransitionTime +Reason +Message")
_ROW = re.compile(r"^ {1,8}(?P<what>[A-Za-z][\w./-]{2,80}) {1,80}(?P<state>True|False|Unknown) +(?P<rest>\S.{0,2000})$")
_SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z -]{2,40}):")
_DEVICE = re.compile(
    r"^ {1,8}(?P<what>[\w.-]{3,80}/(?:npu|dcu|mlu|[\w.-]{0,30}gpu[\w.-]{0,30}|Ascend\w{1,12})):? +"
    r"(?P<count>\d{1,5})(?: .{0,80})?$"
)


@dataclass(slots=True)
class _Node:
    """One node as told so far."""

    host: str = UNKNOWN
    line: int = 0
    counts: dict[str, dict[str, int]] = field(default_factory=lambda: {"Capacity": {}, "Allocatable": {}})


def confidence(head: bytes, name: str) -> float:
    """High where the heading of a table of conditions stands in the text."""
    rows = head.decode("utf-8", "replace").replace("\r", "").split("\n")
    if any(_HEAD.match(row) for row in rows[:2000]):
        return 0.95
    counted = {"Capacity:", "Allocatable:"} <= {row.strip() for row in rows[:2000]}
    return 0.9 if counted and any(_DEVICE.match(row) for row in rows[:2000]) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Bad conditions, missing devices and events of each node."""
    node, section, told = _Node(), "", (Scheduler(), GRAMMAR())
    for number, row in lines(chunks, tally):
        if match := _NAME.match(row):
            yield from _devices(node)
            node = _Node(match["host"], number)
        elif match := _SECTION.match(row):
            section = match["title"]
        elif match := _ROW.match(row):
            yield from _condition(node, match, number)
        elif section in node.counts and (match := _DEVICE.match(row)) and len(node.counts[section]) < MAX_DEVICES:
            node.counts[section][match["what"]] = int(match["count"])
        elif section == "Events" and row.strip():
            line = Line(row.strip(), number, host="" if node.host == UNKNOWN else node.host)
            for record in (one for body in told for one in body.read(line)):
                if isinstance(record, Event):
                    yield Reading(replace(record, message=struck(line.body)[:MAX_MESSAGE]), number, host=line.host)
    yield from _devices(node)


def _condition(node: _Node, match: re.Match[str], number: int) -> Iterator[Reading]:
    what, state, rest = match["what"], match["state"], " ".join(match["rest"].split())
    message = f"{what} {state} {rest}"[:MAX_MESSAGE]
    if what == "Ready":
        if state != "True":
            facts = {"state": state, "reason": rest[-150:]}
            down = event("scheduler.host_down", name(Kind.HOST, node.host), facts, code="NotReady", message=message)
            yield Reading(down, number)
    elif state == "True":
        yield Reading(replace(condition(node.host, what, True, rest[-150:]), message=message), number)


def _devices(node: _Node) -> Iterator[Reading]:
    for what, capacity in node.counts["Capacity"].items():
        free = node.counts["Allocatable"].get(what, capacity)
        if free < capacity:
            facts = {"resource": what, "reported": str(free), "configured": str(capacity)}
            kind = "scheduler.accelerators_fewer" if free else "scheduler.accelerators_none"
            told = {"code": f"{free} of {capacity} allocatable", "message": f"{what}: {free} of {capacity} allocatable"}
            doubt = {"severity": Severity.WARNING, "advice": Action.WATCH if free else Action.FIX_SOFTWARE}
            yield Reading(event(kind, name(Kind.HOST, node.host), facts, **told, **doubt), node.line)
