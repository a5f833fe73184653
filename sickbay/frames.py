"""Frames in memory: the matrices of a host's tables, and how those of many hosts become one.

`wire` puts them into bytes and back. Joining is done on whole matrices; nothing here walks over rows.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from sickbay.components import MAX_NAME, Kind, Name
from sickbay.layouts import Layout, Schemas, layout_of
from sickbay.schema import MISSING_COUNTER, TABLES, Samples

MAX_NAMES = 8192  # components per table of a frame: a switch has at most some 1,000 ports and lanes
MAX_MS = 253_402_300_799_999  # the last millisecond of the year 9999
UNCLEAN = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\u202a-\u202e\u2066-\u2069]")  # blanks, controls, overrides

_KINDS = frozenset(kind.value for kind in Kind)


class Matrix(Struct, frozen=True, eq=False, gc=False):
    """Rows of one table: row i speaks of `names[device[i]]` at `at_ms[i]`.

    `device` uint16 [n]; `at_ms` int64 [n]; `gauges` float32 [n, g], missing NaN; `counters` int64 [n, c], missing -1.
    """

    layout: Layout
    names: tuple[Name, ...]
    device: NDArray[np.uint16] | NDArray[np.uint32]
    at_ms: NDArray[np.int64]
    gauges: NDArray[np.float32]
    counters: NDArray[np.int64]


class Frame(Struct, frozen=True, eq=False):
    """A decoded frame. `clock_offset_ms`: the sender's clock minus true time, None unknown. `verified`: its MAC was.
    `first_ms` and `last_ms`: of all its rows; the first is the later one where it has none."""

    host: str
    sequence: int
    incarnation: int
    sent_ms: int
    clock_offset_ms: int | None
    verified: bool
    tables: tuple[Matrix, ...]
    first_ms: int = 0
    last_ms: int = -1


def matrix_of(samples: Samples) -> Matrix:
    """Samples as a matrix of the columns they tell. Infinite gauges and negative counters are missing, not values."""
    layout = layout_of(TABLES[samples.table], samples.values)
    places = {name: place for place, name in enumerate(dict.fromkeys(samples.component))}
    rows = len(samples.component)
    gauges = np.full((rows, len(layout.gauges)), np.nan, np.float32)
    counters = np.full((rows, len(layout.counters)), MISSING_COUNTER, np.int64)
    with np.errstate(over="ignore"):  # beyond float32: infinite, and so missing
        for place, column in enumerate(layout.gauges):
            gauges[:, place] = samples.values[column]
    gauges[np.isinf(gauges)] = np.nan
    for place, column in enumerate(layout.counters):
        values = samples.values[column]
        told = (values >= 0) & (values < 2.0**63)
        counters[told, place] = values[told].astype(np.int64)
    if len(places) > MAX_NAMES:
        raise ValueError(f"{len(places)} components in {layout.table}, a frame holds at most {MAX_NAMES}")
    device = np.fromiter((places[name] for name in samples.component), np.uint16, rows)
    return Matrix(layout, tuple(places), device, np.asarray(samples.at_ms, np.int64), gauges, counters)


def samples_of(matrix: Matrix) -> Samples:
    """A matrix as samples, columns that this version does not know left out. Counters are exact up to 2^53."""
    known = set(TABLES[matrix.layout.table].names)
    values = {name: matrix.gauges[:, at].astype(np.float64) for at, name in enumerate(matrix.layout.gauges)}
    for at, name in enumerate(matrix.layout.counters):
        column = matrix.counters[:, at]
        values[name] = np.where(column == MISSING_COUNTER, np.nan, column.astype(np.float64))
    component = [matrix.names[place] for place in matrix.device.tolist()]
    return Samples(matrix.layout.table, component, matrix.at_ms, {n: v for n, v in values.items() if n in known})


def joined(frames: Iterable[Frame], table: str, schemas: Schemas) -> Matrix:
    """The rows of one table of many frames in the reader's own columns, in the order of the frames.

    `device` is uint32 here. Raises KeyError for a table that the reader does not know.
    """
    own = schemas.own(table)
    if own is None:
        raise KeyError(table)
    parts = [matrix for frame in frames for matrix in frame.tables if matrix.layout.table == table]
    places: dict[Name, int] = {}
    for matrix in parts:
        for name in matrix.names:
            places.setdefault(name, len(places))
    devices = [np.array([places[name] for name in m.names], np.uint32)[m.device] for m in parts if len(m.device)]
    return Matrix(
        own,
        tuple(places),
        np.concatenate(devices) if devices else np.empty(0, np.uint32),
        np.concatenate([np.empty(0, np.int64), *(matrix.at_ms for matrix in parts)]),
        _gauges(parts, own, schemas),
        _counters(parts, own, schemas),
    )


def _gauges(parts: Sequence[Matrix], own: Layout, schemas: Schemas) -> NDArray[np.float32]:
    whole = np.empty((0, len(own.gauges)), np.float32)
    return np.concatenate(
        [whole, *(m.gauges if m.layout is own else schemas.alignment(m.layout).gauges_of(m.gauges) for m in parts)]
    )


def _counters(parts: Sequence[Matrix], own: Layout, schemas: Schemas) -> NDArray[np.int64]:
    whole = np.empty((0, len(own.counters)), np.int64)
    return np.concatenate(
        [
            whole,
            *(m.counters if m.layout is own else schemas.alignment(m.layout).counters_of(m.counters) for m in parts),
        ]
    )


def strange(matrix: Matrix) -> str:
    """Why these rows cannot be measurements, empty where they can."""
    if len(matrix.device) and int(matrix.device.max()) >= len(matrix.names):
        return "a row speaks of a component that is not in the dictionary"
    return strange_names(matrix.names) or strange_numbers(matrix.at_ms, matrix.counters, matrix.gauges)


def strange_names(names: Sequence[Name]) -> str:
    """Why these cannot be the names of components, empty where they can."""
    if len(names) > MAX_NAMES or len(set(names)) != len(names):
        return "a component is named twice, or there are too many"
    for name in names:
        kind, _, rest = name.partition(":")
        if kind not in _KINDS or not rest or len(name) > MAX_NAME or UNCLEAN.search(name):
            return f"{name[:MAX_NAME]!r} is no component"
    return ""


def strange_numbers(times: NDArray[np.int64], counters: NDArray[np.int64], gauges: NDArray[np.float32]) -> str:
    """Why these cannot be measurements, empty where they can."""
    return strange_values((int(times.min()), int(times.max())) if times.size else (0, -1), counters, gauges)


def strange_values(span: tuple[int, int], counters: NDArray[np.int64], gauges: NDArray[np.float32]) -> str:
    """`strange_numbers` where the first and last time are known. The arrays' own methods cost twice these calls."""
    if span[0] < 0 or span[1] > MAX_MS:
        return "a row has a time outside the years 1970 to 9999"
    if counters.size and np.minimum.reduce(counters, axis=None) < MISSING_COUNTER:
        return "a counter is below -1"
    if np.logical_or.reduce(np.isinf(gauges), axis=None):
        return "a gauge is infinite"
    return ""
