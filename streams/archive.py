"""The archive sink: Delta tables of what the log held, each row once, however often the archiver is killed.

The tables themselves hold the positions (`archive_table`), so no consumer group is needed, and two archivers at once do
no harm: one of them loses each race and reads on from where the other stands. A topic may fill several tables; each has
its own position, and a record is read from the lowest one on and taken by those tables only that lack it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import polars as pl

from sickbay.archive_place import Place, place
from sickbay.log import Bounds, Log, OffsetOutOfRange, Reader, Record, Task, tasks_of, wall_ms
from sickbay.topics import BACKFILL, TELEMETRY, Topic
from streams import archive_telemetry
from streams.archive_rows import PLACE, TOPICS, Messages, Reading, tables_of
from streams.archive_table import ArchiveTable, Beaten
from streams.archive_telemetry import Frames, Telemetry

BATCH_RECORDS, BATCH_BYTES = 20_000, 16 << 20  # read for one commit
FULL_RECORDS, FULL_BYTES = 100_000, 64 << 20  # the same of telemetry: some 4 s of 100,000 accelerators, 1 GB of memory
READ_RECORDS, READ_BYTES = 500, 64 << 20  # asked of the log at once: its records may all be of the greatest size
OWED_OFFSETS = 20_000  # passed by without a row (ticks, other tables' rows) before they are written down
OWED_FRAMES = 2_000
WIDER_READS = 8  # times as many records where those before were small
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


class Read(Protocol):
    """What a batch of records tells: rows by table, and how many records could not be read, with a reason."""

    damaged: int
    reason: str

    def frame(self, table: str, schema: pl.Schema, at: Mapping[Task, int]) -> tuple[pl.DataFrame, int]:
        """The rows of a table whose records stand at or after these offsets, and how many fit no column."""
        ...


class Source(NamedTuple):
    """What fills some tables: topics, and how their records are read."""

    topics: Sequence[Topic]
    schemas: Mapping[str, pl.Schema]
    read: Callable[[Sequence[Record]], Read]
    records: int  # of one commit
    bytes: int
    owed: int  # offsets passed by without a row before they are written down
    cut: Sequence[str] = ("day",)


class Archive:
    """All tables at `root`. `reading` says how records are trusted; with `frames` telemetry is kept too, under the
    name of its topic; what came too late for windows is in the same tables."""

    def __init__(
        self,
        log: Log,
        root: Place | Path | str,
        reading: Reading | None = None,
        clock: Callable[[], int] = wall_ms,
        topics: Sequence[str] = TOPICS,
        frames: Frames | None = None,
    ) -> None:
        root, trust, reader = place(root), reading or Reading(), log.reader()  # one for all: on Kafka it is a consumer
        self.gaps = ArchiveTable(root, GAPS, GAP)
        sources = {name: _messages(log.topics[name], trust) for name in topics}
        if frames is not None:
            sources[TELEMETRY] = _telemetry([log.topics[TELEMETRY], log.topics[BACKFILL]], frames)
        self.feeds = {name: Feed(reader, source, root, self.gaps, clock) for name, source in sources.items()}

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


def _messages(topic: Topic, reading: Reading) -> Source:
    read = lambda records: Messages(records, reading)  # noqa: E731
    return Source([topic], tables_of(topic.name), read, BATCH_RECORDS, BATCH_BYTES, OWED_OFFSETS)


def _telemetry(topics: Sequence[Topic], frames: Frames) -> Source:
    read = lambda records: Telemetry(records, frames)  # noqa: E731
    return Source(
        topics, archive_telemetry.schemas(), read, FULL_RECORDS, FULL_BYTES, OWED_FRAMES, archive_telemetry.CUT
    )


class Feed:
    """Some topics and the tables they fill."""

    def __init__(
        self, reader: Reader, source: Source, root: Place, gaps: ArchiveTable, clock: Callable[[], int]
    ) -> None:
        self.topic, self.source = source.topics[0].name, source
        self._reader, self._gaps, self._clock = reader, gaps, clock
        self._tasks = tasks_of({topic.name: topic for topic in source.topics}, [topic.name for topic in source.topics])
        self._limit = max(1, min(READ_RECORDS, READ_BYTES // max(topic.max_bytes for topic in source.topics)))
        self._turn = 0
        self._known: set[Task] = set()  # tasks whose log is the one that was archived
        self.tables = [ArchiveTable(root, name, schema, source.cut) for name, schema in source.schemas.items()]
        bounds = {task: self._reader.bounds(task) for task in self._tasks}
        for table in self.tables:
            table.begin({task: kept.begin for task, kept in bounds.items()})
            for task, kept in bounds.items():
                _same_log(task, table.at[task], kept)

    def complete_ms(self) -> int:
        """All that was appended before this is in the tables: the least append time that any ticked task was read to.

        A task that nobody ticks was read to its end, as it stands now; where it was not, 0.
        """
        ticked = {topic.name for topic in self.source.topics if topic.driving}
        last = [table.last.get(task, 0) for table in self.tables for task in self._tasks if task.topic in ticked]
        unticked = [task for task in self._tasks if task.topic not in ticked]
        at = {task: min(table.at[task] for table in self.tables) for task in unticked}
        if any(self._reader.read(task, offset, 1) for task, offset in at.items()):
            return 0
        return min(last, default=0)

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
        limit, size, self._turn = self._limit, 0, (self._turn + 1) % len(self._tasks)
        for task in self._tasks[self._turn :] + self._tasks[: self._turn]:
            offset = self._first(task)
            while records := self._reader.read(task, offset, limit):
                batch.records.extend(records)
                sizes = [len(record.value or b"") for record in records]
                size += sum(sizes)
                limit = self._wider(max(sizes))
                batch.ends[task] = offset = records[-1].offset + 1
                batch.last[task] = records[-1].append_ms
                if len(batch.records) >= self.source.records or size >= self.source.bytes:
                    return batch._replace(full=True)
        return batch

    def _wider(self, largest: int) -> int:
        """How many records to ask for where the last ones had at most so many bytes."""
        return max(self._limit, min(READ_RECORDS, WIDER_READS * self._limit, READ_BYTES // max(1, 4 * largest)))

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
        read = self.source.read(batch.records)
        counts: dict[str, int] = {}
        unfit = 0
        for table in self.tables:
            frame, more = read.frame(table.name, table.schema, table.at)
            unfit += more
            if frame.height:
                table.append(frame, batch.ends, batch.last)
                counts[table.name] = frame.height
            else:
                table.skip(batch.ends, batch.last)
                if table.owed > self.source.owed:
                    table.settle()
        reason = read.reason or ("a value fits no column" * (unfit > 0))
        return Written(counts, read.damaged + unfit, lost, batch.full, False, reason)

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
