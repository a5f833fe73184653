"""A site's own list of what stands where and hangs on what: CSV with a heading, JSON, or what NetBox answered.

CSV: cells apart by comma, semicolon or tab, under headings of codes/inventory.toml, such as
`host,rack,pdu_a,pdu_b,cdu,management_switch`, `a_device,a_port,b_device,b_port` or `child,relation,parent`.
JSON: a list of rows with the same keys, lists of rows under any keys (`{"hosts": [...], "cables": [...]}`), one row a
line, or NetBox's devices, cables, interfaces, power ports and feeds: a page, or pages in a list.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from collectors.formats import inventory_rows, netbox
from collectors.formats.inventory_rows import Row, heading
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import lines, start_of
from sickbay.messages import Edge

MAX_JSON = 128 << 20  # bytes: 50,000 devices of NetBox with their ports
MAX_ROWS = 2_000_000
MAX_RECORDS = 2_000_000  # of one list: a row may stand for 200,000 hosts
SOURCE = "inventory"  # of its edges; the file stands behind it
_SEPARATORS = ",;\t"
_ABOVE = 10  # lines that may stand above the heading: a title, a date, Excel's `sep=;`
_MAX_QUOTED, _MAX_LINES = 64 << 10, 50  # characters and lines of a row whose cells go over several
_CLOSED = re.compile(r'(?:^|(?<=[,;\t])) *"(?:[^"]|"")*"')
_OPENS = re.compile(r'(?:^|[,;\t]) *"')
_MAX_DEPTH = 3  # lists of rows under keys, under one more key


def confidence(head: bytes, name: str) -> float:
    """High for a heading that tells edges, for JSON rows with such keys, and for objects of NetBox."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[: 16 << 10]
    if start[:1] in (b"{", b"["):
        return 0.9 if netbox.is_it(start) or _json_fits(start) else 0.0
    rows = start.decode("utf-8", "replace").replace("\r", "\n").split("\n")[:50]
    told = [row for row in rows if row.strip() and not row.startswith("#")]
    if told and inventory_rows.fits(_headings(told[0])[1]):
        return 0.85
    return 0.7 if any(inventory_rows.fits(_headings(row)[1]) for row in told[1:_ABOVE]) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """An edge or identity for everything that the rows tell."""
    source = f"{SOURCE}:{name}"[:200] if name else SOURCE
    pieces = iter(chunks)
    start = b""
    for piece in pieces:
        start += piece
        if start.strip(b"\xef\xbb\xbf \t\r\n"):
            break
    whole = (piece for group in ([start], pieces) for piece in group)
    is_json = start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    found = _of_json(_bounded(whole, tally), tally, source) if is_json else _of_csv(whole, tally, source)
    yield from islice(found, MAX_RECORDS)
    if next(found, None) is not None:
        tally.unparsed += 1
        tally.note(f"only the first {MAX_RECORDS} edges were read")


def _headings(row: str) -> tuple[str, list[str]]:
    separator = max(_SEPARATORS, key=row.count)
    return separator, [heading(cell) for cell in _cells(row[:8192], separator)]


def _cells(row: str, separator: str) -> list[str]:
    try:
        return next(csv.reader(row.splitlines(keepends=True), delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []


def _of_csv(chunks: Iterable[bytes], tally: Tally, source: str) -> Iterator[Reading]:
    separator, headings, above = "", list[str](), list[list[str]]()
    for count, (number, row) in enumerate(_whole_rows(chunks, tally)):
        if not row.strip() or row.startswith("#"):
            continue
        if not headings:
            separator, told = _headings(row)
            if not inventory_rows.fits(told) and len(above) < _ABOVE - 1:
                above.append(told)
                continue
            headings = told
            _note_unknown(headings, tally)
            continue
        cells = _cells(row, separator)
        if any(cells[len(headings) :]) or count > MAX_ROWS:
            tally.unparsed += 1
            tally.note(f"a line of {len(cells)} cells under a heading of {len(headings)}, or too many lines")
            continue
        for record in inventory_rows.records(_row(headings, cells), tally, source):
            yield Reading(record, number)
    if not headings and above:
        tally.unparsed += len(above)
        _note_unknown(above[0], tally)


def _row(headings: Iterable[str], cells: Iterable[str]) -> dict[str, str]:
    """Cells by heading; under the same heading twice (`PDU`, `PDU`) both are told."""
    row: dict[str, str] = {}
    for own, cell in zip(headings, cells, strict=False):
        row[own] = f"{row[own]};{cell}" if row.get(own) and cell.strip() else row.get(own) or cell
    return row


def _whole_rows(chunks: Iterable[bytes], tally: Tally) -> Iterator[tuple[int, str]]:
    """Lines; those that a quoted cell joins as one. A quote that is never closed costs some lines, and that is told."""
    held: list[str] = []
    first = 0
    for number, row in lines(chunks, tally):
        first = first if held else number
        held.append(row)
        if not _is_open(whole := "\n".join(held)):
            yield first, whole
            held = []
        elif len(held) >= _MAX_LINES or len(whole) > _MAX_QUOTED:
            _unclosed(first, held, tally)
            held = []
    if held:
        _unclosed(first, held, tally)


def _unclosed(first: int, held: list[str], tally: Tally) -> None:
    tally.unparsed += len(held)
    tally.note(f"a quote in line {first} is not closed: {len(held)} lines were not read")


def _is_open(text: str) -> bool:
    """Whether a quoted cell goes on in the next line; a quote within a cell (19" rack) opens none."""
    return '"' in text and bool(_OPENS.search(_CLOSED.sub("", text)))


def _note_unknown(headings: Iterable[str], tally: Tally) -> None:
    if strange := sorted({one for one in headings if one and one not in inventory_rows.known()}):
        tally.note(f"columns that were not read: {', '.join(strange)}")


def _bounded(chunks: Iterable[bytes], tally: Tally) -> bytes:
    raw = start_of(chunks, MAX_JSON)
    if len(raw) > MAX_JSON:
        tally.unparsed += 1
        tally.note(f"longer than {MAX_JSON >> 20} MiB: the rest was not read")
    return raw.removeprefix(b"\xef\xbb\xbf")


def _of_json(raw: bytes, tally: Tally, source: str) -> Iterator[Reading]:
    objects = _objects(raw, tally)
    own = [one for one in objects if netbox.endpoint_of(one)]
    if own:
        yield from map(Reading, netbox.records(own, tally, source))
    strange: set[str] = set()
    for one in objects:
        if not netbox.endpoint_of(one):
            row = {heading(key): _text(value) for key, value in one.items()}
            strange |= row.keys() - inventory_rows.known()
            yield from map(Reading, inventory_rows.records(row, tally, source))
    _note_unknown(strange, tally)


def _objects(raw: bytes, tally: Tally) -> list[dict[str, Any]]:
    """The rows of a text: one document, or one a line."""
    try:
        return list(_rows_in(msgspec.json.decode(raw), tally))[:MAX_ROWS]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found: list[dict[str, Any]] = []
        for line in raw.split(b"\n")[:MAX_ROWS]:
            if line.strip():
                found += _line(line, tally)
        return found


def _line(line: bytes, tally: Tally) -> list[dict[str, Any]]:
    try:
        return list(_rows_in(msgspec.json.decode(line), tally))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        tally.unparsed += 1
        return []


def _rows_in(told: object, tally: Tally, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Rows in lists, under keys, in pages."""
    if isinstance(told, list):
        for one in told:
            yield from _rows_in(one, tally, depth + 1) if isinstance(one, dict | list) and depth < _MAX_DEPTH else ()
            tally.unparsed += not isinstance(one, dict | list)
    elif isinstance(told, dict):
        inner = [value for value in told.values() if _is_rows(value)]
        if inner and not netbox.endpoint_of(told) and depth < _MAX_DEPTH:
            for value in inner:
                yield from _rows_in(value, tally, depth + 1)
            if netbox.unfinished(told):
                tally.unparsed += 1
                tally.note("a page of an answer that goes on: the rest was not read")
        elif not inner or netbox.endpoint_of(told):
            yield told


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ";".join(_text(one) for one in value[:64])
    if isinstance(value, dict):
        return _text(value.get("name", value.get("value", "")))
    return "" if value is None or isinstance(value, bool) else str(value)[: inventory_rows.MAX_CELL]


def _json_fits(start: bytes) -> bool:
    """Whether the keys of the first rows tell edges: looked for in the text, which may be cut."""
    text = start.decode("utf-8", "replace")
    keys = {heading(piece.rpartition('"')[2]) for piece in text.split('":')[:-1]}
    keys |= {heading(piece.rpartition('"')[2]) for piece in text.split('" :')[:-1]}
    return inventory_rows.fits(keys)


def rows_of(edges: Iterable[Edge]) -> list[Row]:
    """Edges as rows that `read` takes: what an export writes."""
    return [{"child": one.child, "relation": str(one.relation), "parent": one.parent} for one in edges]
