"""How an attempt of a job ended on Kubernetes, as events. A lost host is told by its own conditions, not by pods."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collectors.formats.events import event
from collectors.formats.kubernetes_pods import Ending, Member
from sickbay.components import Kind, name
from sickbay.messages import Event, Placement

GONE = "gone"  # a pod that vanished while nobody looked
_KINDS = {
    "completed": "job.completed", "failed": "job.failed", "cancelled": "job.cancelled", "preempted": "job.preempted",
    "out_of_memory": "job.out_of_memory", "node_fail": "job.node_failed",
}  # fmt: skip


def ended(
    lives: Mapping[str, int], members: Sequence[Member], lost: Mapping[str, Member], read_ms: int
) -> tuple[Ending, Member] | None:
    """How an attempt of these lives of pods ended, and by which pod: the first that failed.

    Where one completed, the others may be taken away; else whoever takes one away ends it. It is completed where all
    of them are over.
    """
    found = [
        (ending, one)
        for one in [*members, *lost.values()]
        if one.uid in lives and (ending := _end_of(one, lives[one.uid], one.uid in lost))
    ]
    quiet = ("completed", "cancelled", GONE)
    bad = [pair for pair in found if pair[0].state not in quiet]
    done = [pair for pair in found if pair[0].state == "completed"]
    if not bad and (not found or (done and len(found) < len(lives))):
        return None
    return min(bad or done or found, key=lambda pair: pair[0].at_ms or read_ms)


def _end_of(one: Member, life: int, lost: bool) -> Ending | None:
    """How this life of a pod ended; None: it goes on."""
    if one.life > life:
        return one.before or one.ended or Ending("failed")
    ended, leaves = one.ended, one.leaves_ms
    if ended and not (
        leaves is not None and ended.state in ("failed", "completed") and leaves <= (ended.at_ms or leaves)
    ):
        return ended
    if leaves is not None:
        return Ending("cancelled", reason="the pod was deleted", at_ms=leaves)
    return Ending(GONE) if lost else None


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
