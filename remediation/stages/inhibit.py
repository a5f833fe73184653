"""inhibit: a person paused it, or works there or on what it hangs on; or the job itself says not now."""

from collections.abc import Iterator

from remediation.decision import Context, Decision, muted
from remediation.ledger import REQUEUE
from sickbay.actions import ActionState, Control
from sickbay.clock import rfc3339

STAGE = "inhibit"
ALL = "all"  # a pause of everything
KINDS = ("pause", "maintenance")
NO_STOP = "no_stop"


def inhibit(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Stops what a pause or a maintenance window speaks of: all, the incident, the action, its target or its host, or
    a part that these hang on. A job that asks not to be stopped is left until then."""
    held = any(control.kind in KINDS and control.holds(context.now_ms) for control in context.controls.values())
    stopped = (one if one.muter or not held else _paused(one, context) for one in decisions)
    return tuple(one if one.muter else _asked(one, context) for one in stopped)


def _paused(decision: Decision, context: Context) -> Decision:
    for target in _about(decision, context):
        for kind in KINDS:
            control = context.control(kind, target)
            if control is not None:
                return muted(decision, STAGE, ActionState.REFUSED, _why(control))
    return decision


def _about(decision: Decision, context: Context) -> Iterator[str]:
    yield from (ALL, decision.action.incident, decision.action.id)
    blamed = decision.incident.component if decision.incident else ""
    named = [name for name in (decision.action.target, decision.host, blamed) if name]
    yield from named
    view = context.topology.at(context.now_ms)
    yield from dict.fromkeys(part for name in named for part in view.ancestors(name))


def _asked(decision: Decision, context: Context) -> Decision:
    control = context.control(NO_STOP, decision.action.target) if decision.do == REQUEUE else None
    if control is None:
        return decision
    why = f"the job asks not to be stopped before {rfc3339(control.until_ms)}"
    return muted(decision, STAGE, ActionState.REFUSED, why)


def _why(control: Control) -> str:
    note = f": {control.note}" if control.note else ""
    return f"{control.kind} of {control.target} by {control.by}{note}"
