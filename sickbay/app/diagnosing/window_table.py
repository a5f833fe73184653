"""Windows of one telemetry table as columns of numbers: what half an hour of a large cluster must be kept as.

A window is one float32 array for each column that is read, a place for each component; a column that says the same as
in the window before is the same array. Rows of one window come in many blocks, and a late one fills its places in.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from diagnosis.screen import Floats, Mask, Places, grown
from sickbay.components import Name
from streams.feature_record import Block

MANY = 1_000  # places of which most must be in use, or all are given anew


@dataclass(slots=True)
class Window:
    """All rows of the windows that end at `end_ms`. `whole`: looked at since the last row came. `shared`: its arrays
    may be others' too."""

    end_ms: int
    present: Mask
    columns: dict[str, Floats] = field(default_factory=dict)
    whole: bool = False
    shared: bool = False

    def has(self, places: Places) -> Mask:
        """Which of the places have a row."""
        inside = places < self.present.size
        return inside & self.present[np.where(inside, places, 0)] if self.present.size else inside

    def of(self, column: str, rows: int) -> Floats:
        """A column for so many rows, missing NaN."""
        return grown(self.columns.get(column, np.empty(0, np.float32)), rows)

    def put(self, column: str, places: Places, values: Floats) -> None:
        """Values where none are known yet."""
        mine = grown(self.columns.get(column, np.empty(0, np.float32)), self.present.size)
        if self.shared:
            mine = mine.copy()
        old = mine[places]
        mine[places] = np.where(np.isnan(old), values, old)
        self.columns[column] = mine

    def grow(self, rows: int) -> None:
        """Room for so many rows."""
        if self.present.size < rows:
            self.present = np.concatenate([self.present, np.zeros(rows - self.present.size, np.bool_)])

    def share(self, before: "Window | None") -> None:
        """Takes arrays of the window before where they say the same; a column that says nothing goes."""
        for column, mine in [*self.columns.items()]:
            other = before.columns.get(column) if before else None
            if np.isnan(mine).all():
                del self.columns[column]
            elif other is not None and other.size == mine.size and np.array_equal(
                mine.view(np.uint32), other.view(np.uint32)
            ):  # fmt: skip
                self.columns[column] = other
        self.whole = self.shared = True


@dataclass(slots=True)
class WindowTable:
    """The windows of one table. `read`: columns that are kept (None: all)."""

    read: frozenset[str] | None = None
    names: list[Name] = field(default_factory=list)  # by place; "" where it is empty
    places: dict[Name, int] = field(default_factory=dict)  # under the names that components stand under
    windows: dict[int, Window] = field(default_factory=dict)
    generation: int = 0  # grows when places are given anew
    _as_told: dict[Name, int] = field(default_factory=dict)  # under any name that was told
    _users: dict[int, int] = field(default_factory=dict)  # how many names a place was told under
    _fresh: list[Name] = field(default_factory=list)  # told since names were last settled
    _lists: dict[int, tuple[tuple[Name, ...], list[tuple[Places, Places]]]] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """One more block of a window; of what is told twice the first word stays."""
        if not block.names:
            return
        rounds = self._rounds(block.names)
        window = self.windows.get(block.end_ms)
        if window is None:
            window = self.windows[block.end_ms] = Window(block.end_ms, np.zeros(len(self.names), np.bool_))
        window.grow(len(self.names))
        kept = [(place, one) for place, one in enumerate(block.columns) if self.read is None or one in self.read]
        for places, sources in rounds:
            for place, one in kept:
                window.put(one, places, block.values[place, sources])
            window.present[places] = True
        window.whole = False

    def _rounds(self, names: tuple[Name, ...]) -> list[tuple[Places, Places]]:
        """(places, rows of the block), each place once in each: two names in one block may be of one component."""
        known = self._lists.get(id(names))
        if known is not None and known[0] is names:
            return known[1]
        places = np.array([self._place(one) for one in names], np.int64)
        rounds = [(places[once], once) for once in _once_each(places)]
        if len(self._lists) > MANY:
            self._lists.clear()
        self._lists[id(names)] = (names, rounds)
        return rounds

    def _place(self, told: Name) -> int:
        place = self._as_told.get(told)
        if place is None:
            place = self.places.get(told)
            if place is None:
                place = self.places[told] = len(self.names)
                self.names.append(told)
            self._as_told[told] = place
            self._users[place] = self._users.get(place, 0) + 1
            self._fresh.append(told)
        return place

    def settle(self, named: Callable[[Name], Name], *, all_of_them: bool) -> None:
        """Gives rows to the names that their components stand under: of new names, or of all."""
        told, self._fresh = ([*self._as_told] if all_of_them else self._fresh), []
        left: dict[int, int] = {}  # places that nobody speaks of any more, and where their rows belong
        for one in told:
            stands, place = named(one), self._as_told[one]
            if self.names[place] == stands:
                continue
            target = self._as_told[one] = self.places.setdefault(stands, len(self.names))
            if target == len(self.names):
                self.names.append(stands)
            self._users[target] = self._users.get(target, 0) + 1
            self._users[place] -= 1
            if not self._users[place]:  # else what it told so far cannot be told apart from the others' words
                left[place] = target
        if left:
            self._move(np.array([*left], np.int64), np.array([*left.values()], np.int64))

    def _move(self, places: Places, targets: Places) -> None:
        self._lists.clear()
        for window in self.windows.values():
            window.grow(len(self.names))
            has = np.flatnonzero(window.has(places))
            for once in _once_each(targets[has]):
                source, target = places[has[once]], targets[has[once]]
                for column in [*window.columns]:
                    window.put(column, target, window.of(column, len(self.names))[source])
                window.present[target], window.whole = True, False
            window.present[places] = False
        for place in places:
            del self.places[self.names[place]], self._users[int(place)]
            self.names[place] = ""

    def forget(self, before_ms: int) -> None:
        """Lets go of windows that end before a time, and of places that nobody has any more."""
        self.windows = {end: one for end, one in self.windows.items() if end >= before_ms}
        if len(self.names) > MANY and 2 * self._in_use().sum() < len(self.names):
            self._anew()

    def _in_use(self) -> Mask:
        used = np.zeros(len(self.names), np.bool_)
        for window in self.windows.values():
            used[: window.present.size] |= window.present
        return used

    def _anew(self) -> None:
        kept = np.flatnonzero(self._in_use())
        place_of = {int(old): new for new, old in enumerate(kept)}
        size = len(self.names)
        for window in self.windows.values():
            window.grow(size)
            window.columns = {one: window.of(one, size)[kept] for one in window.columns}
            window.present, window.whole = window.present[kept], False
        self.names = [self.names[old] for old in kept]
        self.places = {one: place for place, one in enumerate(self.names)}
        told = ((one, place_of.get(place)) for one, place in self._as_told.items())
        self._as_told = {one: place for one, place in told if place is not None}
        self._users = dict(Counter(self._as_told.values()))
        self._fresh = [one for one in self._fresh if one in self._as_told]
        self._lists.clear()
        self.generation += 1

    def ends(self, frontier_ms: int | None) -> list[int]:
        """The windows that end then or before, in order."""
        return sorted(end for end in self.windows if frontier_ms is None or end <= frontier_ms)

    def rows(self, places: Places, ends: Sequence[int]) -> pl.DataFrame:
        """The rows of some components in some windows: `component`, `end_ms`, and columns, sorted by both."""
        names = [self.names[place] for place in places]
        order = sorted(range(len(names)), key=names.__getitem__)
        places, windows = places[order], [self.windows[end] for end in ends]
        has = np.stack([one.has(places) for one in windows], axis=1).ravel()
        parts = np.repeat(np.arange(places.size), len(windows))[has]
        columns: Mapping[str, pl.Series] = {
            "component": pl.Series([names[one] for one in order], dtype=pl.String).gather(parts),
            "end_ms": pl.Series(np.tile(np.array(ends, np.int64), places.size)[has]),
            **{one: pl.Series(self._values(one, places, windows)[has]) for one in self._columns(windows)},
        }
        return pl.DataFrame(columns)

    @staticmethod
    def _columns(windows: Iterable[Window]) -> list[str]:
        return [*dict.fromkeys(column for window in windows for column in window.columns)]

    @staticmethod
    def _values(column: str, places: Places, windows: Sequence[Window]) -> NDArray[np.float32]:
        size = int(places.max(initial=-1)) + 1
        values = np.full((len(windows), places.size), np.nan, np.float32)
        for place, window in enumerate(windows):
            if (known := window.columns.get(column)) is not None:
                values[place] = (known if known.size >= size else grown(known, size))[places]
        return values.T.ravel()


def _once_each(places: Places) -> Iterator[Places]:
    """Rounds of positions, in each of which every place stands once."""
    left = np.arange(places.size)
    while left.size:
        _, first = np.unique(places[left], return_index=True)
        first.sort()
        yield left[first]
        left = np.delete(left, first)
