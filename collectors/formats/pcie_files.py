"""What /sys says of devices on the host's bus: the link's width and speed, and counters of bus errors.

The bound of a link is the lesser of what the device and the port above it can do. Widths and speeds that no link has
(63 lanes, "Unknown") are how a device that is gone reads: missing. Lower speed at rest is how devices save power.
Source: Linux Documentation/ABI/testing/sysfs-bus-pci and sysfs-bus-pci-devices-aer_stats.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from collectors.formats.events import event
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity

LINK_FILES = ("current_link_width", "max_link_width", "current_link_speed", "max_link_speed")
ERROR_FILES = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s of a lane
# Class codes (PCI Code and ID Assignment): a display controller without a screen, a processing accelerator.
_ACCELERATORS = ("0x0302", "0x0380", "0x1200")
_ADAPTERS = ("0x0200", "0x0207")  # Ethernet, InfiniBand
_DISKS = ("0x0108",)
_KINDS = {"correctable": "pcie.corrected", "nonfatal": "pcie.uncorrected", "fatal": "pcie.fatal"}
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")
_ERROR = re.compile(r"^([A-Za-z_]{2,40}) (\d{1,20})$", re.MULTILINE)
CORRECTED_MS = 60_000  # between two events of corrected errors of one device
MOST_DEVICES = 4096

What = Literal["accelerator", "nic", "disk", ""]


class Link(NamedTuple):
    """One end's word: lanes and generation, None where it tells none."""

    width: int | None = None
    width_max: int | None = None
    generation: int | None = None
    generation_max: int | None = None


def what_is(class_code: str) -> What:
    """What a device is by its class ("0x030200"), "" for what is not followed."""
    code = class_code.lower()[:6]
    return "accelerator" if code in _ACCELERATORS else "nic" if code in _ADAPTERS else "disk" if code in _DISKS else ""


def link_of(texts: Mapping[str, str]) -> Link:
    """The link by a device's own files."""
    return Link(
        _width(texts.get("current_link_width", "")),
        _width(texts.get("max_link_width", "")),
        _generation(texts.get("current_link_speed", "")),
        _generation(texts.get("max_link_speed", "")),
    )


def columns(device: Link, above: Link) -> dict[str, float]:
    """Columns of the accelerator table from both ends of its link."""
    told = {
        "bus_width_lanes": device.width,
        "bus_width_max_lanes": _least(device.width_max, above.width_max),
        "bus_generation": device.generation,
        "bus_generation_max": _least(device.generation_max, above.generation_max),
    }
    return {column: float(value) for column, value in told.items() if value is not None}


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _width(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 3 and int(text) in WIDTHS else None


def _generation(text: str) -> int | None:
    found = _SPEED.match(text)
    return GENERATIONS.get(float(found[1])) if found else None


@dataclass(slots=True)
class Bus:
    """The devices of one host between looks. What was counted before the first look proves nothing."""

    _errors: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    _narrow: dict[str, tuple[int, int]] = field(default_factory=dict)
    _told_ms: dict[str, int] = field(default_factory=dict)

    def errors(self, address: str, texts: Mapping[str, str], now_ms: int) -> Iterator[Event]:
        """An event for each kind of error that grew since the last look, of corrected ones at most one a minute."""
        for file in ERROR_FILES:
            counted = {what: int(number) for what, number in _ERROR.findall(texts.get(file, ""))}
            before = self._errors.get((address, file))
            if not counted:
                continue
            grown = {what: now - before.get(what, 0) for what, now in counted.items() if before is not None}
            grown = {what: more for what, more in grown.items() if more > 0 and not what.startswith("TOTAL")}
            quiet = file == ERROR_FILES[0] and now_ms - self._told_ms.get(address, 0) < CORRECTED_MS
            if grown and quiet:
                continue  # they stay in the next event's growth
            if len(self._errors) < MOST_DEVICES:
                self._errors[address, file] = counted
            if grown:
                self._told_ms |= {address: now_ms} if file == ERROR_FILES[0] else {}
                yield _grown(address, file.rpartition("_")[2], grown)

    def narrow(self, address: str, what: What, device: Link, above: Link) -> Iterator[Event]:
        """A link that runs on fewer lanes than both its ends have, once for each width. Its peers decide."""
        limit = _least(device.width_max, above.width_max)
        if device.width is None or limit is None:
            return
        now = (device.width, limit)
        before, self._narrow[address] = self._narrow.get(address), now
        if now == before or (before is None and device.width >= limit):
            return
        severity = Severity.ERROR if device.width < limit else Severity.INFO
        facts = {"width": str(device.width), "full_width": str(limit), "device": what}
        text = f"runs on {device.width} of {limit} lanes"
        yield event("pcie.degraded", name(Kind.PCIE, UNKNOWN, address), facts, severity=severity, message=text)


def _grown(address: str, level: str, grown: Mapping[str, int]) -> Event:
    text = f"{level} bus errors: " + ", ".join(f"{what} +{more}" for what, more in grown.items())
    facts = {what: str(more) for what, more in grown.items()}
    count = max(1, min(sum(grown.values()), 1 << 40))
    told = {"code": next(iter(grown)), "count": count, "message": text[:MAX_MESSAGE]}
    if grown.keys() == {"UnsupReq"}:  # also what a search for devices leaves behind
        told |= {"severity": Severity.WARNING, "advice": Action.WATCH} if level == "nonfatal" else {}
    return event(_KINDS[level], name(Kind.PCIE, UNKNOWN, address), facts, **told)
