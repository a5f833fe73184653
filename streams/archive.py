"""The archive sink: Delta tables of what the log held, each row once, however often the archiver is killed.

The tables themselves hold the positions (`archive_table`), so no consumer group is needed, and two archivers at once do
no harm: one of them loses each race and reads on from where the other stands. A topic may fill several tables; each has
its own position, and a record is read from the lowest one on and taken by those tables only that lack it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import polars as pl

from sickbay.log import Bounds, Log, OffsetOutOfRange, Reader, Record, Task, wall_ms
from sickbay.topics import BACKFILL, Topic
from streams.archive_rows import PLACE, TOPICS, Damaged, Reading, Row, frame_of, tables_of
from streams.archive_table import ArchiveTable, Beaten

BATCH_RECORDS, BATCH_BYTES = 20_000, 16 << 20  # read for one commit
READ_RECORDS, READ_BYTES = 500, 64 << 20  # asked of the log at once: its records may all be of the greatest size
OWED_OFFSETS = 20_000  # passed by without a row (ticks, other tables' rows) before they are written down
GAPS = "gaps"
GAP = pl.Schema(
    PLACE | {"table": pl.String(), "topic": pl.String(), "from_offset": pl.Int64(), "to_offset": pl.Int64()}
)


class ArchiveError(Exception):
    """The archive cannot go on; the text says what to do."""


class Written(NamedTuple):
    """What one round did. `more`: one batch could not take all. `lost`: offsets that retention removed unread."""

    rows: dict[str, int]
    damaged: int = 0
    lost: int = 0
    more: bool = False
    beaten: bool = False
    reason: str = ""  # of the last damaged record


class _Batch(NamedTuple):
    records: list[Record]
    ends: dict[Task, int]  # the next offset of each task that was read
    last: dict[Task, int]  # append time of its last record
    full: bool


class Archive:
    """All tables below `folder`. `reading` says how records are trusted."""

    def __init__(
        self,
        log: Log,
        folder: Path,
        reading: Reading | None = None,
        clock: Callable[[], int] = wall_ms,
        topics: Sequence[str] | None = None,
    ) -> None:
        self.gaps = ArchiveTable(folder, GAPS, GAP)
        trust = reading or Reading()
        topics = topics or (TOPICS if trust.decode is None else (*TOPICS, BACKFILL))
        reader = log.reader()  # one for all: on Kafka it is a consumer of its own
        self.feeds = {topic: Feed(reader, log.topics[topic], folder, self.gaps, trust, clock) for topic in topics}

    @property
    def tables(self) -> Iterator[ArchiveTable]:
        """Every table."""
        yield self.gaps
        for feed in self.feeds.values():
            yield from feed.tables

    def step(self) -> list[Written]:
        """One round of every topic."""
        return [feed.round() for feed in self.feeds.values()]

    def drain(self) -> dict[str, int]:
        """Rounds until nothing is left; rows by table."""
        rows: dict[str, int] = {}
        while True:
            done = self.step()
            for table, count in (pair for written in done for pair in written.rows.items()):
                rows[table] = rows.get(table, 0) + count
            if not any(written.more or written.beaten for written in done):
                return rows

    def settle(self) -> None:
        """Write down every position: nothing is read twice by the next archiver."""
        for feed in self.feeds.values():
            for table in feed.tables:
                table.settle()


class Feed:
    """One topic and the tables it fills."""

    def __init__(
        self,
        reader: Reader,
        topic: Topic,
        folder: Path,
        gaps: ArchiveTable,
        reading: Reading,
        clock: Callable[[], int],
    ) -> None:
        self.topic, self._reader, self._gaps, self._reading, self._clock = topic.name, reader, gaps, reading, clock
        self._tasks = [Task(topic.name, partition) for partition in range(topic.partitions)]
        self._limit = max(1, min(READ_RECORDS, READ_BYTES // topic.max_bytes))
        self._turn = 0
        self._known: set[Task] = set()  # tasks whose log is the one that was archived
        self.tables = [ArchiveTable(folder, name, schema) for name, schema in tables_of(topic.name).items()]
        bounds = {task: self._reader.bounds(task) for task in self._tasks}
        for table in self.tables:
            table.begin({task: kept.begin for task, kept in bounds.items()})
            for task, kept in bounds.items():
                _same_log(task, table.at[task], kept)

    def round(self) -> Written:
        """Read one batch and commit it to each table. After an error call `reload`."""
        lost = 0
        try:
            while True:
                try:
                    batch = self._batch()
                except OffsetOutOfRange as error:
                    lost += self._jumped(error)
                else:
                    return self._written(batch, lost)
        except Beaten:
            self.reload()
            return Written({}, lost=lost, beaten=True)

    def reload(self) -> None:
        """Forget what was not committed: stand where the tables say."""
        for table in self.tables:
            table.load(self._tasks)

    def _batch(self) -> _Batch:
        """Records from the lowest position of any table on, a different task first each time."""
        batch = _Batch([], {}, {}, False)
        size, self._turn = 0, (self._turn + 1) % len(self._tasks)
        for task in self._tasks[self._turn :] + self._tasks[: self._turn]:
            offset = self._first(task)
            while records := self._reader.read(task, offset, self._limit):
                batch.records.extend(records)
                size += sum(len(record.value or b"") for record in records)
                batch.ends[task] = offset = records[-1].offset + 1
                batch.last[task] = records[-1].append_ms
                if len(batch.records) >= BATCH_RECORDS or size >= BATCH_BYTES:
                    return batch._replace(full=True)
        return batch

    def _first(self, task: Task) -> int:
        """The next offset to read. At first the record before it must be the one that was archived there."""
        table = min(self.tables, key=lambda table: table.at[task])
        offset, last = table.at[task], table.last.get(task, 0)
        if task not in self._known and last:
            before: list[Record] = []
            with suppress(OffsetOutOfRange):  # no longer there: nobody can tell
                before = self._reader.read(task, offset - 1, 1)
            if before and before[0].offset == offset - 1 and before[0].append_ms != last:
                raise _other_log(f"{task.topic}[{task.partition}] {offset - 1} is another record there")
        self._known.add(task)
        return offset

    def _written(self, batch: _Batch, lost: int) -> Written:
        rows, damaged, reason = self._rows(batch.records)
        counts: dict[str, int] = {}
        for table in self.tables:
            own = [row for row in rows if row.table == table.name and row.record.offset >= table.at[row.record.task]]
            frame, unfit = frame_of(own, table.schema)
            damaged += unfit
            if frame.height:
                table.append(frame, batch.ends, batch.last)
                counts[table.name] = frame.height
            else:
                table.skip(batch.ends, batch.last)
                if table.owed > OWED_OFFSETS:
                    table.settle()
        return Written(counts, damaged, lost, batch.full, False, reason or ("a value fits no column" * (damaged > 0)))

    def _rows(self, records: Sequence[Record]) -> tuple[list[Row], int, str]:
        rows, damaged, reason = [], 0, ""
        for record in records:
            try:
                rows += self._reading.rows(record)
            except Damaged as error:
                damaged, reason = damaged + 1, f"{record.topic}[{record.partition}] {record.offset}: {error}"
        return rows, damaged, reason

    def _jumped(self, error: OffsetOutOfRange) -> int:
        """Retention was faster: what was lost is written down, then each table goes on at the oldest record."""
        task, bounds = error.task, self._reader.bounds(error.task)
        _same_log(task, error.offset, bounds)
        lost = 0
        for table in self.tables:
            lost = max(lost, self._noted(table, task, bounds.begin))
            table.skip({task: bounds.begin}, {})
        return lost

    def _noted(self, table: ArchiveTable, task: Task, to: int) -> int:
        """The gap before `to` as a row; it has a position of its own, so that a crash before `table` moves on repeats
        nothing."""
        place = Task(f"{task.topic}/{table.name}", task.partition)
        self._gaps.load([place])
        start = max(table.at[task], self._gaps.at.get(place, 0))
        if start < to:
            self._gaps.append(_gap(table.name, task, start, to, self._clock()), {place: to}, {})
        return max(0, to - start)


def _same_log(task: Task, offset: int, bounds: Bounds) -> None:
    if offset > bounds.end:
        raise _other_log(f"it stands at {offset} of {task.topic}[{task.partition}], the log ends at {bounds.end}")


def _other_log(why: str) -> ArchiveError:
    return ArchiveError(f"the archive was written from another log; name another folder in [archive] path: {why}")


def _gap(table: str, task: Task, start: int, to: int, now_ms: int) -> pl.DataFrame:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    row = (now.date(), now, task.partition, start, now_ms, table, task.topic, start, to)
    return pl.DataFrame([row], schema=GAP, orient="row")
