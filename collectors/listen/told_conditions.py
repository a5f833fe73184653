"""Conditions and health events of others as our events: what they may claim, as rows of codes/conditions.toml.

Another system's verdict is hearsay: it never says more here than it says itself, it never names a code's fault as its
own, and a kind that is not in the table is a condition of the host with their words in it.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

from collectors.cluster.poll import Outgoing
from collectors.codes import nvidia
from collectors.formats.events import event
from collectors.formats.masking import struck
from collectors.identity import told_host
from collectors.listen import Allowed, Request, Told
from sickbay import components
from sickbay.components import Kind, Name, part
from sickbay.messages import MAX_MESSAGE, Blame, Event, Severity, replace
from sickbay.topics import EVENTS

AHEAD_MS = 2_000
_ORDER = list(Severity)
_CODED, _CODED_HARDWARE = "accelerator.code_reported", "accelerator.fault_reported"


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one condition, check or component of a source becomes. `most`: the worst that it may be told as."""

    kind: str
    most: Severity = Severity.WARNING


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One system: where its names were read, a body as it sends it, its words for how bad, and its rows by name."""

    source: str
    sample: str
    severities: dict[str, Severity]
    rows: dict[str, Row]


class Condition(Struct, frozen=True, kw_only=True):
    """One statement of another system, in its own words. `severity` None: it is well (again)."""

    source: str  # a section of conditions.toml
    host: str
    name: str
    severity: Severity | None
    at_ms: int | None = None
    reason: str = ""
    message: str = ""
    device: str = ""  # an accelerator's address or UUID
    code: str = ""  # a number of the device's own codes
    advice: str = ""  # its recommendation, told as a fact


@cache
def table() -> dict[str, Source]:
    """All systems by name."""
    text = resources.files("collectors.codes").joinpath("conditions.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, Source])


def tell(one: Condition, request: Request, allowed: Allowed, told: Told) -> None:
    """Adds the condition's event to `told`, where it has a host that the sender may tell of."""
    host = told_host(one.host)
    if not host:
        told.refuse("no_host", 1, "no host is named: add ?host=NAME to the address", 400)
    elif not allowed(components.name(Kind.HOST, host)):
        told.refuse("host", 1, f"{part(host)[:80]} is not a host that this token may tell of", 403)
    else:
        told.written += 1
        told.records.append(Outgoing(EVENTS, host, _event(one, host, request)))


def _event(one: Condition, host: str, request: Request) -> Event:
    at_ms = request.now_ms if one.at_ms is None else min(one.at_ms, request.now_ms + AHEAD_MS)
    facts = {"source": one.source, "reason": one.reason, "advice": one.advice}
    kind, component, code = _what(one, host)
    if one.severity is None:
        kind, component = "scheduler.host_back", components.name(Kind.HOST, host)
    made = event(kind, component, facts, code=code, severity=_severity(one), blame=Blame.EITHER)
    return replace(  # type: ignore[no-any-return]
        made,
        host=host,
        at_ms=at_ms,
        seen_ms=request.now_ms,
        path=f"{request.sender} {one.source}",
        message=_plain(one.message or one.reason or one.name),
    )


def _what(one: Condition, host: str) -> tuple[str, Name, str]:
    """Kind, component and code. A device's own code is watched, never acted on: its log tells it better."""
    if one.code.isdecimal() and len(one.code) < 6:
        device = components.pci_address(one.device) or one.device or components.UNKNOWN
        return _coded(one.code), components.name(Kind.ACCELERATOR, host, device), f"XID {one.code}"
    row = _row(one)
    kind = row.kind if row else "scheduler.host_condition"
    if kind.startswith("accelerator.") or kind == "scheduler.device_unhealthy":
        if not one.device:
            return "scheduler.host_condition", components.name(Kind.HOST, host), one.name[:100]
        device = components.pci_address(one.device) or one.device
        return kind, components.name(Kind.ACCELERATOR, host, device), one.name[:100]
    return kind, components.name(Kind.HOST, host), one.name[:100]


def _coded(code: str) -> str:
    row = nvidia.xid(int(code))
    grave = row is not None and row.blame is Blame.HARDWARE and row.severity in (Severity.ERROR, Severity.FATAL)
    return _CODED_HARDWARE if grave else _CODED


def _row(one: Condition) -> Row | None:
    return table()[one.source].rows.get(one.name)


def _severity(one: Condition) -> Severity:
    """Theirs, and no more than their row allows."""
    if one.severity is None:
        return Severity.INFO
    row = _row(one)
    return min(one.severity, row.most if row else Severity.WARNING, key=_ORDER.index)


def severity_of(source: str, word: str) -> Severity | None:
    """What a word of theirs means; one that is not known is a warning."""
    found = table()[source].severities
    return found.get(word, Severity.WARNING) if word not in WELL else None


WELL = frozenset({"Healthy", "healthy", "False", "false", "Resolution"})


def at_of(text: object) -> int | None:
    """UTC milliseconds of an RFC 3339 time, None where it is none, or a time before this software."""
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
        at_ms = round(when.timestamp() * 1000) if when.tzinfo else None
    except (ValueError, OverflowError, OSError):
        return None
    return at_ms if at_ms is not None and at_ms > 946_684_800_000 else None


def word(tree: object, key: str, most: int = MAX_MESSAGE) -> str:
    """A text in a JSON object, "" where it holds none."""
    value = tree.get(key) if isinstance(tree, Mapping) else None
    return value[:most] if isinstance(value, str) else ""


def _plain(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in struck(text))[:MAX_MESSAGE]
