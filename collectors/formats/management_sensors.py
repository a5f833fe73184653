"""What a host's management controller tells by `ipmitool sdr elist`: air, power, and supplies or fans that fail.

Rules, each of which has a test:
  no reading  a sensor without a value ("No Reading", "Disabled", status ns) says nothing, never 0
  critical    a sensor beyond its critical limit (cr, nr) is told when it becomes so, and when it is well again
  supplies    a supply that fails or has no mains is told, whatever its status says
Sources: ipmitool lib/ipmi_sdr.c (the columns and the status words), lib/ipmi_sel.c (words of supplies).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.formats.events import event
from sickbay.components import Kind, Name, name
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity

MOST_ROWS = 1_000
_ROW = re.compile(
    r"^(?P<name>[^|]{1,40})\|\s*(?P<number>[0-9A-Fa-f]{1,4})h\s*\|\s*(?P<status>[a-z]{2,3})\s*"
    r"\|\s*(?P<entity>\d{1,3}\.\d{1,3})\s*\|\s*(?P<says>.{0,200})$"
)
_NUMBER = re.compile(r"(-?\d{1,7}(?:\.\d{1,6})?) (degrees C|Watts|RPM|Volts|Amps|percent)\b")
_CRITICAL = ("cr", "nr", "lcr", "lnr", "ucr", "unr")
_AIR = re.compile(r"\b(?:inlet|ambient|intake)\b", re.IGNORECASE)
_TAKEN = re.compile(r"\b(?:pwr consumption|(?:total|system|sys)[ _]?power|power meter)\b", re.IGNORECASE)
_SUPPLY = re.compile(r"\b(?:ps|psu|power supply|supply)[ _-]?\d{0,2}\b", re.IGNORECASE)
_BROKEN = ("Failure detected", "AC lost", "AC out-of-range", "Redundancy Lost", "Predictive failure", "Config Error")


class Sensor(NamedTuple):
    """One row: a value with its unit where it has one."""

    name: str
    status: str
    says: str
    value: float | None = None
    unit: str = ""


@dataclass(slots=True)
class Sensors:
    """The sensors of one host between looks."""

    host: str
    _bad: dict[str, str] = field(default_factory=dict)

    @property
    def component(self) -> Name:
        """What the sensors speak of."""
        return name(Kind.HOST, self.host)

    def events(self, sensors: list[Sensor]) -> Iterator[Event]:
        """What became critical or failed since the last look, and what is well again."""
        for sensor in sensors:
            why, before = trouble(sensor), self._bad.get(sensor.name, "")
            if why and why != before and len(self._bad) < MOST_ROWS:
                self._bad[sensor.name] = why
                yield self._event(sensor, why, Severity.WARNING)
            elif not why and before and sensor.status == "ok":
                del self._bad[sensor.name]
                yield self._event(sensor, "well again", Severity.INFO)

    def _event(self, sensor: Sensor, why: str, severity: Severity) -> Event:
        kind = "host.power_event" if _SUPPLY.search(sensor.name) else "host.environment"
        facts = {"sensor": sensor.name, "status": sensor.status, "says": sensor.says}
        text = f"{sensor.name}: {why} ({sensor.says})"[:MAX_MESSAGE]
        return event(kind, self.component, facts, code=why, severity=severity, advice=Action.WATCH, message=text)


def read(text: str) -> list[Sensor]:
    """The rows of the tool's answer; others are left out."""
    return [sensor for line in text.split("\n")[:MOST_ROWS] if (sensor := _sensor(line.rstrip()[:400])) is not None]


def _sensor(line: str) -> Sensor | None:
    match = _ROW.match(line)
    if match is None:
        return None
    number = _NUMBER.match(match["says"])
    said = match["says"].strip()
    if number is None:
        return Sensor(match["name"].strip(), match["status"], said)
    return Sensor(match["name"].strip(), match["status"], said, float(number[1]), number[2])


def trouble(sensor: Sensor) -> str:
    """Why a sensor is not well, "" where it is or says nothing."""
    if _SUPPLY.search(sensor.name) and (word := next((word for word in _BROKEN if word in sensor.says), "")):
        return word
    if sensor.status in _CRITICAL:
        return "beyond its critical limit" if sensor.value is not None else "critical"
    return ""


def columns(sensors: list[Sensor]) -> dict[str, float]:
    """Columns of the host table: the warmest air taken in, and the machine's power."""
    air = [one.value for one in sensors if one.value is not None and one.unit == "degrees C" and _AIR.search(one.name)]
    power = [one.value for one in sensors if one.value is not None and one.unit == "Watts" and _TAKEN.search(one.name)]
    told = {"inlet_temperature_celsius": max(air, default=None), "power_watts": max(power, default=None)}
    return {column: value for column, value in told.items() if value is not None}
