"""Settling by reading back: what the scheduler shows tells what became of each line that is under way or holds.

This is also what follows a crash: a line `intended` or `done` is never done again before the scheduler was asked, and
our reason there carries the action's id. Pure: the lines that change, from what was read.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from remediation.decision import MOST_WHY, Context
from remediation.ledger import DRAIN, RELEASE, REQUEUE, is_ours
from remediation.schedulers import NodeState
from remediation.stages.attempts import runs
from remediation.stages.held import holder, told
from remediation.verbs import verbs
from sickbay.actions import Action, ActionState

UNDER_WAY = frozenset({ActionState.INTENDED, ActionState.DONE})
GIVEN_BACK = frozenset({"pending", "requeued", "requeue_hold", "configuring", "completing", "running", "special_exit"})


def settle(context: Context) -> list[Action]:
    """The lines that reading back changes. A node or job that is missing from the answer changes nothing."""
    releasing = {a.target for a in context.ledger.lines.values() if a.do == RELEASE and a.state in UNDER_WAY}
    found: list[Action] = []
    for action in context.ledger.lines.values():
        if action.do == DRAIN and action.target not in releasing:
            found += _hold(action, context)
        elif action.do == RELEASE and action.state in UNDER_WAY:
            found += _release(action, context)
        elif action.do == REQUEUE and action.state in UNDER_WAY:
            found += _requeue(action, context)
    return found


def verified(action: Action, node: NodeState, **fields: Any) -> Action:
    """A hold that was read back as ours: its reason, which stands in the line, is not told twice."""
    shown = "+".join(sorted(node.flags))
    return replace(
        action, state=ActionState.VERIFIED, co_hold=False, reason_by=node.reason_by, read_back=shown, **fields
    )


def co_held(action: Action, node: NodeState, **fields: Any) -> Action:
    """A need that somebody else's hold stands in for: it was never ours."""
    why = f"held: a co-hold: {holder(node)} holds it, nothing is written there"
    return replace(
        action, state=ActionState.REFUSED, co_hold=True, intended_ms=None, read_back=told(node), why=why, **fields
    )


def passed_on(action: Action, node: NodeState, **fields: Any) -> Action:
    """A hold of ours that somebody else took over."""
    why = "somebody changed its reason: it is theirs to release now"
    return replace(action, state=ActionState.UNDONE, co_hold=True, read_back=told(node), why=why, **fields)


def _now(action: Action, context: Context, **fields: Any) -> Action:
    return replace(action, at_ms=context.now_ms, **fields)


def _hold(action: Action, context: Context) -> Iterator[Action]:
    node = context.node(action.target)
    if node is None:
        return
    if action.co_hold and not node.held:
        yield from _co_hold_ended(action, node, context)
    elif action.intended_ms is None or action.state is ActionState.UNDONE:
        return
    elif action.state is ActionState.VERIFIED:
        yield from _kept(action, node, context)
    elif is_ours(node, action):  # also one that was given up as expired or failed: it took effect after all
        yield verified(action, node, at_ms=context.now_ms)
    elif action.state is ActionState.DONE:
        if node.held:
            yield passed_on(action, node, at_ms=context.now_ms)
        elif _late(action, context):
            yield _now(action, context, state=ActionState.FAILED, why="not there when it was read back")


def _kept(action: Action, node: NodeState, context: Context) -> Iterator[Action]:
    if not node.held:
        why = "released in the scheduler by somebody else"
        yield _now(action, context, state=ActionState.UNDONE, why=why, read_back=told(node))
    elif not is_ours(node, action):
        yield passed_on(action, node, at_ms=context.now_ms)


def _co_hold_ended(action: Action, node: NodeState, context: Context) -> Iterator[Action]:
    """Whether it is held by us now is the policy's to say, where the incident still stands."""
    state = action.state if action.state is ActionState.UNDONE else ActionState.EXPIRED
    why = "the co-hold ended: whoever held it released it"
    yield _now(action, context, state=state, co_hold=False, why=why, read_back=told(node))


def _release(action: Action, context: Context) -> Iterator[Action]:
    node, hold = context.node(action.target), context.ledger.holds.get(action.target)
    if node is None:
        return
    if not node.held:
        yield from released(action, hold, node, context.now_ms)
    elif hold is None or not is_ours(node, hold):
        why = "reason or user changed: it is not ours to release"
        yield _now(action, context, state=ActionState.FAILED, why=why, read_back=told(node))
    elif action.state is ActionState.DONE and _late(action, context):
        yield _now(
            action, context, state=ActionState.FAILED, why="still held when it was read back: release it by hand"
        )


def released(action: Action, hold: Action | None, node: NodeState, now_ms: int) -> Iterator[Action]:
    """The release and the end of its hold, which belong together."""
    yield replace(action, state=ActionState.VERIFIED, at_ms=now_ms, read_back=told(node))
    if hold is not None:
        why = f"released: {action.why[:MOST_WHY]} (action {action.id})"
        yield replace(hold, state=ActionState.UNDONE, at_ms=now_ms, why=why, read_back=told(node))


def _requeue(action: Action, context: Context) -> Iterator[Action]:
    job = context.job(action.target)
    if job is None or runs(job, action.attempt):
        if action.state is ActionState.DONE and _late(action, context):
            yield _now(action, context, state=ActionState.FAILED, why="no sign of it when it was read back")
        return
    back = f"{job.state}, attempt {job.id}/{job.attempt}"
    state = ActionState.VERIFIED if job.state in GIVEN_BACK else ActionState.EXPIRED
    yield _now(action, context, state=state, read_back=back)


def _late(action: Action, context: Context) -> bool:
    return action.at_ms is not None and context.now_ms - action.at_ms > verbs()[action.do].time_out_s * 1000
