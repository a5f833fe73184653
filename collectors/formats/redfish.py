"""Saved answers of Redfish: of coolant units, power units and hosts' management controllers.

Shapes, all JSON, whole, in a list, or one a line:
1. a resource as a GET answered it (`"@odata.type": "#CoolantConnector.v1_1_0.CoolantConnector"`), or a list of them;
2. a capture of one unit at one time, in a file as many as there are times:
   {"component": "cdu:c1", "at": "2026-03-11T04:20:00Z", "resources": {"/redfish/v1/...": {resource}, ...}}
   (`at` may be a count since 1970; resources may be a list: their `@odata.id` is their path).
The unit of a resource alone: the part of the file's path that looks like `cdu_c1`, `cdu:c1` or `pdu-p1` (a folder of a
mockup, or the file's own name), else the host that the path names by `host_h1`, else a unit's own `Id` if that is no
mere number. Without a time a reading is undated; captures in order of time tell when a state began and ended.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from collectors.formats import facility_findings, redfish_units, stamps
from collectors.formats.facility_findings import Finding, Key
from collectors.formats.reading import Reading, Tally
from collectors.formats.redfish_units import UNITS
from collectors.formats.redfish_values import Resource, type_of
from collectors.formats.text import start_of
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.components import Kind, Name, kind_of, name, part, parts_of
from sickbay.schema import TABLES, Samples

MAX_BYTES = 128 << 20
MAX_CAPTURES = 500_000
MAX_ROWS = 16_384  # of one Samples
MAX_PARTS = 20_000  # resources of one unit
MAX_DEPTH = 8  # of a resource in another (`$expand`)
SCHEMAS = frozenset(
    {
        "CoolingUnit", "CoolantConnector", "Pump", "LeakDetector", "LeakDetection", "Reservoir", "PowerDistribution",
        "PowerDistributionMetrics", "Circuit", "ComputerSystem", "Thermal", "ThermalMetrics", "Power", "PowerSupply",
        "EnvironmentMetrics", "Sensor",
    }
)  # fmt: skip
_KINDS = (Kind.CDU, Kind.PDU, Kind.HOST)
_PLACE = re.compile(r"(?:^|[/!])(cdu|pdu|host)[:_-]([^/!\s]{1,120})")
_ENDING = re.compile(r"\.(?:jsonl?|ndjson|txt|log)$", re.IGNORECASE)
_START = re.compile(rb'"@odata\.type"\s*:\s*"#(\w{1,60})\.')


class _Capture(NamedTuple):
    """The resources of one unit at one time."""

    component: Name
    stamp: Stamp
    resources: dict[str, Resource]


@dataclass(slots=True)
class _Units:
    """What stands at each unit, and rows that wait to be told."""

    known: dict[Key, Finding] = field(default_factory=dict)
    rows: dict[Kind, list[tuple[Name, int, dict[str, float]]]] = field(default_factory=dict)

    def take(self, capture: _Capture) -> Iterator[Reading]:
        """Events of one capture; its row waits."""
        judged = redfish_units.judged(capture.component, capture.resources)
        dated = capture.stamp.clock is Clock.ABSOLUTE
        heard = [capture.component] if judged.whole else []
        before = {key: one for key, one in self.known.items() if key.component == capture.component}
        after, events = facility_findings.step(before, judged.findings, heard, capture.stamp.ms if dated else None)
        for key in before.keys() - after.keys():
            del self.known[key]
        if len(self.known) < facility_findings.MAX_STANDING:
            self.known |= after
        yield from (Reading(event, stamp=capture.stamp) for event in events)
        if judged.row:
            row = answered(kind_of(capture.component)) | judged.row if judged.whole else judged.row
            waiting = self.rows.setdefault(kind_of(capture.component), [])
            waiting.append((capture.component, capture.stamp.ms if dated else 0, row))
            if len(waiting) >= MAX_ROWS:
                yield from self.flush()

    def flush(self) -> Iterator[Reading]:
        """The rows that wait, a table each."""
        for kind, rows in self.rows.items():
            yield Reading(samples(kind, rows), stamp=Stamp(Clock.ABSOLUTE, rows[-1][1]) if rows[-1][1] else NO_STAMP)
        self.rows = {}


def answered(kind: Kind) -> dict[str, float]:
    """The cell that says that a unit, or a host's management controller, answered."""
    return {"management_up" if kind is Kind.HOST else "up": 1.0}


def samples(kind: Kind, rows: list[tuple[Name, int, dict[str, float]]]) -> Samples:
    """Rows of units of one kind."""
    table = TABLES[str(kind)]
    columns = [column for column in table.names if any(column in row for _, _, row in rows)]
    values = {column: np.array([row.get(column, math.nan) for _, _, row in rows]) for column in columns}
    return Samples(table.name, [one for one, _, _ in rows], np.array([at for _, at, _ in rows], np.int64), values)


def confidence(head: bytes, name: str) -> float:
    """High for JSON with a resource of a schema that is read."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] not in (b"{", b"["):
        return 0.0
    told = {match[1].decode("ascii", "replace") for match in _START.finditer(start)}
    return 0.95 if told & SCHEMAS else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Rows and events of every unit that is told."""
    units = _Units()
    for capture in _captures(_bounded(chunks, tally), tally, _unit_of_path(name)):
        yield from units.take(capture)
    yield from units.flush()


def _bounded(chunks: Iterable[bytes], tally: Tally) -> bytes:
    raw = start_of(chunks, MAX_BYTES)
    if len(raw) > MAX_BYTES:
        tally.cut += 1
        tally.note(f"only the first {MAX_BYTES >> 20} MiB were read")
    return raw.removeprefix(b"\xef\xbb\xbf")


def _captures(raw: bytes, tally: Tally, unit: Name | None) -> Iterator[_Capture]:
    alone: dict[str, Resource] = {}
    for told in _objects(raw, tally):
        if isinstance(told.get("resources"), dict | list):
            capture = _capture(told)
            tally.unparsed += capture is None
            yield from [capture] if capture else []
        elif type_of(told):
            alone |= _expanded(_path(told, len(alone)), told)
        else:
            tally.unparsed += 1
    if alone:
        yield from _alone(alone, tally, unit)


def _alone(resources: dict[str, Resource], tally: Tally, unit: Name | None) -> Iterator[_Capture]:
    """Resources without a capture round them: all of one unit."""
    unit = unit or next((found for one in resources.values() if (found := _own_name(one))), None)
    if unit is None:
        tally.unparsed += len(resources)
        tally.note("of which unit this is does not stand in it: call the file cdu_NAME.json, pdu_NAME or host_NAME")
        return
    yield _Capture(unit, NO_STAMP, resources)


def _capture(told: dict[str, Any]) -> _Capture | None:
    component, at, resources = _component(told.get("component")), told.get("at"), told["resources"]
    if component is None:
        return None
    if isinstance(resources, dict):
        pairs = [(path.rstrip("/"), one) for path, one in resources.items()]
    else:
        pairs = [(_path(one, place), one) for place, one in enumerate(resources) if isinstance(one, dict)]
    numeric = isinstance(at, int | float) and not isinstance(at, bool) and abs(at) < 1e20
    stamp = stamps.epoch(float(at)) if numeric else stamps.iso(at) if isinstance(at, str) else NO_STAMP  # type: ignore[arg-type]
    whole: dict[str, Resource] = {}
    for path, one in pairs:
        if isinstance(one, dict) and len(whole) < MAX_PARTS:
            whole |= _expanded(path, one)
    return _Capture(component, stamp, whole)


def _expanded(path: str, resource: Resource) -> dict[str, Resource]:
    """A resource and those that were put into it instead of a link to them."""
    found: dict[str, Resource] = {path: resource}
    waiting: list[tuple[Any, int]] = [(resource, 0)]
    while waiting and len(found) < MAX_PARTS:
        inside, depth = waiting.pop()
        for one in inside.values() if isinstance(inside, Mapping) else inside:
            if not isinstance(one, dict | list) or depth >= MAX_DEPTH:
                continue
            place = _path(one, 0) if isinstance(one, dict) and type_of(one) else "#"
            if isinstance(one, dict) and "#" not in place:  # else a part that is read with its whole
                found.setdefault(place, one)
            waiting.append((one, depth + 1))
    return found


def _component(told: object) -> Name | None:
    try:
        kind = kind_of(told) if isinstance(told, str) else None
    except ValueError:
        return None
    return name(kind, *parts_of(str(told))) if kind in _KINDS else None


def _path(resource: Resource, place: int) -> str:
    told = resource.get("@odata.id")
    return told.rstrip("/")[:500] if isinstance(told, str) and told else f"#{place}"


def _own_name(resource: Resource) -> Name | None:
    kind, told = UNITS.get(type_of(resource)), resource.get("Id")
    if kind is Kind.HOST:
        told = resource.get("HostName")
    good = isinstance(told, str) and part(told) and not told.isdecimal()
    return name(kind, *str(told).split("/")) if kind and good else None


def _unit_of_path(path: str) -> Name | None:
    """The unit that a file's path names, the last of several."""
    found = _PLACE.findall(_ENDING.sub("", path))
    return name(Kind(found[-1][0]), found[-1][1]) if found else None


def _objects(raw: bytes, tally: Tally) -> Iterator[dict[str, Any]]:
    try:
        told = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        yield from _by_line(raw, tally)
        return
    for one in told[:MAX_CAPTURES] if isinstance(told, list) else [told]:
        if isinstance(one, dict):
            yield one
        else:
            tally.unparsed += 1


def _by_line(raw: bytes, tally: Tally) -> Iterator[dict[str, Any]]:
    for line in raw.split(b"\n")[:MAX_CAPTURES]:
        try:
            told = msgspec.json.decode(line) if line.strip() else None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            told = ""
        if isinstance(told, dict):
            yield told
        elif told is not None:
            tally.unparsed += 1
