"""Upkeep of a telemetry table: hours sorted by component into few files; old hours become one-minute rows.

All of it is decided by `complete_ms` (all that was appended before it is in the table), and done one hour at a time,
one commit each, so that it may be stopped anywhere:

- An hour that is over is written anew, sorted, in the place of its many small files.
- Hour by hour, when all of an hour has come that may come and `[archive] full_rate_hours` are over, its one-minute rows
  and the mark "minutes are made up to here" are one commit. Only hours before the mark lose their full rows, and the
  newest of them only when the next one was counted on from it. So no minute is lost, and none is made twice.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

import polars as pl

from sickbay.archive_place import Place, coarse
from sickbay.log import Task
from streams.archive_minutes import Shape, minutes, shape
from streams.archive_table import TARGET_BYTES, ArchiveTable, Beaten, Keeping, Rows
from streams.archive_telemetry import CUT, HOUR_MS, LATE_MS, STRAY

MARK = "minutes"  # a position of the one-minute table: the hour from which on none are made yet
CHUNK_ROWS = 200_000  # in memory at once; what is written buffers some more of them
SETTLED_MS = 600_000  # after its end an hour is sorted: what comes later than the windows wait is little
FEW_FILES, SOON_MS = 8, 3 * HOUR_MS  # an hour is sorted again for so many small files, later for any
EPOCH = date(1970, 1, 1)


class Hour(NamedTuple):
    """A folder of the table. `number`: hours since 1970 of its beginning; of strays that of the day's last hour."""

    number: int
    stray: bool
    small: int  # files
    files: int
    rows: int

    @property
    def where(self) -> str:
        """What speaks of its rows."""
        hour = STRAY if self.stray else self.number % 24
        return f"day = '{EPOCH + timedelta(days=self.number // 24)}' AND hour = {hour}"


class Upkeep:
    """One table at full rate and its one-minute rows."""

    def __init__(self, root: Place, table: str, full: ArchiveTable, keeping: Keeping) -> None:
        self.name, self._full, self._keeping = table, full, keeping
        self._coarse = ArchiveTable(root, coarse(table), shape(table, full.types).schema)
        self._aged_ms = max(keeping.full_rate_hours * HOUR_MS, LATE_MS)

    @property
    def mark(self) -> int:
        """Hours before this one (since 1970) have their one-minute rows."""
        return self._coarse.mark(MARK) or 0

    def step(self, complete_ms: int, today: date) -> str:
        """Do one piece of work; what it was, empty where there is none. What somebody else did meanwhile is tried
        again at another time. Raises deltalake's errors."""
        hours = hours_of(self._full)
        due = [hour for hour in hours if not hour.stray and self._due(hour.number, complete_ms)]
        fresh, done = [h for h in due if h.number >= self.mark], [h for h in due if h.number < self.mark]
        if fresh:
            return self._made(fresh[0])
        if spent := [hour for hour in done if self._due(hour.number + 1, complete_ms)]:
            return "removed" if self._full.remove(spent[0].where) else ""
        settled = [h for h in hours if h.number >= self.mark and _scattered(h, complete_ms)]
        if settled:
            return "sorted" if self._sorted(settled[0]) else ""
        self._full.clean(today, self._keeping)
        self._coarse.tidy(today, self._keeping)
        return ""

    def _due(self, number: int, complete_ms: int) -> bool:
        return complete_ms >= (number + 1) * HOUR_MS + self._aged_ms

    def _made(self, hour: Hour) -> str:
        kept = shape(self.name, self._full.types)
        mark = Task(MARK, 0)
        self._coarse.load([mark])
        if self.mark > hour.number:  # by another archiver
            return ""
        try:
            self._coarse.append(_batches(self._minutes(hour, kept), kept.schema), {mark: hour.number + 1}, {})
        except Beaten:
            return ""
        return "minutes"

    def _minutes(self, hour: Hour, kept: Shape) -> Iterator[pl.DataFrame]:
        """Its one-minute rows, for some components at a time."""
        before = hour._replace(number=hour.number - 1)
        for some in self._chunks(hour):
            yield minutes(
                self._rows(hour, some).select(kept.needed).collect(),
                self._rows(before, some).select(kept.needed).collect(),
                kept,
                hour.number,
            )

    def _sorted(self, hour: Hour) -> bool:
        frames = (self._rows(hour, some).sort("component", "time").collect() for some in self._chunks(hour))
        return self._full.replace(_batches(frames, pl.Schema(self._full.types)), hour.where)

    def _chunks(self, hour: Hour) -> list[tuple[str, str]]:
        """Ranges of components of some CHUNK_ROWS rows each."""
        rows = self._all(hour).group_by("component").len().sort("component").collect()
        chunk = (rows["len"].cum_sum() - 1) // CHUNK_ROWS
        ends = rows.group_by(chunk.alias("chunk"), maintain_order=True).agg(
            pl.col("component").first().alias("first"), pl.col("component").last().alias("last")
        )
        return [(first, last) for _, first, last in ends.iter_rows()]

    def _rows(self, hour: Hour, components: tuple[str, str]) -> pl.LazyFrame:
        first, last = components
        return self._all(hour).filter(pl.col("component").is_between(pl.lit(first), pl.lit(last)))

    def _all(self, hour: Hour) -> pl.LazyFrame:
        day = EPOCH + timedelta(days=hour.number // 24)
        return self._full.scan().filter(
            pl.col("day") == day, pl.col("hour") == (STRAY if hour.stray else hour.number % 24)
        )


def _scattered(hour: Hour, complete_ms: int) -> bool:
    """Whether its files are to be written anew."""
    over_ms = complete_ms - (hour.number + 1) * HOUR_MS
    if hour.stray:
        return hour.small >= FEW_FILES
    return over_ms >= SETTLED_MS and (hour.small >= FEW_FILES or (over_ms >= SOON_MS and hour.small > 1))


def hours_of(table: ArchiveTable) -> list[Hour]:
    """The hours that a table has rows of, the oldest first, and strays by day. None of one that an older version cut by
    days only: it stays as it is."""
    files = table.files()
    if "hour" not in files.columns:
        return []
    small = (pl.col("size_bytes") < TARGET_BYTES // 2).sum().alias("small")
    found = files.group_by(CUT).agg(small, pl.len().alias("files"), pl.col("num_records").sum())
    number = (pl.col("day").cast(pl.Int64) * 24 + pl.col("hour").clip(upper_bound=23)).alias("number")
    kept = found.select(number, (pl.col("hour") == STRAY).alias("stray"), "small", "files", "num_records")
    return [Hour._make(row) for row in kept.sort("number", "stray").iter_rows()]


def _batches(frames: Iterator[pl.DataFrame], schema: pl.Schema) -> Rows:
    """The frames as a stream of batches: one is in memory at a time."""
    from arro3.core import RecordBatchReader

    arrow = RecordBatchReader.from_arrow(pl.DataFrame(schema=schema)).schema
    columns = schema.names()
    told = (batch for frame in frames for batch in RecordBatchReader.from_arrow(frame.select(columns)))
    return RecordBatchReader.from_batches(arrow, told)
