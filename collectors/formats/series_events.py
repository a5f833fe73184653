"""Vendor codes that exporters show as numbers: events for cross-checking, never more.

A last-value gauge keeps its code for ever, and a window count repeats itself; the time of the fault stands in neither.
Both are told once, as information: what acts on a code reads it from the log that printed it.
"""

import math
from dataclasses import dataclass, field

from collectors.formats.metric_names import Target
from sickbay.components import Name
from sickbay.messages import MAX_MESSAGE, Event, Severity

MAX_REMEMBERED = 100_000  # (component, code) pairs of one input
MOST = 2**32  # of a code or a count: larger numbers are blanks or damage


@dataclass(slots=True)
class CodeEvents:
    """Events of code series; it remembers what it has told. Hold one an input."""

    shown: dict[tuple[Name, str, str], float] = field(default_factory=dict)

    def event(
        self, target: Target, labels: dict[str, str], component: Name, value: float, at_ms: int | None, text: str = ""
    ) -> Event | None:
        """The event of this value, None where it says no code or nothing new."""
        metric = target.metric
        if not metric.code or not 0 <= value < MOST:
            return None
        told = labels.get(metric.code_label, "")[:32] if metric.code_label else value if value.is_integer() else ""
        code = metric.code % (int(told) if isinstance(told, float) else told) if told or told == 0 else ""
        key = (component, target.name, told if isinstance(told, str) else "")
        first = key not in self.shown
        before = self.shown.get(key, math.nan if metric.code_label else 0.0)
        if len(self.shown) < MAX_REMEMBERED or key in self.shown:
            self.shown[key] = value
        # A count that falls has only lost what left its window; a code that went away is no news.
        unchanged = value <= before if metric.code_label else value == before
        if unchanged or not code or value == 0:
            return None
        return Event(
            component=component,
            kind="accelerator.code_reported",
            at_ms=at_ms,
            count=max(1, int(value)) if metric.code_label else 1,
            code=code,
            severity=Severity.INFO,
            attributes=_attributes(target, labels, first),
            message=text[:MAX_MESSAGE],
        )


def _attributes(target: Target, labels: dict[str, str], first: bool) -> dict[str, str]:
    """`last_value` or `window`: what the number is. `onset` unknown: it stood there when we first looked."""
    told = {"window" if target.metric.code_label else "last_value": "yes", "series": target.name}
    if window := labels.get("window_size_in_ms", "")[:16]:
        told["window_ms"] = window
    return told | ({"onset": "unknown"} if first else {})
