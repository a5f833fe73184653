"""attempts: a job is given back only while the very attempt that the evidence speaks of still runs, and only once."""

from remediation.decision import Context, Decision, asked, muted
from remediation.ledger import REQUEUE
from remediation.schedulers import JobState
from sickbay.actions import ActionState
from sickbay.components import Kind

STAGE = "attempts"
NEWS_MS = 300_000  # later, a framework may have started it again inside its allocation, unseen by the scheduler [house]
JOB_PAUSE_MS = 2 * 3_600_000  # at most one stop of a job by us in that time, by policy [house]
RUNS = frozenset({"running", "suspended", "stopped"})


def attempts(decisions: tuple[Decision, ...], context: Context) -> tuple[Decision, ...]:
    """Stops what would hit another attempt, or the same one twice."""
    return tuple(_same(one, context) if one.do == REQUEUE and not one.muter else one for one in decisions)


def _same(decision: Decision, context: Context) -> Decision:
    action, job = decision.action, context.job(decision.action.target)
    if not action.attempt:
        return muted(decision, STAGE, ActionState.SHOWN, "for a person: which attempt was hit is not known")
    if not runs(job, action.attempt):
        return muted(decision, STAGE, ActionState.EXPIRED, f"attempt {action.attempt} does not run any more")
    if job is not None and decision.host.removeprefix(f"{Kind.HOST}:") not in job.nodes:
        return muted(decision, STAGE, ActionState.REFUSED, "the job does not run on the node that is held")
    again = context.ledger.requeued(action.target, action.attempt, but=action.id)
    if again is not None:
        return muted(decision, STAGE, ActionState.REFUSED, f"it was given back already, by action {again.id}")
    return _seldom(decision, context)


def _seldom(decision: Decision, context: Context) -> Decision:
    incident = decision.incident
    if context.ledger.requeues_begun(decision.action.target, context.now_ms - JOB_PAUSE_MS, but=decision.action.id):
        return asked(decision, STAGE, "it was stopped by us within two hours")
    if incident is None or incident.onset_ms is None or context.now_ms - incident.onset_ms > NEWS_MS:
        return asked(decision, STAGE, "the onset is long ago: the job may have been started again by another")
    return decision


def runs(job: JobState | None, attempt: str) -> bool:
    """Whether that attempt (job/restart count) runs."""
    return job is not None and job.state in RUNS and f"{job.id}/{job.attempt}" == attempt
