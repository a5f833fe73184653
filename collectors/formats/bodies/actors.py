"""Ray's words on workers and nodes: which process of which node ended, and whether its memory limit ended it.

Ray lists every reason it can think of; only what it states as a fact is taken. A node it marks dead is down for Ray,
whatever the reason.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.rank_prefix import origin
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Blame, Severity

_MAX_STREAMS = 256

_ADDRESS = r"[0-9A-Fa-f.:]{3,45}"
_DIED = re.compile(r"ray\.exceptions\.(?:Actor|Worker|Owner|Node|RayActor|Task)\w{0,24}(?:Error|Crashed)\b")
_FIELD = re.compile(rf"^\s*(?:(?P<pid>pid: \d{{1,10}})|ip: (?P<ip>{_ADDRESS}))$")
_WORKER = re.compile(
    rf"A worker died or was killed .{{0,1000}}?Worker IP address: (?P<ip>{_ADDRESS})\b.{{0,80}}?"
    r"Worker PID: (?P<pid>\d{1,10})"
)
_OWNER = re.compile(rf"Owner Ip address: (?P<ip>{_ADDRESS}) .{{0,80}}?node has crashed")
_MARKED = re.compile(
    rf"The node with node id: \w{{1,80}} and address: (?P<ip>{_ADDRESS})\b.{{0,200}}? has been marked dead"
)
_MEMORY = re.compile(
    rf"Memory on the node \(IP: (?P<ip>{_ADDRESS}), .{{0,600}}? which exceeds the memory usage threshold"
)

LITERALS = (
    "ray.exceptions.",
    " pid: ",
    "\tpid: ",
    " ip: ",
    "\tip: ",
    "A worker died or was killed",
    "node has crashed",
    "has been marked dead",
    "exceeds the memory usage threshold",
)


class _Block(NamedTuple):
    """An exception whose fields are being read."""

    error: str
    pid: str = ""


class Actors:
    """Body grammar of Ray. Keeps the open exception of each interleaved writer."""

    def __init__(self) -> None:
        self._open: dict[str, _Block] = {}

    def read(self, line: Line) -> Iterable[Record]:
        """Events of processes, hosts and the job's memory."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return ()
        start = origin(body)
        stream = line.stream or start.label
        if match := _DIED.search(body):
            if len(self._open) < _MAX_STREAMS or stream in self._open:
                self._open[stream] = _Block(match[0].rpartition(".")[2])
            return ()
        if stream in self._open and (field := _FIELD.match(start.rest)):
            return self._field(stream, field)
        return _told(body)

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back: an exception without an address names no process."""
        return ()

    def _field(self, stream: str, field: re.Match[str]) -> Iterable[Record]:
        block = self._open[stream]
        if field["pid"]:
            self._open[stream] = block._replace(pid=field["pid"].removeprefix("pid: "))
            return ()
        del self._open[stream]
        return (_ended(field["ip"], block.pid, block.error, f"{block.error}: pid {block.pid}, ip {field['ip']}"),)


def _told(body: str) -> list[Record]:
    if match := _WORKER.search(body):
        return [_ended(match["ip"], match["pid"], "worker died", "")]
    if match := _OWNER.search(body) or _MARKED.search(body):
        return [event("scheduler.host_down", name(Kind.HOST, match["ip"]), code="node marked dead")]
    if match := _MEMORY.search(body):
        facts, told = {"node": match["ip"]}, {"code": "memory threshold", "blame": Blame.APPLICATION}
        return [event("job.out_of_memory", name(Kind.JOB, UNKNOWN), facts, **told)]
    return []


def _ended(ip: str, pid: str, code: str, message: str) -> Record:
    facts = {"unexplained": "true", "pid": pid}
    told = {"code": code, "severity": Severity.WARNING, "message": message}
    return event("process.exited", name(Kind.PROCESS, ip, pid or UNKNOWN), facts, **told)


GRAMMAR = Actors

SAMPLES = (
    Sample(
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: TrainWorker\n"
        "\tpid: 71876\n"
        "\tnamespace: 8d97\n"
        "\tip: 192.0.2.38",
        (
            {
                "type": "event",
                "component": "process:192.0.2.38/71876",
                "kind": "process.exited",
                "code": "ActorDiedError",
                "message": "ActorDiedError: pid 71876, ip 192.0.2.38",
            },
        ),
    ),
    Sample(
        "A worker died or was killed while executing a task by an unexpected system error. RayTask ID: ffff Worker "
        "ID: f8ab Node ID: 09d0 Worker IP address: 192.0.2.38 Worker port: 10110 Worker PID: 1508 Worker exit type: "
        "SYSTEM_ERROR",
        ({"type": "event", "component": "process:192.0.2.38/1508", "kind": "process.exited", "severity": "warning"},),
    ),
    Sample(
        "The actor is dead because its owner has died. Owner Id: 01ff Owner Ip address: 192.0.2.38 Owner worker exit "
        "type: SYSTEM_ERROR Worker exit detail: Owner's node has crashed.",
        ({"type": "event", "component": "host:192.0.2.38", "kind": "scheduler.host_down"},),
    ),
    Sample(
        "The node with node id: 09d07a and address: 192.0.2.38 and node name: 192.0.2.38 has been marked dead because "
        "the detector has missed too many heartbeats from it.",
        ({"type": "event", "component": "host:192.0.2.38", "kind": "scheduler.host_down"},),
    ),
    Sample(
        "Memory on the node (IP: 192.0.2.38, ID: 87fa) where the task (task ID: 01, name=step, pid=911, memory used="
        "1.20GB) was running was 27.73GB / 28.80GB (0.9629), which exceeds the memory usage threshold of 0.95. Ray "
        "killed this worker",
        ({"type": "event", "component": "job:?", "kind": "job.out_of_memory", "blame": "application"},),
    ),
)
