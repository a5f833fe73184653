"""One switch as its own words tell it: facts in, rows, events, changes and links out. Pure: no clock, no network.

Rules, each of which has a test:
  absent    a part that is told no more is away only after all of its kind were told: half an answer takes nothing away
  restart   the time of the start moves by more than its jitter, and only ahead; a first look is no restart
  time      an event bears the device's time where that is near ours, else ours: a wrong clock must not date it
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from collectors import rows
from collectors.cluster.switch_links import Neighbours, joined, renewed
from collectors.cluster.switch_optics import Module, moved, optic
from collectors.cluster.switch_ports import SETTLE_MS, Port, port_of
from collectors.formats.events import event
from collectors.formats.switch_facts import Fact, Part
from sickbay.components import Kind, Name, name
from sickbay.messages import Change, Edge, Event, Identity, Relation, replace
from sickbay.schema import Samples

Record = Event | Change | Edge | Identity

MOST_PARTS = 4_096  # ports, and modules, and sensors, of one switch
MOST_WAITING = 4_096  # records between two looks
ROW_MS = 10_000  # between two rows of the switch itself
JITTER_S = 60.0  # of a start that is told as now less the time since
NEAR_MS = 120_000  # a device's clock that is further off is wrong
AHEAD_MS = 2_000
_AFFIX = re.compile(r"[-_ ./]?(?:transceiver|xcvr|optics?|module)(?:[-_ ]module)?[-_ ]?", re.IGNORECASE)


@dataclass(slots=True)
class Switch:
    """One switch. `source`: what asks it, as its monitor is named."""

    name: str
    source: str
    up: bool | None = None
    system: str = ""  # what it calls itself
    ports: dict[str, Port] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=dict)
    neighbours: Neighbours = field(default_factory=Neighbours)
    links: dict[str, Edge] = field(default_factory=dict)  # port -> its link as it was told
    sensors: dict[tuple[str, str], float] = field(default_factory=dict)
    chassis: dict[str, str | float] = field(default_factory=dict)
    omitted: int = 0  # facts and records beyond the bounds
    _waiting: list[Record] = field(default_factory=list)
    _seen: dict[Part, set[str]] = field(default_factory=dict)
    _row_ms: int = 0
    _sensed: bool = False
    _identities: dict[str, Identity] = field(default_factory=dict)
    _called: dict[str, str] = field(default_factory=dict)

    def take(self, facts: Iterable[Fact], at_ms: int, now_ms: int) -> None:
        """Facts of that time that came now."""
        for fact in facts:
            if fact.part is Part.PORT:
                self._port(fact, at_ms, now_ms)
            elif fact.part is Part.MODULE:
                self._module(fact, at_ms)
            elif fact.part is Part.SENSOR:
                self._sensor(fact)
            elif fact.part is Part.NEIGHBOUR and (fact.key in self.ports or len(self.neighbours.heard) < MOST_PARTS):
                self.neighbours.take(fact, now_ms)
            elif fact.part is Part.CHASSIS and fact.value is not None:
                self._chassis(fact.field, fact.value, at_ms)

    def begun(self, part: Part) -> None:
        """All of this kind is being told from here on."""
        self._seen[part] = set()

    def told_all(self, part: Part, at_ms: int) -> None:
        """All of this kind was told: what was not is away."""
        seen = self._seen.pop(part, None)
        if seen is None:
            return
        if part is Part.PORT:
            for key in self.ports.keys() - seen:
                del self.ports[key]
        elif part is Part.MODULE:
            for key in self.modules.keys() - seen:
                self._module(Fact(Part.MODULE, key, "", None), at_ms)

    def reached(self, up: bool, now_ms: int, why: str = "") -> None:
        """Whether it answers; silence is told once."""
        if self.up is not up:
            self._row_ms = 0
            if not up:
                self.notice("monitor.blind", "no answer", why, now_ms)
            elif self.up is False:
                self.notice("monitor.notice", "answers again", "it answers again", now_ms)
        self.up = up

    def notice(self, kind: str, code: str, message: str, now_ms: int) -> None:
        """One thing about the questions themselves."""
        monitor = name(Kind.MONITOR, self.name, self.source)
        self._tell(replace(event(kind, monitor, code=code), message=message[:500], at_ms=now_ms))

    def restarted(self, at_ms: int, how: str) -> None:
        """It started anew."""
        self._tell(replace(event("switch.restarted", self.component, code=how), at_ms=at_ms))

    @property
    def component(self) -> Name:
        """Its own name."""
        return name(Kind.SWITCH, self.name)

    def records(self, now_ms: int, switches: Mapping[str, str], *, whole: bool = False) -> list[Record]:
        """What has happened since the last look. `switches`: what switches call themselves -> their names here.
        `whole`: it told all at once, so that no word is to be waited for."""
        until_ms = now_ms + SETTLE_MS if whole else now_ms
        told, self._waiting = self._waiting, []
        for port in self.ports.values():
            if port.oper == "up" and not port.used and not port.logical:
                port.used = True
                told.append(self._owns(port))
            if port.orders or port.waiting:
                told += port.due(until_ms)
        told += self._links(now_ms, until_ms, switches)
        return told

    def samples(self, now_ms: int) -> Iterator[Samples]:
        """Rows of what was told since the last look."""
        physical = (port for port in self.ports.values() if port.fresh and not port.logical)
        yield from rows.samples("port", {port.component: port.row() for port in physical}, now_ms)
        light: dict[Name, dict[str, float]] = {}
        for one, row in (*self._light(), *self._ratios()):
            light[one] = light.get(one, {}) | row
        yield from rows.samples("optic", light, now_ms)
        if self._sensed or not 0 <= now_ms - self._row_ms < ROW_MS:
            yield from rows.samples("switch", {self.component: self._row()}, now_ms)
            self._row_ms, self._sensed = now_ms, False

    def standing(self) -> Iterator[Edge]:
        """Links, and whose the ports in use are: what a new reader would miss."""
        yield from (self._owns(port) for port in self.ports.values() if port.used and not port.logical)
        yield from self.links.values()

    def _owns(self, port: Port) -> Edge:
        return Edge(child=port.component, parent=self.component, relation=Relation.PART_OF, source=self.source)

    def _port(self, fact: Fact, at_ms: int, now_ms: int) -> None:
        if not fact.field:
            self.ports.pop(fact.key, None)
            return
        port = self.ports.get(fact.key)
        if port is None:
            if fact.value is None or not fact.key or len(self.ports) >= MOST_PARTS:
                self.omitted += len(self.ports) >= MOST_PARTS
                return
            port = self.ports[fact.key] = port_of(self.name, fact.key)
        if (seen := self._seen.get(Part.PORT)) is not None:
            seen.add(fact.key)
        port.take(fact, at_ms, now_ms)

    def _module(self, fact: Fact, at_ms: int) -> None:
        module = self.modules.get(fact.key)
        if module is None:
            if fact.value is None or len(self.modules) >= MOST_PARTS:
                self.omitted += len(self.modules) >= MOST_PARTS
                return
            module = self.modules[fact.key] = Module()
        if (seen := self._seen.get(Part.MODULE)) is not None and fact.value is not None:
            seen.add(fact.key)
        if (there := module.take(fact if fact.field else fact._replace(field="present", value="no"))) is not None:
            ports = self._ports_of(fact.key)
            for one in moved(self.name, ports, there):
                self._tell(replace(one, at_ms=at_ms))

    def _sensor(self, fact: Fact) -> None:
        if fact.field == "celsius" and fact.key in self.modules:
            self.modules[fact.key].take(fact._replace(part=Part.MODULE))
            return
        key = (fact.field, fact.key)
        self.sensors.pop(key, None)
        if fact.value is not None and not isinstance(fact.value, str) and len(self.sensors) < MOST_PARTS:
            self.sensors[key] = fact.value
        self._sensed = True

    def _chassis(self, word: str, value: str | float, at_ms: int) -> None:
        before = self.chassis.get(word)
        if word == "boot_s" and before is not None and float(value) < float(before) + JITTER_S:
            return
        self.chassis[word] = value
        if word == "system":
            self.system = str(value)
        if before is None or before == value:
            return
        if word == "boot_s":
            self.restarted(round(float(value) * 1000), "boot time")
        elif word in ("software", "config_s"):
            what = "software" if word == "software" else "configuration"
            old, new = (str(before), str(value)) if word == "software" else ("", "")
            when = at_ms if word == "software" else round(float(value) * 1000)
            self._tell(Change(target=self.component, what=what, old=old, new=new, at_ms=when))

    def _light(self) -> Iterator[tuple[Name, dict[str, float]]]:
        for key, module in self.modules.items():
            if not module.fresh:
                continue
            module.fresh = False
            for port in self._ports_of(key):
                closed = port in self.ports and self.ports[port].admin == "down"
                yield optic(self.name, port), module.row(closed=closed)
                who = module.identity(self.name, port)
                if who and self._identities.get(port) != who:
                    self._identities[port] = who
                    self._tell(who)

    def _ratios(self) -> Iterator[tuple[Name, dict[str, float]]]:
        """What ports tell of the errors that their modules receive."""
        for key, port in self.ports.items():
            ratio, port.error_ratio = port.error_ratio, None
            if ratio is not None and port.admin != "down":
                yield optic(self.name, key), {"errors_before_correction_ratio": ratio}

    def _ports_of(self, module: str) -> list[str]:
        """Ports that a module serves; its own name where none says so."""
        served = [key for key, port in self.ports.items() if port.module == module]
        if served or module in self.ports:
            return served or [module]
        bare = _AFFIX.sub("", module)
        return [bare if bare in self.ports else module]

    def _row(self) -> dict[str, float]:
        row = {"up": float(bool(self.up))}
        if not self.up:
            return row
        told = {
            field: [value for (kind, key), value in self.sensors.items() if kind == field and key not in self.modules]
            for field in ("celsius", "watts", "cpu_ratio")
        }
        if celsius := [value for value in told["celsius"] if -50 < value < 200]:
            row["temperature_celsius"] = max(celsius)
        if watts := [value for value in told["watts"] if 0 <= value < 100_000]:
            row["power_watts"] = sum(watts)
        if told["cpu_ratio"]:
            row["cpu_ratio"] = max(told["cpu_ratio"])
        if "boot_s" in self.chassis:
            row["boot_time_seconds"] = float(round(float(self.chassis["boot_s"])))
        return row

    def _links(self, now_ms: int, until_ms: int, switches: Mapping[str, str]) -> Iterator[Edge]:
        if switches != self._called:  # a name that a neighbour told is known only now
            self._called = dict(switches)
            self.neighbours.again(now_ms)
        for port in self.neighbours.settled(until_ms):
            if port in self.ports and self.ports[port].logical:
                continue
            near = name(Kind.PORT, self.name, port)
            far = self.neighbours.other_end(port, switches)
            now = joined(near, far, frozenset(switches.values())) if far and far != near else None
            for edge in renewed(self.links.get(port), now, now_ms):
                yield edge
                if edge.to_ms is None:
                    self.links[port] = edge

    def _tell(self, record: Record) -> None:
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(record)
        else:
            self.omitted += 1


def device_time(stamp_ms: int, now_ms: int) -> int:
    """When a device says that something was: its own time where its clock is near ours, else now."""
    return min(stamp_ms, now_ms) if -NEAR_MS < stamp_ms - now_ms <= AHEAD_MS else now_ms
