"""held: a node is held once. One that somebody else holds is never written: our need is a co-hold in the ledger."""

from msgspec.structs import replace

from remediation.decision import Context, Decision, muted
from remediation.ledger import DRAIN, is_ours
from remediation.schedulers import NodeState
from sickbay.actions import ActionState

STAGE = "held"


def held(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Stops a second hold of a node, ours or another's."""
    return tuple(_held(one, context) if one.do == DRAIN and not one.muter else one for one in decisions)


def _held(decision: Decision, context: Context) -> Decision:
    mine = context.ledger.holds.get(decision.action.target)
    if mine is not None and mine.id != decision.action.id:
        return muted(decision, STAGE, ActionState.REFUSED, f"it is held already, by action {mine.id}")
    node = context.node(decision.action.target)
    if node is None or not node.held or is_ours(node, decision.action):
        return replace(decision, action=replace(decision.action, co_hold=False))
    action = replace(decision.action, co_hold=True, read_back=told(node))
    why = f"a co-hold: {holder(node)} holds it, nothing is written there"
    return muted(replace(decision, action=action), STAGE, ActionState.REFUSED, why)


def holder(node: NodeState) -> str:
    """Who holds a node, for people."""
    return node.reason_by or "somebody else"


def told(node: NodeState) -> str:
    """What the scheduler said of a node, in one line."""
    by = f" [{node.reason_by}]" if node.reason_by else ""
    return " ".join(("+".join(sorted(node.flags)), f"{node.reason}{by}")).strip()[:400]
