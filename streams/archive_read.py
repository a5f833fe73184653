"""The archive read back in the order in which the log held its records: for replay.

All that processors see is there: events, steps, placements, topology, changes, control, and telemetry at full rate
(where it became one-minute rows it is gone). Records come by append time, then topic, partition and offset, whatever
table they lie in; some minutes at a time, so that memory does not grow with the range. A message's value is its payload
as it stood, under its seal again but without the signature: `proved` says whether that was right. A frame's value has
the same rows, sorted by component and time, and the columns that it told anything of and that this version knows; a
relay's pack comes as a pack. Not there: ticks (each second, in every partition of driving topics), removed keys,
heartbeats, frames without rows, what was refused.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import compress
from typing import NamedTuple

import numpy as np
import polars as pl

from sickbay import packs, wire
from sickbay.archive_place import telemetry
from sickbay.frames import Matrix
from sickbay.history import History, Moment, moment
from sickbay.layouts import Layout, layout_of
from sickbay.log import Record
from sickbay.schema import MISSING_COUNTER, TABLES
from sickbay.seal import Seal, sealed
from sickbay.topics import CHANGES, CONTROL, EVENTS, PLACEMENT, STEPS, TELEMETRY, TOPOLOGY
from streams.archive_telemetry import LATE_MS

Place = tuple[int, str, int, int]
Sender = tuple[str, int, int]
FRAME = ("append_ms", "topic", "partition", "offset", "key", "sender", "incarnation", "sequence")
WHERE = ("append_ms", "partition", "offset", "record")
SEALED = ("key", "sender", "incarnation", "sequence", "proved")  # not in every table
SEEN: tuple[str, ...] = (EVENTS, STEPS, TOPOLOGY, PLACEMENT, CHANGES, CONTROL, TELEMETRY)  # by processors and detectors
FACT_STEP, FULL_STEP = timedelta(days=1), timedelta(minutes=15)  # read at once
_TABLES = {
    EVENTS: ("events",),
    STEPS: ("steps", "progress"),
    TOPOLOGY: ("edges", "identities"),
    PLACEMENT: ("placements",),
    CHANGES: ("changes",),
    CONTROL: ("control",),
}


class Kept(NamedTuple):
    """A record of the archive. `proved`: its signature was there and right (of frames it is not kept: None).
    `layouts`: of a frame, to be learnt before it is decoded."""

    record: Record
    proved: bool | None
    layouts: tuple[Layout, ...] = ()


def records(history: History, since: Moment, until: Moment, topics: Sequence[str] = SEEN) -> Iterator[Kept]:
    """The records of these topics that were appended from `since` to `until` (exclusive), in the order of the log."""
    begin, end = moment(since), moment(until)
    streams = [
        _stepped(_messages(history, table, topic), begin, end, FULL_STEP if topic in (EVENTS, STEPS) else FACT_STEP)
        for topic in topics
        for table in _TABLES.get(topic, ())
        if history.place.holds(table)
    ]
    if TELEMETRY in topics:
        streams.append(_stepped(_frames(history), begin, end, FULL_STEP))
    return heapq.merge(*streams, key=lambda kept: _place(kept.record))


def _place(record: Record) -> Place:
    return record.append_ms, record.topic, record.partition, record.offset


Read = Callable[[datetime, datetime], Iterator[Kept]]


def _stepped(read: Read, begin: datetime, end: datetime, step: timedelta) -> Iterator[Kept]:
    """What was appended in a range, some time at once, sorted."""
    while begin < end:
        stop = min(end, begin + step)
        yield from sorted(read(begin, stop), key=lambda kept: _place(kept.record))
        begin = stop


def _appended(begin: datetime, end: datetime) -> pl.Expr:
    return pl.col("append_ms").is_between(begin.timestamp() * 1000, end.timestamp() * 1000, closed="left")


def _messages(history: History, table: str, topic: str) -> Read:
    def read(begin: datetime, end: datetime) -> Iterator[Kept]:
        rows = history.scan(table).filter(pl.col("day").is_between(begin.date(), end.date()), _appended(begin, end))
        there = rows.collect_schema()
        known = [*WHERE, *(name for name in SEALED if name in there)]
        for row in rows.select(known).collect().iter_rows(named=True):
            value, sender = row["record"].encode(), row.get("sender")
            if sender is not None:
                seal = Seal(host=sender, incarnation=row["incarnation"], sequence=row["sequence"])
                value = sealed(value, seal)
            key = (row.get("key") or sender or "").encode()  # archives of before did not keep it
            yield Kept(Record(topic, row["partition"], row["offset"], row["append_ms"], key, value), row.get("proved"))

    return read


def _frames(history: History) -> Read:
    names = [name for name in TABLES if history.place.holds(telemetry(name))]

    def read(begin: datetime, end: datetime) -> Iterator[Kept]:
        parts: dict[Place, dict[Sender, list[Matrix]]] = {}
        keys: dict[Place, str] = {}
        for name in names:
            for place, key, sender, matrix in _matrices(full_rate(history, name, begin, end), name):
                parts.setdefault(place, {}).setdefault(sender, []).append(matrix)
                keys[place] = key
        for place, frames in parts.items():
            append_ms, topic, partition, offset = place
            members = [_frame(sender, tables, append_ms) for sender, tables in sorted(frames.items())]
            packed = len(members) > 1 or next(iter(frames))[0] != keys[place]
            value = packs.pack(members) if packed else members[0]
            layouts = tuple({matrix.layout: None for tables in frames.values() for matrix in tables})
            yield Kept(Record(topic, partition, offset, append_ms, keys[place].encode(), value), None, layouts)

    return read


def _frame(sender: Sender, tables: Sequence[Matrix], append_ms: int) -> bytes:
    host, incarnation, sequence = sender
    return wire.encode(host, tables, sequence=sequence, incarnation=incarnation, sent_ms=append_ms)


def full_rate(history: History, name: str, begin: Moment, end: Moment, columns: Sequence[str] = ()) -> pl.DataFrame:
    """The rows of a telemetry table that were appended in a range (under the hours of their own time, or as strays), in
    the order of the log. `columns`: of those that are there, besides the place of each row; empty: all."""
    since, until = moment(begin), moment(end)
    first = since - timedelta(milliseconds=LATE_MS) - timedelta(hours=1)
    days = pl.col("day").is_between(first.date(), (until + timedelta(seconds=2)).date())
    rows = history.scan(telemetry(name)).filter(days, pl.col("topic") == TELEMETRY, _appended(since, until))
    if columns:
        there = set(rows.collect_schema().names())
        rows = rows.select(*FRAME, "component", "at_ms", *(one for one in columns if one in there))
    return rows.collect().sort("append_ms", "partition", "offset", "sender", maintain_order=True)


def _matrices(rows: pl.DataFrame, table: str) -> Iterator[tuple[Place, str, Sender, Matrix]]:
    """The rows of each frame, as a matrix of the columns that it told and that this version knows."""
    whole = layout_of(TABLES[table], (name for name in rows.columns if rows[name].null_count() < rows.height))
    gauges = rows.select(pl.col(whole.gauges).cast(pl.Float32).fill_null(np.nan)).to_numpy()
    counters = rows.select(pl.col(whole.counters).cast(pl.Int64).fill_null(MISSING_COUNTER)).to_numpy()
    at_ms, components = rows["at_ms"].to_numpy(), rows["component"].to_list()
    heads = rows.select(FRAME).with_row_index("row").group_by(FRAME, maintain_order=True)
    for *place, key, sender, incarnation, sequence, start, size in heads.agg(
        pl.col("row").first(), pl.len().alias("size")
    ).iter_rows():
        own = slice(start, start + size)
        names = tuple(dict.fromkeys(components[own]))
        places = {name: at for at, name in enumerate(names)}
        device = np.array([places[name] for name in components[own]], np.uint16)
        some = gauges[own].reshape(size, -1), counters[own].reshape(size, -1)
        told = ~np.isnan(some[0]).all(axis=0), (some[1] != MISSING_COUNTER).any(axis=0)
        columns = [*compress(whole.gauges, told[0]), *compress(whole.counters, told[1])]
        layout = layout_of(TABLES[table], columns)
        matrix = Matrix(layout, names, device, at_ms[own], some[0][:, told[0]], some[1][:, told[1]])
        append_ms, topic, partition, offset = place
        yield (append_ms, topic, partition, offset), key, (sender, incarnation, sequence), matrix
