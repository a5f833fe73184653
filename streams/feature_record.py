"""A closed window's features as one record of the features topic: a checked head, names, and a packed float32 matrix.

All numbers are little-endian. In order, without gaps:

    head      40 bytes  crc32c of all behind it, magic, flags, size of the table's name, columns, rows, sizes of the
                        columns' and the rows' names, upstream partition, end_ms
    table     utf-8
    columns   utf-8, joined by newlines
    names     utf-8, joined by newlines: component of each row
    zeros     up to a multiple of 8
    matrix    float32 [columns, rows], missing NaN

A clock record has no rows: everything of the upstream partition is out that its clock allows. Each upstream partition
writes its own into every partition of the topic, as what it puts out is spread over them by job and fabric plane.
"""

import struct
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import crc32c
import numpy as np
import polars as pl
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.schema import WINDOWED

MAGIC = b"SBB2"
MAX_ROWS, MAX_COLUMNS = 200_000, 1_024
WHOLE = ("n", "covered_ms")  # columns that are whole numbers
KEPT_BYTES = 48 << 20  # of name lists known again: those of a window of 100,000 accelerators and ports have some 10 MB
CLOCK_PREFIX = b"clock/"
_CLOCK_TABLE = "host"
_HEAD = struct.Struct("<I4sHHIIIIIq")
_STALE, _CLOCK = 1, 2
_KEYS = ("component", "end_ms")


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows of one table and window: row i speaks of `names[i]`; `values` float32 [columns, rows], missing NaN, a view
    of the record. `stale`: a side input was not complete when the window closed. `upstream`: its telemetry partition.
    """

    table: str
    end_ms: int
    names: tuple[Name, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float32]
    stale: bool = False
    upstream: int = 0


class Clock(NamedTuple):
    """All windows of a telemetry partition that close by `clock_ms` are out. `stale`: of one the side inputs lacked."""

    upstream: int
    clock_ms: int
    stale: bool = False


@dataclass(slots=True)
class NameLists:
    """Name lists by their bytes, so that the same list is the same tuple; the longest unused ones go first."""

    _known: OrderedDict[bytes, tuple[Name, ...]] = field(default_factory=OrderedDict)
    _size: int = 0

    def of(self, blob: bytes) -> tuple[Name, ...]:
        """The names in a newline-joined list. Raises ValueError where they are not UTF-8."""
        names = self._known.get(blob)
        if names is not None:
            self._known.move_to_end(blob)
            return names
        names = tuple(blob.decode().split("\n")) if blob else ()
        self._known[blob] = names
        self._size += len(blob)
        while self._size > KEPT_BYTES and len(self._known) > 1:
            self._size -= len(self._known.popitem(last=False)[0])
        return names


_LISTS = NameLists()  # a memo of a pure function: what it holds changes no result


def key_of(table: str, upstream: int) -> bytes:
    """The key of a window's record."""
    return f"{table}/{upstream}".encode()


def clock_key(upstream: int) -> bytes:
    """The key of a clock record."""
    return CLOCK_PREFIX + str(upstream).encode()


def is_clock(key: bytes) -> bool:
    """Whether a record of the features topic is a clock."""
    return key.startswith(CLOCK_PREFIX)


def encode(block: Block) -> bytes:
    """The record of a window."""
    return encode_parts(block, "\n".join(block.columns).encode(), "\n".join(block.names).encode())


def encode_parts(block: Block, columns: bytes, names: bytes) -> bytes:
    """`encode` with the names already joined: they repeat from window to window."""
    return _packed(block, columns, names, _STALE if block.stale else 0)


def encode_clock(clock: Clock) -> bytes:
    """The record of a clock."""
    empty = Block(_CLOCK_TABLE, clock.clock_ms, (), (), np.empty((0, 0), np.float32), upstream=clock.upstream)
    return _packed(empty, b"", b"", _CLOCK | (_STALE if clock.stale else 0))


def _packed(block: Block, columns: bytes, names: bytes, flags: int) -> bytes:
    table = block.table.encode()
    sizes = (len(table), len(block.columns), len(block.names), len(columns), len(names))
    head = _HEAD.pack(0, MAGIC, flags, *sizes, block.upstream, block.end_ms)
    padding = bytes(-(len(head) + len(table) + len(columns) + len(names)) % 8)
    matrix = np.ascontiguousarray(block.values, "<f4").tobytes()
    body = b"".join((head[4:], table, columns, names, padding, matrix))
    return struct.pack("<I", crc32c.crc32c(body)) + body


class _Head(NamedTuple):
    crc: int
    magic: bytes
    flags: int
    table: int
    columns: int
    rows: int
    column_bytes: int
    name_bytes: int
    upstream: int
    end_ms: int


def decode(payload: bytes) -> Block:
    """The window in a record; a clock is one without rows. The same name list gives the same tuple of names.

    Raises ValueError that says what is wrong with a damaged record.
    """
    head = _head(payload)
    start = _HEAD.size
    table = payload[start : (start := start + head.table)].decode()
    columns = _LISTS.of(payload[start : (start := start + head.column_bytes)])
    names = _LISTS.of(payload[start : (start := start + head.name_bytes)])
    if table not in WINDOWED or len(columns) != head.columns or len(names) != head.rows:
        raise ValueError("not a table of ours, or not as many names as told")
    if len(set(columns)) != len(columns):
        raise ValueError("a column is told twice")
    start += -start % 8
    matrix = np.frombuffer(payload, "<f4", head.rows * head.columns, start).reshape(head.columns, head.rows)
    return Block(table, head.end_ms, names, columns, matrix, bool(head.flags & _STALE), head.upstream)


def decode_clock(payload: bytes) -> Clock:
    """The clock in a record under a clock's key. Raises ValueError that says what is wrong with it."""
    head = _head(payload)
    if not head.flags & _CLOCK:
        raise ValueError("no clock")
    return Clock(head.upstream, head.end_ms, bool(head.flags & _STALE))


def _head(payload: bytes) -> _Head:
    if len(payload) < _HEAD.size:
        raise ValueError("shorter than its own head")
    head = _Head._make(_HEAD.unpack_from(payload))
    if head.magic != MAGIC or crc32c.crc32c(memoryview(payload)[4:]) != head.crc:
        raise ValueError("checksum does not match, or no window")
    if head.rows > MAX_ROWS or head.columns > MAX_COLUMNS:
        raise ValueError(f"{head.columns} columns of {head.rows} rows are more than a window may have")
    named = _HEAD.size + head.table + head.column_bytes + head.name_bytes
    if named + -named % 8 + 4 * head.rows * head.columns != len(payload):
        raise ValueError(f"{head.columns} columns of {head.rows} rows do not fit {len(payload)} bytes")
    return head


def block_of(table: str, end_ms: int, features: pl.DataFrame) -> Block:
    """A block of a frame as of `windows.features`, all rows of the same `end_ms`."""
    columns = tuple(name for name in features.columns if name not in _KEYS)
    # One polars call for all columns: one for each costs more than the whole rest of a window.
    matrix = features.select(pl.col(columns).cast(pl.Float32).fill_null(np.nan)).to_numpy().astype("<f4").T
    return Block(table, end_ms, tuple(features["component"].to_list()), columns, matrix)


def encode_frame(table: str, end_ms: int, features: pl.DataFrame) -> bytes:
    """The record of a frame: see `block_of`."""
    return encode(block_of(table, end_ms, features))


def frame_of(block: Block) -> pl.DataFrame:
    """The block for readers that want polars: `component`, `end_ms`, and its columns, missing = null."""
    # The orientation must be told: of as many rows as columns polars takes one for the other.
    told = list(block.columns)
    values = pl.from_numpy(block.values.T, schema=told, orient="row") if told else pl.DataFrame()
    frame = values.select(
        pl.Series("component", block.names, dtype=pl.String),
        pl.lit(block.end_ms, pl.Int64).alias("end_ms"),
        pl.all().fill_nan(None),
    )
    return frame.with_columns(pl.col(name).cast(pl.Int64) for name in WHOLE if name in block.columns)
