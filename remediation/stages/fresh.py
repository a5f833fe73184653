"""fresh: nothing is done on old knowledge. Catch-up, replay and a silent diagnosis never act."""

from remediation.decision import Context, Decision, muted, postponed
from remediation.propose import AFTERWARDS
from sickbay.actions import ActionState

STAGE = "fresh"


def fresh(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Stops what rests on a heartbeat that is too old, or on an incident that does not stand any more."""
    return tuple(one if one.muter or one.do in AFTERWARDS else _judged(one, context) for one in decisions)


def _judged(decision: Decision, context: Context) -> Decision:
    judged, incident = context.judged, decision.action.incident
    if judged is None:
        return postponed(decision, STAGE, "diagnosis has not said yet how far it has read")
    age_ms = context.now_ms - judged.as_of_ms
    if abs(age_ms) > context.settings.fresh_s * 1000:
        why = "what diagnosis has read is too old" if age_ms > 0 else "the clock of diagnosis is ahead of ours"
        return muted(decision, STAGE, ActionState.EXPIRED, why)
    if incident not in judged.open:  # written after that heartbeat: the next one tells
        return postponed(decision, STAGE, "no heartbeat of diagnosis has confirmed it yet")
    return decision
