"""A closed window's features as one record of the features topic: a small JSON head and a packed float32 matrix.

`crc32c | length of head | head | matrix` with head `{table, end_ms, components, columns}` and matrix [columns, rows],
little-endian, missing = NaN. Reading is a length check, a checksum and `numpy.frombuffer`.
"""

import struct

import crc32c
import msgspec
import numpy as np
import polars as pl
from msgspec import Struct

from sickbay.schema import TABLES

_PREFIX = struct.Struct("<II")  # checksum of all that follows it, length of the head
MAX_ROWS, MAX_COLUMNS = 200_000, 1_024
_KEYS = ("component", "end_ms")
CLOCK_KEY = b"clock"  # of a record without rows: everything of this partition is out that telemetry's clock allows
_CLOCK_TABLE = "host"


class _Head(Struct, frozen=True, forbid_unknown_fields=True):
    table: str
    end_ms: int
    components: list[str]
    columns: list[str]


def encode(table: str, end_ms: int, features: pl.DataFrame) -> bytes:
    """One window of one table. `features` as of `windows.features`, all rows of the same `end_ms`."""
    columns = [name for name in features.columns if name not in _KEYS]
    head = msgspec.json.encode(_Head(table, end_ms, features["component"].to_list(), columns))
    # One polars call for all columns: one for each costs more than the whole rest of a window.
    matrix = features.select(pl.col(columns).cast(pl.Float32).fill_null(np.nan)).to_numpy().astype("<f4").T
    body = struct.pack("<I", len(head)) + head + matrix.tobytes()
    return struct.pack("<I", crc32c.crc32c(body)) + body


def encode_clock(clock_ms: int) -> bytes:
    """How far telemetry's clock was when this was put out: a window of no rows that ends there, for any reader."""
    empty = pl.DataFrame(schema={"component": pl.String, "end_ms": pl.Int64})
    return encode(_CLOCK_TABLE, clock_ms, empty)


def decode(payload: bytes) -> tuple[str, int, pl.DataFrame]:
    """(table, end_ms, features). Raises ValueError that says what is wrong with a damaged record."""
    if len(payload) < _PREFIX.size:
        raise ValueError("shorter than its own head")
    checksum, size = _PREFIX.unpack_from(payload)
    if crc32c.crc32c(payload[4:]) != checksum:
        raise ValueError("checksum does not match")
    head = msgspec.json.decode(payload[_PREFIX.size : _PREFIX.size + size], type=_Head)
    rows, columns = len(head.components), len(head.columns)
    if head.table not in TABLES or rows > MAX_ROWS or columns > MAX_COLUMNS or len(set(head.columns)) != columns:
        raise ValueError("not a table of ours, or too large")
    packed = payload[_PREFIX.size + size :]
    if len(packed) != 4 * rows * columns:
        raise ValueError(f"{len(packed)} bytes of values, {4 * rows * columns} expected")
    matrix = np.frombuffer(packed, "<f4").reshape(columns, rows)
    # The orientation must be told: of as many rows as columns polars takes one for the other.
    values = pl.from_numpy(matrix.T, schema=head.columns, orient="row") if columns else pl.DataFrame()
    whole = [pl.col(name).cast(pl.Int64) for name in ("n", "covered_ms") if name in head.columns]
    frame = values.select(
        pl.Series("component", head.components, dtype=pl.String),
        pl.lit(head.end_ms, pl.Int64).alias("end_ms"),
        pl.all().fill_nan(None),
    )
    return head.table, head.end_ms, frame.with_columns(whole)
