"""A module's readings as a row of the optic table, from what `ethtool -m` prints: text, JSON, or its memory in hex.

Rules, each of which has a test:
  unused   a lane that neither sends nor receives light is in nobody's use: an 8-lane module on 4 fibres is well
  dark     a lane without light while others have some stands at the floor, -40 dBm: that lane is lost
  no light all lanes dark one way while the other way has light stand at the floor too: whether the far laser is out,
           the fibre cut or somebody closed the port is for diagnosis; dark both ways, the module is in nobody's use
  copper   a cable without light, and a memory without readings (0 V), tell nothing
Sources: ethtool's sff-common.c, qsfp.c, cmis.c and module_info.json.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from collectors.formats.optic_findings import Module

FLOOR_DBM = -40.0  # what modules report for no light (0.1 microwatt is their smallest step)
MOST_LANES = 32
MOST_ROWS = 2000
_ROW = re.compile(r"^[ \t]+(?P<key>[A-Z][^:]{2,70}?)[ \t]*: (?P<value>.{0,300})$")
_LANE = re.compile(r"[ ]?\((?:Channel|Chan|Lane) (\d{1,2})\)$")
_DBM = re.compile(r"(?P<milliwatt>\d{1,6}\.\d{1,6}) mW / (?P<dbm>-?(?:\d{1,4}\.\d{1,4}|inf)) dBm")
_NUMBER = re.compile(r"(-?\d{1,5}(?:\.\d{1,6})?) (?:degrees C|V|mA)\b")
_HEX = re.compile(r"^[ \t]*0x[0-9a-fA-F]{1,5}:?((?:[ \t]+[0-9a-fA-F]{2}){1,32})[ \t]*$")
_RECEIVE = ("Rcvr signal avg optical power", "Receiver signal average optical power", "Receiver signal OMA")
_SEND = ("Transmit avg optical power", "Laser output power")
_BIAS = ("Laser tx bias current", "Laser bias current")
_GRADES = {
    "high alarm threshold": "high_alarm",
    "low alarm threshold": "low_alarm",
    "high warning threshold": "high_warning",
    "low warning threshold": "low_warning",
}
_LIMITS = {"Laser rx power": "receive", "Laser output power": "send", "Module temperature": "temperature"}


@dataclass(frozen=True, slots=True)
class Reading:
    """One module: degrees Celsius, volts, milliamperes and dBm (minus infinity: no light), lanes by number."""

    temperature: float | None = None
    supply: float | None = None
    receive: Mapping[int, float] = field(default_factory=dict)
    send: Mapping[int, float] = field(default_factory=dict)
    bias: Mapping[int, float] = field(default_factory=dict)
    vendor: str = ""
    model: str = ""
    serial: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)  # receive_low_alarm and its like


def columns(module: Reading) -> dict[str, float]:
    """The row of the optic table; what the module does not tell is left out."""
    if module.supply == 0.0 and not module.temperature:  # a cable's memory: identity, no readings
        return {}
    used = {lane for lights in (module.receive, module.send) for lane, power in lights.items() if _lit(power)}
    told = {
        "rx_power_dbm": _worst(module.receive, used),
        "tx_power_dbm": _worst(module.send, used),
        "bias_milliamperes": max((value for value in module.bias.values() if value > 0), default=None),
        "temperature_celsius": module.temperature,
        "supply_volts": module.supply or None,
        "rx_power_alarm_dbm": module.limits.get("receive_low_alarm"),
        "temperature_alarm_celsius": module.limits.get("temperature_high_alarm"),
    }
    return {column: value for column, value in told.items() if value is not None and math.isfinite(value)}


def of_rows(facts: Mapping[str, str], module: Module) -> dict[str, float]:
    """The row of the optic table of a text's facts; light as the text's reader found it, whichever tool printed it."""
    told = _of_facts(facts)
    heat = told.temperature if told.temperature is not None else module.temperature
    low = module.receive_low
    limits = told.limits if low is None else {**told.limits, "receive_low_alarm": low}
    return columns(replace(told, temperature=heat, receive=module.receive, send=module.send, limits=limits))


def _lit(power: float) -> bool:
    return power > FLOOR_DBM


def _worst(powers: Mapping[int, float], used: set[int]) -> float | None:
    """The weakest lane in use, None where none is."""
    return min((max(power, FLOOR_DBM) for lane, power in powers.items() if lane in used), default=None)


def read(text: str) -> Reading | None:
    """What the tool printed, None where it tells no module."""
    if text.lstrip()[:1] == "[":
        return _json(text)
    rows = text.split("\n")[:MOST_ROWS]
    facts = dict(_facts(rows))
    if "Identifier" in facts:
        return _of_facts(facts)
    return _hex(rows)


def _facts(rows: list[str]) -> Iterator[tuple[str, str]]:
    for row in reversed(rows):  # so that of a key told twice the first one counts
        if match := _ROW.match(row.rstrip()[:400]):
            yield match["key"].strip(), match["value"].strip()


def _of_facts(facts: Mapping[str, str]) -> Reading:
    receive, send, bias = dict[int, float](), dict[int, float](), dict[int, float]()
    limits: dict[str, float] = {}
    for key, value in facts.items():
        lane = _LANE.search(key)
        base, number = _LANE.sub("", key), int(lane[1]) if lane else 1
        power, plain = _DBM.search(value), _NUMBER.match(value)
        if power and base in (*_RECEIVE, *_SEND):
            (receive if base in _RECEIVE else send)[number] = _power(power)
        elif plain and base in _BIAS:
            bias[number] = float(plain[1])
        elif name := _limit(base):
            limits |= {name: _power(power)} if power else {name: float(plain[1])} if plain else {}
    return Reading(
        temperature=_plain(facts.get("Module temperature", "")),
        supply=_plain(facts.get("Module voltage", "")),
        receive=receive,
        send=send,
        bias=bias,
        vendor=facts.get("Vendor name", "")[:64],
        model=facts.get("Vendor PN", "")[:64],
        serial=facts.get("Vendor SN", "")[:64],
        limits=limits,
    )


def _limit(base: str) -> str:
    for words, grade in _GRADES.items():
        if base.endswith(words) and (what := _LIMITS.get(base.removesuffix(words).strip())):
            return f"{what}_{grade}"
    return ""


def _power(match: re.Match[str]) -> float:
    return float(match["dbm"]) if float(match["milliwatt"]) > 0 else -math.inf


def _plain(text: str) -> float | None:
    found = _NUMBER.match(text)
    return float(found[1]) if found else None


def _json(text: str) -> Reading | None:
    """Powers stand there in milliwatts."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    facts = told[0] if isinstance(told, list) and told and isinstance(told[0], dict) else {}
    if "identifier" not in facts:
        return None
    light = facts.get("rx_power")
    return Reading(
        temperature=_real(facts.get("module_temperature")),
        supply=_real(facts.get("module_voltage")),
        receive=_decibels(light.get("values") if isinstance(light, dict) else light),
        send=_decibels(facts.get("transmit_avg_optical_power")),
        bias=_listed(facts.get("laser_tx_bias_current")),
        vendor=str(facts.get("vendor_name", "")).strip()[:64],
        model=str(facts.get("vendor_pn", "")).strip()[:64],
        serial=str(facts.get("vendor_sn", "")).strip()[:64],
    )


def _real(value: Any) -> float | None:
    real = float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6 else None
    return real if real is not None and math.isfinite(real) else None


def _listed(values: Any) -> dict[int, float]:
    listed = values[:MOST_LANES] if isinstance(values, list) else [values]
    reals = {lane: _real(value) for lane, value in enumerate(listed, 1)}
    return {lane: value for lane, value in reals.items() if value is not None}


def _decibels(values: Any) -> dict[int, float]:
    return {lane: 10 * math.log10(mw) if mw > 0 else -math.inf for lane, mw in _listed(values).items()}


def _hex(rows: list[str]) -> Reading | None:
    """The memory as old versions print that of modules they do not know."""
    from collectors.formats.optic_eeprom import decode

    pieces = (bytes.fromhex(found[1]) for row in rows if (found := _HEX.match(row)))
    return decode(b"".join(pieces))
