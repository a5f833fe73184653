"""approval: observe shows, advise asks, act does; what another stage wants a person for is asked in act as well."""

from msgspec.structs import replace

from remediation.decision import Context, Decision, muted
from remediation.ledger import DRAIN, POLICY, RELEASE, REQUEUE
from remediation.verbs import verbs
from sickbay.actions import ActionState, Control, Mode

STAGE = "approval"
MOST_NAME = 200  # characters of a person's name
CRASHED_MS = 60_000  # after a crash, what may have been done so long ago is not done again without a person


def approval(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Lets through what needs no yes or has it; a no, or no answer in time, is final."""
    return tuple(one if one.muter and not one.later else _answered(one, context) for one in decisions)


def _answered(decision: Decision, context: Context) -> Decision:
    no = context.control("rejection", decision.action.id)
    if no is not None:
        action = replace(decision.action, by=no.by[:MOST_NAME])
        why = f"rejected by {no.by[:MOST_NAME]}{': ' + no.note if no.note else ''}"
        return muted(replace(decision, action=action, later=False), STAGE, ActionState.REFUSED, why)
    why = _question(decision, context)
    if not why or context.mode is Mode.OBSERVE:
        return decision
    return _asked(decision, why, context)


def _question(decision: Decision, context: Context) -> str:
    """Why a person is asked, "" where nobody is."""
    if decision.later and not (decision.do == REQUEUE and context.mode is Mode.ADVISE):
        return ""  # in advise the job's step is asked for together with the hold, all else in its turn
    if _unsure(decision, context):
        return f"{STAGE}: it may have been done before a restart, and was not found: look first"
    if decision.asks:
        return decision.asks
    return f"{STAGE}: advise mode asks" if context.mode is Mode.ADVISE and _weighs(decision) else ""


def _unsure(decision: Decision, context: Context) -> bool:
    begun = decision.action.intended_ms
    weighs = decision.do in (DRAIN, REQUEUE) and decision.action.id in context.uncertain
    return weighs and context.now_ms - (begun or 0) > CRASHED_MS


def _weighs(decision: Decision) -> bool:
    return verbs()[decision.do].approval


def _asked(decision: Decision, why: str, context: Context) -> Decision:
    waits = decision.before.expires_ms if decision.before else None
    expires = None if decision.do == RELEASE else waits or context.now_ms + round(context.settings.approval_s * 1000)
    action = replace(decision.action, expires_ms=expires)
    if expires is not None and context.now_ms >= expires:
        late = replace(decision, action=action, later=False)
        return muted(late, STAGE, ActionState.EXPIRED, "nobody answered in time")
    yes = context.control("approval", action.id)
    if yes is not None and _answers(yes, decision, why, expires, context):
        return replace(decision, action=replace(action, by=yes.by[:MOST_NAME]), asks="")
    action = replace(action, state=ActionState.WAITING, why=why, by=POLICY)
    return replace(decision, action=action, muter=STAGE, later=False)


def _answers(yes: Control, decision: Decision, why: str, expires: int | None, context: Context) -> bool:
    """Whether a yes is one to this very question, and in time.

    It names the question by when it was put: clocks of two hosts are not compared. One by hand may leave that out.
    """
    before = decision.before
    if before is None or (expires is not None and yes.at_ms >= expires):
        return False
    if before.state is ActionState.INTENDED:  # it was answered, and is tried again
        return before.by == yes.by[:MOST_NAME] and not _unsure(decision, context)
    if before.state is not ActionState.WAITING or before.why != why:
        return False
    return yes.at_ms >= (before.at_ms or 0) if yes.asked_ms is None else yes.asked_ms == before.at_ms
