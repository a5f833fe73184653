"""A replay in words and as JSON."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sickbay.app.replaying.replay_compare import Differs, HoldDiffers, Outcome, holding, steps
from sickbay.app.replaying.replay_holds import Hold
from sickbay.app.replaying.replay_span import Span
from sickbay.clock import rfc3339
from sickbay.messages import Incident

SCHEMA = "sickbay.replay/1"
SHOWN = 50  # incidents and hosts that people read


class Told(NamedTuple):
    """All that is to be told. `changed`: with other settings, against the replay with these; None without any."""

    span: Span
    outcome: Outcome
    changed: Outcome | None
    holds: tuple[Hold, ...]
    unreadable: int
    late: int

    @property
    def equal(self) -> bool:
        """Whether what was asked for came out the same: against other settings where there are some."""
        return (self.outcome if self.changed is None else self.changed).equal


def as_json(told: Told) -> dict[str, Any]:
    """The answer for scripts."""
    return {
        "schema": SCHEMA,
        "from": rfc3339(told.span.since_ms),
        "to": rfc3339(told.span.until_ms),
        "read_from": rfc3339(told.span.begin_ms),
        "same": told.equal,
        "blind": told.span.blind,
        "notes": list(told.span.notes),
        "unreadable": told.unreadable,
        "late_rows": told.late,
        "archive": _outcome(told.outcome),
        "settings": None if told.changed is None else _outcome(told.changed),
        "holds": [_hold(one) for one in told.holds],
    }


def _outcome(one: Outcome) -> dict[str, Any]:
    return {
        "same": one.equal,
        "incidents": {"same": one.same, "different": [_differs(each) for each in one.incidents]},
        "evidence": {
            "same": one.evidence.same, "different": list(one.evidence.different), "gone": list(one.evidence.gone),
            "new": list(one.evidence.new),
        },
        "holds": [
            {"target": each.target, "before": _hold(each.before), "after": _hold(each.after)} for each in one.holds
        ],
    }  # fmt: skip


def _hold(one: Hold | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "target": one.target, "incident": one.incident, "at": rfc3339(one.at_ms), "state": one.word, "why": one.why
    }  # fmt: skip


def _differs(one: Differs) -> dict[str, Any]:
    return {
        "id": one.id, "fields": list(one.fields), "before": _incident(one.before), "after": _incident(one.after)
    }  # fmt: skip


def _incident(one: Incident | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "verdict": one.verdict, "component": one.component, "fault": one.fault, "severity": one.severity,
        "probability": one.probability, "action": one.action, "state": one.state, "onset": rfc3339(one.onset_ms),
        "plan": steps(one), "holds": holding(one),
    }  # fmt: skip


def lines(told: Told) -> Iterator[str]:
    """The answer for people."""
    yield f"{rfc3339(told.span.since_ms)} to {rfc3339(told.span.until_ms)}"
    yield from (f"  note: {one}" for one in told.span.notes)
    if told.unreadable:
        yield f"  note: {told.unreadable} records could not be read: of a newer version, or damaged"
    if told.span.blind:
        yield "  note: differences may come from what the archive does not hold"
    yield ""
    yield from _compared("the archive", "its replay", told.outcome)
    if told.changed is not None:
        yield ""
        yield from _compared("these settings", "the other settings", told.changed)
    yield ""
    yield from _holds(told.holds)


def _compared(before: str, after: str, one: Outcome) -> Iterator[str]:
    if one.equal:
        yield (
            f"{before} and {after} say the same, byte for byte: {_number(one.same, 'incident')}, "
            f"{_number(one.evidence.same, 'claim')}"
        )  # fmt: skip
        return
    yield f"{before} and {after} differ: {_number(one.same, 'incident')} the same, {len(one.incidents)} not"
    for each in one.incidents[:SHOWN]:
        yield from _incident_lines(each, before, after)
    if len(one.incidents) > SHOWN:
        yield f"  and {len(one.incidents) - SHOWN} more: --json tells them all"
    if any(one.evidence[1:]):
        yield (
            f"  claims: {one.evidence.same} the same, {len(one.evidence.different)} different, "
            f"{len(one.evidence.gone)} only in {before}, {len(one.evidence.new)} only in {after}"
        )  # fmt: skip
    yield from (_hold_line(each) for each in one.holds[:SHOWN])


def _incident_lines(one: Differs, before: str, after: str) -> Iterator[str]:
    if one.before is None or one.after is None:
        where, there = (after, one.after) if one.before is None else (before, one.before)
        if there is None:
            yield f"  ? {one.id}: cannot be read"
            return
        yield (
            f"  {'+' if one.before is None else '-'} {one.id} only in {where}: {there.verdict} {there.component} "
            f"{there.fault}: {there.action}{_held(there)}"
        )  # fmt: skip
        return
    what = ", ".join(one.fields) or "wording, evidence or time"
    yield f"  ~ {one.id} {one.after.component} {one.after.fault}: {what}"
    for field in one.fields:
        if field == "plan":
            gone, new = _without(steps(one.before), steps(one.after)), _without(steps(one.after), steps(one.before))
            yield from (f"      plan without: {step}" for step in gone)
            yield from (f"      plan with: {step}" for step in new)
        elif field != "suspects":
            yield f"      {field}: {_word(getattr(one.before, field))} -> {_word(getattr(one.after, field))}"
    gone, new = (
        _without(holding(one.before), holding(one.after)), _without(holding(one.after), holding(one.before))
    )  # fmt: skip
    yield from (f"      would not: {step}" for step in gone)
    yield from (f"      would: {step}" for step in new)


def _without(some: list[str], others: list[str]) -> list[str]:
    return [one for one in some if one not in others]


def _word(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _held(one: Incident) -> str:
    would = holding(one)
    return f"; would {', '.join(would)}" if would else ""


def _hold_line(one: HoldDiffers) -> str:
    def word(side: Hold | None) -> str:
        return "not asked for" if side is None else f"{side.word} ({side.why})"

    return f"  hold {one.target}: {word(one.before)} -> {word(one.after)}"


def _holds(found: tuple[Hold, ...]) -> Iterator[str]:
    """What the policy would do, of one run."""
    if not found:
        yield "holds by the policy: none asked for"
        return
    yield "holds by the policy, on a scheduler that knows every host and holds none (nothing was done):"
    for one in found[:SHOWN]:
        yield f"  {one.target} {one.word} at {rfc3339(one.at_ms)}, incident {one.incident}: {one.why}"
    if len(found) > SHOWN:
        yield f"  and {len(found) - SHOWN} more"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
