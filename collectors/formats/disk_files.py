"""Disks by the kernel's own files, and NVMe health as `nvme smart-log -o json` prints it.

Rules: a controller that is dead is lost; one that is reset or searched for longer than 30 s hangs; so does a disk that
has requests underway and completes none for as long. A lifetime total proves nothing about now.
Sources: Linux Documentation/ABI/testing/sysfs-nvme and stable/sysfs-block, block/stat.rst; NVMe base specification 2.0
figure 207 (bits of the critical warning).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from collectors.formats.events import event
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Action, Event

HANGS_MS = 30_000  # [house] as long as the kernel waits for one NVMe request
MOST_DISKS = 1024
DEAD, BUSY = ("dead",), ("resetting", "connecting")
WARNINGS = {0: "spare low", 1: "temperature", 2: "reliability degraded", 3: "read-only", 4: "volatile backup failed"}
_HOT, _LOST = 1, 3  # bits: too hot; takes no writes


@dataclass(slots=True)
class Disks:
    """The disks of one host between looks."""

    _states: dict[str, str] = field(default_factory=dict)
    _since: dict[str, int] = field(default_factory=dict)  # what may hang -> since when
    _told: dict[str, str] = field(default_factory=dict)
    _done: dict[str, int] = field(default_factory=dict)
    _health: dict[str, tuple[int, int]] = field(default_factory=dict)  # critical warning, media errors

    def controller(self, disk: str, state: str, now_ms: int) -> Iterator[Event]:
        """What the state of an NVMe controller says, once."""
        if len(self._states) >= MOST_DISKS and disk not in self._states:
            return
        before, self._states[disk] = self._states.get(disk), state
        if state in DEAD and state != before:
            yield _event("disk.failed", disk, state, f"the controller is {state}")
        if state not in BUSY:
            self._since.pop(disk, None)
            self._told.pop(disk, None)
        elif now_ms - self._since.setdefault(disk, now_ms) >= HANGS_MS and disk not in self._told:
            self._told[disk] = state
            yield _event("disk.timeout", disk, state, f"the controller is {state} for over {HANGS_MS // 1000} s")

    def requests(self, device: str, disk: str, stat: str, now_ms: int) -> Iterator[Event]:
        """Whether a disk that is asked answers: `stat` is the text of its file of that name."""
        fields = stat.split()[:17]
        if len(fields) < 11 or not all(one.isascii() and one.isdigit() and len(one) < 20 for one in fields):
            return
        if len(self._done) >= MOST_DISKS and device not in self._done:
            return
        done, key = int(fields[0]) + int(fields[4]), f"{device} requests"
        moved, self._done[device] = self._done.get(device) != done, done
        if moved or int(fields[8]) == 0:
            self._since.pop(key, None)
            self._told.pop(key, None)
        elif now_ms - self._since.setdefault(key, now_ms) >= HANGS_MS and key not in self._told:
            self._told[key] = "hangs"
            text = f"{fields[8]} requests underway, none completed in {HANGS_MS // 1000} s"
            # Drivers are known that lose count of what is underway: by itself this is worth a look, no more.
            yield _event("disk.timeout", disk, "no request completes", text, Action.WATCH)

    def health(self, disk: str, told: Mapping[str, int]) -> Iterator[Event]:
        """What the disk's own health log says that it did not say before."""
        warning, errors = told.get("critical_warning", 0), told.get("media_errors", 0)
        before = self._health.get(disk)
        if before is None and len(self._health) >= MOST_DISKS:
            return
        self._health[disk] = (warning, errors)
        if fresh := warning & ~(before[0] if before else 0):
            names = [text for bit, text in WARNINGS.items() if fresh >> bit & 1] or [f"bits {fresh:#x}"]
            kind = "disk.failed" if fresh >> _LOST & 1 else "disk.warning"
            advice = Action.WATCH if fresh == 1 << _HOT else None  # cooling, not the disk
            yield _event(kind, disk, f"critical warning {fresh:#04x}", ", ".join(names), advice)
        if before is not None and errors > before[1]:
            text = f"{errors - before[1]} more media errors"
            yield _event("disk.io_error", disk, "media errors", text)


def smart_log(text: str) -> dict[str, int]:
    """The numbers of a health log; nothing where it is none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    facts = told if isinstance(told, dict) else {}
    numbers = {key: _number(facts.get(key)) for key in ("critical_warning", "media_errors")}
    return {key: value for key, value in numbers.items() if value is not None}


def _number(value: Any) -> int | None:
    """Newer versions give the warning as an object with its value, and large counters as text."""
    value = value.get("value") if isinstance(value, dict) else value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**63 else None


def _event(kind: str, disk: str, code: str, text: str, advice: Action | None = None) -> Event:
    return event(kind, name(Kind.DISK, UNKNOWN, disk), code=code, message=text, advice=advice)
