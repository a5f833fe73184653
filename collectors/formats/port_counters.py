"""Counters of ports as tools print them: `ethtool -S`, `perfquery`, `ibqueryerrors`, ibdiagnet's port counters.

None of them tells a time, but a line of its own may (`date -Is` in a loop): then they are samples too. Of a port that
is told twice the growth counts, else the lifetime totals, which prove little.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from collectors.formats import port_statistics, stamps
from collectors.formats.events import event
from collectors.formats.ibnetdiscover import described_port
from collectors.formats.port_findings import MAX_COUNTERS, of_counters
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import lines
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import MAX_MESSAGE, Action, Edge, Relation

MAX_PORTS = 100_000
_COMMAND = re.compile(r"(?:^|[\s;])ethtool (?:-S|--statistics) (?P<port>[\w.:-]{1,32})\s*$")
_STATISTICS = re.compile(r"^NIC statistics(?: for (?P<port>[\w.:-]{1,32}))?:")
_STATISTIC = re.compile(r"^\s+(?P<key>[\w.\[\]: -]{1,64}?): (?P<value>-?\d{1,20})$")
_PORT = re.compile(r"^# Port (?:extended )?counters: Lid (?P<lid>\d{1,6}) port (?P<port>\d{1,3})\b")
_DOTTED = re.compile(r"^(?P<key>[A-Za-z0-9]{3,60}):\.{1,60}(?P<value>0x[0-9a-fA-F]{1,16}|\d{1,20})$")
_ERRORS_FOR = re.compile(r'^Errors for (?:(?P<guid>0x[0-9a-f]{1,16}) )?"(?P<description>.{0,200})"$')
_ERRORS = re.compile(r"^\s+GUID (?P<guid>0x[0-9a-f]{1,16}) port (?P<port>\d{1,3}|ALL): (?P<rest>\[.{1,2000})$")
_ERROR = re.compile(r"\[(?P<key>\w{3,60}) == (?P<value>\d{1,20})")
_BLOCK = re.compile(r"^Port=(?P<port>\d{1,3}) Lid=(?P<lid>0x[0-9a-fA-F]{1,8}) GUID=(?P<guid>0x[0-9a-fA-F]{1,16}) ")
_ASSIGNED = re.compile(r"^(?P<key>[a-z][a-z0-9_]{3,60})=(?P<value>0x[0-9a-fA-F]{1,16}|\d{1,20})$")
_BAD = re.compile(
    r"^(?P<guid>0x[0-9a-f]{1,16}), (?P<port>\d{1,3}), \"(?P<told>[^\"]{0,200})\", (?P<guid2>0x[0-9a-f]{1,16}), "
    r"(?P<port2>\d{1,3}), {1,2}?\"(?P<told2>[^\"]{0,200})\", \{(?P<why>[\w, ]{3,200})\}(?:, (?P<at>.{8,40}))?$"
)  # opensm's and ibdiagnet's list of unhealthy ports
_RULE = re.compile(r"^-{10,}$|^## |^\s*Link info:")


@dataclass(slots=True)
class _Listing:
    """The counters of one port, and where they began."""

    port: Name = ""
    line: int = 0
    stamp: Stamp = NO_STAMP
    now: dict[str, int] = field(default_factory=dict)


def confidence(head: bytes, name: str) -> float:
    """High where lines of one of the tools make up the text."""
    rows = [row for row in head.decode("utf-8", "replace").replace("\r", "").split("\n") if row.strip()][:300]
    begun = sum(any(form.match(row) for form in (_STATISTICS, _PORT, _ERRORS_FOR, _BLOCK)) for row in rows)
    fitting = sum(any(form.match(row) for form in (_STATISTIC, _DOTTED, _ERRORS, _ASSIGNED, _BAD)) for row in rows)
    beside = sum(bool(_RULE.search(row)) for row in rows)
    if any(_BAD.match(row) or _ERRORS.match(row) for row in rows):
        begun += 1
    if not fitting or fitting + begun + beside < 0.5 * len(rows):
        return 0.0
    return 0.95 if begun else 0.8 if fitting >= 0.9 * len(rows) >= 3 else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """What the counters of each port say."""
    before: dict[Name, dict[str, int]] = {}
    listing, described, bad = _Listing(), "", set[Name]()
    for number, row in lines(chunks, tally):
        if match := _ERRORS_FOR.match(row):
            described = match["description"]
        elif match := _ERRORS.match(row):
            yield from _told(listing, before)
            listing = _Listing(described_port(described, match["guid"], match["port"]), number, listing.stamp)
            counted = {error["key"]: int(error["value"]) for error in _ERROR.finditer(match["rest"])}
            listing.now.update(counted if match["port"] != "ALL" else {})
        elif match := _BAD.match(row):
            yield from _unhealthy(match, number, bad)
        elif port := _begins(row, listing.port):
            yield from _told(listing, before)
            listing = _Listing(port, number, listing.stamp)
        elif (stamp := stamps.iso(row)).clock is not Clock.NONE:
            yield from _told(listing, before)
            listing = _Listing("", number, stamp)
        elif (match := _STATISTIC.match(row) or _DOTTED.match(row) or _ASSIGNED.match(row)) is not None:
            if len(listing.now) < MAX_COUNTERS:
                listing.now[match["key"].strip()] = int(match["value"], 0 if "x" in match["value"] else 10)
        elif row.strip() and not _RULE.match(row):
            tally.unparsed += 1
    yield from _told(listing, before)


def _begins(row: str, current: Name) -> Name:
    """The port whose counters begin with this line, "" where none does."""
    if (match := _COMMAND.search(row)) or ((match := _STATISTICS.match(row)) and match["port"]):
        return name(Kind.PORT, UNKNOWN, match["port"])
    if match:  # the command may have told whose statistics follow
        return current or name(Kind.PORT, UNKNOWN, UNKNOWN)
    if match := _PORT.match(row):
        return name(Kind.PORT, UNKNOWN, f"lid_{match['lid']}", match["port"])
    match = _BLOCK.match(row)
    return name(Kind.PORT, match["guid"], match["port"]) if match else ""


def _unhealthy(match: re.Match[str], number: int, known: set[Name]) -> Iterator[Reading]:
    """A link that the subnet manager holds for bad: both its ends list it, the first tells it."""
    near = described_port(match["told"], match["guid"], match["port"])
    far = described_port(match["told2"], match["guid2"], match["port2"])
    yield Reading(Edge(child=min(near, far), parent=max(near, far), relation=Relation.LINK_END), number)
    if far not in known and len(known) < MAX_PORTS:
        known.add(near)
        told = {"code": match["why"], "peer": far, "message": match[0][:MAX_MESSAGE], "advice": Action.CHECK_LINK}
        yield Reading(event("port.errors_grow", near, {"conditions": match["why"]}, **told), number)


def _told(listing: _Listing, before: dict[Name, dict[str, int]]) -> Iterator[Reading]:
    if not listing.now:
        return
    port = listing.port or name(Kind.PORT, UNKNOWN, UNKNOWN)
    known = UNKNOWN not in port.split("/")[1:]  # two listings of unnamed ports need not be of one port
    dated = known and listing.stamp.clock is not Clock.NONE
    for found in of_counters(port, listing.now, before.get(port) if known else None):
        if not dated or not found.kind.startswith("port.errors"):  # over time detectors judge
            yield Reading(found, listing.line, listing.stamp)
    if dated:
        for reading in port_statistics.of_counters(listing.now, port):
            yield Reading(reading.record, listing.line, listing.stamp)
    if len(before) < MAX_PORTS:
        before[port] = listing.now
