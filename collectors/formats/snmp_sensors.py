"""Sensors of ENTITY-SENSOR-MIB in their units, and what they mean: of modules, of the switch, of a power unit.

Sources: RFC 3433, RFC 6933. A value bears a scale and a precision of its own. The MIB has no unit for light: devices
tell watts, or write dBm into the text of the unit. A sensor belongs to the port that it, or what it sits in, is mapped
to; else to the one that its description names.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from collectors.formats.snmp_tables import INTERFACES, Rows, names, number, written
from collectors.formats.switch_facts import Fact, Part

DEEPEST = 12  # entities contained in entities
_IF_INDEX = (*INTERFACES["ifDescr"][:-1], 1)  # ifIndex, as the alias mapping points to it
_VOLTS_AC, _VOLTS_DC, _AMPERES, _WATTS, _CELSIUS = 3, 4, 5, 6, 8
_DBM = -1  # by its text


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor with its unit's value, and where it sits: the port, "" where none is told."""

    kind: int
    value: float
    words: str
    port: str = ""


def sensors(rows: Rows) -> Iterator[Sensor]:
    """All that work, in their units: the value times 10^(3 (scale - 9)) / 10^precision."""
    of_port, known = _placed(rows), names(rows)
    for index, value in rows.get("entPhySensorValue", {}).items():
        status = number(rows.get("entPhySensorOperStatus", {}).get(index))
        kind = int(number(rows.get("entPhySensorType", {}).get(index)) or 0)
        scale = number(rows.get("entPhySensorScale", {}).get(index)) or 9
        precision = number(rows.get("entPhySensorPrecision", {}).get(index)) or 0
        if status not in (None, 1) or not isinstance(value, int) or not (1 <= scale <= 17 and -8 <= precision <= 9):
            continue
        unit = written(rows.get("entPhySensorUnitsDisplay", {}).get(index)) or ""
        words = " ".join(written(rows.get(one, {}).get(index)) or "" for one in ("entPhysicalDescr", "entPhysicalName"))
        kind = _DBM if unit.strip().lower() == "dbm" else kind
        port = known.get(of_port(index[0]), "") or _named(words, known)
        yield Sensor(kind, value * 10.0 ** (3 * (scale - 9) - precision), words, port)


def environment(rows: Rows) -> Iterator[Fact]:
    """Sensors as facts: light, heat and supply of modules, heat and power of the switch."""
    for place, sensor in enumerate(sensors(rows)):
        way = "receive" if re.search(r"(?i)\brx|receiv", sensor.words) else "send"
        lane = match[1] if (match := re.search(r"(?i)(?:lane|channel) ?(\d{1,2})\b", sensor.words)) else "1"
        if not sensor.port and sensor.kind in (_CELSIUS, _WATTS):
            yield Fact(Part.SENSOR, str(place), "celsius" if sensor.kind == _CELSIUS else "watts", sensor.value)
        elif sensor.port and sensor.kind == _DBM:
            yield Fact(Part.MODULE, sensor.port, way, sensor.value, lane)
        elif sensor.port and sensor.kind == _WATTS and re.search(r"(?i)power", sensor.words):
            dbm = 10 * math.log10(sensor.value * 1000) if sensor.value > 0 else -math.inf
            yield Fact(Part.MODULE, sensor.port, way, dbm, lane)
        elif sensor.port and sensor.kind == _AMPERES:
            yield Fact(Part.MODULE, sensor.port, "bias", sensor.value * 1000, lane)
        elif sensor.port and sensor.kind in (_CELSIUS, _VOLTS_DC):
            yield Fact(Part.MODULE, sensor.port, "celsius" if sensor.kind == _CELSIUS else "supply", sensor.value)


def power_unit(rows: Rows) -> dict[str, float]:
    """The row of the pdu table: its inlet's or its total, where it names one; else the only one, or all together."""
    found: dict[str, float] = {}
    for column, kinds, join in (
        ("power_watts", (_WATTS,), sum),
        ("current_amperes", (_AMPERES,), sum),
        ("voltage_volts", (_VOLTS_AC,), min),
    ):
        all_of = [sensor for sensor in sensors(rows) if sensor.kind in kinds and sensor.value >= 0]
        whole = [sensor for sensor in all_of if re.search(r"(?i)\b(?:inlet|input|total|mains)", sensor.words)]
        if values := [sensor.value for sensor in whole or all_of]:
            found[column] = float(join(values))
    return found


def _placed(rows: Rows) -> Callable[[int], int]:
    """Entity -> ifIndex: its own alias, else that of what it is contained in."""
    alias: dict[int, int] = {}
    for index, value in rows.get("entAliasMappingIdentifier", {}).items():
        words = value.decode("ascii", "replace") if isinstance(value, bytes) else ""
        target = tuple(int(word) for word in words.split(".") if word.isdecimal() and len(word) < 11)
        if target[:-1] == _IF_INDEX:
            alias[index[0]] = target[-1]
    inside = {index[0]: value for index, value in rows.get("entPhysicalContainedIn", {}).items()}

    def port(entity: int) -> int:
        for _ in range(DEEPEST):
            if entity in alias:
                return alias[entity]
            above = inside.get(entity)
            if not isinstance(above, int) or above <= 0:
                return 0
            entity = above
        return 0

    return port


def _named(words: str, known: Mapping[int, str]) -> str:
    """The port that a description names by itself, the longest name first."""
    said = set(re.split(r"[\s,;()]+", words))
    return max((port for port in known.values() if port in said), key=len, default="")
