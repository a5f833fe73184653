"""Kubernetes' nodes: conditions that the kubelet and node-problem-detector announce, devices that a plugin cannot name.

Pressure on disk, memory or process ids is a condition of the host, never of its accelerators. Source: kubelet
node status and eviction manager, node-problem-detector, the device plugins' health check.
"""

import re
from collections.abc import Iterable, Iterator

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Action

LITERALS = (
    "NodeHas",
    "Recording NodeNotReady",
    "Node became not ready",
    "Node condition ",
    "Marking all devices as unhealthy",
    "DiskPressure]",
    "MemoryPressure]",
)

_HOST = r"(?P<host>[a-z0-9][\w.-]{0,252})"
_STATUS = re.compile(rf"[Nn]ode {_HOST} status is now: NodeHas(?P<what>\w{{3,40}})")
_RECORDED = re.compile(
    rf"Recording NodeHas(?P<what>\w{{3,40}}) event message for node {_HOST}"
    r"|\"Recording event message for node\" node=\"(?P<host2>[\w.-]{1,253})\" event=\"NodeHas(?P<what2>\w{3,40})\""
)
_NOT_READY = re.compile(
    rf"Recording NodeNotReady event message for node {_HOST}"
    r"|Node became not ready.{1,400}?[Rr]eason\W{1,3}(?P<why>\w{2,60})"
)
_CONDITION = re.compile(
    r"Node condition (?P<what>\w{3,60}) is now: (?P<state>True|False|Unknown), reason: (?P<why>\w{2,80})"
)
_OBJECT = re.compile(rf"\bnode/{_HOST}\b")
_POD = re.compile(r"The node had condition: \[(?P<what>\w{3,40})\]")
_ALL = re.compile(r"Failed to determine uuid for event .{1,300}?; Marking all devices as unhealthy")
_DATA = re.compile(r"\bEventData:(?P<code>\d{1,6})\b")
_WELL = ("NoDiskPressure", "SufficientMemory", "SufficientPID", "SufficientDisk", "NoNetworkUnavailable")


class GRAMMAR:
    """Events of hosts, one line each."""

    def read(self, line: Line) -> Iterator[Record]:
        """Conditions of nodes; what is well again is told as information."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return
        if match := _STATUS.search(body):
            yield condition(match["host"], match["what"], match["what"] not in _WELL)
        elif match := _RECORDED.search(body):
            what = match["what"] or match["what2"]
            yield condition(match["host"] or match["host2"], what, what not in _WELL)
        elif match := _NOT_READY.search(body):
            node = name(Kind.HOST, match["host"] or line.host or UNKNOWN)
            yield event("scheduler.host_down", node, {"reason": match["why"] or ""}, code="NotReady")
        elif match := _CONDITION.search(body):
            told = _OBJECT.search(body)
            host = told["host"] if told else line.host or UNKNOWN
            yield condition(host, match["what"], match["state"] == "True", match["why"])
        elif match := _POD.search(body):
            yield condition(line.host or UNKNOWN, match["what"], True)
        elif _ALL.search(body):
            code = _DATA.search(body)
            facts = {"plugin": "cannot name the device"}
            told_code = f"XID {code['code']}" if code else "device lost"
            yield event("scheduler.host_condition", name(Kind.HOST, line.host or UNKNOWN), facts, code=told_code)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()


def condition(host: str, what: str, bad: bool, why: str = "") -> Record:
    """The event of a node's condition: a file system that went read-only is its own kind of fault."""
    component = name(Kind.HOST, host)
    if not bad:
        return event("scheduler.host_back", component, {"reason": why}, code=what)
    if what == "ReadonlyFilesystem":
        return event("filesystem.read_only", name(Kind.FILESYSTEM, host, UNKNOWN), {"reason": why}, code=what)
    if what == "KernelDeadlock":
        return event("scheduler.host_condition", component, {"reason": why}, code=what)
    return event("scheduler.host_condition", component, {"reason": why}, code=what, advice=Action.WATCH)


def _expect(kind: str, component: str, **fields: object) -> tuple[dict[str, object], ...]:
    return ({"type": "event", "kind": kind, "component": component, **fields},)


SAMPLES = (
    Sample(
        "4m23s  Normal  NodeHasDiskPressure  node/gx-n11  Node gx-n11 status is now: NodeHasDiskPressure",
        _expect("scheduler.host_condition", "host:gx-n11", code="DiskPressure"),
    ),
    Sample(
        "2m  Normal  NodeHasNoDiskPressure  node/gx-n11  Node gx-n11 status is now: NodeHasNoDiskPressure",
        _expect("scheduler.host_back", "host:gx-n11", severity="info"),
    ),
    Sample(
        "kubelet_node_status.go:500] Recording NodeHasInsufficientMemory event message for node gx-n11",
        _expect("scheduler.host_condition", "host:gx-n11"),
    ),
    Sample(
        '"Recording event message for node" node="gx-n11" event="NodeHasDiskPressure"',
        _expect("scheduler.host_condition", "host:gx-n11"),
    ),
    Sample(
        "kubelet_node_status.go:446] Recording NodeNotReady event message for node gx-n11",
        _expect("scheduler.host_down", "host:gx-n11"),
    ),
    Sample(
        "Node became not ready: {Type:Ready Status:False LastHeartbeatTime:2025-11-22 23:43:12 Reason:KubeletNotReady "
        "Message:container runtime is down}",
        _expect("scheduler.host_down", "host:?", attributes={"reason": "KubeletNotReady"}),
    ),
    Sample(
        "Warning  FilesystemIsReadOnly  node/gx-n11  Node condition ReadonlyFilesystem is now: True, reason: "
        "FilesystemIsReadOnly",
        _expect("filesystem.read_only", "filesystem:gx-n11/?"),
    ),
    Sample(
        "Warning  Evicted  pod/train-0  The node had condition: [DiskPressure].",
        _expect("scheduler.host_condition", "host:?"),
    ),
    Sample(
        "Failed to determine uuid for event {Device:{Handle:0x0} EventType:8 EventData:79}: ERROR_GPU_IS_LOST; "
        "Marking all devices as unhealthy.",
        _expect("scheduler.host_condition", "host:?", code="XID 79"),
    ),
)
