"""Telemetry of an archive as the window tasks take it, a second of a partition at once.

Frames are not made anew. What a task decides of a frame (told twice, stamped ahead, in time) is decided on whole
columns instead, with the same outcome: the frontier of windows moves at whole seconds of append time, so all that was
appended to a partition within one second meets the same frontier.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.frames import Matrix
from sickbay.layouts import Layout, layout_of
from sickbay.log import Record
from sickbay.schema import MISSING_COUNTER, TABLES, declared
from sickbay.topics import TELEMETRY
from streams.open_windows import AHEAD_MS
from streams.window_task import Decoded

SECOND_MS = 1_000
FRAME = ("partition", "sender", "incarnation", "sequence")  # by which a frame is known again
_HEADS = 4  # pieces whose frames are remembered: what is told again comes within them


class Batch(NamedTuple):
    """What one partition took within a second, or a frame of it that only tells who sent it. `record` carries the time
    and place; `told` is what it would decode to."""

    record: Record
    told: Decoded


def wanted(table: str) -> tuple[str, ...]:
    """The columns that windows are made of."""
    return tuple(column.name for column, _ in declared(TABLES[table]))


class Pieces:
    """Cuts pieces of telemetry, each of a further range of append times, into batches."""

    def __init__(self) -> None:
        self._heads: dict[str, list[pl.DataFrame]] = {}

    def cut(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[Batch]:
        """The batches of a piece, second by second: first each frame as a sign of its sender's life, then the rows of
        each partition. `tables`: rows as `archive_read.full_rate` gives them."""
        found: dict[tuple[int, int], list[tuple[int, Matrix]]] = {}
        for name, rows in tables.items():
            for second, partition, append_ms, matrix in _cut(name, self._once(name, rows)):
                found.setdefault((second, partition), []).append((append_ms, matrix))
        lives = _lives(tables.values())
        life = next(lives, None)
        for (second, partition), parts in sorted(found.items(), key=lambda one: one[0]):
            while life is not None and life.record.append_ms // SECOND_MS <= second:
                yield life
                life = next(lives, None)
            append_ms = max(one for one, _ in parts)
            told = Decoded([matrix for _, matrix in parts], first_ms=append_ms, last_ms=append_ms)
            yield Batch(Record(TELEMETRY, partition, 0, append_ms, b"*", b"*"), told)
        yield from (life, *lives) if life is not None else ()

    def _once(self, name: str, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows without frames that the log held a second time."""
        heads = rows.select(*FRAME, "offset").unique(maintain_order=True)
        again = heads.filter(pl.col("offset") > pl.col("offset").min().over(FRAME))
        before = self._heads.setdefault(name, [])
        if before:
            known = pl.concat(before)
            again = pl.concat([again, heads.join(known, on=FRAME, how="semi")]).unique()
        before.append(heads.select(FRAME).unique())
        del before[:-_HEADS]
        if again.is_empty():
            return rows
        return rows.join(again, on=(*FRAME, "offset"), how="anti", maintain_order="left")


def _lives(tables: Iterable[pl.DataFrame]) -> Iterator[Batch]:
    """The frames of all tables without their rows, in the order of the log."""
    place = ("append_ms", "partition", "offset", "sender", "incarnation", "sequence")
    heads = [rows.select(place).unique() for rows in tables]
    if not heads:
        return
    for append_ms, partition, offset, sender, incarnation, sequence in (
        pl.concat(heads).unique().sort(place).iter_rows()
    ):  # fmt: skip
        record = Record(TELEMETRY, partition, offset, append_ms, b"*", b"*")
        yield Batch(record, Decoded((), sender, incarnation, sequence))


def _cut(table: str, rows: pl.DataFrame) -> Iterator[tuple[int, int, int, Matrix]]:
    """Second, partition, newest append time and the rows, as a matrix of the columns that they tell anything of."""
    whole = layout_of(TABLES[table], (one for one in wanted(table) if one in rows.columns))
    for part in rows.partition_by("partition", maintain_order=True):
        names, device = _coded(part["component"])
        append_ms = part["append_ms"].to_numpy()
        at_ms = np.minimum(part["at_ms"].to_numpy(), append_ms + AHEAD_MS)
        gauges = (
            part.select(pl.col(whole.gauges).cast(pl.Float32).fill_null(np.nan)).to_numpy().reshape(part.height, -1)
        )
        counters = (
            part.select(pl.col(whole.counters).cast(pl.Int64).fill_null(MISSING_COUNTER))
            .to_numpy()
            .reshape(part.height, -1)
        )
        for start, stop in _seconds(append_ms):
            own = slice(start, stop)
            told = _told(whole, gauges[own], counters[own])
            newest = int(append_ms[stop - 1])
            yield newest // SECOND_MS, part["partition"][0], newest, Matrix(
                told.layout, names, device[own], at_ms[own], told.gauges, told.counters
            )  # fmt: skip


def _matrix(rows: pl.DataFrame, columns: pl.Expr) -> NDArray[Any]:
    """Columns of the rows, [rows, columns], also where there is no column."""
    found = rows.select(columns)
    return found.to_numpy() if found.width else np.empty((rows.height, 0))


def _coded(components: pl.Series) -> tuple[tuple[Name, ...], NDArray[np.uint32]]:
    names = components.unique().sort()
    return tuple(names.to_list()), components.cast(pl.Enum(names)).to_physical().cast(pl.UInt32).to_numpy()


def _seconds(append_ms: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where the rows of each second begin and end."""
    seconds = append_ms // SECOND_MS
    edges = [0, *(np.flatnonzero(np.diff(seconds)) + 1).tolist(), len(seconds)]
    yield from pairwise(edges)


class _Told(NamedTuple):
    layout: Layout
    gauges: NDArray[np.float32]
    counters: NDArray[np.int64]


def _told(whole: Layout, gauges: NDArray[np.float32], counters: NDArray[np.int64]) -> _Told:
    wide = [bool(one) for one in np.atleast_1d((~np.isnan(gauges)).any(axis=0))]
    tall = [bool(one) for one in np.atleast_1d((counters != MISSING_COUNTER).any(axis=0))]
    if all(wide) and all(tall):
        return _Told(whole, gauges, counters)
    return _Told(_layout(whole, tuple(wide), tuple(tall)), gauges[:, wide], counters[:, tall])


@cache
def _layout(whole: Layout, gauges: Sequence[bool], counters: Sequence[bool]) -> Layout:
    """The layout of some of the columns."""
    return layout_of(TABLES[whole.table], (*_some(whole.gauges, gauges), *_some(whole.counters, counters)))


def _some(names: Sequence[str], chosen: Iterable[bool]) -> list[str]:
    return [name for name, here in zip(names, chosen, strict=True) if here]
