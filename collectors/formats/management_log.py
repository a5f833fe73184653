"""The event log of a host's management controller: `ipmitool sel list` and `sel elist`, which only read.

    1a | 05/04/2026 | 03:02:01 | Power Supply PSU2 | Power Supply AC lost | Asserted

Rules, each of which has a test:
  old        the log reaches back years: what stands in it is worth a look, and takes nothing out of service
  ended      an entry that is deasserted is over: it is told as well again, and only where its beginning was told
  no clock   `Pre-Init` is a time since the controller started, and dates nothing
  full       a log that is full or switched off tells no more: that is said, as silence of it proves nothing
Sources: ipmitool lib/ipmi_sel.c; the words of sensors: IPMI specification 2.0 tables 42-2 and 42-3.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.formats import stamps
from collectors.formats.events import event
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import clean_text, lines
from sickbay.clock import NO_STAMP, Stamp
from sickbay.components import UNKNOWN, Kind, Name, name, part
from sickbay.messages import MAX_MESSAGE, Action, Event, Severity

MOST_STANDING = 10_000  # entries whose end is waited for
_ROW = re.compile(
    r"^\s{0,8}(?P<number>[0-9a-fA-F]{1,4})\s?\|\s{0,4}(?:(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{2}(?:\d\d)?)"
    r"\s{0,4}\|\s{0,4}(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?: [A-Z]{2,5})?"
    r"|Pre-Init\s{0,12}\|\s{0,4}\d{1,12}s?)\s{0,4}\|(?P<sensor>[^|]{1,80})\|(?P<says>[^|]{1,160})(?:\|(?P<rest>.{0,200}))?$"
)


class _Meaning(NamedTuple):
    """What an entry of a sensor means where these words are said."""

    sensor: re.Pattern[str]
    says: re.Pattern[str]
    kind: str
    severity: Severity = Severity.WARNING


def _words(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_MEANINGS = (
    _Meaning(_words(r"^Event Logging"), _words("full|disabled"), "monitor.notice"),
    _Meaning(_words(r"^Memory\b"), _words(r"(?<!in)\buncorrectable ecc"), "dimm.uncorrected"),
    _Meaning(_words(r"^Memory\b"), _words("correctable ecc"), "dimm.corrected", Severity.INFO),
    _Meaning(_words(r"^Critical Interrupt"), _words("bus fatal|serr|bus uncorrectable"), "pcie.uncorrected"),
    _Meaning(_words(r"leak"), _words("."), "host.environment"),
    _Meaning(_words(r"^(?:Temperature|Fan|Cooling)\b"), _words("critical|recoverable|failure"), "host.environment"),
    _Meaning(_words(r"^(?:Power (?:Supply|Unit))\b"), _words("lost|fail|out-of-range|power off"), "host.power_event"),
    _Meaning(_words(r"."), _words("coolant leak|leak detected"), "host.environment"),
)  # fmt: skip


class Entry(NamedTuple):
    """One entry: `said` tells the sensor and its words, `began` whether it asserts them."""

    number: str
    said: tuple[str, str]
    began: bool
    stamp: Stamp
    text: str


@dataclass(slots=True)
class Entries:
    """The entries of one log in their order. `host`: whose controller it is."""

    host: str = UNKNOWN
    _standing: set[tuple[str, str]] = field(default_factory=set)

    def event(self, entry: Entry) -> Event | None:
        """What an entry says, None where it is none of ours."""
        sensor, says = entry.said
        meaning = next((one for one in _MEANINGS if one.sensor.search(sensor) and one.says.search(says)), None)
        if meaning is None:
            return None
        if not entry.began:
            if entry.said not in self._standing:
                return None
            self._standing.discard(entry.said)
        elif len(self._standing) < MOST_STANDING:
            self._standing.add(entry.said)
        code, severity = (says, meaning.severity) if entry.began else ("well again", Severity.INFO)
        facts = {"sensor": sensor, "says": says, "entry": entry.number}
        return event(
            meaning.kind, self._component(meaning.kind, sensor), facts, code=code, severity=severity,
            advice=Action.WATCH, message=entry.text[:MAX_MESSAGE],
        )  # fmt: skip

    def _component(self, kind: str, sensor: str) -> Name:
        domain = kind.partition(".")[0]
        if domain == "dimm":
            return name(Kind.DIMM, self.host, part(sensor.partition(" ")[2]) or UNKNOWN)
        if domain == "pcie":
            return name(Kind.PCIE, self.host, UNKNOWN)
        return name(Kind.MONITOR, self.host, "management_log") if domain == "monitor" else name(Kind.HOST, self.host)


def confidence(head: bytes, name: str) -> float:
    """High where entries make up the text."""
    rows = [row for row in head.decode("utf-8", "replace").replace("\r", "").split("\n") if row.strip()][:200]
    fitting = sum(bool(_ROW.match(row)) for row in rows)
    return 0.95 if fitting and fitting >= 0.8 * len(rows) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """What the entries say that are about the machine's health."""
    entries = Entries()
    for number, row in lines(chunks, tally):
        entry = entry_of(row)
        if entry is None:
            tally.unparsed += bool(row.strip())
        elif found := entries.event(entry):
            yield Reading(found, number, entry.stamp)


def entry_of(row: str) -> Entry | None:
    """One line of the tool's answer, None where it is none."""
    match = _ROW.match(row.rstrip()[:600])
    if match is None:
        return None
    rest = (match["rest"] or "").strip()
    said = (clean_text(match["sensor"].strip()), clean_text(match["says"].strip()))
    text = " | ".join(one for one in (*said, rest) if one)
    return Entry(match["number"].lower(), said, not rest.startswith("Deassert"), _stamp(match), text)


def _stamp(match: re.Match[str]) -> Stamp:
    if match["year"] is None:
        return NO_STAMP
    year = match["year"] if len(match["year"]) == 4 else f"20{match['year']}"
    clock = int(match["hour"]), int(match["minute"]), int(match["second"])
    return stamps.stamp(year=year, month=int(match["month"]), day=int(match["day"]), clock=clock)
