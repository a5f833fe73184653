"""One Delta table of the archive: rows and the positions of the tasks they came from, committed as one.

A repeated transaction id is not rejected by Delta itself. So one snapshot is held, its transaction versions are
compared, and the write goes through that same snapshot: a commit of somebody else in between is a conflict.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from sickbay.log import Task

if TYPE_CHECKING:
    from deltalake import DeltaTable, WriterProperties

COMPACT_COMMITS = 50  # between compactions: an hour of writes a minute apart
TARGET_BYTES = 64 << 20  # of a compacted file
MAX_COLUMNS = 1024  # of a table: bad input must not widen it for ever
KEPT_HOURS = 7 * 24  # files that compaction replaced stay for readers that opened the table before


class Beaten(Exception):
    """Another archiver wrote meanwhile; nothing was written here. Read on from `at`."""


class ArchiveTable:
    """A table below `folder`, made where it is not there yet. `at`: the next offset it needs of each task."""

    def __init__(self, folder: Path, name: str, schema: pl.Schema) -> None:
        self.name, self.schema = name, schema
        self._table = _opened(folder / name, schema)
        self._columns = {field.name for field in self._table.schema().fields}
        self._stored: dict[Task, int] = {}
        self._commits = 0
        self._cleaned: date | None = None
        self.at: dict[Task, int] = {}
        self.last: dict[Task, int] = {}  # append time of the record before `at`, 0 unknown: by it the log is known
        self.dropped: set[str] = set()  # columns beyond MAX_COLUMNS, not kept

    def begin(self, begins: Mapping[Task, int]) -> None:
        """Set up the tasks: each stands where the table says, one that is new to it at the given offset."""
        self.load(begins)
        while new := {task: offset for task, offset in begins.items() if task not in self._stored}:
            with suppress(Beaten):  # then another archiver has set up these or other tasks
                self.append(pl.DataFrame(schema=self.schema), new, {})

    def load(self, tasks: Iterable[Task]) -> None:
        """Read the positions of the tasks anew."""
        self._table.update_incremental()
        found = {task: self._table.transaction_version(app_id(task)) for task in tasks}
        self._stored |= {task: offset for task, offset in found.items() if offset is not None}
        self.at |= self._stored
        self.last |= {task: self._table.transaction_version(time_id(task)) or 0 for task in self._stored}

    @property
    def owed(self) -> int:
        """Offsets passed by without a row since positions were last written."""
        return sum(offset - self._stored[task] for task, offset in self.at.items())

    def skip(self, ends: Mapping[Task, int], last: Mapping[Task, int]) -> None:
        """Go on to these offsets where nothing before them has a row here; written down with the next commit.

        `last`: the append time of the record before each, 0 unknown.
        """
        further = {task: end for task, end in ends.items() if end > self.at.get(task, -1)}
        self.at |= further
        self.last |= {task: last.get(task, 0) for task in further}

    def append(self, rows: pl.DataFrame, ends: Mapping[Task, int], last: Mapping[Task, int]) -> None:
        """Commit rows, and that everything before `ends` is in. Raises Beaten, or deltalake's errors: then `load`."""
        from deltalake.exceptions import CommitFailedError

        self._check(ends)
        at, before = dict(self.at), dict(self.last)
        self.skip(ends, last)
        moved = {task: end for task, end in self.at.items() if end != self._stored.get(task)}
        known = self._fitting(rows)
        try:
            self._write(known, moved)
        except BaseException as error:
            self.at, self.last = at, before
            if not isinstance(error, CommitFailedError):
                raise
            self.load(moved)
            raise Beaten(f"{self.name}: {error}") from None
        self._stored |= moved
        self._columns |= set(known.columns)
        self._commits += 1

    def _write(self, rows: pl.DataFrame, moved: Mapping[Task, int]) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake

        versions = [(app_id(task), end) for task, end in sorted(moved.items())]
        versions += [(time_id(task), self.last[task]) for task in sorted(moved)]
        write_deltalake(
            self._table,
            rows,
            mode="append",
            schema_mode="merge",
            writer_properties=_writing(),
            commit_properties=CommitProperties(app_transactions=[Transaction(*one) for one in versions]),
        )

    def settle(self) -> None:
        """Write down positions that were only passed by."""
        if self.owed:
            self.append(pl.DataFrame(schema=self.schema), {}, {})

    def _check(self, tasks: Iterable[Task]) -> None:
        for task in {*self.at, *tasks}:
            if self._table.transaction_version(app_id(task)) != self._stored.get(task):
                self.load(self.at)
                raise Beaten(f"{self.name}: another archiver wrote {task.topic}[{task.partition}]")

    def _fitting(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with as many new columns as the table may still get."""
        new = [column for column in rows.columns if column not in self._columns]
        surplus = new[max(0, MAX_COLUMNS - len(self._columns)) :]
        if len(self.dropped) < MAX_COLUMNS:
            self.dropped.update(surplus)
        return rows.drop(surplus)

    def tidy(self, today: date) -> bool:
        """Join small files every COMPACT_COMMITS commits, and once a day remove what was replaced long ago.

        False where somebody else wrote meanwhile: tried again after as many commits.
        """
        from deltalake.exceptions import CommitFailedError

        if self._commits < COMPACT_COMMITS:
            return True
        self._commits = 0
        try:
            self._table.optimize.compact(target_size=TARGET_BYTES, max_concurrent_tasks=1, writer_properties=_writing())
            if self._cleaned != today:
                self._table.vacuum(retention_hours=KEPT_HOURS, dry_run=False, full=True)
                self._cleaned = today
        except CommitFailedError:
            self.load(self.at)
            return False
        return True


def app_id(task: Task) -> str:
    """The name of a task's position among a table's transactions; its version is the next offset."""
    return f"sickbay/{task.topic}/{task.partition}"


def time_id(task: Task) -> str:
    """The name under which the append time of a task's last record stands."""
    return f"{app_id(task)}/append_ms"


def _writing() -> "WriterProperties":
    from deltalake import WriterProperties

    return WriterProperties(compression="ZSTD", compression_level=3)


def _opened(path: Path, schema: pl.Schema) -> "DeltaTable":
    from arro3.core import RecordBatchReader
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    path.mkdir(parents=True, exist_ok=True)
    if not DeltaTable.is_deltatable(str(path)):
        arrow = RecordBatchReader.from_arrow(pl.DataFrame(schema=schema)).schema
        try:
            return DeltaTable.create(path, arrow, mode="ignore", partition_by=["day"])
        except DeltaError:  # another archiver made it in this moment
            if not DeltaTable.is_deltatable(str(path)):
                raise
    return DeltaTable(path)
