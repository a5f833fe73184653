"""budget: few new holds an hour, few at a time, and a job is stopped only where it stands on the node that is held."""

from remediation.decision import Context, Decision, asked, muted
from remediation.ledger import DRAIN, REQUEUE
from sickbay.actions import ActionState
from sickbay.components import Kind

STAGE = "budget"
HOUR_MS = 3_600_000


def budget(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Stops what is beyond the limits; earlier incidents go first, what is begun already is counted already."""
    hour = {one.id for one in context.ledger.holds_begun(context.now_ms - HOUR_MS)}
    now = {one.id for one in context.ledger.holds.values()}
    found = []
    for decision in decisions:
        if decision.do == DRAIN and not decision.muter:
            decision = _hold(decision, hour, now, context)
        elif decision.do == REQUEUE and not decision.muter:
            decision = _stop(decision, context)
        found.append(decision)
    return tuple(found)


def _hold(decision: Decision, hour: set[str], now: set[str], context: Context) -> Decision:
    key = decision.action.id
    if len(hour - {key}) >= context.settings.holds_per_hour:
        why = f"{context.settings.holds_per_hour} new holds in an hour are the limit"
        return muted(decision, STAGE, ActionState.REFUSED, why)
    if len(now - {key}) >= context.settings.held_at_once:
        why = f"{context.settings.held_at_once} holds at once are the limit"
        return muted(decision, STAGE, ActionState.REFUSED, why)
    if not decision.asks or context.control("approval", key):  # what only waits for a yes takes nobody's place
        hour.add(key)
        now.add(key)
    return decision


def _stop(decision: Decision, context: Context) -> Decision:
    job = context.job(decision.action.target)
    host = decision.host.removeprefix(f"{Kind.HOST}:")
    if job is None or host not in job.nodes:
        return decision  # the next stage tells: gone, or started elsewhere
    idle = [node for node in context.nodes.values() if "idle" in node.flags and not node.held and not node.jobs]
    lost = [one for one in job.nodes if (node := context.nodes.get(one)) is None or node.held]
    if len(idle) < len(lost):
        return asked(decision, STAGE, "no idle node can take its place: given back, the job would wait in the queue")
    return decision
