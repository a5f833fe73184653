"""What the files of a port under /sys say: a row of the port table, and counters that cannot count.

Rules, each of which has a test:
  not available   a value that is no number ("N/A (no PMA)") is missing and told once, never 0
  saturated       an old counter that stands at its width counts no more: missing and told once, never "no new errors"
  wrapped         a 32-bit counter that falls from its top to its bottom goes on counting: 2^32 is added from then on
  gauge           a file that is no counter (active_qps, lifespan) is read by nobody: codes/sysfs.toml lists what is
  closed          a port that a person closed tells no state, so that nobody takes it for a lost link
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collectors.formats.events import event
from collectors.formats.metric_names import Metric, files
from collectors.formats.sysfs_listing import number
from sickbay.components import Name
from sickbay.messages import MAX_MESSAGE, Event

WRAP = 1 << 32
WRAP_STEP = 1 << 28  # [house] the most that such a counter grows between two looks: a reset is no wrap
ALL_ONES = 1 << 63  # from here on: what a device that is gone is read as
MOST_KEPT = 65_536  # counters of one host
_UP = 0x1  # IFF_UP of /sys/class/net/*/flags (include/uapi/linux/if.h)
STATE = frozenset({"state", "operstate"})

Key = tuple[Name, str]


@dataclass(slots=True)
class Ports:
    """The ports of one host between looks. `wraps`: how often each counter went round, kept over restarts."""

    wraps: dict[Key, int] = field(default_factory=dict)
    _last: dict[Key, float] = field(default_factory=dict)
    _blind: dict[Key, str] = field(default_factory=dict)
    _closed: dict[Name, bool] = field(default_factory=dict)

    def read(self, told: Mapping[Name, Mapping[str, str]]) -> tuple[dict[Name, dict[str, float]], list[Event]]:
        """One look, port -> file below it -> its text: the rows of the port table, and what is to be told beside."""
        cells: dict[Name, dict[str, float]] = {}
        events: list[Event] = []
        for port, texts in told.items():
            closed = is_closed(texts)
            if closed and self._closed.get(port) is False:
                events.append(event("port.admin_down", port, code="closed", message="the interface was taken down"))
            self._closed[port] = closed
            cells[port] = self._row(port, texts, events)
        return cells, events

    def _row(self, port: Name, texts: Mapping[str, str], events: list[Event]) -> dict[str, float]:
        """What a port's files count; an event for counters that cannot count any more."""
        known, fresh, closed, cell = files(), dict[str, list[str]](), self._closed[port], dict[str, float]()
        for file, text in texts.items():
            if (target := known.get(file)) is None or (closed and file in STATE):
                continue
            value, metric = number_of(text), target.metric
            if why := blind_why(file, value, metric):
                self._blind_for(why, port, file, fresh)
                continue
            if self._blind:
                self._blind.pop((port, file), None)
            value = in_our_unit(metric, self._unwrapped((port, file), value) if metric.wraps else value)
            if value == value:
                cell[metric.to] = max(value, cell.get(metric.to, value))  # of two names of one thing the larger
        events += _told(port, fresh)
        return cell

    def _blind_for(self, why: str, port: Name, file: str, fresh: dict[str, list[str]]) -> None:
        """Remember that a counter cannot count; in `fresh` where that is news."""
        if self._blind.get((port, file)) != why and len(self._blind) < MOST_KEPT:
            self._blind[port, file] = why
            fresh.setdefault(why, []).append(file)

    def _unwrapped(self, key: Key, value: float) -> float:
        last = self._last.get(key)
        if last is not None and value < last < WRAP and value + WRAP - last < WRAP_STEP:
            self.wraps[key] = self.wraps.get(key, 0) + 1
        elif last is not None and value < last:
            self.wraps.pop(key, None)  # reset
        if key in self._last or len(self._last) < MOST_KEPT:
            self._last[key] = value
        return value + WRAP * self.wraps.get(key, 0)


def number_of(text: str) -> float:
    """`sysfs_listing.number`, quicker for plain numbers, which nearly all are."""
    return float(text) if len(text) <= 20 and text.isascii() and text.isdecimal() else number(text)


def in_our_unit(metric: Metric, value: float) -> float:
    """One value as `metric_names.converted` gives many; the files of a port need no more than this of it."""
    if value >= ALL_ONES or (metric.least is not None and value < metric.least):
        return math.nan
    if metric.values:
        return metric.values.get(f"{value:.0f}", math.nan)
    return value * metric.factor


def _told(port: Name, blind: Mapping[str, list[str]]) -> Iterator[Event]:
    for why, names in blind.items():
        counters = ", ".join(names)
        facts, text = {"counters": counters}, f"{why}: {counters}"
        yield event("port.counters_blind", port, facts, code=why, message=text[:MAX_MESSAGE])


def is_closed(texts: Mapping[str, str]) -> bool:
    """Whether a person took the port down: it is not even meant to have a link."""
    flags = texts.get("flags", "")
    if flags.startswith("0x") and len(flags) <= 10:
        try:
            return not int(flags, 16) & _UP
        except ValueError:
            return False
    return "disable" in texts.get("phys_state", "").lower()


def blind_why(file: str, value: float, metric: Metric) -> str:
    """Why a counter cannot count, "" where it does; states and rates are no counters."""
    if "/" not in file:
        return ""
    if value != value:
        return "not available"
    return "saturated" if value == metric.saturates else ""
