"""One Delta table of the archive: rows and the positions of the tasks they came from, committed as one.

A repeated transaction id is not rejected by Delta itself. So one snapshot is held, its transaction versions are
compared, and the write goes through that same snapshot: a commit of somebody else in between is a conflict.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from sickbay.archive_place import FACTS, Place, place
from sickbay.log import Task
from streams.archive_files import files_of, opened, types_of, writing

if TYPE_CHECKING:
    from arro3.core import RecordBatchReader

COMPACT_COMMITS = 50  # between compactions: an hour of writes a minute apart
TARGET_BYTES = 64 << 20  # of a compacted file
MAX_COLUMNS = 1024  # of a table: bad input must not widen it for ever

Rows: TypeAlias = "pl.DataFrame | RecordBatchReader"


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long things stay. `days`: of rows, 0 for ever; `full_rate_hours`: of telemetry before it becomes one-minute
    rows; `replaced_hours`: of files that were replaced, for readers that opened the table before."""

    full_rate_hours: int = 48
    days: int = 365
    replaced_hours: int = 7 * 24


class Beaten(Exception):
    """Another archiver wrote meanwhile; nothing was written here. Read on from `at`."""


class ArchiveTable:
    """A table of the archive, made where it is not there yet. `at`: the next offset it needs of each task."""

    def __init__(
        self, root: Place | Path | str, name: str, schema: pl.Schema, partitions: Sequence[str] = ("day",)
    ) -> None:
        self.name, self.schema, self.place = name, schema, place(root)
        self._table = opened(self.place, name, schema, partitions)
        self._columns = types_of(self._table)
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

    def append(self, rows: Rows, ends: Mapping[Task, int], last: Mapping[Task, int]) -> None:
        """Commit rows, and that everything before `ends` is in. Raises Beaten, or deltalake's errors: then `load`.

        A reader of batches is written as it comes, and must have the columns that the table has or may get.
        """
        from deltalake.exceptions import CommitFailedError

        self._check(ends)
        at, before = dict(self.at), dict(self.last)
        self.skip(ends, last)
        moved = {task: end for task, end in self.at.items() if end != self._stored.get(task)}
        known = self._fitting(rows) if isinstance(rows, pl.DataFrame) else rows
        try:
            self._write(known, moved)
        except BaseException as error:
            self.at, self.last = at, before
            if not isinstance(error, CommitFailedError):
                raise
            self.load(moved)
            raise Beaten(f"{self.name}: {error}") from None
        self._stored |= moved
        if not isinstance(known, pl.DataFrame) or not set(known.columns) <= self._columns.keys():
            self._columns = types_of(self._table)
        self._commits += 1

    def _write(self, rows: Rows, moved: Mapping[Task, int]) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake

        types = self._columns | (dict(rows.schema) if isinstance(rows, pl.DataFrame) else {})
        versions = [(app_id(task), end) for task, end in sorted(moved.items())]
        versions += [(time_id(task), self.last[task]) for task in sorted(moved)]
        write_deltalake(
            self._table,
            rows,
            mode="append",
            schema_mode="merge",
            target_file_size=TARGET_BYTES,
            writer_properties=writing(types),
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
        """The rows with as many new columns as the table may still get, each of the type that it has there."""
        new = [column for column in rows.columns if column not in self._columns]
        surplus = new[max(0, MAX_COLUMNS - len(self._columns)) :]
        if len(self.dropped) < MAX_COLUMNS:
            self.dropped.update(surplus)
        kept = rows.drop(surplus)
        other: dict[Any, Any] = {
            name: self._columns[name]
            for name, dtype in kept.schema.items()
            if dtype.is_numeric() and self._columns.get(name, dtype) != dtype
        }
        return kept.cast(other, strict=False) if other else kept

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        """The columns that the table has."""
        return self._columns

    def mark(self, name: str) -> int | None:
        """A position that belongs to no task, written by `append` under `Task(name, 0)`."""
        return self._table.transaction_version(app_id(Task(name, 0)))

    def scan(self) -> pl.LazyFrame:
        """The rows, as this archiver knows the table."""
        return pl.scan_delta(self._table)

    def files(self) -> pl.DataFrame:
        """`day`, `hour` (where the table has hours), `size_bytes`, `num_records` of each file."""
        return files_of(self._table)

    def tidy(self, today: date, keeping: Keeping | None = None) -> bool:
        """Join small files every COMPACT_COMMITS commits; once a day remove what is too old or was replaced long ago.

        False where somebody else wrote meanwhile: tried again after as many commits.
        """
        if self._commits < COMPACT_COMMITS:
            return True
        self._commits = 0
        with self._beaten() as done:
            self._table.optimize.compact(
                target_size=TARGET_BYTES, max_concurrent_tasks=1, writer_properties=writing(self._columns)
            )
            self.clean(today, keeping or Keeping())
        return not done

    def clean(self, today: date, keeping: Keeping) -> None:
        """Once a day remove what is too old or was replaced long ago. Raises deltalake's errors."""
        if self._cleaned == today:
            return
        if keeping.days and self.name not in FACTS:
            self._table.delete(f"day < '{today - timedelta(days=keeping.days)}'")
        self._table.vacuum(retention_hours=keeping.replaced_hours, dry_run=False, full=True,
                           enforce_retention_duration=False)  # fmt: skip
        self._cleaned = today

    def replace(self, rows: Rows, where: str) -> bool:
        """Put rows in the place of those that `where` (of the columns that cut the table) speaks of, as one.

        False where somebody else wrote there meanwhile: nothing was changed.
        """
        from deltalake import write_deltalake

        with self._beaten() as done:
            write_deltalake(
                self._table,
                rows,
                mode="overwrite",
                predicate=where,
                target_file_size=TARGET_BYTES,
                writer_properties=writing(self._columns),
            )
        return not done

    def remove(self, where: str) -> bool:
        """Remove the rows that `where` speaks of. False as in `replace`."""
        with self._beaten() as done:
            self._table.delete(where)
        return not done

    @contextmanager
    def _beaten(self) -> Iterator[list[str]]:
        """What somebody else's commit stopped is told in the list, and the table is loaded anew."""
        from deltalake.exceptions import CommitFailedError

        found: list[str] = []
        try:
            yield found
        except CommitFailedError as error:
            self.load(self.at)
            found.append(str(error))


def app_id(task: Task) -> str:
    """The name of a task's position among a table's transactions; its version is the next offset."""
    return f"sickbay/{task.topic}/{task.partition}"


def time_id(task: Task) -> str:
    """The name under which the append time of a task's last record stands."""
    return f"{app_id(task)}/append_ms"
