"""Rows of samples in the order that windows are counted in: by component, then time, each pair once."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sickbay.schema import MISSING_COUNTER, Table

Ints: TypeAlias = NDArray[np.int64]
Gauges: TypeAlias = NDArray[Any]  # float32 or float64
Counters: TypeAlias = NDArray[Any]  # int64, or float64 where fractions are told

# All ones: an old 32-bit counter that has reached its greatest value and stays there, or what a device that is gone is
# read as. Both tell nothing: the increase is missing, not 0. Counters of 4, 8 and 16 bits are made missing by the
# collectors, which alone know a source's width: 255 is a fair count of a wider one.
STUCK_32 = (1 << 32) - 1
STUCK_64 = (1 << 63) - 1
_MOST_KEY = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Samples of one table in any order. Row i speaks of component `code[i]` at `at_ms[i]` (int64 [rows]).

    `gauges`: float32 or float64 [rows, gauge columns], missing = NaN. `counters`: int64 (float64 where fractions are
    told) [rows, counter columns], missing is negative.
    """

    code: NDArray[np.int32] | Ints
    at_ms: Ints
    gauge_columns: tuple[str, ...]
    gauges: Gauges
    counter_columns: tuple[str, ...]
    counters: Counters


class Ordered(NamedTuple):
    """`rows.X[order]` are sorted by (component, time), each pair once; `code` and `at_ms` are sorted already."""

    rows: Rows
    order: NDArray[np.intp]
    code: Ints
    at_ms: Ints


def ordered(rows: Rows, table: Table) -> Ordered:
    """The rows' order. Where two tell the same component and time they are merged: missing gives way, and of two
    different values the larger stays (of a `low` column the smaller), so that the order of arrival cannot matter."""
    order = _order(rows.code, rows.at_ms)
    code, at_ms = rows.code[order].astype(np.int64, copy=False), rows.at_ms[order]
    again = (code[1:] == code[:-1]) & (at_ms[1:] == at_ms[:-1])
    if not again.any():
        return Ordered(rows, order, code, at_ms)
    first = np.flatnonzero(np.concatenate([[True], ~again]))
    merged = _merged(rows, order, first, table)
    return Ordered(merged, np.arange(len(first)), merged.code.astype(np.int64, copy=False), merged.at_ms)


def _order(code: NDArray[np.int32] | Ints, at_ms: Ints) -> NDArray[np.intp]:
    """One sort of one number per row; of two where times are so far apart that both do not fit."""
    if not len(code):
        return np.arange(0)
    least = int(at_ms.min())
    span = int(at_ms.max()) - least + 1
    if (int(code.max()) + 1) * span >= _MOST_KEY:
        return np.lexsort((at_ms, code))
    key = code * np.int64(span)
    key += at_ms
    key -= least
    # Arrived in runs of one sender's rows: a sort that merges runs is four times faster than one that does not.
    return np.arange(len(key)) if bool((key[1:] >= key[:-1]).all()) else np.argsort(key, kind="stable")


def _merged(rows: Rows, order: NDArray[np.intp], first: NDArray[np.intp], table: Table) -> Rows:
    gauges, counters = rows.gauges[order], usable(rows.counters[order])
    worse = np.fmax.reduceat(gauges, first, axis=0)
    low = [place for place, name in enumerate(rows.gauge_columns) if table.column(name).low]
    if low:
        worse[:, low] = np.fmin.reduceat(gauges[:, low], first, axis=0)
    most = np.maximum.reduceat(counters, first, axis=0)
    once = order[first]
    return Rows(rows.code[once], rows.at_ms[once], rows.gauge_columns, worse, rows.counter_columns, most)


def usable(counters: Counters) -> Counters:
    """The counters with everything that tells nothing made missing; the same array where there is nothing of it."""
    if not counters.size or bool(counters.max() < STUCK_32 and counters.min() >= MISSING_COUNTER):
        return counters
    nothing = (counters == STUCK_32) | (counters >= STUCK_64) | (counters < 0)
    return np.where(nothing, MISSING_COUNTER, counters).astype(counters.dtype, copy=False)
