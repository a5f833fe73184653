"""What windows remember beyond the open ones: the last row of each component, kept on the state topic.

A state is put out in the same commit as the window that it follows, so that the newest one is that of the frontier.
All numbers are little-endian, in order without gaps; a large table comes in parts of MAX_ROWS rows:

    head      36 bytes  crc32c of all behind it, magic, sizes of the table's, the columns' and the rows' names, columns,
                        rows, end_ms
    table, columns, names   utf-8, the lists joined by newlines
    at_ms     int64 [rows]
    counters  int64 [rows, columns], missing -1
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import crc32c
import numpy as np

from sickbay.log import Output, Reader, Record, Task
from sickbay.log.reading import records
from sickbay.schema import WINDOWED
from sickbay.topics import STATE
from streams.window_core import Last

MAX_ROWS = 16_384  # of a part: with the 14 counters of a port some 2.6 MB
MOST_BYTES = 3 << 20  # of a part, however long the names: the topic takes 4 MiB
MAX_COLUMNS = 512
MAGIC = b"SBL2"

_HEAD = struct.Struct("<I4sHHIIIqI")


class Kept(NamedTuple):
    """The newest state of one table, the window it follows, and where its first record lies."""

    last: Last
    end_ms: int
    offset: int


class _Part(NamedTuple):
    table: str
    end_ms: int
    last: Last


def key_of(task: Task, table: str, part: int = 0) -> bytes:
    """The key of a part of a table's state; compaction keeps the newest."""
    return f"windows/{task.topic}/{task.partition}/{table}/{part}".encode()


def table_of(key: bytes) -> str:
    """The table that a state's key speaks of."""
    return key.decode("utf-8", "replace").split("/")[-2]


def outputs(task: Task, table: str, end_ms: int, last: Last) -> Iterator[Output]:
    """The records of one table's state after the window that ends at `end_ms`."""
    for part, payload in enumerate(_parts(table, end_ms, last)):
        yield Output(STATE, key_of(task, table, part), payload, task.partition)


def _parts(table: str, end_ms: int, last: Last) -> Iterator[bytes]:
    """Halves, until each fits."""
    rows = len(last.names)
    if rows <= MAX_ROWS:
        payload = encode(table, end_ms, last)
        if rows and (len(payload) <= MOST_BYTES or rows < 2):
            yield payload
        if not rows or len(payload) <= MOST_BYTES or rows < 2:
            return
    for half in (slice(None, rows // 2), slice(rows // 2, None)):
        yield from _parts(table, end_ms, Last(last.names[half], last.at_ms[half], last.columns, last.counters[half]))


def encode(table: str, end_ms: int, last: Last) -> bytes:
    """One part of a state."""
    texts = (table.encode(), "\n".join(last.columns).encode(), "\n".join(last.names).encode())
    sizes = (len(texts[0]), len(last.columns), len(texts[1]), len(texts[2]), len(last.names))
    head = _HEAD.pack(0, MAGIC, *sizes, end_ms, 0)
    numbers = (np.ascontiguousarray(last.at_ms, "<i8"), np.ascontiguousarray(last.counters, "<i8"))
    body = b"".join((head[4:], *texts, *(one.tobytes() for one in numbers)))
    return struct.pack("<I", crc32c.crc32c(body)) + body


def decode(payload: bytes) -> _Part:
    """What a part of a state tells. Raises ValueError that says what is wrong with a damaged record."""
    if len(payload) < _HEAD.size:
        raise ValueError("shorter than its own head")
    crc, magic, table_size, columns, column_size, name_size, rows, end_ms, _ = _HEAD.unpack_from(payload)
    if magic != MAGIC or crc32c.crc32c(memoryview(payload)[4:]) != crc:
        raise ValueError("checksum does not match, or no state of windows")
    start = _HEAD.size + table_size + column_size + name_size
    if rows > MAX_ROWS or columns > MAX_COLUMNS or len(payload) != start + 8 * rows * (1 + columns):
        raise ValueError(f"{columns} counters of {rows} components do not fit {len(payload)} bytes")
    text = payload[_HEAD.size : start]
    table = text[:table_size].decode()
    told = _listed(text[table_size : table_size + column_size])
    names = _listed(text[table_size + column_size :])
    if table not in WINDOWED or len(told) != columns or len(names) != rows:
        raise ValueError("not a table of ours, or not as many names as told")
    at_ms = np.frombuffer(payload, "<i8", rows, start)
    counters = np.frombuffer(payload, "<i8", rows * columns, start + 8 * rows).reshape(rows, columns)
    return _Part(table, end_ms, Last(names, at_ms, told, counters))


def _listed(blob: bytes) -> tuple[str, ...]:
    return tuple(blob.decode().split("\n")) if blob else ()


def read(reader: Reader, task: Task, offset: int) -> Mapping[str, Kept]:
    """The newest state of each table of a task, from `offset` of the state topic on; damaged records are passed over:
    increases that they would have told are missing then, never wrong."""
    found: dict[str, list[tuple[int, _Part]]] = {}
    place = Task(STATE, task.partition)
    bounds = reader.bounds(place)
    if not 0 <= offset <= bounds.end:  # the topic is not the one that was written to
        offset = bounds.begin
    for record in records(reader, place, offset):
        if record.value and record.key.startswith(f"windows/{task.topic}/{task.partition}/".encode()):
            _keep(found, record)
    return {table: _whole(parts) for table, parts in found.items()}


def _keep(found: dict[str, list[tuple[int, _Part]]], record: Record) -> None:
    try:
        part = decode(record.value or b"")
    except ValueError:
        return
    parts = found.setdefault(part.table, [])
    if record.key.endswith(b"/0"):  # a commit holds all parts of a window, from the first one on
        parts.clear()
    if parts and part.end_ms != parts[0][1].end_ms:
        parts.clear()
    parts.append((record.offset, part))


def _whole(parts: list[tuple[int, _Part]]) -> Kept:
    """Parts are of the same window, and so of the same columns; in the order of their names."""
    lasts = [part.last for _, part in parts if part.last.columns == parts[0][1].last.columns]
    last = Last(
        tuple(name for one in lasts for name in one.names),
        np.concatenate([one.at_ms for one in lasts]),
        lasts[0].columns,
        np.concatenate([one.counters for one in lasts]),
    )
    return Kept(last, parts[0][1].end_ms, parts[0][0])
