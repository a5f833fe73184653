"""What people ask of incidents and the ledger, and what they answer: finding, telling, approving, rejecting."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from sickbay import actions, messages
from sickbay.actions import Action, ActionState, Control, Judged
from sickbay.app.asking.incidents_topic import current
from sickbay.app.asking.ledger_lines import CONTROL, ledger_of, line_of
from sickbay.clock import rfc3339
from sickbay.log import Log
from sickbay.messages import Incident
from sickbay.plain import plain

KINDS = {"approve": "approval", "reject": "rejection"}


class NotFound(ValueError):
    """There is no such thing, or more than one; the text says what there is."""


class NotAsked(ValueError):
    """Nobody waits for that answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything as it stands now."""

    incidents: Mapping[str, Incident]
    judged: Judged | None
    ledger: Mapping[str, Action]

    def actions_of(self, incident: str) -> list[Action]:
        """Its lines in the ledger, in the order in which they were first proposed and come in a plan."""
        mine = [line for line in self.ledger.values() if line.incident == incident]
        plan = [step.do for step in self.incidents[incident].plan] if incident in self.incidents else []
        order = {do: place for place, do in enumerate(dict.fromkeys(plan))}
        order.setdefault("requeue", order.get("stop_job", 99))
        return sorted(mine, key=lambda line: (line.began_ms or 0, order.get(line.do, 99), line.id))

    def incident(self, key: str) -> Incident:
        """The incident of that id, or the only one whose id begins so. Raises NotFound."""
        return self.incidents[_only(key, self.incidents, "incident", "sickbay incidents list")]

    def waiting(self, key: str) -> list[Action]:
        """The action of that id that waits for an answer, or all of an incident that do. Raises NotFound, NotAsked.

        A release is answered by its own id only: a yes to what contains a fault must not let the node go as well.
        """
        known = {**dict.fromkeys(self.ledger, "action"), **dict.fromkeys(self.incidents, "incident")}
        found = _only(key, known, "action or incident", "sickbay incidents list")
        lines = self.actions_of(found) if found in self.incidents else [self.ledger[found]]
        waits = [line for line in lines if line.state is ActionState.WAITING]
        own = [line for line in waits if line.do != "release" or line.id == found]
        if waits and not own:
            raise NotAsked(f"{found}: only a release waits; it is answered by its own id: {waits[0].id}")
        waits = own
        if not waits:
            raise NotAsked(_not_asked(found, lines))
        return waits


def desk(log: Log) -> Desk:
    """Everything as it stands now."""
    reader = log.reader()
    incidents, judged = current(reader)
    return Desk(incidents, judged, ledger_of(reader))


def answer(log: Log, lines: Iterable[Action], do: str, by: str, now_ms: int, note: str = "") -> list[Control]:
    """Writes a yes or a no for each. Raises NotAsked where the time for it is over, LogError."""
    told = list(lines)
    for line in told:
        if line.expires_ms is not None and now_ms >= line.expires_ms:
            raise NotAsked(f"action {line.id} waited until {rfc3339(line.expires_ms)}: that time is over")
    said = [
        Control(kind=KINDS[do], target=line.id, by=by, at_ms=now_ms, asked_ms=line.at_ms, note=note) for line in told
    ]
    appender = log.appender()
    try:
        for control in said:
            key = f"{control.kind}:{control.target}:{by}".encode()
            appender.append(CONTROL.topic, key[:1024], actions.encode(control))
        appender.flush()
    finally:
        appender.close()
    return said


def rows(here: Desk, *, closed: bool = False) -> list[str]:
    """The list for people: an incident a line, its actions below it."""
    found: list[str] = []
    for one in sorted(here.incidents.values(), key=lambda one: (one.onset_ms or 0, one.id)):
        if closed or matters(here, one):
            found.append(_headline(one))
            found += [_row(line) for line in here.actions_of(one.id)]
    return [plain(row) for row in found]


def matters(here: Desk, one: Incident) -> bool:
    """Whether people have to know of it: it is open, or closed while a node is held for it or an answer waited for."""
    lines = here.actions_of(one.id)
    ours = any(not line.co_hold for line in _held(lines))
    return one.state == "open" or ours or any(line.state is ActionState.WAITING for line in lines)


def page(here: Desk, one: Incident) -> list[str]:
    """One incident for people: the verdict, its evidence, its plan, and what was or would be done."""
    found = [_headline(one), *([f"  {one.summary}"] if one.summary else []), "", "Evidence"]
    found += [f"  {each.detector}: {each.component} {each.fault} {each.says}" for each in one.evidence[:20]]
    found += ["", "Plan"]
    found += [f"  {step.do} {step.target} ({step.when}): {step.why}" for step in one.plan]
    found += ["", "Actions"]
    found += [f"  {line_of(line)}" for line in here.actions_of(one.id)] or ["  none"]
    waits = [line for line in here.actions_of(one.id) if line.state is ActionState.WAITING]
    found += [f"  waits for an answer: sickbay incidents approve {line.id}" for line in waits]
    return [plain(row) for row in found]


def told(here: Desk, one: Incident) -> dict[str, Any]:
    """One incident and its actions for a script."""
    return {
        "incident": msgspec.Raw(messages.encode(one)),
        "stands": here.judged is not None and one.id in here.judged.open,
        "actions": here.actions_of(one.id),
    }


def held(here: Desk) -> list[Action]:
    """What is held now, by us or beside somebody else."""
    return _held(here.ledger.values())


def _held(lines: Iterable[Action]) -> list[Action]:
    open_states = (ActionState.INTENDED, ActionState.DONE, ActionState.VERIFIED)
    return [line for line in lines if line.do == "drain_host" and (line.co_hold or line.state in open_states)]


def _row(line: Action) -> str:
    text = f"    {line.do:<16} {line.state:<9} {line.target}  {line.why}"[:200]
    return f"{text}  (sickbay incidents approve {line.id})" if line.state is ActionState.WAITING else text


def _headline(one: Incident) -> str:
    state = one.state if not one.merged_into else f"merged into {one.merged_into}"
    return (
        f"{one.id}  {rfc3339(one.onset_ms) or '-'}  {state}  {one.verdict} {one.component} {one.fault}"
        f"  P {one.probability:.2f}  {one.action}"
    )


def _only(key: str, known: Iterable[str], what: str, where: str) -> str:
    found = sorted(one for one in known if one.startswith(key)) if key else []
    if key in found:
        return key
    if not found:
        raise NotFound(f"no {what} {key!r}: {where} shows what there is")
    if len(found) > 1:
        raise NotFound(f"{key!r} may be {', '.join(found[:5])}: give more of the id")
    return found[0]


def _not_asked(key: str, lines: list[Action]) -> str:
    states = ", ".join(f"{line.do} is {line.state}" for line in lines[:8]) or "it has no actions"
    why = next((line.why for line in lines if line.state is ActionState.EXPIRED), "")
    return f"{key}: nothing waits for an answer: {states}{f' ({why})' if why else ''}"
