"""Events of a fabric manager: those that are new, of a switch or as notices. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collectors.cluster.poll import Outgoing, Polled, PollFailed
from collectors.formats.events import event
from collectors.formats.fabric_manager_json import Told, Unreadable, rows
from collectors.formats.reading import Tally
from collectors.formats.text import clean_text
from sickbay.components import Kind, host_of, name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity
from sickbay.messages import replace as changed
from sickbay.topics import EVENTS

SOURCE = "ufm"  # who says it, and the key of what belongs to no host
MOST_EVENTS = 500  # told by one poll; more are summed up
# By name, as the numbers differ between versions. What is not here and says that something is wrong is a notice.
KINDS: Mapping[str, str] = {"Switch is Down": "switch.asic_notice", "Switch is Up": "switch.asic_notice"}
_FINE = ("info", "")


@dataclass(frozen=True, slots=True)
class Heard:
    """The newest event that was told; None before the first answer."""

    last: int | None = None


def heard(body: bytes, state: Heard, now_ms: int) -> Polled[Heard]:
    """Events that are new. The list holds old ones too: before the first answer it is only read to its end."""
    tally = Tally()
    try:
        told = sorted(rows(body, Told, tally), key=lambda one: one.id)
    except Unreadable as error:
        raise PollFailed(str(error)) from None
    newest = told[-1].id if told else state.last
    last = newest if state.last is None or (newest is not None and newest < state.last) else state.last
    new = [one for one in told if last is not None and one.id > last]
    found = [found for one in new if (found := _heard(one, now_ms)) is not None]
    after = Heard(newest if newest is not None else state.last)
    return Polled(after, [outgoing(one) for one in bounded(found, "events", now_ms)], tally.unparsed)


def _heard(one: Told, now_ms: int) -> Event | None:
    """One event of the manager: of a switch by its name, else a notice; what is merely information is left out."""
    title = clean_text(one.name)
    kind = KINDS.get(title, "")
    if not kind and one.severity.lower() in _FINE:
        return None
    facts = {
        "object": clean_text(one.object_name),
        "path": clean_text(one.object_path),
        "severity": one.severity,
        "told_at": one.timestamp,
    }
    told: dict[str, Any] = {"code": title[:200], "message": clean_text(one.description)[:MAX_MESSAGE]}
    if kind and (switch := clean_text(one.object_name)):
        down = title == "Switch is Down"
        told |= {"severity": Severity.WARNING if down else Severity.INFO, "advice": Action.WATCH if down else None}
        found = event(kind, name(Kind.SWITCH, switch), facts, **told)
    else:
        found = event("monitor.notice", name(Kind.MONITOR, SOURCE, "events"), facts, **told)
    return changed(found, at_ms=now_ms, seen_ms=now_ms)  # type: ignore[no-any-return]


def bounded(found: list[Event], what: str, now_ms: int) -> list[Event]:
    """At most MOST_EVENTS of them, and how many were left out."""
    lost = len(found) - MOST_EVENTS
    if lost <= 0:
        return found
    monitor, facts = name(Kind.MONITOR, SOURCE, what), {"lost": str(lost)}
    more = event("monitor.lines_lost", monitor, facts, code="too many", message=f"{lost} {what} were left out")
    return [*found[:MOST_EVENTS], changed(more, at_ms=now_ms, seen_ms=now_ms)]


def outgoing(event: Event) -> Outgoing:
    """The event for the log."""
    return Outgoing(EVENTS, host_of(event.component) or SOURCE, event)
