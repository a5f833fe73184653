"""Errors of main memory and machine checks, as the kernel counts them under /sys and in /proc/interrupts.

Source: Linux Documentation/ABI/testing/sysfs-devices-edac and Documentation/driver-api/edac.rst. What was counted
before the first look proves nothing about now; counts that fall were reset.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collectors.formats.events import event
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Event

CORRECTED_MS = 60_000  # between two events of corrected errors of one module
MOST_MODULES = 4096
_CHECKS = re.compile(r"^ {0,8}MCE:((?: {1,12}\d{1,12}){1,4096})", re.MULTILINE)
_COUNT = re.compile(r"\d{1,19}")

Controller = Mapping[str, str]  # file -> text; of a module "dimm3/dimm_ce_count"


@dataclass(slots=True)
class Memory:
    """The memory of one host between looks."""

    _before: dict[str, int] = field(default_factory=dict)
    _told_ms: dict[str, int] = field(default_factory=dict)
    _checks: int | None = None

    def events(self, controllers: Mapping[str, Controller], now_ms: int) -> Iterator[Event]:
        """An event for each module whose errors grew; for those that no module is told for, one without a module."""
        for place, told in controllers.items():
            named = 0
            for part in sorted({file.partition("/")[0] for file in told if "/" in file}):
                label = _label(told, part) or f"{place}/{part}"
                if lost := self._grown(f"{place}/{part}/ue", told.get(f"{part}/dimm_ue_count", "")):
                    yield _event("dimm.uncorrected", label, lost)
                named += lost
                yield from self._corrected(label, f"{place}/{part}", told.get(f"{part}/dimm_ce_count", ""), now_ms)
            grown = self._grown(f"{place}/ue", told.get("ue_count", "")) - named
            if grown > 0:
                yield _event("dimm.uncorrected", "", grown)

    def checks(self, interrupts: str) -> Iterator[Event]:
        """Machine check exceptions since the last look, of all processors."""
        found = _CHECKS.search(interrupts)
        if found is None:
            return
        now = sum(map(int, found[1].split()))
        before, self._checks = self._checks, now
        if before is not None and now > before:
            text = f"{now - before} machine check exceptions"
            yield event("cpu.checks_counted", name(Kind.CPU, UNKNOWN), code="MCE", count=now - before, message=text)

    def _corrected(self, label: str, key: str, text: str, now_ms: int) -> Iterator[Event]:
        if now_ms - self._told_ms.get(key, -CORRECTED_MS) < CORRECTED_MS and f"{key}/ce" in self._before:
            return
        if grown := self._grown(f"{key}/ce", text):
            self._told_ms[key] = now_ms
            yield _event("dimm.corrected", label, grown)

    def _grown(self, key: str, text: str) -> int:
        now = count_of(text)
        if now is None or (key not in self._before and len(self._before) >= 4 * MOST_MODULES):
            return 0
        before, self._before[key] = self._before.get(key), now
        return max(0, now - before) if before is not None else 0


def columns(controllers: Mapping[str, Controller]) -> dict[str, float]:
    """Columns of the host table: the sums over all controllers; one that tells no count makes the sum unknown."""
    told = {}
    for file, column in (("ce", "corrected_memory_errors_total"), ("ue", "uncorrected_memory_errors_total")):
        counts = [count_of(one.get(f"{file}_count", "")) for one in controllers.values()]
        if counts and None not in counts:
            told[column] = float(sum(count for count in counts if count is not None))
    return told


def count_of(text: str) -> int | None:
    """The number in a counter's file, None where there is none."""
    return int(text) if text.isascii() and _COUNT.fullmatch(text) else None


def _label(told: Controller, part: str) -> str:
    return told.get(f"{part}/dimm_label", "")[:100]


def _event(kind: str, label: str, grown: int) -> Event:
    component = name(Kind.DIMM, UNKNOWN, label) if label else name(Kind.DIMM, UNKNOWN)
    what = kind.rpartition(".")[2]
    return event(kind, component, count=min(grown, 1 << 40), message=f"{grown} {what} errors of {label or 'memory'}")
