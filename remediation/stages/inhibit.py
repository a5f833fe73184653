"""inhibit: a person paused it, or works there."""

from remediation.decision import Context, Decision, muted
from sickbay.actions import ActionState, Control

STAGE = "inhibit"
ALL = "all"  # a pause of everything


def inhibit(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Stops what a pause or a maintenance window speaks of: all, the incident, the action, its target or its host."""
    return tuple(one if one.muter else _paused(one, context) for one in decisions)


def _paused(decision: Decision, context: Context) -> Decision:
    about = (ALL, decision.action.incident, decision.action.id, decision.action.target, decision.host)
    for target in filter(None, about):
        for kind in ("pause", "maintenance"):
            control = context.control(kind, target)
            if control is not None:
                return muted(decision, STAGE, ActionState.REFUSED, _why(control))
    return decision


def _why(control: Control) -> str:
    note = f": {control.note}" if control.note else ""
    return f"{control.kind} of {control.target} by {control.by}{note}"
