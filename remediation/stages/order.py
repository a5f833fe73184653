"""order: hold, save evidence, give the job back, test once the node is empty, release after the test."""

from collections.abc import Iterator

from remediation.decision import Context, Decision, asked, muted, postponed
from remediation.ledger import DRAIN, REQUEUE, settled
from sickbay.actions import Action, ActionState
from sickbay.components import Kind, Name
from sickbay.messages import Incident

STAGE = "order"
DAY_MS = 86_400_000
SECOND_HOLD_MS = 14 * DAY_MS  # a second hold of a unit within that time: a person releases [house]
SURE = 0.9  # below this sensitivity a pass settles nothing [house]
RESTART_MS = 600_000  # after that, waiting for the job's next start is a person's question [house]
STARTS_AGAIN = frozenset({"pending", "configuring", "completing", "requeued", "requeue_hold", "special_exit"})
BUSY = frozenset({"allocated", "alloc", "mixed", "mix", "completing", "comp"})
AWAY = frozenset(
    {"down", "fail", "error", "unknown", "not_responding", "reboot_requested", "reboot_issued", "powered_down",
     "powering_down", "powering_up", "power_down", "power_up"}
)  # fmt: skip


def order(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Lets each wait for the one before it."""
    by_id = {one.action.id: one for one in decisions}
    return tuple(one if one.muter else _in_turn(one, by_id, context) for one in decisions)


def _in_turn(decision: Decision, by_id: dict[str, Decision], context: Context) -> Decision:
    match decision.do:
        case "requeue":
            return _after_hold(decision, by_id, context)
        case "run_test":
            return _when_idle(decision, context)
        case "release":
            return _after_test(decision, context)
    return decision


def _after_hold(decision: Decision, by_id: dict[str, Decision], context: Context) -> Decision:
    node = context.node(decision.host)
    if node is None or not node.held or not context.ledger.takes_no_work(decision.host):
        return postponed(decision, STAGE, "after its node is held, so that it cannot start there again")
    for key in decision.needs:
        line = context.ledger.lines.get(key)
        ahead = by_id.get(key)
        if ahead is not None and not ahead.muter and not (line and settled(line)):
            return postponed(decision, STAGE, "after evidence is saved")
    return _not_onto_another(decision, by_id, context)


def _not_onto_another(decision: Decision, by_id: dict[str, Decision], context: Context) -> Decision:
    """A job is not given back while a second broken node, on which it could start again, is still to be held."""
    for other in by_id.values():
        host = other.action.target
        if other.do != DRAIN or host == decision.host or context.ledger.takes_no_work(host):
            continue
        if not _may_start(decision, host, context):
            continue
        if other.asks or other.action.state is ActionState.REFUSED:
            return asked(decision, STAGE, f"{host} is to be held as well and is not: it could start there")
        if not other.muter:
            return postponed(decision, STAGE, f"after {host} is held as well, so that it cannot start there")
    return decision


def _may_start(decision: Decision, host: Name, context: Context) -> bool:
    """Whether the job of a decision, once given back, could start on a host: its own now, or one that is free."""
    job, node = context.job(decision.action.target), context.node(host)
    mine = job is not None and host.removeprefix(f"{Kind.HOST}:") in job.nodes
    return mine or (node is not None and not node.jobs and not node.held)


def _when_idle(decision: Decision, context: Context) -> Decision:
    if _hold(decision, context) is None:
        return _unheld(decision, "after its node is held by us")
    node = context.node(decision.host)
    if node is None or node.jobs or node.flags & BUSY:
        return postponed(decision, STAGE, "when nothing runs there any more")
    if node.flags & AWAY:
        return postponed(decision, STAGE, "when the node is up again")
    if not context.settings.test_command:
        return muted(decision, STAGE, ActionState.SHOWN, "for a person: no test_command is set in [remediation]")
    return decision


def _after_test(decision: Decision, context: Context) -> Decision:
    hold = _hold(decision, context)
    if hold is None:
        return _unheld(decision, "after its node is held by us and tested")
    test = context.ledger.lines.get(decision.needs[0])
    if not context.settings.test_command:
        return asked(decision, STAGE, "no test is set: a person says when it may be used again")
    if test is not None and test.state is ActionState.INTENDED and test.tries:
        return asked(decision, STAGE, "the test is not passed yet: a person may say that it is to be used all the same")
    if test is None or not settled(test):
        return postponed(decision, STAGE, "after the test")
    node = context.node(decision.host)
    if node is not None and node.flags & AWAY:
        return postponed(decision, STAGE, "when the node is up again")
    return _elsewhere(_proved(decision, hold, test, context), context)


def _proved(decision: Decision, hold: Action, test: Action, context: Context) -> Decision:
    if test.state is not ActionState.VERIFIED:
        return asked(decision, STAGE, "the test was not passed: a person says when it may be used again")
    if context.settings.test_sensitivity < SURE:
        return asked(decision, STAGE, f"a pass settles nothing: the test finds fewer than {SURE:.0%} of such faults")
    other = next(_others(decision, context), None)
    if other is not None:
        return asked(decision, STAGE, f"incident {other.id} stands there as well")
    began = hold.intended_ms or context.now_ms
    earlier = [one for one in context.ledger.holds_begun(began - SECOND_HOLD_MS, hold.target) if one.id != hold.id]
    if earlier:
        return asked(decision, STAGE, "it is the second hold within 14 days: a person releases")
    return decision


def _unheld(decision: Decision, why: str) -> Decision:
    """What was begun on a hold that is not ours any more ends: others may work there now."""
    if decision.before is not None and decision.before.state in (ActionState.INTENDED, ActionState.WAITING):
        return muted(decision, STAGE, ActionState.EXPIRED, "its hold has ended")
    return postponed(decision, STAGE, why)


def _others(decision: Decision, context: Context) -> Iterator[Incident]:
    """Other incidents that stand and for which that host would be held."""
    for incident in context.incidents.values():
        held = any(step.do == DRAIN and step.target == decision.host for step in incident.plan)
        if (
            held
            and incident.id != decision.action.incident
            and incident.state == "open"
            and context.stands(incident.id)
        ):
            yield incident


def _elsewhere(decision: Decision, context: Context) -> Decision:
    """A node just tested is not given to the job that it killed (nights, 39): that one starts elsewhere first."""
    if decision.asks:
        return decision
    for line in context.ledger.lines.values():
        job = context.job(line.target) if line.do == REQUEUE else None
        if job is None or line.incident != decision.action.incident:
            continue
        if job.state in STARTS_AGAIN:
            if context.now_ms - (line.at_ms or 0) > RESTART_MS:
                return asked(decision, STAGE, f"job {job.id}, which it killed, waits to start again")
            return postponed(decision, STAGE, f"after job {job.id} runs again, as it must not start there")
    return decision


def _hold(decision: Decision, context: Context) -> Action | None:
    """The hold of ours that a test or a release speaks of."""
    hold = context.ledger.holds.get(decision.host)
    mine = hold is not None and hold.state is ActionState.VERIFIED and hold.generation == decision.action.generation
    return hold if mine else None
