"""`ethtool -m`: a module's identity, readings, flags and thresholds, one per line.

Whose module it is stands only in the command, where that was saved with it; when, only where a line of its own tells
the date (`date -Is` in a loop): then the readings are samples too. Source: ethtool's sff-common.c, qsfp.c, sfpdiag.c,
cmis.c.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from collectors import rows as sample_rows
from collectors.formats import optic_readings, stamps
from collectors.formats.optic_findings import LOW, Module, findings
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import lines
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Identity

MAX_TEXT = 200
MAX_MODULES = 20_000  # of one text
_COMMAND = re.compile(r"(?:^|[\s;])ethtool (?:-m|--module-info) (?P<port>[\w.:-]{1,32})\s*$")
_CAGE = re.compile(r"^(?P<port>[A-Za-z][\w/.-]{1,40}): SFP EEPROM (?P<what>detected|[Nn]ot .{1,40})$")
_ROW = re.compile(r"^\s+(?P<key>[A-Z][^:]{2,70}?)\s*: (?P<value>.{0,300})$")
_TITLE = re.compile(r"^\s+[A-Za-z ]{3,40}:$")  # of a group of rows
_LANE = re.compile(r"\s*\((?:Channel|Chan|Lane) (\d{1,2})\)$")
_POWER = re.compile(r"(?P<milliwatt>\d{1,6}\.\d{1,6}) mW / (?P<dbm>-?(?:\d{1,4}\.\d{1,4}|inf)) dBm")
_FLAG = re.compile(r"^(?P<what>.{3,60}) (?P<grade>alarm|warning)$")
_KNOWN = (
    "Identifier",
    "Extended identifier",
    "Connector",
    "Transceiver type",
    "Vendor name",
    "Vendor PN",
    "Module temp",
)
_RECEIVE = ("Rcvr signal avg optical power", "Receiver signal average optical power", "Receiver signal OMA")
_SEND = ("Transmit avg optical power", "Laser output power")
_COPPER = ("copper", "no separable connector")
# SONiC's `show interfaces transceiver eeprom --dom`: RX1Power: 0.38dBm
_DOM = re.compile(r"^(?P<way>RX|TX)(?P<lane>\d{1,2})Power$")
_DOM_VALUE = re.compile(r"(?P<number>-?(?:\d{1,4}(?:\.\d{1,4})?|inf)) ?(?:dBm|C)$")


def confidence(head: bytes, name: str) -> float:
    """High where rows of a module's page make up the text."""
    rows = [row for row in head.decode("utf-8", "replace").replace("\r", "").split("\n") if row.strip()][:200]
    known = sum(2 if _CAGE.match(row) else row.strip().startswith(_KNOWN) for row in rows)
    fitting = sum(bool(_ROW.match(row)) for row in rows)
    return 0.95 if known >= 2 and fitting >= 0.6 * len(rows) else 0.0


@dataclass(slots=True)
class _Dump:
    """One module as it is being read, and what was told of modules before."""

    port: str = UNKNOWN
    facts: dict[str, str] = field(default_factory=dict)
    begun: int = 0
    stamp: Stamp = NO_STAMP
    known: set[tuple[str, str, str]] = field(default_factory=set)

    def end(self, port: str = UNKNOWN, line: int = 0) -> Iterator[Reading]:
        """What the module says; another one begins at `line`."""
        yield from _told(self)
        self.port, self.facts, self.begun = port, {}, line


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Identity of each module, what its readings say, and the readings where a date stands above them.

    A second `Identifier` begins the next module.
    """
    dump = _Dump()
    for number, row in lines(chunks, tally):
        if named := _COMMAND.search(row) or _CAGE.match(row):
            yield from dump.end(named["port"], number)
        elif match := _ROW.match(row):
            key = match["key"].strip()
            if key == "Identifier" and "Identifier" in dump.facts:
                yield from dump.end()
            dump.begun = dump.begun if dump.facts else number
            if len(dump.facts) < 400:
                dump.facts.setdefault(key, match["value"].strip()[:MAX_TEXT])
        elif row.strip() and (stamp := stamps.iso(row)).clock is not Clock.NONE:
            yield from dump.end()
            dump.stamp = stamp
        elif row.strip() and not _TITLE.match(row):
            tally.unparsed += 1
    yield from dump.end()


def _told(dump: _Dump) -> Iterator[Reading]:
    facts, port = dump.facts, dump.port
    if not facts:
        return
    serial, model = facts.get("Vendor SN", ""), facts.get("Vendor PN", "")
    who = ("" if port == UNKNOWN else port, serial, model)
    if (serial or model) and who not in dump.known:
        if len(dump.known) < MAX_MODULES:
            dump.known.add(who)
        yield Reading(Identity(kind=Kind.OPTIC, name=who[0], serial=serial, model=model), dump.begun)
    module = _module(facts, port, dump.begun)
    dated = dump.stamp.clock is not Clock.NONE and port != UNKNOWN and not module.copper
    for event in findings(module):
        if not dated or event.code != LOW or event.attributes.get("alarms"):  # over time detectors judge
            yield Reading(event, dump.begun, dump.stamp)
    if dated:
        for samples in sample_rows.samples("optic", {module.name: optic_readings.of_rows(facts, module)}, 0):
            yield Reading(samples, dump.begun, dump.stamp)


def _module(facts: dict[str, str], port: str, line: int) -> Module:
    words = " ".join(facts.get(key, "") for key in ("Connector", "Transmitter technology", "Transceiver type")).lower()
    module = Module(name(Kind.OPTIC, UNKNOWN, port), line, copper=any(word in words for word in _COPPER))
    for key, value in facts.items():
        lane = _LANE.search(key)
        base = _LANE.sub("", key)
        power = _POWER.search(value)
        if power and base in _RECEIVE:
            module.receive[int(lane[1]) if lane else 1] = _dbm(power)
        elif power and base in _SEND:
            module.send[int(lane[1]) if lane else 1] = _dbm(power)
        elif power and base == "Laser rx power low alarm threshold":
            module.receive_low = _dbm(power)
        elif value == "On" and (flag := _FLAG.match(" ".join(base.split()))):
            (module.alarms if flag["grade"] == "alarm" else module.warnings).append(key)
        elif dom := _DOM.match(key):
            value_of = _DOM_VALUE.match(value)
            lanes = module.receive if dom["way"] == "RX" else module.send
            lanes.update({int(dom["lane"]): float(value_of["number"])} if value_of else {})
    if low := _DOM_VALUE.match(facts.get("RxPowerLowAlarm", "")):
        module.receive_low = float(low["number"])
    module.temperature = _celsius(facts.get("Module temperature", ""))
    module.temperature_high = _celsius(facts.get("Module temperature high alarm threshold", ""))
    return module


def _dbm(match: re.Match[str]) -> float:
    return float(match["dbm"])


def _celsius(text: str) -> float | None:
    match = re.match(r"(-?\d{1,4}\.\d{1,3}) degrees C", text)
    return float(match[1]) if match else None
