"""confirm: only a part that is to blame, surely enough, for a fault class that the site lets it act on."""

from remediation.decision import Context, Decision, muted
from remediation.propose import AFTERWARDS
from remediation.verbs import verbs
from sickbay.actions import ActionState
from sickbay.messages import Verdict

STAGE = "confirm"


def confirm(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Leaves everything else to be seen only."""
    return tuple(one if one.muter or one.do in AFTERWARDS else _sure(one, context) for one in decisions)


def _sure(decision: Decision, context: Context) -> Decision:
    incident = decision.incident
    if incident is None or incident.verdict is not Verdict.COMPONENT:
        verdict = incident.verdict if incident else "missing"
        return muted(decision, STAGE, ActionState.SHOWN, f"the verdict is {verdict}: no part is to blame")
    if incident.fault not in context.settings.faults:
        return muted(decision, STAGE, ActionState.SHOWN, f"{incident.fault} is no class that it may act on")
    least = verbs()[decision.do].least_p
    if incident.probability < least:
        return muted(decision, STAGE, ActionState.SHOWN, f"the probability is below {least:g}")
    return decision
