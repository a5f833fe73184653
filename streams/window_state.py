"""What windows remember beyond the open ones: the last counters of each component, kept on the state topic.

A state is put out in the same commit as the window that it follows, so that the newest one is that of the frontier.
`crc32c | length of head | head | at_ms int64 [rows] | counters float64 [columns, rows]`, little-endian, missing = NaN;
a large table comes in parts of MAX_ROWS rows.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import crc32c
import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from sickbay.log import Output, Reader, Record, Task
from sickbay.log.reading import records
from sickbay.schema import TABLES
from sickbay.topics import STATE

MAX_ROWS = 8192  # of a part: with the widest table's 38 columns some 2.7 MB, and a topic takes 4 MiB
MAX_COLUMNS = 512

_PREFIX = struct.Struct("<II")  # checksum of all that follows it, length of the head


class Kept(NamedTuple):
    """The newest state of one table: its frame, the window it follows, and where its record lies."""

    last: pl.DataFrame
    end_ms: int
    offset: int


class _Head(Struct, frozen=True, forbid_unknown_fields=True):
    table: str
    end_ms: int
    components: list[str]
    columns: list[str]


def key_of(task: Task, table: str, part: int = 0) -> bytes:
    """The key of a part of a table's state; compaction keeps the newest."""
    return f"windows/{task.topic}/{task.partition}/{table}/{part}".encode()


def table_of(key: bytes) -> str:
    """The table that a state's key speaks of."""
    return key.decode("utf-8", "replace").split("/")[-2]


def outputs(task: Task, table: str, end_ms: int, last: pl.DataFrame | None) -> Iterator[Output]:
    """The records of one table's state after the window that ends at `end_ms`."""
    if last is None or len(last.columns) < 3:  # no counters: nothing that later windows need
        return
    for part, rows in enumerate(last.iter_slices(MAX_ROWS)):
        yield Output(STATE, key_of(task, table, part), encode(table, end_ms, rows), task.partition)


def encode(table: str, end_ms: int, last: pl.DataFrame) -> bytes:
    """One part of a state: a frame with `component`, `at_ms` and counters."""
    columns = [name for name in last.columns if name not in ("component", "at_ms")]
    head = msgspec.json.encode(_Head(table, end_ms, last["component"].to_list(), columns))
    times = last["at_ms"].to_numpy().astype("<i8").tobytes()
    matrix = last.select(pl.col(columns).cast(pl.Float64).fill_null(np.nan)).to_numpy().astype("<f8").T
    body = struct.pack("<I", len(head)) + head + times + matrix.tobytes()
    return struct.pack("<I", crc32c.crc32c(body)) + body


def decode(payload: bytes) -> tuple[str, int, pl.DataFrame]:
    """(table, end_ms, frame). Raises ValueError that says what is wrong with a damaged record."""
    if len(payload) < _PREFIX.size:
        raise ValueError("shorter than its own head")
    checksum, size = _PREFIX.unpack_from(payload)
    if crc32c.crc32c(payload[4:]) != checksum:
        raise ValueError("checksum does not match")
    head = msgspec.json.decode(payload[_PREFIX.size : _PREFIX.size + size], type=_Head)
    rows, columns = len(head.components), len(head.columns)
    packed = payload[_PREFIX.size + size :]
    if head.table not in TABLES or rows > MAX_ROWS or columns > MAX_COLUMNS or len(packed) != 8 * rows * (1 + columns):
        raise ValueError("not a state of ours, or of another size")
    times = np.frombuffer(packed, "<i8", rows)
    matrix = np.frombuffer(packed, "<f8", rows * columns, 8 * rows).reshape(columns, rows)
    counters = [pl.Series(name, values).fill_nan(None) for name, values in zip(head.columns, matrix, strict=True)]
    return head.table, head.end_ms, pl.DataFrame(
        [pl.Series("component", head.components, dtype=pl.String), pl.Series("at_ms", times), *counters]
    )  # fmt: skip


def read(reader: Reader, task: Task, offset: int) -> Mapping[str, Kept]:
    """The newest state of each table of a task, from `offset` of the state topic on; damaged records are passed over:
    increases that they would have told are missing then, never wrong."""
    found: dict[str, list[tuple[int, int, pl.DataFrame]]] = {}
    for record in records(reader, Task(STATE, task.partition), offset):
        if record.value and record.key.startswith(f"windows/{task.topic}/{task.partition}/".encode()):
            _keep(found, record)
    return {table: _whole(parts) for table, parts in found.items()}


def _keep(found: dict[str, list[tuple[int, int, pl.DataFrame]]], record: Record) -> None:
    try:
        table, end_ms, frame = decode(record.value or b"")
    except ValueError:
        return
    parts = found.setdefault(table, [])
    if parts and end_ms > parts[0][0]:  # a commit holds all parts of a window
        parts.clear()
    parts.append((end_ms, record.offset, frame))


def _whole(parts: list[tuple[int, int, pl.DataFrame]]) -> Kept:
    return Kept(pl.concat([frame for _, _, frame in parts], how="diagonal"), parts[0][0], parts[0][1])
