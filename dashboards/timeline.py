"""What happened when, of one incident: messages of the log in, rows in the order of time out. Pure.

The report, notebooks and the end-to-end test tell the same story with it. A row's time is when the thing happened as
far as anybody knows: the source's own stamp for events, the writer's for actions, else when the log took the record.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from sickbay.actions import Action, ActionState, Outcome
from sickbay.log.reading import Logged
from sickbay.messages import Event, Evidence, Incident, Placement

MAX_EACH = 20  # rows of events, of evidence: the first ones tell how it began
RUNNING = frozenset({"running", "completing"})
ORDER = ("onset", "event", "event_appended", "evidence", "incident")  # of one moment: cause before effect


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `what` is a key: onset, event, event_appended, evidence, incident, a verb, outcome, job, closed ..."""

    at_ms: int
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What the incident took of the jobs it hit, from the onset to running again. `card_seconds`, `host_seconds`: None
    where placements do not tell of accelerators or hosts, or where a job does not run again yet (`open_jobs`)."""

    jobs: tuple[str, ...] = ()
    ranks: int = 0
    cards: int = 0
    card_seconds: float | None = None
    open_jobs: tuple[str, ...] = ()
    hosts: int = 0
    host_seconds: float | None = None


def timeline(
    incidents: Sequence[Logged[Incident]],
    actions: Iterable[Logged[Action]] = (),
    outcomes: Iterable[Logged[Outcome]] = (),
    *,
    events: Iterable[Logged[Event]] = (),
    evidence: Mapping[str, int] | None = None,
    placements: Iterable[Logged[Placement]] = (),
) -> list[Row]:
    """The rows of one incident, all of whose records are given in the order of the log.

    `evidence`: when the log took each claim, by id. `placements` of any jobs: those that it hit are told.
    """
    if not incidents:
        return []
    newest = incidents[-1].message
    rows = [
        *_begin(newest, incidents),
        *_events(events, newest.onset_ms),
        *_claims(newest, evidence or {}),
        *_changes(incidents),
        *_actions(actions),
        *(_outcome(told) for told in outcomes),
        *_attempts(placements, newest),
    ]
    return sorted(rows, key=lambda row: (row.at_ms, ORDER.index(row.what) if row.what in ORDER else len(ORDER)))


def cost(incident: Incident, placements: Iterable[Logged[Placement]] = ()) -> Cost:
    """What the incident took of the jobs that it hit."""
    hit = incident.affected
    attempts = _by_attempt(placements)
    struck = [_struck(job, attempts, incident.onset_ms) for job in hit.jobs]
    known = [one for one in struck if one is not None]
    waiting = tuple(one.job for one in known if one.again_ms is None)
    told = bool(known) and len(known) == len(hit.jobs) and not waiting
    return Cost(
        jobs=hit.jobs,
        ranks=max(len(hit.ranks), sum(one.ranks for one in known)),
        cards=sum(one.cards for one in known),
        card_seconds=_lost([one.cards for one in known], known) if told else None,
        open_jobs=waiting,
        hosts=sum(one.hosts for one in known),
        host_seconds=_lost([one.hosts for one in known], known) if told else None,
    )


def _lost(parts: Sequence[int], known: "Sequence[_Struck]") -> float | None:
    """Seconds of so many parts of each job; None where a job does not tell how many it has."""
    if not all(parts):
        return None
    return sum(count * ((one.again_ms or 0) - one.from_ms) / 1000 for count, one in zip(parts, known, strict=True))


class _Struck(NamedTuple):
    job: str
    ranks: int
    cards: int
    hosts: int
    from_ms: int
    again_ms: int | None


def _struck(job: str, attempts: Mapping[tuple[str, int], Placement], onset_ms: int | None) -> _Struck | None:
    """The attempt that ran at the onset, and when the next one ran."""
    if onset_ms is None:
        return None
    mine = sorted((one for (name, _), one in attempts.items() if name == job), key=lambda one: one.attempt)
    ran = [one for one in mine if _ran_at(one, onset_ms)]
    if not ran:
        return None
    later = [one.from_ms for one in mine if one.attempt > ran[-1].attempt and one.from_ms is not None]
    cards = sum(1 for rank in ran[-1].ranks if rank.component)
    return _Struck(job, len(ran[-1].ranks), cards, len(_hosts(ran[-1])), onset_ms, min(later, default=None))


def _ran_at(one: Placement, at_ms: int) -> bool:
    return one.from_ms is not None and one.from_ms <= at_ms and (one.to_ms is None or one.to_ms >= at_ms)


def _by_attempt(placements: Iterable[Logged[Placement]]) -> dict[tuple[str, int], Placement]:
    """The newest word on each attempt."""
    return {(told.message.job, told.message.attempt): told.message for told in placements}


def _begin(newest: Incident, incidents: Sequence[Logged[Incident]]) -> Iterator[Row]:
    if newest.onset_ms is not None:
        yield Row(newest.onset_ms, "onset", newest.component)
    first = incidents[0]
    said = f"{first.message.verdict.value} {first.message.fault} {first.message.component}"
    yield Row(first.append_ms, "incident", f"{said} (P {first.message.probability:.2f})")


def _events(events: Iterable[Logged[Event]], onset_ms: int | None) -> Iterator[Row]:
    for told in list(events)[:MAX_EACH]:
        event = told.message
        said = f"{event.component} {event.code or event.kind}"
        at_ms = event.at_ms if event.at_ms is not None else event.seen_ms
        if at_ms is not None:
            yield Row(at_ms, "event", f"{said}: {event.message}" if event.message else said)
        yield Row(told.append_ms, "event_appended", said)


def _claims(incident: Incident, appended: Mapping[str, int]) -> Iterator[Row]:
    for one in [*incident.evidence, *incident.against][:MAX_EACH]:
        at_ms = appended.get(one.id, _seen(one))
        if at_ms is not None:
            yield Row(at_ms, "evidence", f"{one.detector}: {one.component} {one.fault}")


def _seen(one: Evidence) -> int | None:
    times = (one.window_end_ms, one.onset_to_ms, one.onset_from_ms)
    return next((at for at in times if at is not None), None)


def _changes(incidents: Sequence[Logged[Incident]]) -> Iterator[Row]:
    """Where the verdict, its object or its state changed."""
    for before, after in pairwise(incidents):
        old, new = before.message, after.message
        if new.state != old.state:
            detail = f"into {new.merged_into}" if new.state == "merged" else ""
            yield Row(after.append_ms, "reopened" if new.state == "open" else new.state, detail)
        elif (new.verdict, new.component, new.fault, new.action) != (old.verdict, old.component, old.fault, old.action):
            said = f"{new.verdict.value} {new.fault} {new.component}, {new.action.value}"
            yield Row(after.append_ms, "judged_again", f"{said} (P {new.probability:.2f})")


def _actions(actions: Iterable[Logged[Action]]) -> Iterator[Row]:
    """Each change of each action; a record that only repeats its state says nothing new."""
    states: dict[str, ActionState] = {}
    for told in actions:
        action = told.message
        if states.get(action.id) is action.state:
            continue
        states[action.id] = action.state
        by = f" by {action.by}" if action.by not in ("", "policy") else ""
        said = (action.state is ActionState.VERIFIED and action.read_back) or action.why
        detail = f"{action.target} {action.state.value}{by}" + (f": {said}" if said else "")
        yield Row(action.at_ms if action.at_ms is not None else told.append_ms, action.do, detail)


def _outcome(told: Logged[Outcome]) -> Row:
    outcome = told.message
    sensitivity = f" (sensitivity {outcome.sensitivity:.2f})" if outcome.sensitivity is not None else ""
    said = f"{outcome.target} {outcome.result} {outcome.test}".rstrip() + sensitivity
    at_ms = outcome.at_ms if outcome.at_ms is not None else told.append_ms
    return Row(at_ms, "outcome", f"{said}: {outcome.detail}" if outcome.detail else said)


def _attempts(placements: Iterable[Logged[Placement]], incident: Incident) -> Iterator[Row]:
    """When the jobs that it hit ended and ran again."""
    onset_ms = incident.onset_ms or incident.detected_ms or 0
    for (job, attempt), one in _by_attempt(placements).items():
        if job not in incident.affected.jobs:
            continue
        name = f"job:{job} attempt {attempt}"
        if one.from_ms is not None and one.from_ms >= onset_ms and (one.state in RUNNING or one.to_ms is not None):
            yield Row(one.from_ms, "job_runs", f"{name} on {_named(_hosts(one))}")
        if one.to_ms is not None and one.to_ms >= onset_ms:
            yield Row(one.to_ms, "job_ends", f"{name}: {one.state}")


def _hosts(one: Placement) -> list[str]:
    return list(dict.fromkeys(one.hosts or (rank.host for rank in one.ranks)))


def _named(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:8]) + (f" and {len(hosts) - 8} more" if len(hosts) > 8 else "")
