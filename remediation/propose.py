"""What the open incidents and the holds ask for, as decisions to be judged: in order, each with its line so far."""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from remediation.decision import Context, Decision, muted
from remediation.ledger import COLLECT, DRAIN, RELEASE, REQUEUE, TEST, action_id, settled
from sickbay.actions import Action, ActionState
from sickbay.components import HOST_SCOPED, JOB_SCOPED, Kind, Name, host_of, kind_of, name
from sickbay.messages import Incident, PlanStep, newest_sign_ms

UNSPOKEN = frozenset({"ignore", "watch", "page_owner", "escalate"})  # alerts and surfaces speak of these
RESTART = frozenset({"stop_job", "relaunch_in_allocation"})  # together: the job starts again from its checkpoint
AFTERWARDS = frozenset({TEST, RELEASE})  # follow from the hold, not from the incident


def proposed(context: Context) -> tuple[Decision, ...]:
    """All that may be done now. What is settled is left out; what nobody asks for any more is told to expire."""
    found = {one.action.id: one for one in _all(context)}
    live = [one for one in found.values() if not (one.before and settled(one.before))]
    return (*live, *_forgotten(context, frozenset(found)))


def _all(context: Context) -> Iterator[Decision]:
    for incident in sorted(context.incidents.values(), key=lambda one: (one.onset_ms or 0, one.id)):
        if incident.state == "open" and context.stands(incident.id):
            yield from _Proposal(context, incident).decisions()
    for hold in context.ledger.holds.values():
        if hold.state is ActionState.VERIFIED:
            yield from _of_hold(context, hold)


def _of_hold(context: Context, hold: Action) -> Iterator[Decision]:
    """The test that ends a hold, and the release after it: also when the incident is closed long since."""
    incident = context.incidents.get(hold.incident)
    test = _line(context, hold.incident, TEST, hold.target, hold.generation)
    yield Decision(action=test, host=hold.target, incident=incident, before=context.ledger.lines.get(test.id))
    free = _line(context, hold.incident, RELEASE, hold.target, hold.generation)
    before = context.ledger.lines.get(free.id)
    yield Decision(action=free, host=hold.target, incident=incident, before=before, needs=(test.id,))


def _line(context: Context, incident: str, do: str, target: Name, generation: int, attempt: str = "") -> Action:
    """The line so far, else a new one."""
    key = action_id(incident, do, target, generation)
    return context.ledger.lines.get(key) or Action(
        id=key, incident=incident, do=do, target=target, state=ActionState.SHOWN, generation=generation,
        attempt=attempt, began_ms=context.now_ms,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Proposal:
    """The plan of one incident as actions."""

    context: Context
    incident: Incident

    def decisions(self) -> Iterator[Decision]:
        host = self._host()
        held = self.context.ledger.holds.get(host)
        hands_over = held is not None and held.state is ActionState.VERIFIED
        for (do, target), when in self._steps().items():
            if not (do in AFTERWARDS and hands_over):
                yield replace(self._decision(do, target, host), when=when)

    def _decision(self, do: str, target: Name, host: Name) -> Decision:
        action = self._action(do, target)
        return Decision(
            action=replace(action, evidence=tuple(one.id for one in self.incident.evidence)[:16]),
            host=target if do == DRAIN else host,
            incident=self.incident,
            before=self.context.ledger.lines.get(action.id),
            needs=self._needs(do, host),
        )

    def _steps(self) -> dict[tuple[str, Name], str]:
        """Verbs and targets, and when they are for; stop and relaunch of a job as one."""
        plan = [step for step in self.incident.plan if step.do not in UNSPOKEN]
        both = {step.target for step in plan if step.do == "stop_job" and step.when == "now"}
        found: dict[tuple[str, Name], str] = {}
        for step in plan:
            found.setdefault(_step(step, both), step.when)
        return found

    def _host(self) -> Name:
        """The host that the plan holds, else that of the component."""
        drained = [step.target for step in self.incident.plan if step.do == DRAIN]
        component = self.incident.component
        host = host_of(component) if kind_of(component) in HOST_SCOPED else None
        return drained[0] if drained else name(Kind.HOST, host) if host else ""

    def _action(self, do: str, target: Name) -> Action:
        """The line so far, else a new one: an incident holds a node once, and once more where the part fails again."""
        incident, ledger, attempt, generation = self.incident.id, self.context.ledger, "", 0
        if do == REQUEUE:
            attempt = self._attempt(target)
            generation = int(attempt.rpartition("/")[2]) if attempt else 0
        elif do == DRAIN or do in AFTERWARDS:
            last = ledger.last(incident, DRAIN, target if do == DRAIN else self._host())
            if last is not None and self._again(last):
                last = None
            if last is not None and do == DRAIN:
                return last
            generation = last.generation if last else ledger.generation(target) + 1
        line = _line(self.context, incident, do, target, generation, attempt)
        told_late = line.intended_ms is None and attempt != line.attempt  # the placement came after the incident
        return replace(line, attempt=attempt) if told_late else line

    def _needs(self, do: str, host: Name) -> tuple[str, ...]:
        """Evidence is saved before anything is stopped."""
        if do != REQUEUE:
            return ()
        saved = [step for step in self.incident.plan if step.do == COLLECT]
        return tuple(action_id(self.incident.id, COLLECT, step.target, 0) for step in saved)

    def _again(self, hold: Action) -> bool:
        """Whether the part failed once more after that hold had ended: the node is to be held once more."""
        over = hold.state is ActionState.UNDONE and hold.at_ms is not None
        return over and (newest_sign_ms(self.incident) or 0) > (hold.at_ms or 0)

    def _attempt(self, job: Name) -> str:
        """job/restart count that ran when the part failed last, "" where nothing tells it."""
        if self.incident.onset_ms is None:
            return ""
        holds = (hold for hold in self.context.ledger.of(DRAIN, self._host()) if hold.incident == self.incident.id)
        again_ms = newest_sign_ms(self.incident) if any(self._again(hold) for hold in holds) else None
        placed = self.context.placements.at(again_ms or self.incident.onset_ms).jobs_of(job)
        return f"{placed[0].job}/{placed[0].attempt}" if placed else ""


def _step(step: PlanStep, both: set[Name]) -> tuple[str, Name]:
    restart = step.do in RESTART and step.when == "now" and step.target in both and kind_of(step.target) in JOB_SCOPED
    return (REQUEUE, step.target) if restart else (step.do, step.target)


def _forgotten(context: Context, found: frozenset[str]) -> Iterator[Decision]:
    """Lines that wait for something and that no open incident and no hold asks for: they must not wait for ever."""
    for action in context.ledger.lines.values():
        if action.id not in found and action.state in (ActionState.WAITING, ActionState.INTENDED):
            incident = context.incidents.get(action.incident)
            over = "its hold has ended" if action.do in AFTERWARDS else _why_over(incident)
            yield muted(Decision(action=action, incident=incident, before=action), "fresh", ActionState.EXPIRED, over)


def _why_over(incident: Incident | None) -> str:
    if incident is None or incident.state == "open":
        return "neither the incident nor its plan asks for it any more"
    return f"the incident was merged into {incident.merged_into}" if incident.merged_into else "the incident is closed"
