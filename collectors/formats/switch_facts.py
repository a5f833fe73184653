"""What a switch tells of itself, one fact at a time, whatever the protocol: the words that data models are read into.

A fact of a port bears the name of a column of the port table, or one of the words below. Numbers are checked here: a
counter is a whole number of at most 64 bits, however it is written; anything else is no fact.
"""

import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, TypeAlias

Value: TypeAlias = float | str | None

MOST_TEXT = 200  # characters of a text that is kept
COUNTER_END = 1 << 64
_WHOLE = re.compile(r"\d{1,20}")
_REAL = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")
_NO_LIGHT = frozenset({"-inf", "-infinity"})
_SPEED = re.compile(r"SPEED_(\d{1,5})(MB|GB)")
# What has no cable of its own: it goes down with its members, or never.
_LOGICAL = re.compile(
    r"(?:vlan|loopback|lo\d*$|port-?channel|po\d|bond|ae\d|agg|bridge|br-|null|tunnel|vxlan|nve|irb|docker|veth|dummy"
    r"|management|mgmt|ma\d|eth-trunk|vlanif|bvi|cpu|inband)",
    re.IGNORECASE,
)


class Part(StrEnum):
    """What a fact speaks of; its `key` is the part's own name on the switch."""

    PORT = "port"
    MODULE = "module"  # the lane is that of the fibre side, numbered as told
    CHASSIS = "chassis"  # the switch as a whole; no key
    SENSOR = "sensor"  # of no port: a board, a fan, a supply
    NEIGHBOUR = "neighbour"  # key: port, lane: which of the neighbours heard there


class Slot(NamedTuple):
    """Where the value of a path belongs, and how it is read: a fact but for its value."""

    part: Part
    key: str
    field: str
    lane: str
    read: Callable[[object], Value]


class Fact(NamedTuple):
    """One thing told. `value` None: it was taken away. `lane`: lane, priority or row, where there are several."""

    part: Part
    key: str
    field: str
    value: Value
    lane: str = ""


def counter(value: object) -> float | None:
    """A counter as JSON, text or number tell it; None where it is none."""
    if isinstance(value, str):
        value = int(value) if _WHOLE.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < COUNTER_END:
        return None
    return float(value)


def real(value: object) -> float | None:
    """A finite number, None where there is none ("N/A" and the like)."""
    if isinstance(value, str):
        value = float(value) if _REAL.fullmatch(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def power(value: object) -> float | None:
    """Light in dBm; minus infinity is no light, not no answer."""
    if (isinstance(value, str) and value.strip().lower() in _NO_LIGHT) or value == -math.inf:
        return -math.inf
    number = real(value)
    return number if number is not None and abs(number) <= 60 else None


def text(value: object) -> str | None:
    """A text as it may be kept, None for what is none, or empty."""
    if isinstance(value, bool):
        return "true" if value else "false"
    told = str(value).strip()[:MOST_TEXT] if isinstance(value, str | int | float) else ""
    return told or None


def state(value: object) -> str | None:
    """`up` or `down` of a port, "" for the states between; None where it tells none.

    A port whose module or lower layer is away is down; one under test or dormant is neither.
    """
    told = (text(value) or "").rpartition(":")[2].lower().replace("-", "_")
    if told in ("up", "down"):
        return told
    if told in ("lower_layer_down", "lowerlayerdown", "not_present", "notpresent"):
        return "down"
    return "" if told in ("testing", "unknown", "dormant", "disabled") else None


def speed(value: object) -> float | None:
    """Gb/s of an identity such as `openconfig-if-ethernet:SPEED_400GB`."""
    match = _SPEED.search(text(value) or "")
    return None if not match else float(match[1]) / (1000 if match[2] == "MB" else 1)


def since_1970_s(value: object) -> float | None:
    """Seconds since 1970 of a time that devices tell in nanoseconds, some in seconds; None for what is no such time."""
    told = counter(value)
    for scale in (1.0, 1e9):
        if told is not None and 946_684_800 <= told / scale < 4_102_444_800:
            return told / scale
    return None


def is_logical(port: str) -> bool:
    """Whether an interface has no cable, by its name: aggregates, loopbacks, VLANs, the management port."""
    return bool(_LOGICAL.match(port))
