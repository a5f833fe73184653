"""Modules in the ports of one switch: what they read of light and heat, and whether they are there.

A module that serves several ports (breakout, twin ports) is told under each of them. Rules of `optic_readings` hold:
lanes in nobody's use, dark lanes, copper. A laser under a port that a person closed is off by design: no light is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.formats.events import event
from collectors.formats.optic_readings import MOST_LANES, Reading, columns
from collectors.formats.switch_facts import Fact
from sickbay.components import Kind, Name, name
from sickbay.messages import Event, Identity

LIGHT = ("rx_power_dbm", "tx_power_dbm", "bias_milliamperes", "errors_before_correction_ratio")
_LANES = ("receive", "send", "bias")
_ALARM = "CRITICAL"  # the severity of a threshold that is the module's alarm; others warn earlier


@dataclass(slots=True)
class Module:
    """One module as its switch tells it."""

    fresh: bool = False
    present: bool | None = None
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    lanes: dict[str, dict[int, float]] = field(default_factory=dict)

    def take(self, fact: Fact) -> bool | None:
        """One fact; True where the module came, False where it went, None where neither."""
        value = fact.value
        if fact.field == "present":
            return self._there(value == "yes")
        if fact.field in ("vendor", "model", "serial"):
            self.texts[fact.field], self.fresh = str(value or ""), True
            return self._there(True) if value and fact.field == "serial" and value != "N/A" else None
        if fact.field in _LANES and fact.lane.isascii() and fact.lane.isdecimal() and len(fact.lane) < 3:
            lanes = self.lanes.setdefault(fact.field, {})
            lanes.pop(int(fact.lane), None)
            if value is not None and len(lanes) < MOST_LANES:
                lanes[int(fact.lane)] = float(value)
        elif not fact.lane or fact.lane.rpartition(":")[2].upper() == _ALARM:
            self.numbers.pop(fact.field, None)
            if value is not None and not isinstance(value, str):
                self.numbers[fact.field] = value
        self.fresh = True
        return None

    def row(self, *, closed: bool) -> dict[str, float]:
        """The row of the optic table."""
        numbers = self.numbers
        limits = {"receive_low_alarm": "receive_low", "temperature_high_alarm": "temperature_high"}
        row = columns(
            Reading(
                temperature=numbers.get("celsius"),
                supply=numbers.get("supply"),
                receive=self.lanes.get("receive", {}),
                send=self.lanes.get("send", {}),
                bias=self.lanes.get("bias", {}),
                limits={limit: numbers[told] for limit, told in limits.items() if told in numbers},
            )
        )
        if 0 <= (ratio := numbers.get("errors_before_correction_ratio", -1.0)) <= 1:
            row["errors_before_correction_ratio"] = ratio
        return {column: value for column, value in row.items() if not (closed and column in LIGHT)}

    def identity(self, switch: str, port: str) -> Identity | None:
        """Who it is, where it tells a serial number."""
        serial = self.texts.get("serial", "")
        model = " ".join(filter(None, (self.texts.get("vendor"), self.texts.get("model"))))
        return Identity(host=switch, kind=Kind.OPTIC, name=port, serial=serial, model=model) if serial else None

    def went(self) -> None:
        """Forget what a module read that is away; the next one is another."""
        self.texts, self.numbers, self.lanes = {}, {}, {}
        self.present, self.fresh = False, False

    def _there(self, now: bool) -> bool | None:
        before, self.present = self.present, now
        if before is None or before == now:
            return None
        if not now:
            self.went()
        return now


def moved(switch: str, ports: list[str], came: bool) -> Iterator[Event]:
    """The module of these ports came or went."""
    kind = "optic.plugged" if came else "optic.unplugged"
    for port in ports:
        yield event(kind, optic(switch, port), code="present" if came else "not present")


def optic(switch: str, port: str) -> Name:
    """The name of the module in a port: the port's own, so that both ends of a link find it."""
    return name(Kind.OPTIC, switch, port)
