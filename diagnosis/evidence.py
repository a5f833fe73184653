"""How a claim is made: its id, its strength and its time, the same for every detector.

An id hashes what the claim is about and a bucket of time, never a float, a processing time or a place in a list: a
replay, a restart or another order of the inputs gives the same ids.
"""

import hashlib
import math
from collections.abc import Iterable
from typing import NamedTuple

from sickbay.messages import Action, Blame, Cite, Event, Evidence, Severity

CERTAIN = math.log(20)  # ln of the likelihood ratio that one uncalibrated source may reach at most
STRONG = math.log(12)
GOOD = math.log(8)
FAIR = math.log(3)
WEAK = math.log(1.5)

BUCKET_MS = 15_000  # one burst of lines: the folding interval of events
MAX_CITES = 20  # lines that one claim cites: the rest is counted

SINCE_BOOT = "since_boot_ms"  # fact: when, on the clock of the host's boot named in BOOT
BOOT = "boot"


class When(NamedTuple):
    """An interval on a named clock; order counts only between intervals of the same clock."""

    clock: str
    from_ms: int
    to_ms: int


def identity(detector: str, version: str, component: str, fault: str, bucket: str) -> str:
    """A short stable name of a claim."""
    text = "\x1f".join((detector, version, component, fault, bucket))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def bucket_of(at_ms: int | None, width_ms: int = BUCKET_MS) -> str:
    """The bucket of time that an id hashes."""
    return "undated" if at_ms is None else str(at_ms // width_ms)


def when(evidence: Evidence) -> When | None:
    """When the claim's onset was, on its best clock; None where nothing tells."""
    if evidence.onset_from_ms is not None:
        to_ms = evidence.onset_from_ms if evidence.onset_to_ms is None else evidence.onset_to_ms
        return When("utc", evidence.onset_from_ms, to_ms)
    if SINCE_BOOT in evidence.facts:
        at = int(evidence.facts[SINCE_BOOT])
        return When(f"boot:{evidence.facts.get(BOOT, '')}", at, at)
    return None


def event_time(event: Event) -> tuple[str, int] | None:
    """(clock, ms) of an event: UTC, else the clock of its boot."""
    if event.at_ms is not None:
        return ("utc", event.at_ms)
    if event.at_boot_s is not None and math.isfinite(event.at_boot_s):
        return (f"boot:{boot_clock(event)}", round(event.at_boot_s * 1000))
    return None


def boot_clock(event: Event) -> str:
    """What the seconds since boot of this event are shared with: its boot id, else its input."""
    return event.boot_id or event.path or event.host


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events by time, then by where they stand in the inputs, the undated last: however they came."""
    return sorted(
        events, key=lambda one: (one.at_ms is None, one.at_ms or 0, one.path, one.line, one.component, one.kind)
    )


def cites(events: Iterable[Event]) -> tuple[Cite, ...]:
    """Where the events can be read, in order, each line once."""
    seen = dict.fromkeys((event.path, event.line) for event in events if event.path)
    return tuple(Cite(path=path, line=line) for path, line in list(seen)[:MAX_CITES])


def explicit_strength(severity: Severity, blame: Blame) -> float:
    """The log-likelihood ratio of one explicit event: what the source says of its own certainty. House numbers."""
    if severity is Severity.INFO:
        return 0.0
    if blame is Blame.EITHER:
        return {Severity.WARNING: FAIR, Severity.ERROR: GOOD, Severity.FATAL: STRONG}[severity]
    return {Severity.WARNING: GOOD, Severity.ERROR: CERTAIN, Severity.FATAL: CERTAIN}[severity]


def worst(severities: Iterable[Severity]) -> Severity:
    """The gravest of them; info for none."""
    order = list(Severity)
    return max(severities, key=order.index, default=Severity.INFO)


def strongest(actions: Iterable[Action]) -> Action:
    """The strongest of them; ignore for none."""
    order = list(Action)
    return max(actions, key=order.index, default=Action.IGNORE)


def order_key(one: Evidence) -> tuple[bool, int, str, str, str]:
    """A stable order of claims: by time, then by what they say; never by how they arrived."""
    at = when(one)
    return (at is None, at.from_ms if at else 0, one.component, one.fault, one.id)
