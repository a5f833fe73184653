"""fresh: nothing is done on old knowledge. Catch-up, replay and a silent diagnosis never act."""

from remediation.decision import Context, Decision, asked, muted, postponed
from remediation.ledger import DRAIN
from remediation.propose import AFTERWARDS
from sickbay.actions import ActionState
from sickbay.messages import Incident

STAGE = "fresh"
NEWS_MS = 600_000  # an incident stands for half an hour after its last sign; within that a node can be repaired [house]
LATE_MS = 120_000  # older when told is no news: agents read within a second, clocks may be off so far [house]
SETTLES_MS = 90_000  # then some windows of the part's own telemetry, had it any, are judged (diagnosis/still_there.py)


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
    begun = decision.before is not None and decision.before.state is ActionState.INTENDED
    return decision if decision.do != DRAIN or begun else _of_news(decision, context)


def _of_news(decision: Decision, context: Context) -> Decision:
    """A hold rests on what is so now: a replayed line, or one of a clock that is far behind, tells what was."""
    incident, newest = decision.incident, _newest_ms(decision.incident)
    if context.now_ms - newest > NEWS_MS:
        return asked(decision, STAGE, "the last sign of it is long ago: the node may have been repaired since")
    told_ms = (incident.detected_ms if incident else None) or newest
    if told_ms - newest > LATE_MS and context.now_ms - told_ms < SETTLES_MS:
        return postponed(decision, STAGE, "it was old when it was told: first a look whether the part still answers")
    return decision


def _newest_ms(incident: Incident | None) -> int:
    """When the part last showed the fault, 0 where nobody knows. That it was told only now makes old signs no news."""
    if incident is None:
        return 0
    own = [one for one in incident.evidence if incident.component in (one.component, one.peer)]
    seen = [at for one in own for at in (one.end_ms, one.window_end_ms, one.onset_to_ms, one.onset_from_ms) if at]
    told = [at for at in (incident.onset_ms, incident.detected_ms) if at]
    return max(seen or told, default=0)
