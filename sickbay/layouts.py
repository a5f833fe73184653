"""Layouts: which columns a frame has, in which order, under one id; and how a reader turns them into its own.

A layout's id is a hash of its table and columns, so it means the same everywhere and for ever. The schemas topic
carries `{id: columns}`; a frame only names the id. A reader works out the permutation to its own table once per id.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.schema import MISSING_COUNTER, TABLES, Table, Type

MAX_COLUMNS = 512  # of a layout; our widest table has 38
MAX_LAYOUTS = 4096  # that a reader learns: hostile schemas must not fill its memory
MAX_PLANS = 50_000  # shapes of frames: a host sends two or three
MAX_TAIL = 4096  # bytes of devices and dictionaries kept for the next frame of a plan: a host has some 1,000
MAX_DICTIONARY_BYTES = 64 << 20  # of name lists kept for the next frame: 100,000 hosts have some 60 MB

ColumnName = str


class UnknownLayout(ValueError):
    """The frame's layout was not learned: read the schemas topic to its end and try again."""

    def __init__(self, layout_id: int) -> None:
        super().__init__(f"layout {layout_id:016x} is unknown: read sickbay.schemas.v1 to its end and try again")
        self.layout_id = layout_id


class _Column(Struct, frozen=True):
    name: str
    type: Literal["gauge", "counter"]


class _Layout(Struct, frozen=True, forbid_unknown_fields=False):
    id: str
    table: str
    columns: tuple[_Column, ...]


@dataclass(frozen=True)
class Layout:
    """The columns of one table of a frame, in the order of its matrices."""

    table: str
    gauges: tuple[ColumnName, ...]
    counters: tuple[ColumnName, ...]

    def __hash__(self) -> int:  # the dataclass' own would hash every column each time
        return self.id

    @cached_property
    def id(self) -> int:
        """A 64-bit hash of table and columns, the same on every machine and in every version."""
        text = "\x00".join((self.table, "\x01", *self.gauges, "\x02", *self.counters))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    @property
    def key(self) -> bytes:
        """The key of its record on the schemas topic."""
        return f"{self.id:016x}".encode()

    def encoded(self) -> bytes:
        """Its record on the schemas topic, as JSON."""
        columns = [_Column(name, "gauge") for name in self.gauges] + [
            _Column(name, "counter") for name in self.counters
        ]
        return msgspec.json.encode(_Layout(f"{self.id:016x}", self.table, tuple(columns)))


def layout_of(table: Table, columns: Iterable[ColumnName] | None = None) -> Layout:
    """The layout of a table's columns, in the table's order; `columns` chooses some of them."""
    chosen = set(table.names if columns is None else columns)

    def of(type_: Type) -> tuple[ColumnName, ...]:
        return tuple(column.name for column in table.columns if column.type == type_ and column.name in chosen)

    return Layout(table.name, of("gauge"), of("counter"))


def decoded(payload: bytes) -> Layout:
    """The layout in a record of the schemas topic. Raises ValueError that says what is wrong with it."""
    told = msgspec.json.decode(payload, type=_Layout)
    names = [column.name for column in told.columns]
    if len(names) > MAX_COLUMNS or len(set(names)) != len(names):
        raise ValueError(f"layout {told.id}: {len(names)} columns, at most {MAX_COLUMNS}, each once")
    if any(not name.isidentifier() for name in (told.table, *names)):
        raise ValueError(f"layout {told.id}: a table or column name is not a word")
    gauges = tuple(column.name for column in told.columns if column.type == "gauge")
    layout = Layout(told.table, gauges, tuple(column.name for column in told.columns if column.type == "counter"))
    if f"{layout.id:016x}" != told.id:
        raise ValueError(f"layout {told.id}: its columns hash to {layout.id:016x}, so it is not what it says")
    return layout


@dataclass(frozen=True, slots=True)
class Alignment:
    """How matrices of one layout become the reader's: its column `*_to[i]` is the frame's `*_from[i]`."""

    gauges: int  # columns the reader has
    counters: int
    gauge_from: NDArray[np.intp]
    gauge_to: NDArray[np.intp]
    counter_from: NDArray[np.intp]
    counter_to: NDArray[np.intp]
    dropped: tuple[ColumnName, ...]  # columns of the frame that the reader does not know

    def gauges_of(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 [n, own gauges], missing columns NaN."""
        aligned = np.full((len(matrix), self.gauges), np.nan, np.float32)
        aligned[:, self.gauge_to] = matrix[:, self.gauge_from]
        return aligned

    def counters_of(self, matrix: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [n, own counters], missing columns -1."""
        aligned = np.full((len(matrix), self.counters), MISSING_COUNTER, np.int64)
        aligned[:, self.counter_to] = matrix[:, self.counter_from]
        return aligned


class Place(NamedTuple):
    """Where the numbers of one table lie: offsets of its times, gauges and counters, and their shapes."""

    layout: Layout
    rows: tuple[int]
    times_at: int
    wide: tuple[int, int]  # rows and gauges
    wide_at: int
    tall: tuple[int, int]  # rows and counters
    tall_at: int


@dataclass(slots=True)
class Plan:
    """Where the tables of a sender's frames lie: as its frames are alike, worked out and checked once.

    `layouts` and `rows`: of each table. `at`: offsets of times, counters, gauges and of the tail, where devices and
    dictionaries stand; `tail`, `devices` and `names`: those of the newest frame, checked.
    """

    host: str
    layouts: tuple[Layout, ...]
    rows: tuple[int, ...]
    told: tuple[int, ...]  # names in each dictionary
    dictionaries: tuple[int, ...]  # bytes of each
    at: tuple[int, int, int, int]
    end: int
    tail: bytes = b""
    devices: tuple[NDArray[np.uint16], ...] = ()
    names: tuple[tuple[Name, ...], ...] = ()
    places: tuple[Place, ...] = field(init=False)

    def __post_init__(self) -> None:
        times, tall, wide, found = self.at[0], self.at[1], self.at[2], list[Place]()
        for layout, rows in zip(self.layouts, self.rows, strict=True):
            gauges, counters = (rows, len(layout.gauges)), (rows, len(layout.counters))
            found.append(Place(layout, (rows,), times, gauges, wide, counters, tall))
            times, wide, tall = times + 8 * rows, wide + 4 * rows * gauges[1], tall + 8 * rows * counters[1]
        self.places = tuple(found)


class Schemas:
    """What a reader knows: its own tables, and every layout it learned. One per process or task."""

    def __init__(self, tables: Mapping[str, Table] = TABLES) -> None:
        self._tables = dict(tables)
        self._own = {name: layout_of(table) for name, table in tables.items()}
        self._layouts = {layout.id: layout for layout in self._own.values()}
        self._alignments: dict[int, Alignment] = {}
        self.dictionaries: dict[bytes, tuple[Name, ...]] = {}
        self._dictionary_bytes = 0
        self.plans: dict[bytes, Plan] = {}

    def learn(self, layout: Layout) -> None:
        """Know a layout from now on. Raises ValueError beyond MAX_LAYOUTS."""
        if len(self._layouts) >= MAX_LAYOUTS and layout.id not in self._layouts:
            raise ValueError(f"more than {MAX_LAYOUTS} layouts: look for a sender that makes them up")
        self._layouts[layout.id] = layout

    def layout(self, layout_id: int) -> Layout:
        """The layout of that id. Raises UnknownLayout."""
        try:
            return self._layouts[layout_id]
        except KeyError:
            raise UnknownLayout(layout_id) from None

    def keep_dictionary(self, dictionary: bytes, names: tuple[Name, ...]) -> None:
        """Know checked names again by their bytes; all are forgotten when there are too many."""
        self._dictionary_bytes += len(dictionary)
        if self._dictionary_bytes > MAX_DICTIONARY_BYTES:
            self.dictionaries.clear()
            self._dictionary_bytes = len(dictionary)
        self.dictionaries[dictionary] = names

    def keep_plan(self, shape: bytes, plan: Plan) -> None:
        """Know the shape of a frame again by its bytes; all are forgotten when there are too many."""
        if len(self.plans) >= MAX_PLANS:
            self.plans.clear()
        self.plans[shape] = plan

    def own(self, table: str) -> Layout | None:
        """The reader's own layout of a table, None for a table it does not know."""
        return self._own.get(table)

    def alignment(self, layout: Layout) -> Alignment:
        """The permutation to the reader's own columns. Raises KeyError for a table it does not know."""
        if layout.id not in self._alignments:
            self._alignments[layout.id] = _aligned(layout, self._own[layout.table])
        return self._alignments[layout.id]


def _aligned(theirs: Layout, own: Layout) -> Alignment:
    gauge_from, gauge_to = _pairs(theirs.gauges, own.gauges)
    counter_from, counter_to = _pairs(theirs.counters, own.counters)
    known = set(theirs.gauges) & set(own.gauges) | set(theirs.counters) & set(own.counters)
    dropped = tuple(name for name in theirs.gauges + theirs.counters if name not in known)
    return Alignment(len(own.gauges), len(own.counters), gauge_from, gauge_to, counter_from, counter_to, dropped)


def _pairs(theirs: tuple[ColumnName, ...], own: tuple[ColumnName, ...]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    places = {name: place for place, name in enumerate(own)}
    pairs = [(place, places[name]) for place, name in enumerate(theirs) if name in places]
    return np.array([here for here, _ in pairs], np.intp), np.array([there for _, there in pairs], np.intp)
