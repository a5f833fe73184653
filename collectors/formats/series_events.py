"""What exporters say of faults: vendor codes shown as numbers, flags and words of health.

A last-value gauge keeps its code for ever, and a window count repeats itself; the time of the fault stands in neither.
So a code of the hardware is worth watching, never more: what acts on a code reads it from the log that printed it.
A series that is there only while its fault is (`while_there`), and a counter that rises from one scrape to the next
(`rises`), do tell the time: they speak as a log would.
"""

import math
from dataclasses import dataclass, field

from msgspec.structs import replace

from collectors.codes import ascend, nvidia
from collectors.formats.metric_names import Metric, Target, Told, is_blank
from sickbay.components import Name
from sickbay.messages import MAX_MESSAGE, Blame, Event, Severity
from sickbay.vocabulary import event_kinds

MAX_REMEMBERED = 100_000  # (component, code) pairs of one input
MOST = 2**32  # of a code or a count: larger numbers are blanks or damage
_REPORTED = Told(kind="accelerator.code_reported")
_OF_HARDWARE = Told(kind="accelerator.fault_reported")
_GRAVE = (Severity.ERROR, Severity.FATAL)


@dataclass(slots=True)
class CodeEvents:
    """Events of code series; it remembers what it has told. Hold one an input."""

    shown: dict[tuple[Name, str, str], float] = field(default_factory=dict)
    there: set[tuple[Name, str]] = field(default_factory=set)  # faults that stood in the scrape before
    now_there: set[tuple[Name, str]] = field(default_factory=set)

    def event(
        self, target: Target, labels: dict[str, str], component: Name, value: float, at_ms: int | None, text: str = ""
    ) -> Event | None:
        """The event of this value, None where it says nothing, or nothing new."""
        metric = target.metric
        if not metric.speaks or not abs(value) < MOST or is_blank(value):
            return None
        label = labels.get(metric.code_label, "")[:32] if metric.code_label else ""
        if metric.code_label and not label:
            return None
        if metric.while_there:
            return self._standing(target, component, value, at_ms, text)
        before = self.shown.get((component, target.name, label), math.nan)
        first, unchanged = self._news(target, component, label, value)
        if metric.rises and value > before:
            return _event(metric.rises, target, component, at_ms, text, count=int(value - before))
        told = None if unchanged else _told(metric, label, value)
        if told is None or (told.alone and at_ms is not None):
            return None
        facts = {} if told.stands else _attributes(target, labels, first)
        return _event(told, target, component, at_ms, text, facts, max(1, int(value)) if metric.code_label else 1)

    def end_of_scrape(self) -> None:
        """The scrape is whole: a fault whose series was not in it is over, and would be news again."""
        self.there, self.now_there = self.now_there, set()

    def _standing(self, target: Target, component: Name, value: float, at_ms: int | None, text: str) -> Event | None:
        """A fault that is there now; in which of its series it stands changes with the others."""
        if not value.is_integer() or value <= 0:
            return None
        key = (component, str(int(value)))
        news = key not in self.there and key not in self.now_there
        if len(self.now_there) < MAX_REMEMBERED:
            self.now_there.add(key)
        told = _told(target.metric, "", value)
        return _event(told, target, component, at_ms, text) if news and told else None

    def _news(self, target: Target, component: Name, label: str, value: float) -> tuple[bool, bool]:
        """Whether this series is new, and whether its value says nothing new."""
        key = (component, target.name, label)
        first = key not in self.shown
        before = self.shown.get(key, math.nan)
        if len(self.shown) < MAX_REMEMBERED or not first:
            self.shown[key] = value
        # A count that falls has only lost what left its window; a code that went away is no news.
        return first, value <= before if label else value == before


def _told(metric: Metric, label: str, value: float) -> Told | None:
    """What the value says: a row of its own, or the vendor's code in it or in its label."""
    if metric.told:
        return next((row for key, row in metric.told.items() if _says(key, value)), None)
    if value <= 0 or not metric.code or not (label or value.is_integer()):
        return None
    code = metric.code % (label or int(value))
    if metric.codes == "ascend":
        row = ascend.code(int(value))
        word = Told(kind=row.kind, code=code, severity=row.severity, blame=row.blame, advice=row.advice, when=row.when)
        return replace(word, stands=True)
    told = _OF_HARDWARE if metric.codes == "xid" and _grave(label or str(int(value))) else _REPORTED
    return replace(told, code=code)


def _event(
    told: Told,
    target: Target,
    component: Name,
    at_ms: int | None,
    text: str,
    facts: dict[str, str] | None = None,
    count: int = 1,
) -> Event:
    row = event_kinds()[told.kind]
    return Event(
        component=component,
        kind=told.kind,
        at_ms=at_ms,
        count=count,
        code=told.code,
        severity=told.severity or row.severity,
        blame=told.blame or row.blame,
        advice=told.advice,
        attributes=(facts or {"series": target.name}) | ({"when": told.when} if told.when else {}),
        message=text[:MAX_MESSAGE],
    )


def _says(key: str, value: float) -> bool:
    """Whether a row's key is the value's: the value itself, `&64` for a bit in it, `>0` for any above."""
    if key[0] == "&":
        return value.is_integer() and bool(int(value) & int(key[1:]))
    return value > 0 if key == ">0" else value == float(key)


def _grave(code: str) -> bool:
    """Whether the table blames the hardware for the code."""
    row = nvidia.xid(int(code)) if code.isdecimal() and len(code) < 6 else None
    return row is not None and row.blame is Blame.HARDWARE and row.severity in _GRAVE


def _attributes(target: Target, labels: dict[str, str], first: bool) -> dict[str, str]:
    """`last_value` or `window`: what the number is. `onset` unknown: it stood there when we first looked."""
    told = {"window" if target.metric.code_label else "last_value": "yes", "series": target.name}
    if window := labels.get("window_size_in_ms", "")[:16]:
        told["window_ms"] = window
    return told | ({"onset": "unknown"} if first else {})
