"""ledger: what is left is about to be done. Every decision becomes a line, and only what is new is written."""

from msgspec.structs import replace

from remediation.decision import Context, Decision
from remediation.ledger import DRAIN, POLICY, RELEASE, TEST, reason
from sickbay.actions import Action, ActionState, Mode

STAGE = "ledger"


def line(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """The decisions whose line changes, and those that are about to be done."""
    found = (_line(one, context) for one in decisions)
    return tuple(one for one in found if one is not None)


def _line(decision: Decision, context: Context) -> Decision | None:
    before = decision.before
    if before is not None and before.state is ActionState.DONE:
        return None  # reading back settles it
    if context.mode is Mode.OBSERVE:
        action = _shown(decision)
    elif decision.later and not _awaited(decision, context):
        return None
    elif decision.later:
        action = replace(decision.action, state=ActionState.SHOWN)
    elif decision.muter:
        action = decision.action
    else:
        action = _intended(decision, context)
    if _given_up(before, action) and (context.unreadable or context.mode is Mode.OBSERVE):
        return None  # what became of it is not known yet
    action = replace(action, mode=context.mode)
    if before is not None and _same(before, action):
        action = before
        return replace(decision, action=before) if action.state is ActionState.INTENDED else None
    return replace(decision, action=replace(action, at_ms=context.now_ms))


def _awaited(decision: Decision, context: Context) -> bool:
    """Whether people may ask what a standing hold waits for: its test and release are told of before their turn."""
    begun = decision.before is not None and decision.before.state is not ActionState.SHOWN
    standing = decision.do in (TEST, RELEASE) and decision.host in context.ledger.holds
    return standing and not begun and not context.unreadable


def _shown(decision: Decision) -> Action:
    if decision.muter and decision.action.state in (ActionState.EXPIRED, ActionState.REFUSED) and not decision.later:
        return decision.action
    why = decision.action.why if decision.muter else decision.asks or "would be done now"
    return replace(decision.action, state=ActionState.SHOWN, why=why)


def _intended(decision: Decision, context: Context) -> Action:
    action, before = decision.action, decision.before
    if before is not None and before.state is ActionState.INTENDED:
        return replace(action, state=ActionState.INTENDED)
    if action.do == DRAIN:
        action = replace(action, generation=context.ledger.generation(action.target) + 1)
    about = decision.incident
    return replace(
        action,
        state=ActionState.INTENDED,
        why=_why(decision),
        reason=reason(action, f"{about.fault} at {about.component}," if about else action.do),
        intended_ms=action.intended_ms or context.now_ms,
        test=" ".join(context.settings.test_command)[:400] if action.do == DRAIN else action.test,
    )


def _why(decision: Decision) -> str:
    incident, by = decision.incident, decision.action.by
    if decision.do == TEST:
        found = "is it fit for work again?"
    elif decision.do == RELEASE:
        found = "its test was passed" if by == POLICY else ""
    else:
        found = f"{incident.fault} at {incident.component}, P {incident.probability:.2f}" if incident else ""
    return ", ".join(filter(None, (found, "" if by == POLICY else f"approved by {by}")))


def _given_up(before: Action | None, action: Action) -> bool:
    begun = before is not None and before.state is ActionState.INTENDED
    return begun and action.state is not ActionState.INTENDED


def _same(before: Action, action: Action) -> bool:
    kept = ("state", "why", "co_hold", "expires_ms", "by")
    return all(getattr(before, field) == getattr(action, field) for field in kept)
