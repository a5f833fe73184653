"""What remediation asks of a scheduler at each look: the nodes and jobs that matter, and no more than it can bear."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from remediation.decision import Context, Decision
from remediation.ledger import DRAIN, RELEASE, REQUEUE, Ledger
from remediation.schedulers import JobState, NodeState, Scheduler, SchedulerError, Unreachable
from remediation.settle import UNDER_WAY
from sickbay import selfmetrics
from sickbay.app.running import service
from sickbay.components import Kind

LATE_MS = 3_600_000  # so long a hold that was given up is looked for: a question on its way may still have been heard
WAIT_S = 1.0  # after a question in vain; doubles
SLOW_S = 15.0  # the longest such wait


@dataclass(slots=True)
class SchedulerView:
    """Asks one scheduler. After a question in vain, the next comes later and later. `why`: why it cannot be read."""

    scheduler: Scheduler
    context: service.Context
    monotonic: Callable[[], float]
    why: str = ""
    _until_s: float = 0.0  # of the monotonic clock: the other one may be set back
    _times: int = 0

    def read(self, known: Context, wanted: Iterable[Decision]) -> Context:
        """What is known, with the scheduler's word on what was proposed, is held, or is under way."""
        watched, jobs = _watched(known.ledger, known.now_ms), _jobs(wanted, known.ledger)
        if not (wanted or watched or jobs):
            return known
        nodes, found = self._asked(_nodes(wanted, watched), jobs)
        return replace(known, nodes=nodes, jobs=found, unreadable=self.why)

    def _asked(
        self, names: frozenset[str], jobs: frozenset[str]
    ) -> tuple[Mapping[str, NodeState], Mapping[str, JobState]]:
        """Those nodes (none: all), and those jobs."""
        if self.monotonic() < self._until_s:
            return {}, {}
        try:
            nodes = self.scheduler.nodes(names)
            found = self.scheduler.jobs(jobs) if jobs else {}
        except SchedulerError as error:
            self._in_vain(error)
            return {}, {}
        self.why, self._until_s, self._times = "", 0.0, 0
        return nodes, found

    def _in_vain(self, error: SchedulerError) -> None:
        if not self.why:
            self.context.say(f"remediation: the scheduler cannot be read: {error}")
        self.why = "no answer" if isinstance(error, Unreachable) else "it refuses to answer"
        self._until_s = self.monotonic() + min(WAIT_S * 2 ** min(self._times, 8), SLOW_S)
        self._times += 1
        self.context.metrics.count(selfmetrics.SCHEDULER_ERRORS, kind=type(error).__name__.lower())


def _watched(ledger: Ledger, now_ms: int) -> set[str]:
    """The hosts that lines of the ledger speak of: held, under way, or given up not long since."""
    lines = [line for line in ledger.lines.values() if line.do in (DRAIN, RELEASE) and line.state in UNDER_WAY]
    late = ledger.holds_begun(now_ms - LATE_MS)
    return {*ledger.holds, *ledger.co_holds, *(line.target for line in (*lines, *late))}


def _nodes(wanted: Iterable[Decision], watched: set[str]) -> frozenset[str]:
    """Names of the nodes to ask for: none, which is all of them, where spare ones are to be counted for a job."""
    if any(one.do == REQUEUE for one in wanted):
        return frozenset()
    hosts = {one.host for one in wanted if one.host} | watched
    return frozenset(host.removeprefix(f"{Kind.HOST}:") for host in hosts)


def _jobs(wanted: Iterable[Decision], ledger: Ledger) -> frozenset[str]:
    """Ids of the jobs that decisions, open lines, and the incidents of holds speak of."""
    asked = [one.action.target for one in wanted if one.do == REQUEUE]
    held = {hold.incident for hold in ledger.holds.values()}
    back = [line for line in ledger.lines.values() if line.do == REQUEUE]
    asked += [line.target for line in back if line.state in UNDER_WAY or line.incident in held]
    return frozenset(target.removeprefix(f"{Kind.JOB}:") for target in asked)
