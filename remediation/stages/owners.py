"""owners: who does that here. What Sickbay has no hand for, or what another one restarts, is shown to a person."""

from remediation.decision import Context, Decision, muted, postponed
from remediation.ledger import COLLECT, DRAIN, RELEASE, REQUEUE, TEST
from remediation.propose import AFTERWARDS
from sickbay.actions import ActionState
from sickbay.components import UNKNOWN

STAGE = "owners"
OURS = frozenset({COLLECT, DRAIN, REQUEUE, TEST, RELEASE})
SCHEDULER = "scheduler"  # the one restarter that a requeue goes through


def owners(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Leaves what Sickbay can do itself here."""
    return tuple(one if one.muter else _owned(one, context) for one in decisions)


def _owned(decision: Decision, context: Context) -> Decision:
    if decision.do not in OURS:
        return muted(decision, STAGE, ActionState.SHOWN, "for a person: nothing here does that by itself")
    if decision.when == "at_checkpoint":  # a living job pays for what comes before that
        return muted(decision, STAGE, ActionState.SHOWN, "for a person: at the job's next committed checkpoint")
    if decision.do == COLLECT:
        if context.keeps_evidence:
            return decision
        return muted(decision, STAGE, ActionState.SHOWN, "no folder for it: set evidence in [remediation]")
    if context.settings.scheduler == "none":
        return muted(decision, STAGE, ActionState.SHOWN, "no scheduler is set in [remediation]")
    if context.unreadable:
        why = f"the scheduler cannot be read: {context.unreadable}"
        return _later_or_refused(decision, why)
    return _job(decision, context) if decision.do == REQUEUE else _node(decision, context)


def _node(decision: Decision, context: Context) -> Decision:
    if context.node(decision.host) is None or UNKNOWN in decision.host:
        return _later_or_refused(decision, "the scheduler does not know that node")
    return decision


def _later_or_refused(decision: Decision, why: str) -> Decision:
    """A hold that cannot be is told of; its test and its release wait, whatever the scheduler fails to say of it."""
    if decision.do in AFTERWARDS:
        return postponed(decision, STAGE, why)
    return muted(decision, STAGE, ActionState.REFUSED, why)


def _job(decision: Decision, context: Context) -> Decision:
    job = context.job(decision.action.target)
    if job is not None and not job.may_requeue:
        why = "for a person: the scheduler may not requeue that job, so another restarts it"
        return muted(decision, STAGE, ActionState.SHOWN, why)
    owner = context.control("restart_owner", decision.action.target)
    if owner is not None and owner.note != SCHEDULER:
        why = f"for a person: the job says that it is restarted by: {owner.note[:60]}"
        return muted(decision, STAGE, ActionState.SHOWN, why)
    return decision
