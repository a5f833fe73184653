"""What Slurm's words on jobs and nodes mean, whatever command printed them: records from already separated fields.

States, flags and suffixes: Slurm man pages squeue, sacct, sinfo and scontrol.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from collectors.formats import hostlist
from collectors.formats.events import event
from collectors.formats.reading import Reading, Tally
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.components import Kind, name
from sickbay.messages import MAX_MESSAGE, Action, Placement, Severity

JOB_STATES = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING", "DL": "DEADLINE",
    "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING",
    "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED", "RS": "RESIZING",
    "RV": "REVOKED", "S": "SUSPENDED", "SE": "SPECIAL_EXIT", "SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED",
    "TO": "TIMEOUT",
}  # fmt: skip
_LONG_JOB_STATES = frozenset(JOB_STATES.values())
_JOB_EVENTS = {
    "FAILED": "job.failed", "COMPLETED": "job.completed", "CANCELLED": "job.cancelled", "TIMEOUT": "job.time_limit",
    "DEADLINE": "job.time_limit", "PREEMPTED": "job.preempted", "REQUEUED": "job.requeued",
    "OUT_OF_MEMORY": "job.out_of_memory", "NODE_FAIL": "job.node_failed", "BOOT_FAIL": "job.node_failed",
}  # fmt: skip
_SUFFIXES = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINT", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}  # fmt: skip
_NODE_STATES = {
    "DRNG": "DRAIN", "DRAINING": "DRAIN", "DRAINED": "DRAIN", "ALLOC": "ALLOCATED", "MIX": "MIXED",
    "FAILING": "FAIL", "FAILG": "FAIL", "RESV": "RESERVED", "UNK": "UNKNOWN", "INVAL": "INVALID_REG", "PLND": "PLANNED",
    "MAINTENANCE": "MAINT", "POW_DN": "POWERING_DOWN", "POW_UP": "POWERING_UP", "NO_RESPOND": "NOT_RESPONDING",
    "COMP": "COMPLETING", "REBOOT": "REBOOT_ISSUED", "BOOT": "REBOOT_ISSUED", "FUTR": "FUTURE", "NPC": "PERFCTRS",
}  # fmt: skip
_KNOWN_NODE_STATES = frozenset(
    {*_SUFFIXES.values(), *_NODE_STATES.values(), "IDLE", "DOWN", "ERROR", "CLOUD", "BLOCKED", "PERFCTRS"}
)
_PLANNED = frozenset(
    {
        "MAINT",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "POWERING_UP",
        "POWER_DOWN",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "FUTURE",
    }
)  # whoever planned it knows why the node is away
_DOWN = frozenset({"DOWN", "FAIL", "ERROR", "NOT_RESPONDING"})
# Slurm 21 and later; before: "gres/gpu count too low (7 < 8)".
_FEWER = re.compile(
    r"gres/(?:gpu|npu|dcu|mlu)\S{0,60} count (?:reported lower than configured|too low) \((\d{1,5}) < (\d{1,5})\)"
)
# What a health check, the daemon or an operator writes of trouble; other reasons are somebody's own work.
_TROUBLE = re.compile(
    r"(?i)\b(?:xid|ecc|nhc|health|fail\w*|error\w*|kill task|hung|hang|low \w+|missing|unresponsive|unhealthy|lost|"
    r"fell off|fallen|overheat\w*|degraded|rebooted|bad|broken|not enough|read-only|timed? ?out)\b"
)
_EXIT = re.compile(r"(\d{1,5}):(\d{1,3})")
_SIGNED = re.compile(r"^(?P<text>.*) \[(?P<user>[^\[\]@ ]{1,64})@(?P<at>[^\[\] ]{1,32})\]$")
_STEP_ID = re.compile(r"\d{1,12}(?:_\d{1,12}|_\[[^\]]{0,200}\])?(?:\+\d{1,4})?\.(?:\d{1,9}(?:\+\d{1,4})?|[a-z]{1,20})")
_JOB_ID = re.compile(r"\d{1,12}(?:_\d{1,12})?(?:\+\d{1,4})?")


@dataclass(frozen=True, slots=True)
class Job:
    """One job (not a step) as a command told it. Times in the record only where absolute."""

    id: str
    state: str = ""  # long form, see `job_state`
    attempt: int = 0
    exit: str = ""  # "code:signal"
    nodes: str = ""  # host list
    failed_node: str = ""
    start: Stamp = NO_STAMP
    end: Stamp = NO_STAMP
    name: str = ""
    user: str = ""
    exclusive: bool = False
    text: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One node as a command told it."""

    host: str
    states: frozenset[str] = frozenset()  # see `node_states`
    reason: str = ""
    user: str = ""
    at: Stamp = NO_STAMP  # when the reason was set
    text: str = ""
    line: int = 0


def job_state(text: str) -> str:
    """The long name of a job state (`NF`, `CANCELLED by 1001`, `OUT_OF_ME+`), "" for what is none."""
    word = text.strip().partition(" ")[0]
    if word.endswith("+"):  # cut to the column's width
        fits = [state for state in _LONG_JOB_STATES if state.startswith(word[:-1]) and len(word) > 4]
        return fits[0] if len(fits) == 1 else ""
    word = JOB_STATES.get(word, word)
    return word if word in _LONG_JOB_STATES else ""


def node_states(text: str) -> frozenset[str]:
    """Base state and flags of a node state (`IDLE+DRAIN`, `down*`, `DOWN*+DRAIN`), empty for what is none."""
    found: set[str] = set()
    for word in text.strip().upper().split("+"):
        base = word.rstrip("".join(_SUFFIXES))
        found.add(_NODE_STATES.get(base, base))
        found.update(_SUFFIXES[mark] for mark in word[len(base) :])
    return frozenset(found) if found & _KNOWN_NODE_STATES else frozenset()


def signed(reason: str) -> tuple[str, str, str]:
    """(text, user, time as written) of a reason, the last two "" where it is not signed."""
    match = _SIGNED.match(reason)
    return (match["text"], match["user"], match["at"]) if match else (reason, "", "")


def is_job_id(text: str) -> bool:
    """Whether a text is the id of one job: not of a step, not of a whole array."""
    return bool(_JOB_ID.fullmatch(text))


def is_step_id(text: str) -> bool:
    """Whether a text is the id of one step: `4471.0`, `4471.batch`."""
    return bool(_STEP_ID.fullmatch(text))


def job_readings(job: Job, tally: Tally) -> Iterator[Reading]:
    """The placement of a job, what became of it, and the host that failed it where only one can be meant."""
    hosts = hostlist.names(job.nodes, tally)
    ended = job.end if job.state in _JOB_EVENTS else NO_STAMP  # of a running job it is the time limit
    yield Reading(_placement(job, hosts), job.line, job.start, until=ended)
    kind = _JOB_EVENTS.get(job.state)
    if not kind:
        return
    facts = _exit_facts(job) | {"state": job.state, "nodes": job.nodes}
    fields: dict[str, Any] = {"job": job.id, "message": job.text[:MAX_MESSAGE], "at_ms": _absolute(job.end)}
    code = _code(job, facts)
    guilty = job.failed_node or (hosts[0] if len(hosts) == 1 else "")
    named = bool(guilty) and len(hostlist.names(guilty, tally)) == 1
    lost = kind == "job.node_failed"
    kind = "job.host_lost" if lost and not named else kind
    yield Reading(event(kind, name(Kind.JOB, job.id), facts, code=code, **fields), job.line, job.end)
    if lost and named:
        blamed = event("scheduler.host_failed_job", name(Kind.HOST, guilty), facts, code=code, **fields)
        yield Reading(blamed, job.line, job.end, host=guilty)


def node_readings(node: Node) -> Iterator[Reading]:
    """What the scheduler says against a node; a planned absence is told, never as a fault."""
    held = "DRAIN" in node.states
    down = bool(node.states & _DOWN)
    if not (held or down or "INVALID_REG" in node.states):
        return
    planned = bool(node.states & _PLANNED)
    kinds: list[tuple[str, dict[str, Any]]] = []
    if down and not planned:
        alone = not node.states & {"DOWN", "FAIL", "ERROR"}  # not heard of, not yet given up
        kinds.append(("scheduler.host_down", {"severity": Severity.WARNING} if alone else {}))
    elif held or planned:
        kinds.append(("scheduler.host_drained", {}))
    fewer = None if planned else _FEWER.search(node.reason)
    if held and not (down or planned or fewer) and _TROUBLE.search(node.reason):
        kinds.append(("scheduler.host_condition", {"code": node.reason[:80], "advice": Action.WATCH}))
    facts = {"reason": node.reason, "user": node.user, "state": "+".join(sorted(node.states))}
    if fewer and int(fewer[1]) < int(fewer[2]):
        facts |= {"found": fewer[1], "configured": fewer[2]}
        none = int(fewer[1]) == 0
        code = {"code": f"slurm gres count {fewer[1]} < {fewer[2]}"}
        kinds.append(("scheduler.accelerators_none" if none else "scheduler.accelerators_fewer", code))
    for kind, fields in kinds:
        told = {"message": node.text[:MAX_MESSAGE], "at_ms": _absolute(node.at)} | fields
        yield Reading(event(kind, name(Kind.HOST, node.host), facts, **told), node.line, node.at, host=node.host)


def _placement(job: Job, hosts: tuple[str, ...]) -> Placement:
    ended = _absolute(job.end) if job.state in _JOB_EVENTS else None
    return Placement(
        job=job.id,
        attempt=job.attempt,
        hosts=hosts,
        from_ms=_absolute(job.start),
        to_ms=ended,
        state=job.state.lower(),
        user=job.user[:64],
        name=job.name[:200],
        exclusive=job.exclusive,
    )


def _exit_facts(job: Job) -> dict[str, str]:
    match = _EXIT.fullmatch(job.exit)
    return {"exit_code": match[1], "signal": match[2]} if match else {}


def _code(job: Job, facts: dict[str, str]) -> str:
    if job.state == "FAILED":
        if facts.get("signal", "0") != "0":
            return f"signal {facts['signal']}"
        if facts.get("exit_code", "0") != "0":
            return f"exit {facts['exit_code']}"
    return f"slurm {job.state}"


def _absolute(stamp: Stamp) -> int | None:
    return stamp.ms if stamp.clock is Clock.ABSOLUTE else None
