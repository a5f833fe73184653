"""Schedulers' log lines: Slurm's daemons and srun, Kubernetes' node and pod messages.

The node after `ON` in a cancellation is the batch node, not the guilty one. A person's drain is a change, not a fault.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from collectors.formats import hostlist
from collectors.formats.bodies import Sample
from collectors.formats.events import LINE_LIMIT, event
from collectors.formats.reading import Line, Record
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Action, Blame, Change, Severity

_MAX_HOSTS = 4096  # of one expression
_MAX_REASONS = 4096

_HOSTS = r"(?P<hosts>[A-Za-z0-9][\w.,\[\]-]{0,1000})"
_ENDED = re.compile(
    r"\*\*\* (?:JOB|STEP) (?P<job>\d{1,12})(?:[._+]\S{1,20})? ON (?P<node>\S{1,253}) (?P<verb>CANCELLED|FAILED)\b"
    r"(?P<tail>.{0,300})"
)
_SUFFIXES = (  # what follows CANCELLED or FAILED -> kind
    ("DUE TO NODE FAILURE", "job.node_failed"),
    ("DUE TO TIME LIMIT", "job.time_limit"),
    ("DUE TO PREEMPTION", "job.preempted"),
    ("DUE TO JOB REQUEUE", "job.requeued"),
    ("DUE TO TASK FAILURE", "job.failed"),
    ("non-zero exit code", "job.failed"),
)
_OOM = re.compile(r"Detected (\d{1,9}) oom[_-]kill event\S{0,3} in (?:StepId=|step )(\d{1,12})")
_NODE_FAILURE = re.compile(rf"\b(?:srun|salloc): error: Node failure on {_HOSTS}")
_PROLOG = re.compile(rf"\b(?:salloc|srun): (?:error: )?Prolog failure on node {_HOSTS}")
_LAUNCH = re.compile(
    rf"Task launch for (?:StepId=)?(?P<job>\d{{1,12}})\S{{0,20}} failed on node {_HOSTS}: (?P<why>.{{3,80}})"
)
_TASK = re.compile(
    rf"srun: error: {_HOSTS}: tasks? (?P<tasks>\d[\d,-]{{0,1000}}): "
    r"(?P<how>Exited with exit code (?P<code>\d{1,3})|\w.{2,60})"
)
_SILENT = re.compile(rf"\berror: Nodes {_HOSTS} not responding(?P<down>, setting DOWN)?")
_REASON = re.compile(rf"update_node: node {_HOSTS} reason set to: (?P<reason>.{{1,300}})")
_STATE = re.compile(rf"update_node: node {_HOSTS} state set to (?P<state>[A-Z_+]{{2,40}})")
_COMPLETE = re.compile(
    r"_job_complete: JobId=(?P<job>\d{1,12})\S{0,30} (?P<what>WEXITSTATUS|WTERMSIG) (?P<code>\d{1,3})\b"
)
_KILLING = re.compile(rf"Killing (?:JobId=|job_id )(?P<job>\d{{1,12}})\S{{0,20}} on failed node {_HOSTS}")
_REQUEUE = re.compile(rf"requeue job (?:JobId=)?(?P<job>\d{{1,12}})\S{{0,20}} due to failure of node {_HOSTS}")
_FEWER = re.compile(
    r"(?:node (?P<host>[\w.-]{1,253})\b.{0,80}?)?gres/(?P<what>\w{1,16}) count reported lower than configured "
    r"\((?P<seen>\d{1,6}) < (?P<wanted>\d{1,6})\)",
    re.IGNORECASE,
)
_NOT_READY = re.compile(r"[Nn]ode (?P<host>[\w.-]{1,253}) status is now: NodeNotReady")
_ADMISSION = re.compile(
    r"requested number of devices unavailable for (?P<what>[\w./-]{1,80})\. Requested: (?P<wanted>\d{1,6}), "
    r"Available: (?P<seen>\d{1,6})"
)
_KUBELET = re.compile(r"\bkubelet, (?P<host>[a-z0-9][\w.-]{0,252})")  # the source in `kubectl get events -o wide`
_CONTAINER = re.compile(
    r"\bcontainer \"?(?P<name>[\w.-]{1,120})\"? .{0,80}?exit ?[Cc]ode:?[ =]{0,2}(?P<code>\d{1,3})\b"
)

_LIMIT = re.compile(r"\b[Rr]eason\"?[:=]\s{0,20}\"?OOMKilled\b")

LITERALS = (
    "*** JOB ",
    "*** STEP ",
    "oom_kill event",
    "oom-kill event",
    "srun: error: ",
    "salloc: error: ",
    "Prolog failure on node ",
    "not responding",
    "update_node: node ",
    "_job_complete: JobId=",
    " on failed node ",
    "due to failure of node",
    "count reported lower than configured",
    "status is now: NodeNotReady",
    "requested number of devices unavailable",
    "OOMKilled",
    "xit code",
    "xitCode",
)


class Scheduler:
    """Body grammar of schedulers. Keeps the last reason of each node, to put it beside the drain that follows."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def read(self, line: Line) -> Iterable[Record]:
        """Events of jobs, hosts and processes; a `Change` for what a person set."""
        body = line.body[:LINE_LIMIT]
        if not any(literal in body for literal in LITERALS):
            return
        if match := _REASON.search(body):
            yield from self._reason(match)
        elif match := _STATE.search(body):
            yield from self._state(match)
        else:
            for reader in (_job, _srun, _controller, _devices, _container):
                if found := reader(body):
                    yield from found
                    return

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Nothing is held back."""
        return ()

    def _reason(self, match: re.Match[str]) -> Iterator[Record]:
        for host in _expanded(match["hosts"]):
            if len(self._reasons) < _MAX_REASONS:
                self._reasons[host] = match["reason"]
            yield Change(target=name(Kind.HOST, host), what="scheduler reason", new=match["reason"])

    def _state(self, match: re.Match[str]) -> Iterator[Record]:
        """DOWN or IDLE by update_node is a person's (or a script's) word; the daemon's own words are other lines."""
        for host in _expanded(match["hosts"]):
            target = name(Kind.HOST, host)
            if match["state"].startswith("DRAIN"):
                facts = {"state": match["state"], "reason": self._reasons.get(host, "")}
                yield event("scheduler.host_drained", target, facts, code=match["state"])
            else:
                yield Change(target=target, what="scheduler state", new=match["state"])


def _job(body: str) -> list[Record]:
    if match := _ENDED.search(body):
        kind = "job.cancelled" if match["verb"] == "CANCELLED" else "job.failed"
        kind = next((what for text, what in _SUFFIXES if text in match["tail"]), kind)
        facts = {"batch_host": match["node"]}
        return [_of_job(kind, match["job"], facts, kind.partition(".")[2])]
    if match := _OOM.search(body):
        return [_of_job("job.out_of_memory", match[2], {"kills": match[1]}, "cgroup limit", Blame.APPLICATION)]
    if match := _COMPLETE.search(body):
        failed = int(match["code"]) > 0
        facts = {"exitcode": match["code"], "how": match["what"]}
        return [_of_job("job.failed" if failed else "job.completed", match["job"], facts, f"exit {match['code']}")]
    return []


def _of_job(kind: str, job: str, facts: dict[str, str], code: str, blame: Blame | None = None) -> Record:
    told: dict[str, Any] = {"blame": blame} if blame else {}
    return event(kind, name(Kind.JOB, job), facts, code=code, job=job, **told)


def _srun(body: str) -> list[Record]:
    """srun's tasks are launchers as often as ranks: what ended is a process of a host."""
    if match := _NODE_FAILURE.search(body):
        return [event("scheduler.host_failed_job", host, code="node failure") for host in _hosts(match["hosts"])]
    if match := _PROLOG.search(body):
        return [event("scheduler.host_failed_job", host, code="prolog failure") for host in _hosts(match["hosts"])]
    if match := _LAUNCH.search(body):
        code, job = match["why"].strip(), match["job"]
        return [event("scheduler.host_silent", host, code=code, job=job) for host in _hosts(match["hosts"])]
    match = _TASK.search(body)
    if not match:
        return []
    how = match["how"].strip()
    facts = {"tasks": match["tasks"], "exitcode": match["code"] or ""}
    kind = "process.exited"
    if how.startswith(("Segmentation", "Bus error", "Illegal", "Floating")):
        kind = "process.crashed"
    elif how.startswith(("Killed", "Terminated", "Out Of Memory")):
        kind = "process.killed"
    hosts = _expanded(match["hosts"])
    return [event(kind, name(Kind.PROCESS, host, f"task_{match['tasks']}"), facts, code=how) for host in hosts]


def _controller(body: str) -> list[Record]:
    if match := _SILENT.search(body):
        kind = "scheduler.host_down" if match["down"] else "scheduler.host_silent"
        return [event(kind, host, code="not responding") for host in _hosts(match["hosts"])]
    if match := _KILLING.search(body) or _REQUEUE.search(body):
        job, kind = match["job"], "scheduler.host_failed_job"
        found: list[Record] = [event(kind, host, code="node failure", job=job) for host in _hosts(match["hosts"])]
        if "requeue job" in body:
            found.append(_of_job("job.requeued", job, {}, "node failure"))
        return found
    if match := _NOT_READY.search(body):
        return [event("scheduler.host_down", name(Kind.HOST, match["host"]), code="NodeNotReady")]
    return []


def _devices(body: str) -> list[Record]:
    refused = _ADMISSION.search(body)
    match = _FEWER.search(body) or refused
    if not match or int(match["seen"]) >= int(match["wanted"]):
        return []
    by = _KUBELET.search(body) if match is refused else None
    host = (by["host"] if by else match.groupdict().get("host")) or UNKNOWN
    kind = "scheduler.accelerators_fewer" if int(match["seen"]) else "scheduler.accelerators_none"
    facts = {"resource": match["what"], "reported": match["seen"], "configured": match["wanted"]}
    # "Available" are those that no pod holds: one that another pod still has is missing there as well as a lost one.
    doubt: dict[str, Any] = {"severity": Severity.WARNING, "advice": Action.WATCH} if match is refused else {}
    return [event(kind, name(Kind.HOST, host), facts, code=f"{match['seen']} of {match['wanted']}", **doubt)]


def _container(body: str) -> list[Record]:
    if _LIMIT.search(body):
        code = "container memory limit"
        return [event("job.out_of_memory", name(Kind.JOB, UNKNOWN), code=code, blame=Blame.APPLICATION)]
    match = _CONTAINER.search(body)
    if not match:
        return []
    number = int(match["code"])
    signal = {137: "SIGKILL", 134: "SIGABRT", 139: "SIGSEGV", 143: "SIGTERM"}.get(number, "")
    kind = "process.crashed" if number == 139 else "process.killed" if number in (137, 143) else "process.exited"
    process = name(Kind.PROCESS, UNKNOWN, match["name"])
    return [event(kind, process, {"exitcode": str(number), "signal": signal}, code=f"exit {number} {signal}".rstrip())]


def _hosts(expression: str) -> list[str]:
    return [name(Kind.HOST, host) for host in _expanded(expression)]


def _expanded(expression: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(expression, _MAX_HOSTS)
    except ValueError:
        return ()


GRAMMAR = Scheduler

SAMPLES = (
    Sample(
        "slurmstepd: error: *** JOB 90233 ON gx-r11-n01 CANCELLED AT 2025-04-02T16:20:11 DUE TO NODE FAILURE, SEE "
        "SLURMCTLD LOG FOR DETAILS ***",
        ({"type": "event", "component": "job:90233", "kind": "job.node_failed", "job": "90233"},),
    ),
    Sample(
        "slurmstepd: error: *** STEP 90233.0 ON gx-r11-n01 CANCELLED AT 2025-04-02T16:20:11 ***",
        ({"type": "event", "component": "job:90233", "kind": "job.cancelled", "severity": "info"},),
    ),
    Sample(
        "slurmstepd: error: *** JOB 90234 ON gx-r11-n01 CANCELLED AT 2025-04-02T16:20:11 DUE TO TIME LIMIT ***",
        ({"type": "event", "component": "job:90234", "kind": "job.time_limit"},),
    ),
    Sample(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=90233.0. Some of the step tasks have been OOM Killed.",
        ({"type": "event", "component": "job:90233", "kind": "job.out_of_memory", "blame": "application"},),
    ),
    Sample(
        "srun: error: Node failure on gx-r11-n[05-06]",
        (
            {"type": "event", "component": "host:gx-r11-n05", "kind": "scheduler.host_failed_job"},
            {"type": "event", "component": "host:gx-r11-n06", "kind": "scheduler.host_failed_job"},
        ),
    ),
    Sample(
        "salloc: error: Node failure on gx-r11-n05",
        ({"type": "event", "component": "host:gx-r11-n05", "kind": "scheduler.host_failed_job"},),
    ),
    Sample(
        "salloc: Prolog failure on node gx-r11-n05",
        ({"type": "event", "component": "host:gx-r11-n05", "kind": "scheduler.host_failed_job"},),
    ),
    Sample(
        "srun: error: Task launch for StepId=90233.0 failed on node gx-r11-n05: Communication connection failure",
        ({"type": "event", "component": "host:gx-r11-n05", "kind": "scheduler.host_silent", "job": "90233"},),
    ),
    Sample(
        "srun: error: gx-r11-n05: tasks 32-39: Terminated",
        ({"type": "event", "component": "process:gx-r11-n05/task_32-39", "kind": "process.killed"},),
    ),
    Sample(
        "srun: error: gx-r11-n05: task 37: Exited with exit code 1",
        ({"type": "event", "component": "process:gx-r11-n05/task_37", "kind": "process.exited", "severity": "info"},),
    ),
    Sample(
        "error: Nodes gx-r11-n05 not responding, setting DOWN",
        ({"type": "event", "component": "host:gx-r11-n05", "kind": "scheduler.host_down", "severity": "error"},),
    ),
    Sample(
        "update_node: node gx-r11-n05 reason set to: PSU swap 10:00\n"
        "update_node: node gx-r11-n05 state set to DRAINING",
        (
            {"type": "change", "target": "host:gx-r11-n05", "new": "PSU swap 10:00"},
            {
                "type": "event",
                "component": "host:gx-r11-n05",
                "kind": "scheduler.host_drained",
                "attributes": {"state": "DRAINING", "reason": "PSU swap 10:00"},
            },
        ),
    ),
    Sample(
        "_job_complete: JobId=90235 WEXITSTATUS 1",
        ({"type": "event", "component": "job:90235", "kind": "job.failed", "severity": "info"},),
    ),
    Sample(
        "requeue job JobId=90233 due to failure of node gx-r11-n05",
        (
            {"type": "event", "component": "host:gx-r11-n05", "kind": "scheduler.host_failed_job"},
            {"type": "event", "component": "job:90233", "kind": "job.requeued"},
        ),
    ),
    Sample(
        "error: Setting node gx-r11-n08 state to INVAL with reason:gres/gpu count reported lower than "
        "configured (7 < 8)",
        ({"type": "event", "component": "host:gx-r11-n08", "kind": "scheduler.accelerators_fewer", "code": "7 of 8"},),
    ),
    Sample(
        "4m12s  Warning  NodeNotReady  node/gx-r11-n09  Node gx-r11-n09 status is now: NodeNotReady",
        ({"type": "event", "component": "host:gx-r11-n09", "kind": "scheduler.host_down"},),
    ),
    Sample(
        "Warning  UnexpectedAdmissionError  pod/t-0  Allocate failed due to requested number of devices unavailable "
        "for nvidia.com/gpu. Requested: 8, Available: 7, which is unexpected",
        ({"type": "event", "component": "host:?", "kind": "scheduler.accelerators_fewer"},),
    ),
    Sample(
        "      Reason:       OOMKilled",
        ({"type": "event", "component": "job:?", "kind": "job.out_of_memory", "blame": "application"},),
    ),
    Sample(
        'container "trainer" of pod t-3 terminated, exit code 137',
        ({"type": "event", "component": "process:?/trainer", "kind": "process.killed", "code": "exit 137 SIGKILL"},),
    ),
)
