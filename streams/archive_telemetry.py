"""Telemetry at full rate as rows of the archive: matrices of many frames become one frame of columns per table. Pure.

A row keeps its place in the log, who sent it, and all that was told, columns of newer versions too: gauges as float32,
counters as int64, missing as null. Tables are cut by the day and hour of `time`, so that a range of time is found by
its folders and a minute never lies in two of them; what comes later than LATE_MS lies under hour STRAY of the day it
came. So an hour is whole at a moment that the log alone decides, and nothing is added to it after that.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sickbay.archive_place import telemetry
from sickbay.components import Name
from sickbay.frames import Frame, Matrix
from sickbay.layouts import MAX_LAYOUTS, Layout
from sickbay.log import Record, Task
from sickbay.schema import TABLES
from streams.archive_rows import AHEAD_MS, PLACE, TIME
from streams.feature_columns import NAME

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LATE_MS = DAY_MS  # after the end of its hour a row is a stray: as long as the log keeps telemetry
STRAY = 24  # the hour of strays
MOST = (1 << 63) - 1
CUT = ("day", "hour")
FRAME: dict[str, pl.DataType] = {
    "topic": pl.String(), "key": pl.String(), "sender": pl.String(), "incarnation": pl.Int64(), "sequence": pl.Int64(),
    "component": pl.String(), "at_ms": pl.Int64(),
}  # fmt: skip
SCHEMA = pl.Schema({"day": pl.Date(), "hour": pl.Int32(), **{n: t for n, t in PLACE.items() if n != "day"}, **FRAME})
TAKEN = frozenset(SCHEMA)


class Unpacked(NamedTuple):
    """The frames of a record: one, or a relay's pack of several; and why its other members are none."""

    frames: Sequence[Frame]
    unfit: Sequence[str] = ()


Frames = Callable[[Record], Unpacked]  # raises ValueError for what is damaged or not let in


class Told(NamedTuple):
    """A table of a frame, and the record it came in."""

    record: Record
    frame: Frame
    matrix: Matrix


def schemas() -> dict[str, pl.Schema]:
    """The tables, with the columns they begin with."""
    return {telemetry(name): SCHEMA for name in TABLES}


class Telemetry:
    """What a batch of records tells. `damaged`: records and members that could not be read, with the last `reason`."""

    def __init__(self, records: Iterable[Record], frames: Frames) -> None:
        self._told: dict[str, list[Told]] = defaultdict(list)
        self.damaged, self.reason = 0, ""
        for record in records:
            if not record.is_tick and record.value:
                self._take(record, frames)

    def _take(self, record: Record, frames: Frames) -> None:
        try:
            found, unfit = frames(record)
        except ValueError as error:
            found, unfit = (), (str(error),)
        whole = [frame for frame in found if frame.sequence <= MOST and frame.incarnation <= MOST]
        unfit = (*unfit, *("its number is too great" for _ in range(len(found) - len(whole))))
        if unfit:
            self.damaged += len(unfit)
            self.reason = f"{record.topic}[{record.partition}] {record.offset}: {unfit[-1]}"
        for frame in whole:
            for matrix in frame.tables:
                if matrix.layout.table in TABLES and len(matrix.at_ms):
                    self._told[telemetry(matrix.layout.table)].append(Told(record, frame, matrix))

    def frame(self, table: str, schema: pl.Schema, at: Mapping[Task, int]) -> tuple[pl.DataFrame, int]:
        """The rows of a table whose records stand at or after these offsets, sorted by component and time."""
        told = [one for one in self._told[table] if one.record.offset >= at[one.record.task]]
        return (joined(told), 0) if told else (pl.DataFrame(schema=schema), 0)


def joined(told: Sequence[Told]) -> pl.DataFrame:
    """The rows of one table of many frames. Work per frame is small; all else is done on whole columns."""
    alike: dict[Layout, list[Told]] = defaultdict(list)
    for one in told:
        alike[one.matrix.layout].append(one)
    if len(alike) > MAX_LAYOUTS:
        raise ValueError("more layouts than a reader learns")
    parts = [_part(layout, some) for layout, some in alike.items()]
    if len(parts) == 1:
        return parts[0]
    return pl.concat(_alike(parts), how="diagonal").sort("component", "at_ms", maintain_order=True)


def _alike(parts: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """A column that one layout has as a gauge and another as a counter is what the first says."""
    types: dict[str, pl.DataType] = {}
    for part in parts:
        types = dict(part.schema) | types
    return [part.cast({n: types[n] for n, t in part.schema.items() if t != types[n]}, strict=False) for part in parts]


def _part(layout: Layout, told: Sequence[Told]) -> pl.DataFrame:
    counts = np.array([len(one.matrix.at_ms) for one in told])
    code, names = _components(told)
    at_ms = np.concatenate([one.matrix.at_ms for one in told])
    order = np.lexsort((at_ms, code))
    source = np.repeat(np.arange(len(told)), counts)[order]
    append_ms = np.array([one.record.append_ms for one in told])[source]
    columns = {
        **_cut(np.minimum(at_ms[order], append_ms + AHEAD_MS), append_ms),
        "partition": np.array([one.record.partition for one in told])[source],
        "offset": np.array([one.record.offset for one in told])[source],
        "append_ms": append_ms,
        "topic": _texts([one.record.topic for one in told], source),
        "key": _texts([one.record.key.decode("utf-8", "replace") for one in told], source),
        "sender": _texts([one.frame.host for one in told], source),
        "incarnation": np.array([one.frame.incarnation for one in told], np.int64)[source],
        "sequence": np.array([one.frame.sequence for one in told], np.int64)[source],
        "component": pl.Series(names, dtype=pl.String).gather(code[order]),
        "at_ms": at_ms[order],
        **_values(layout.gauges, [one.matrix.gauges for one in told], order),
        **_values(layout.counters, [one.matrix.counters for one in told], order),
    }
    gauges, counters = (_kept(names) for names in (layout.gauges, layout.counters))
    return pl.DataFrame(columns).with_columns(
        pl.col("day").cast(pl.Int32).cast(pl.Date),
        (pl.col("time") * 1000).cast(TIME),
        pl.col(gauges).fill_nan(None),
        *(pl.when(pl.col(name) >= 0).then(pl.col(name)) for name in counters),
    )


def _kept(names: Iterable[str]) -> list[str]:
    return [name for name in names if NAME.fullmatch(name) and name not in TAKEN]


def _components(told: Sequence[Told]) -> tuple[NDArray[np.int64], list[Name]]:
    """Each row's component as its place in the sorted names. A host's frames share their list of names."""
    lists = {id(one.matrix.names): one.matrix.names for one in told}
    names = sorted({name for some in lists.values() for name in some})
    places = {name: place for place, name in enumerate(names)}
    of = {key: np.array([places[name] for name in some], np.int64) for key, some in lists.items()}
    return np.concatenate([of[id(one.matrix.names)][one.matrix.device] for one in told]), names


def _texts(words: Sequence[str], source: NDArray[np.int64]) -> pl.Series:
    return pl.Series(words, dtype=pl.String).gather(source)


def _cut(time_ms: NDArray[np.int64], append_ms: NDArray[np.int64]) -> dict[str, NDArray[np.int64] | NDArray[np.int32]]:
    """`day` (in days since 1970), `hour` and `time` (in milliseconds)."""
    stray = append_ms >= (time_ms // HOUR_MS + 1) * HOUR_MS + LATE_MS
    hour = np.where(stray, STRAY, time_ms // HOUR_MS % 24).astype(np.int32)
    return {"day": np.where(stray, append_ms, time_ms) // DAY_MS, "hour": hour, "time": time_ms}


def _values(
    names: Sequence[str], parts: Sequence[NDArray[np.float32] | NDArray[np.int64]], order: NDArray[np.int64]
) -> dict[str, NDArray[np.float32] | NDArray[np.int64]]:
    if not names:
        return {}
    columns = np.concatenate(parts)[order].T.copy()
    kept = set(_kept(names))
    return {name: columns[place] for place, name in enumerate(names) if name in kept}
