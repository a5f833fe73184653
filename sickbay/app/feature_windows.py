"""Windows of features as detectors want them: those of a table as one sorted frame, made anew only where some came.

32,000 ports of half an hour are six million rows: a look must not sort them by their names each time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from sickbay.components import Kind, Name

NAMED = frozenset({str(Kind.PORT), str(Kind.OPTIC)})  # tables of parts that sources call by several names
FEW_ROWS = 50_000  # are sorted as they are
END_BITS, MOST_NAMES = 42, 1 << 21  # of one number to sort by: milliseconds within 139 years, and a name's place


@dataclass(slots=True)
class FeatureWindows:
    """What was told, by table. Windows that were given out once stay joined until they are forgotten."""

    _fresh: dict[str, list[tuple[int, pl.DataFrame]]] = field(default_factory=dict)
    _joined: dict[str, pl.DataFrame] = field(default_factory=dict)
    _before_ms: int = 0  # what ends before is forgotten

    def add(self, table: str, end_ms: int, frame: pl.DataFrame) -> None:
        """One more window."""
        self._fresh.setdefault(table, []).append((end_ms, frame))

    def forget(self, before_ms: int) -> None:
        """Lets go of windows that end before a time: of those that were joined, with the next look."""
        self._before_ms = max(self._before_ms, before_ms)
        for table, waiting in self._fresh.items():
            if waiting and min(end for end, _ in waiting) < before_ms:
                self._fresh[table] = [(end, frame) for end, frame in waiting if end >= before_ms]

    def until(self, frontier_ms: int | None, named: Callable[[Name], Name] | None = None) -> dict[str, pl.DataFrame]:
        """The tables, of windows that end then or before (None: all), sorted by component and end. `named`: what
        components are called."""
        found = {}
        for table in dict.fromkeys((*self._joined, *self._fresh)):
            frame = self._frame(table, frontier_ms, named)
            if frame is not None and frontier_ms is not None and _last(frame) > frontier_ms:
                frame = frame.filter(pl.col("end_ms") <= frontier_ms)
            if frame is not None and frame.height:
                found[table] = frame
        return found

    def _frame(self, table: str, frontier_ms: int | None, named: Callable[[Name], Name] | None) -> pl.DataFrame | None:
        """The joined windows, with those that are due."""
        waiting, known = self._fresh.get(table, []), self._joined.pop(table, None)
        due = [frame for end, frame in waiting if frontier_ms is None or end <= frontier_ms]
        if known is not None and known.height and _first(known) < self._before_ms:
            known = known.filter(pl.col("end_ms") >= self._before_ms)
        if due:
            self._fresh[table] = [one for one in waiting if frontier_ms is not None and one[0] > frontier_ms]
            news = pl.concat(due, how="diagonal_relaxed")
            told = dict[Name, Name]()
            if named and table in NAMED:
                told = {one: name for one in news["component"].unique() if (name := named(one)) != one}
            parts = [renamed(frame, told) for frame in (known, news) if frame is not None]
            known = in_order(pl.concat(parts, how="diagonal_relaxed"))
        if known is not None and known.height:
            self._joined[table] = known
        return known


def renamed(frame: pl.DataFrame, names: Mapping[Name, Name]) -> pl.DataFrame:
    """The windows under other names; of what was told under several names each column once."""
    if not names or names.keys().isdisjoint(frame["component"].unique()):
        return frame
    frame = frame.with_columns(component=pl.col("component").replace(names))
    hit = frame["component"].is_in(set(names.values()))
    twice = frame.filter(hit)
    if not twice.select("component", "end_ms").is_duplicated().any():
        return frame
    once = twice.group_by("component", "end_ms", maintain_order=True).agg(pl.all().drop_nulls().first())
    return pl.concat([frame.filter(~hit), once], how="diagonal_relaxed")


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame sorted by `component` and `end_ms`: by one whole number where there are many rows."""
    names = frame["component"].unique()
    if frame.height < FEW_ROWS or len(names) > MOST_NAMES:
        return frame.sort("component", "end_ms")
    place = frame["component"].cast(pl.Enum(names.sort())).to_physical().cast(pl.Int64)
    key = place * (1 << END_BITS) + (frame["end_ms"] - _first(frame))
    return frame[key.arg_sort()]


def _first(frame: pl.DataFrame) -> int:
    return int(frame["end_ms"].min() or 0)  # type: ignore[arg-type]


def _last(frame: pl.DataFrame) -> int:
    return int(frame["end_ms"].max() or 0)  # type: ignore[arg-type]
