"""How an attempt of a job ended on Kubernetes, as events. A lost host is told by its own conditions, not by pods."""

from collections.abc import Iterator
from typing import Any

from collectors.formats.events import event
from collectors.formats.kubernetes_pods import Ending, Member
from sickbay.components import Kind, name
from sickbay.messages import Event, Placement

_KINDS = {
    "completed": "job.completed", "failed": "job.failed", "cancelled": "job.cancelled", "preempted": "job.preempted",
    "out_of_memory": "job.out_of_memory", "node_fail": "job.node_failed",
}  # fmt: skip


def end_events(placement: Placement, ending: Ending, member: Member, read_ms: int) -> Iterator[Event]:
    """The end of an attempt. `member`: the pod that ended first, as far as is known."""
    facts = {
        "exit_code": str(ending.exit_code) if ending.exit_code else "", "signal": str(ending.signal or ""),
        "reason": ending.reason, "pod": member.name, "host": member.node, "state": ending.state,
    }  # fmt: skip
    told: dict[str, Any] = {"job": placement.job, "at_ms": placement.to_ms, "seen_ms": read_ms, "code": _code(ending)}
    if kind := _KINDS.get(ending.state):
        yield event(kind, name(Kind.JOB, placement.job), facts, **told)


def _code(ending: Ending) -> str:
    if ending.state == "failed" and ending.signal:
        return f"signal {ending.signal}"
    if ending.state == "failed" and ending.exit_code:
        return f"exit {ending.exit_code}"
    return ending.reason or ending.state
