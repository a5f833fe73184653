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
MAX_COUNT = 1_000_000_000


@dataclass(slots=True)
class CodeEvents:
    """Events of code series; it remembers what it has told. Hold one an input."""

    shown: dict[tuple[Name, str, str], float] = field(default_factory=dict)

    def event(
        self, target: Target, labels: dict[str, str], component: Name, value: float, at_ms: int | None, text: str = ""
    ) -> Event | None:
        """The event of this value, None where it says no code or nothing new."""
        metric = target.metric
        if not metric.code or not 0 <= value <= MAX_COUNT:
            return None
        told = labels.get(metric.code_label, "")[:32] if metric.code_label else value if value.is_integer() else ""
        code = metric.code % (int(told) if isinstance(told, float) else told) if told or told == 0 else ""
        key = (component, target.name, told if isinstance(told, str) else "")
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
            count=int(value) if metric.code_label else 1,
            code=code,
            severity=Severity.INFO,
            attributes=_attributes(target, labels),
            message=text[:MAX_MESSAGE],
        )


def _attributes(target: Target, labels: dict[str, str]) -> dict[str, str]:
    if not target.metric.code_label:
        return {"last_value": "yes", "series": target.name}
    window = labels.get("window_size_in_ms", "")[:16]
    return {"window": "yes", "series": target.name} | ({"window_ms": window} if window else {})
