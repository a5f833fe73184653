"""OpenConfig paths as facts: which leaf is which column, in which unit, and what to subscribe to.

Sources: openconfig/public (interfaces, if-ethernet, platform, platform-transceiver, lldp, system). A path is the names
of its elements and the keys of its lists. Traps, each with a test: last-change is in nanoseconds; transitions count a
flap twice; identities bear a module's name; channels count from 0 or from 1; a module that is out says NOT_PRESENT.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from collectors.formats.switch_facts import (
    Fact,
    Part,
    Slot,
    Value,
    counter,
    power,
    real,
    since_1970_s,
    speed,
    state,
    text,
)

Names = tuple[str, ...]
Read = Callable[[object], Value]


class Leaf(NamedTuple):
    """One leaf: whose it is, under which name, and how its value is read."""

    part: Part
    field: str
    read: Read
    lane: str = ""  # where it is one of several that add up


class Subscribed(NamedTuple):
    """One question to a switch. `target`: the database that it goes to, where the switch has several."""

    name: str
    paths: tuple[str, ...]
    sampled: bool
    target: str = ""
    every_s: float = 0.0  # at least: what the device itself reads seldom; 0: as the settings say


_PORT = ("interfaces", "interface")
_STATE = (*_PORT, "state")
_COUNTERS = (*_STATE, "counters")
_ETHERNET = (*_PORT, "ethernet", "state")
_COMPONENT = ("components", "component")
_OPTIC = (*_COMPONENT, "transceiver", "state")
_CHANNEL = (*_COMPONENT, "transceiver", "physical-channels", "channel", "state")
_LIMIT = (*_COMPONENT, "transceiver", "thresholds", "threshold", "state")
_LLDP = ("lldp", "interfaces", "interface", "neighbors", "neighbor", "state")


def _present(value: object) -> str | None:
    told = (text(value) or "").rpartition(":")[2].upper()
    return {"PRESENT": "yes", "NOT_PRESENT": "no"}.get(told)


def _ratio(value: object) -> float | None:
    number = real(value)
    return number / 100 if number is not None and 0 <= number <= 100 else None


LEAVES: Mapping[Names, Leaf] = {
    (*_STATE, "oper-status"): Leaf(Part.PORT, "oper", state),
    (*_STATE, "admin-status"): Leaf(Part.PORT, "admin", state),
    (*_STATE, "last-change"): Leaf(Part.PORT, "last_change_s", since_1970_s),
    (*_STATE, "type"): Leaf(Part.PORT, "type", text),
    (*_STATE, "transceiver"): Leaf(Part.PORT, "module", text),
    (*_ETHERNET, "port-speed"): Leaf(Part.PORT, "speed_gigabits_per_second", speed),
    (*_COUNTERS, "in-octets"): Leaf(Part.PORT, "rx_bytes_total", counter),
    (*_COUNTERS, "out-octets"): Leaf(Part.PORT, "tx_bytes_total", counter),
    (*_COUNTERS, "in-errors"): Leaf(Part.PORT, "rx_errors_total", counter),
    (*_COUNTERS, "in-discards"): Leaf(Part.PORT, "rx_discards_total", counter),
    (*_COUNTERS, "out-discards"): Leaf(Part.PORT, "tx_discards_total", counter),
    (*_COUNTERS, "carrier-transitions"): Leaf(Part.PORT, "carrier_changes_total", counter, "old"),
    (*_COUNTERS, "interface-transitions"): Leaf(Part.PORT, "carrier_changes_total", counter, "new"),
    (*_ETHERNET, "counters", "in-symbol-error"): Leaf(Part.PORT, "symbol_errors_total", counter),
    (*_ETHERNET, "counters", "in-mac-pause-frames"): Leaf(Part.PORT, "rx_pause_total", counter, "mac"),
    (*_ETHERNET, "counters", "out-mac-pause-frames"): Leaf(Part.PORT, "tx_pause_total", counter, "mac"),
    (*_ETHERNET, "counters", "fec-uncorrectable-blocks"): Leaf(Part.PORT, "uncorrected_codewords_total", counter),
    (*_ETHERNET, "pre-fec-ber", "instant"): Leaf(Part.PORT, "errors_before_correction_ratio", real),  # newer models
    (*_OPTIC, "present"): Leaf(Part.MODULE, "present", _present),
    (*_OPTIC, "vendor"): Leaf(Part.MODULE, "vendor", text),
    (*_OPTIC, "vendor-part"): Leaf(Part.MODULE, "model", text),
    (*_OPTIC, "serial-no"): Leaf(Part.MODULE, "serial", text),
    (*_OPTIC, "supply-voltage", "instant"): Leaf(Part.MODULE, "supply", real),
    (*_OPTIC, "pre-fec-ber", "instant"): Leaf(Part.MODULE, "errors_before_correction_ratio", real),
    (*_CHANNEL, "input-power", "instant"): Leaf(Part.MODULE, "receive", power),
    (*_CHANNEL, "output-power", "instant"): Leaf(Part.MODULE, "send", power),
    (*_CHANNEL, "laser-bias-current", "instant"): Leaf(Part.MODULE, "bias", real),
    (*_LIMIT, "input-power-lower"): Leaf(Part.MODULE, "receive_low", power),
    (*_LIMIT, "module-temperature-upper"): Leaf(Part.MODULE, "temperature_high", real),
    (*_COMPONENT, "state", "temperature", "instant"): Leaf(Part.SENSOR, "celsius", real),
    (*_COMPONENT, "power-supply", "state", "output-power"): Leaf(Part.SENSOR, "watts", real),
    (*_COMPONENT, "cpu", "utilization", "state", "instant"): Leaf(Part.SENSOR, "cpu_ratio", _ratio),
    (*_LLDP, "system-name"): Leaf(Part.NEIGHBOUR, "system", text),
    (*_LLDP, "port-id"): Leaf(Part.NEIGHBOUR, "port", text),
    (*_LLDP, "port-id-type"): Leaf(Part.NEIGHBOUR, "port_type", text),
    (*_LLDP, "port-description"): Leaf(Part.NEIGHBOUR, "port_text", text),
    (*_LLDP, "chassis-id"): Leaf(Part.NEIGHBOUR, "chassis", text),
    ("system", "state", "hostname"): Leaf(Part.CHASSIS, "system", text),
    ("system", "state", "boot-time"): Leaf(Part.CHASSIS, "boot_s", since_1970_s),
    ("system", "state", "software-version"): Leaf(Part.CHASSIS, "software", text),
    ("system", "state", "last-configuration-timestamp"): Leaf(Part.CHASSIS, "config_s", since_1970_s),
}

# What a path above a leaf takes with it when it is deleted.
ABOVE: Mapping[Names, tuple[Part, str]] = {
    _PORT: (Part.PORT, ""),
    _STATE: (Part.PORT, ""),
    _COMPONENT: (Part.MODULE, ""),
    (*_COMPONENT, "transceiver"): (Part.MODULE, ""),
    _OPTIC: (Part.MODULE, ""),
    _LLDP[:-1]: (Part.NEIGHBOUR, ""),
    _LLDP: (Part.NEIGHBOUR, ""),
}

LISTS: Mapping[str, str] = {  # list: the leaf that is its key
    "interface": "name",
    "component": "name",
    "channel": "index",
    "threshold": "severity",
    "neighbor": "id",
    "subinterface": "index",
    "lane": "lane-number",
}

SUBSCRIBED = (
    Subscribed(
        "states",
        tuple(
            f"/interfaces/interface[name=*]/state/{leaf}"
            for leaf in ("oper-status", "admin-status", "last-change", "type", "transceiver")
        ),
        sampled=False,
    ),
    Subscribed("counters", ("/interfaces/interface[name=*]/state/counters",), sampled=True),
    Subscribed("ethernet", ("/interfaces/interface[name=*]/ethernet/state",), sampled=True),
    Subscribed(
        "optics", ("/components/component[name=*]/transceiver",), sampled=True, every_s=60.0
    ),  # modules are read over a slow bus: devices themselves look about once a minute
    Subscribed(
        "platform",
        (
            "/components/component[name=*]/state/temperature/instant",
            "/components/component[name=*]/power-supply/state/output-power",
            "/components/component[name=*]/cpu/utilization/state/instant",
        ),
        sampled=True,
        every_s=30.0,
    ),
    Subscribed("neighbours", ("/lldp/interfaces/interface[name=*]/neighbors/neighbor[id=*]/state",), sampled=False),
    Subscribed(
        "system",
        tuple(
            f"/system/state/{leaf}"
            for leaf in ("hostname", "boot-time", "software-version", "last-configuration-timestamp")
        ),
        sampled=True,
        every_s=30.0,
    ),
)
PART_OF_QUESTION = {"states": Part.PORT, "optics": Part.MODULE, "neighbours": Part.NEIGHBOUR}
_ROOTS = frozenset(names[0] for names in LEAVES)


def slot(names: Names, keys: Sequence[str]) -> Slot | None:
    """Where the value of a leaf belongs, None where nobody reads it."""
    leaf = LEAVES.get(names)
    return leaf and Slot(leaf.part, keys[0] if keys else "", leaf.field, _lane(leaf, keys), leaf.read)


def deleted(names: Names, keys: Sequence[str]) -> Iterator[Fact]:
    """What is gone with a path: a leaf, or a whole part. A list without its key is the whole list: nobody's word."""
    if above := ABOVE.get(names):
        if keys:
            yield Fact(above[0], keys[0], above[1], None, keys[1] if len(keys) > 1 else "")
    elif (leaf := LEAVES.get(names)) and (keys or leaf.part is Part.CHASSIS):
        yield Fact(leaf.part, keys[0] if keys else "", leaf.field, None, _lane(leaf, keys))


def known(names: Names) -> bool:
    """Whether a path lies in a tree that was asked for, though nobody reads this leaf of it."""
    return bool(names) and names[0] in _ROOTS


def _lane(leaf: Leaf, keys: Sequence[str]) -> str:
    return leaf.lane or (keys[1] if len(keys) > 1 else "")
