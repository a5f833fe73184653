"""Alarms that stand at a fabric manager: each told once, of a switch by its name, else as a notice. Pure.

An alarm is told at the first look too: it stands now, however long it has. None is stronger than a warning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collectors.cluster.fabric_manager_events import SOURCE, bounded, outgoing
from collectors.cluster.poll import Polled, PollFailed
from collectors.formats.events import event
from collectors.formats.fabric_manager_json import Alarm, Unreadable, rows
from collectors.formats.reading import Tally
from collectors.formats.text import clean_text
from sickbay.components import Kind, name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity
from sickbay.messages import replace as changed

# A supply, a fan or a board of a switch, as the guides name it from 6.17 on and before. What is not here and tells of a
# whole switch is told with the kind for what has no better one.
KINDS: Mapping[str, str] = {"System Module Error": "switch.environment", "Module status FAULT": "switch.environment"}
_SEVERITIES = {"warning": Severity.WARNING, "minor": Severity.WARNING, "critical": Severity.WARNING}  # others: info
_SWITCH = re.compile(r"^(?:[^/]{0,200} / )?Switch: ([^/]{1,200})$")  # of a part of it the path goes on

MOST_KEPT = 100_000  # alarms that may stand on in a row that is not understood

Key = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Alarms:
    """Those that stood at the last answer; None before the first."""

    standing: frozenset[Key] | None = None


def alarmed(body: bytes, state: Alarms, now_ms: int) -> Polled[Alarms]:
    """Alarms that did not stand at the last answer. A row that is not understood ends none."""
    tally = Tally()
    try:
        told = {_key(one): one for one in rows(body, Alarm, tally)}
    except Unreadable as error:
        raise PollFailed(str(error)) from None
    before = state.standing or frozenset()
    new = [_alarm(one, state.standing is None, now_ms) for key, one in told.items() if key not in before]
    kept = before if tally.unparsed and len(before) < MOST_KEPT else frozenset()
    after = frozenset(told) | kept
    return Polled(Alarms(after), [outgoing(one) for one in bounded(new, "alarms", now_ms)], tally.unparsed)


def _key(one: Alarm) -> Key:
    return one.id, one.name, one.path


def _alarm(one: Alarm, first: bool, now_ms: int) -> Event:
    title, path = clean_text(one.name), clean_text(one.path).strip()
    facts = {
        "path": path,
        "severity": one.severity,
        "told_at": one.timestamp,
        "description": clean_text(one.description or one.summary),
        "standing": "at the first look" if first else "",
    }
    severity = _SEVERITIES.get(one.severity.lower(), Severity.INFO)
    told: dict[str, Any] = {"code": title[:200], "message": clean_text(one.reason)[:MAX_MESSAGE], "severity": severity}
    if match := _SWITCH.match(path):
        advice = Action.WATCH if severity is Severity.WARNING else None
        kind = KINDS.get(title, "switch.asic_notice")
        found = event(kind, name(Kind.SWITCH, match[1].strip()), facts, advice=advice, **told)
    else:
        found = event("monitor.notice", name(Kind.MONITOR, SOURCE, "alarms"), facts, **told)
    return changed(found, at_ms=now_ms, seen_ms=now_ms)  # type: ignore[no-any-return]
