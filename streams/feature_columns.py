"""Feature records on their way into the archive: only columns that a table can have, each of one type for ever."""

import re

import polars as pl

from sickbay.schema import WINDOWED
from streams.feature_record import decode, frame_of

# What the decoders raise for bytes that nobody wrote on purpose; one bad record must not stop the archive.
CANNOT = (ValueError, TypeError, OverflowError, RecursionError, pl.exceptions.PolarsError)
KEYS = ("component", "end_ms")
WHOLE = ("n", "covered_ms")
NAME = re.compile(r"[a-z][a-z0-9_]{0,126}")
_TAKEN = frozenset({"day", "time", "partition", "offset", "append_ms", "key", "hour", "topic"})  # the archive's own


def features_of(payload: bytes) -> tuple[str, pl.DataFrame]:
    """(archive table, rows) of one record. Raises one of CANNOT for a damaged one."""
    block = decode(payload)
    name, end_ms, frame = block.table, block.end_ms, frame_of(block)
    if name not in WINDOWED or not 0 <= end_ms < 2**50:
        raise ValueError(f"a window of {name!r} that ends at {end_ms}")
    kept = [column for column in frame.columns if NAME.fullmatch(column) and column not in _TAKEN]
    whole = [pl.col(column).cast(pl.Int64) for column in WHOLE if column in kept]
    return f"features_{name}", frame.select(kept).with_columns(*whole, pl.exclude(*KEYS, *WHOLE).cast(pl.Float32))
