"""Readings as a table, for what no exporter tells: CSV with a heading, cells apart by comma, semicolon or tab.

Two shapes, told apart by the heading (its columns in any order):

    time,component,column,value          one value a line; an optional `unit` must be the schema's own
    time,component,flow_litres_per_minute,supply_temperature_celsius      one row a line, blank = not told

`time`: ISO 8601 with Z or an offset, or a count since 1970 (s, ms, us or ns). `component`: its whole name (`cdu:c1`,
`pdu:p1`, `switch:leaf1`, `port:leaf1/Ethernet0`, `optic:h1/mlx5_0/1`, `host:h1`). Columns are those of the table of
that kind of component in `sickbay.schema`. Anything else is counted and skipped.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from collectors.formats import stamps
from collectors.formats.facility_findings import Findings
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import lines
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.components import UNKNOWN, Name, kind_of, name, parts_of
from sickbay.schema import TABLES, Samples, Table

MAX_ROWS = 16_384  # of one Samples
MAX_VALUES = 10_000_000  # of one input: a day of 100 devices at 1 Hz
_SEPARATORS = ",;\t"
_LONG = frozenset({"time", "component", "column", "value"})
_BLANK = frozenset({"", "-", "n/a", "na", "nan", "null", "none"})
_BY_KIND = {table.component: table for table in TABLES.values()}
_COLUMNS = frozenset(column for table in TABLES.values() for column in table.names)


@dataclass(frozen=True, slots=True)
class _Heading:
    """What the cells of a line mean."""

    separator: str
    names: tuple[str, ...]

    @property
    def long(self) -> bool:
        return set(self.names) >= _LONG


@dataclass(slots=True)
class _Rows:
    """Cells by component and time, as they come."""

    cells: dict[tuple[Name, int], dict[str, float]] = field(default_factory=dict)

    def add(self, component: Name, at_ms: int, column: str, value: float) -> None:
        """Takes one value; of two for one place the worse stays."""
        row = self.cells.setdefault((component, at_ms), {})
        worse = min if _BY_KIND[kind_of(component)].column(column).low else max
        row[column] = worse(value, row.get(column, value))

    def flush(self) -> Iterator[Reading]:
        """Samples of all that was taken, a table each; then starts anew."""
        tables: dict[str, dict[tuple[Name, int], dict[str, float]]] = {}
        for key, row in self.cells.items():
            tables.setdefault(_BY_KIND[kind_of(key[0])].name, {})[key] = row
        self.cells = {}
        for table, rows in tables.items():
            yield _samples(TABLES[table], rows)


def confidence(head: bytes, name: str) -> float:
    """High where the first line that says something is one of the two headings."""
    rows = head.decode("utf-8", "replace").lstrip("\ufeff").replace("\r", "\n").split("\n")[:100]
    first = next((row for row in rows if row.strip() and not row.startswith("#") and not _says_separator(row)), "")
    return 0.95 if _heading(first) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Samples of every table that is told, and events of states that a device tells as a reading."""
    heading: _Heading | None = None
    rows, findings, count = _Rows(), Findings(), 0
    for number, row in lines(chunks, tally):
        if not row.strip() or row.startswith("#") or (heading is None and _says_separator(row)):
            continue
        if heading is None:
            heading = _heading(row)
            _note_heading(heading, tally)
            continue
        for component, stamp, column, value in _values(heading, row, tally):
            count += 1
            rows.add(component, stamp.ms, column, value)
            for event in findings.of_reading(component, column, value, stamp.ms):
                yield Reading(event, number, stamp)
        if len(rows.cells) >= MAX_ROWS:
            yield from rows.flush()
        if count >= MAX_VALUES:
            tally.cut += 1
            tally.note(f"only the first {MAX_VALUES} values were read")
            break
    yield from rows.flush()


def _says_separator(row: str) -> bool:
    return row.strip().lower() in ("sep=,", "sep=;", "sep=\t")  # Excel's first line


def _heading(row: str) -> _Heading | None:
    separator = max(_SEPARATORS, key=row.count)
    names = tuple(cell.strip().lower() for cell in _cells(row[:8192], separator))
    if len(names) < 3 or not {"time", "component"} <= set(names) or len(set(names)) < len(names):
        return None
    heading = _Heading(separator, names)
    return heading if heading.long or set(names) & _COLUMNS else None


def _note_heading(heading: _Heading | None, tally: Tally) -> None:
    if heading is None:
        tally.unparsed += 1
        return
    known = _LONG | {"unit"} if heading.long else _COLUMNS | {"time", "component"}
    if strange := [one for one in heading.names if one not in known]:
        tally.note(f"columns that no table has: {', '.join(strange)[:200]}")


def _cells(row: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([row], delimiter=separator), [])
    except csv.Error:
        return []


def _values(heading: _Heading, row: str, tally: Tally) -> Iterator[tuple[Name, Stamp, str, float]]:
    cells = [cell.strip() for cell in _cells(row, heading.separator)]
    if len(cells) != len(heading.names):
        tally.unparsed += 1
        tally.note(f"a line of {len(cells)} cells under a heading of {len(heading.names)}")
        return
    told = dict(zip(heading.names, cells, strict=True))
    stamp, component = _stamp(told["time"], tally), _component(told["component"])
    if component is None or stamp is NO_STAMP:
        tally.unparsed += 1
        return
    table = _BY_KIND[kind_of(component)]
    for column, text, unit in _named(heading, told):
        value = _number(text.replace(",", ".") if heading.separator == ";" else text)  # 402,5 of a continental sheet
        if value is None:
            tally.note(f"{text[:40]!r} is no number")
        if not _fits(table, column, unit, tally) or value is None:
            tally.unparsed += 1
        elif not math.isnan(value):
            yield component, stamp, column, value


def _named(heading: _Heading, told: dict[str, str]) -> Sequence[tuple[str, str, str]]:
    """(column, text, unit) of a line."""
    if heading.long:
        return [(told["column"], told["value"], told.get("unit", ""))]
    return [(column, text, "") for column, text in told.items() if column in _COLUMNS and text]


def _fits(table: Table, column: str, unit: str, tally: Tally) -> bool:
    if column not in table.names:
        tally.note(f"{column[:60]!r} is no column of the table {table.name}")
        return False
    if unit and unit != table.column(column).unit:
        tally.note(f"{column} is in {table.column(column).unit}, not in {unit[:30]!r}")
        return False
    return True


def _stamp(text: str, tally: Tally) -> Stamp:
    try:
        stamp = stamps.epoch(float(text))
    except ValueError:
        stamp = stamps.iso(text)
    if stamp.clock is Clock.NO_ZONE:
        tally.note("times without Z or an offset: nobody can tell when that was")
    elif stamp.clock is not Clock.ABSOLUTE:
        tally.note(f"{text[:40]!r} is no time that is read: write 2026-03-11T04:20:00Z")
    return stamp if stamp.clock is Clock.ABSOLUTE else NO_STAMP


def _component(text: str) -> Name | None:
    """The name as everything else spells it, None where it is none that a table has rows of."""
    try:
        kind = kind_of(text)
    except ValueError:
        return None
    parts = parts_of(text)
    if str(kind) not in _BY_KIND or not all(parts) or UNKNOWN in parts:
        return None
    return name(kind, *parts)


def _number(text: str) -> float | None:
    """NaN for what is not told, None for what is no number."""
    if text.lower() in _BLANK:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _samples(table: Table, rows: dict[tuple[Name, int], dict[str, float]]) -> Reading:
    at_ms = np.array([at for _, at in rows], np.int64)
    columns = [column for column in table.names if any(column in row for row in rows.values())]
    values = {column: np.array([row.get(column, np.nan) for row in rows.values()]) for column in columns}
    return Reading(
        Samples(table.name, [component for component, _ in rows], at_ms, values),
        stamp=Stamp(Clock.ABSOLUTE, int(at_ms[-1])),
    )
