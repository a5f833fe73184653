"""The file of the embedded log: how it is opened, written and read. One SQLite database in WAL mode.

A record's row id is its partition's number * 2^40 + its offset, so that a task is one range of one table. SQLite does
not notice a flipped bit in a value, so each row has a checksum, and offsets may have gaps where compaction makes them
only. Writers
always begin IMMEDIATE: a deferred transaction that turns into a write fails as busy without waiting. Readers end their
transaction before they hand anything out, so that the WAL can be cut.
"""

import contextlib
import os
import sqlite3
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import crc32c

from sickbay.log import (
    Bounds,
    Closed,
    LogBusy,
    LogDamaged,
    LogError,
    LogFull,
    Output,
    Receipt,
    Record,
    Task,
    UnfitPlace,
    checks,
)
from sickbay.log.place import check_place
from sickbay.topics import Sync, Topic

APPLICATION_ID = 0x5349434B  # "SICK", in the file's header
VERSION = 1
FILE = "log.sqlite3"
SHIFT = 40  # bits of an offset in a row id
BUSY_S = 10.0  # a writer waits so long for another process: its longest is one full batch with a slow disk's sync
READ_BYTES = 64 << 20  # of values that one read hands out at most, beyond its first record
WAL_BYTES = 64 << 20  # the WAL is cut to this when it was emptied

_SCHEMA = """
CREATE TABLE partitions (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  first INTEGER NOT NULL, next INTEGER NOT NULL, last_ms INTEGER NOT NULL, UNIQUE (topic, partition));
CREATE TABLE records (id INTEGER PRIMARY KEY, append_ms INTEGER NOT NULL, sum INTEGER NOT NULL, key BLOB NOT NULL,
  value BLOB);
CREATE TABLE positions (grp TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY (grp, partition));
CREATE TABLE groups (grp TEXT PRIMARY KEY, member TEXT NOT NULL, epoch INTEGER NOT NULL);
"""


class Store:
    """An open file. Safe between threads; other processes may have it open too."""

    def __init__(self, directory: Path, topics: Mapping[str, Topic], max_bytes: int | None = None) -> None:
        self.directory, self.topics = directory, topics
        self._write_lock, self._read_lock = threading.RLock(), threading.RLock()
        self._closed = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnfitPlace(f"{directory}: {error.strerror}") from None
        check_place(directory)
        with self._explained():
            self._writer, self._reader = _open(directory / FILE), _open(directory / FILE)
        try:
            with self._explained():
                self._prepare(max_bytes)
            self.numbers = self._number()
        except BaseException:
            self.close()
            raise

    def _prepare(self, max_bytes: int | None) -> None:
        if self._writer.execute("PRAGMA application_id").fetchone()[0] == 0 and not self._tables():
            self._create()
        identity = self._writer.execute("PRAGMA application_id").fetchone()[0]
        version = self._writer.execute("PRAGMA user_version").fetchone()[0]
        if identity != APPLICATION_ID:
            raise LogDamaged(f"{self.directory / FILE} is a database of something else: name another directory")
        if version != VERSION:
            raise LogDamaged(f"{self.directory / FILE} has version {version}, this program reads {VERSION}: update it")
        self._writer.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        if max_bytes is not None:
            page = self._writer.execute("PRAGMA page_size").fetchone()[0]
            self._writer.execute(f"PRAGMA max_page_count = {max(1, max_bytes // page)}")

    def _tables(self) -> int:
        return int(self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    def _create(self) -> None:
        self._writer.execute("PRAGMA auto_vacuum = INCREMENTAL")  # must come before the first table
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute("BEGIN IMMEDIATE")
        with _all_or_nothing(self._writer):
            if not self._tables():  # else another process was first
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._writer.execute(statement)
                self._writer.execute(f"PRAGMA user_version = {VERSION}")
                self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _number(self) -> dict[Task, int]:
        """The number of each declared partition; a partition seen for the first time gets one."""
        tasks = [Task(topic.name, index) for topic in self.topics.values() for index in range(topic.partitions)]
        with self.write("full") as cursor:
            cursor.executemany(
                "INSERT INTO partitions (topic, partition, first, next, last_ms) VALUES (?, ?, 0, 0, 0) "
                "ON CONFLICT (topic, partition) DO NOTHING",
                tasks,
            )
            rows = cursor.execute("SELECT topic, partition, id FROM partitions").fetchall()
        return {Task(topic, partition): number for topic, partition, number in rows}

    def number(self, task: Task) -> int:
        """The number of a declared partition. Raises UnknownTopic."""
        checks.known(self.topics, task)
        return self.numbers[task]

    @contextmanager
    def write(self, sync: Sync) -> Iterator[sqlite3.Cursor]:
        """A transaction that is on disk when it ends (full), or survives a kill but not a power cut (normal)."""
        with self._write_lock, self._explained():
            self._writer.execute(f"PRAGMA synchronous = {sync}")
            self._writer.execute("BEGIN IMMEDIATE")
            with _all_or_nothing(self._writer):
                yield self._writer.cursor()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Cursor]:
        """A snapshot, to be left before anything is done with what was read."""
        with self._read_lock, self._explained():
            self._reader.execute("BEGIN")
            with _all_or_nothing(self._reader):
                yield self._reader.cursor()

    def sync_of(self, topics: Iterable[str]) -> Sync:
        """The strictest sync class of the topics."""
        return "full" if any(self.topics[topic].sync == "full" for topic in topics) else "normal"

    def put(self, cursor: sqlite3.Cursor, outputs: Sequence[Output], now_ms: int) -> list[Receipt]:
        """Append within a transaction. Raises UnknownTopic or TooLarge."""
        placed = [checks.placed(self.topics, output) for output in outputs]
        heads: dict[Task, tuple[int, int]] = {}
        for task in placed:
            if task not in heads:
                query = "SELECT next, max(last_ms, ?) FROM partitions WHERE id = ?"
                heads[task] = cursor.execute(query, (now_ms, self.numbers[task])).fetchone()
        receipts, rows = [], []
        for task, output in zip(placed, outputs, strict=True):
            offset, append_ms = heads[task]
            heads[task] = (offset + 1, append_ms)
            receipts.append(Receipt(*task, offset, append_ms))
            row = self.numbers[task] << SHIFT | offset
            rows.append((row, append_ms, _sum(row, append_ms, output.key, output.value), output.key, output.value))
        cursor.executemany("INSERT INTO records (id, append_ms, sum, key, value) VALUES (?, ?, ?, ?, ?)", rows)
        ends = [(end, last_ms, self.numbers[task]) for task, (end, last_ms) in heads.items()]
        cursor.executemany("UPDATE partitions SET next = ?, last_ms = ? WHERE id = ?", ends)
        return receipts

    def bounds(self, cursor: sqlite3.Cursor, task: Task) -> Bounds:
        """The offsets that are kept."""
        return Bounds(
            *cursor.execute("SELECT first, next FROM partitions WHERE id = ?", (self.number(task),)).fetchone()
        )

    def records(self, cursor: sqlite3.Cursor, task: Task, offset: int, limit: int) -> list[Record]:
        """Up to `limit` records and some READ_BYTES from `offset` on. Raises OffsetOutOfRange or LogDamaged."""
        bounds = self.bounds(cursor, task)
        checks.in_range(task, offset, bounds)
        low = self.numbers[task] << SHIFT
        found: list[Record] = []
        size = 0
        query = "SELECT id, append_ms, sum, key, value FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
        for row, append_ms, sum_, key, value in cursor.execute(query, (low + offset, low + bounds.end, limit)):
            if sum_ != _sum(row, append_ms, key, value):
                raise self._damaged(task, row - low)
            found.append(Record(*task, row - low, append_ms, key, value))
            size += len(value or b"")
            if size > READ_BYTES:
                break
        if not self.topics[task.topic].compacted:
            self._check_gaps(task, range(offset, bounds.end)[:limit], found, whole=size <= READ_BYTES)
        return found

    def _check_gaps(self, task: Task, wanted: range, found: Sequence[Record], *, whole: bool) -> None:
        for offset, record in zip_longest(wanted if whole else wanted[: len(found)], found):
            if record is None or record.offset != offset:
                raise self._damaged(task, offset)

    def _damaged(self, task: Task, offset: int) -> LogDamaged:
        where = f"{self.directory / FILE}: record {offset} of {task.topic}[{task.partition}]"
        return LogDamaged(f"{where} is damaged: keep the file for recovery and name another directory")

    def close(self) -> None:
        """Close the file, after which all use raises Closed."""
        with self._write_lock, self._read_lock:
            self._closed = True
            with contextlib.suppress(sqlite3.Error):
                self._reader.close()
                self._writer.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        if self._closed:
            raise Closed("the log was closed")
        try:
            yield
        except sqlite3.Error as error:
            raise explained(error, self.directory / FILE) from error


def _sum(row: int, append_ms: int, key: bytes, value: bytes | None) -> int:
    head = struct.pack("<qq?", row, append_ms, value is None)
    return crc32c.crc32c(value or b"", crc32c.crc32c(key, crc32c.crc32c(head)))


def _open(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


@contextmanager
def _all_or_nothing(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # SQLite has rolled back by itself where the disk is full
            connection.execute("ROLLBACK")
        raise


def explained(error: sqlite3.Error, file: Path) -> LogError:
    """SQLite's error as one of ours, which says what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LogBusy(f"{file}: another process wrote for over {BUSY_S:.0f} s: try again")
    if primary == sqlite3.SQLITE_FULL:
        return LogFull(f"{file}: the disk (or the log's own limit) is full: free space or lower the retention")
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT):
        return LogDamaged(f"{file}: {error}: keep the file for recovery and name another directory")
    if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return UnfitPlace(f"{file}: {error}: user {os.getuid()} must be able to read and write it")
    return LogError(f"{file}: {error}")
