"""The file of the embedded log: how it is opened, written and read. One SQLite database in WAL mode.

A record's row id is its partition's number * 2^40 + its offset, so that a task is one range of one table. SQLite does
not notice a flipped bit in a value, so each row has a checksum, and only compaction may leave gaps between offsets.
Writers
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
from typing import NamedTuple

import crc32c

from sickbay.log import (
    Bounds,
    Closed,
    LogDamaged,
    Output,
    Receipt,
    Record,
    Task,
    UnfitPlace,
    checks,
)
from sickbay.log.failures import BUSY_S, explained
from sickbay.log.place import check_place
from sickbay.topics import Sync, Topic

APPLICATION_ID = 0x5349434B  # "SICK", in the file's header
VERSION = 1
FILE = "log.sqlite3"
SHIFT = 40  # bits of an offset in a row id
READ_BYTES = 64 << 20  # of values that one read hands out at most, beyond its first record
WAL_BYTES = 64 << 20  # the WAL is cut to this when it was emptied

_SCHEMA = """
CREATE TABLE partitions (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  first INTEGER NOT NULL, next INTEGER NOT NULL, last_ms INTEGER NOT NULL, sum INTEGER NOT NULL,
  UNIQUE (topic, partition));
CREATE TABLE records (id INTEGER PRIMARY KEY, append_ms INTEGER NOT NULL, sum INTEGER NOT NULL, key BLOB NOT NULL,
  value BLOB);
CREATE TABLE positions (grp TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL, metadata TEXT NOT NULL,
  sum INTEGER NOT NULL, PRIMARY KEY (grp, partition));
CREATE TABLE groups (grp TEXT PRIMARY KEY, member TEXT NOT NULL, epoch INTEGER NOT NULL);
"""


class Head(NamedTuple):
    """What the file says of a partition: the oldest offset kept, the next one, and the newest append time."""

    first: int
    next: int
    last_ms: int


class Store:
    """An open file. Safe between threads; other processes may have it open too."""

    def __init__(self, directory: Path, topics: Mapping[str, Topic], max_bytes: int | None = None) -> None:
        self.directory, self.topics = directory, topics
        self._write_lock, self._read_lock = threading.RLock(), threading.RLock()
        self._closed = False
        self._inode: int | None = None  # of the open file, once it is there
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnfitPlace(
                f"[log] path = {str(directory)!r}: {error.strerror}: name a directory on a local disk that user "
                f"{os.getuid()} may write"
            ) from None
        check_place(directory)
        with self._explained():
            self._writer, self._reader = _open(directory / FILE), _open(directory / FILE)
        try:
            with self._explained():
                self._prepare(max_bytes)
            self._inode = _inode(directory / FILE)
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
                "INSERT INTO partitions (topic, partition, first, next, last_ms, sum) VALUES (?, ?, 0, 0, 0, ?) "
                "ON CONFLICT (topic, partition) DO NOTHING",
                [(*task, sum_of(*task, 0, 0, 0)) for task in tasks],
            )
            rows = cursor.execute("SELECT id, topic, partition, first, next, last_ms, sum FROM partitions").fetchall()
        for _, *fields, sum_ in rows:
            if sum_ != sum_of(*fields):
                raise self.damaged("the table of partitions")
        return {Task(topic, partition): number for number, topic, partition, *_ in rows}

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
        heads = {task: self.head(cursor, task) for task in set(placed)}
        receipts, rows = [], []
        for task, output in zip(placed, outputs, strict=True):
            first, offset, last_ms = heads[task]
            append_ms = max(last_ms, now_ms)
            heads[task] = Head(first, offset + 1, append_ms)
            receipts.append(Receipt(*task, offset, append_ms))
            row = self.numbers[task] << SHIFT | offset
            rows.append((row, append_ms, _sum(row, append_ms, output.key, output.value), output.key, output.value))
        cursor.executemany("INSERT INTO records (id, append_ms, sum, key, value) VALUES (?, ?, ?, ?, ?)", rows)
        for task, head in heads.items():
            self.set_head(cursor, task, head)
        return receipts

    def head(self, cursor: sqlite3.Cursor, task: Task) -> Head:
        """What the file says of a partition. Raises LogDamaged."""
        query = "SELECT first, next, last_ms, sum FROM partitions WHERE id = ?"
        row = cursor.execute(query, (self.number(task),)).fetchone()
        if row is None or row[3] != sum_of(*task, *row[:3]):
            raise self.damaged(f"{task.topic}[{task.partition}]")
        return Head(*row[:3])

    def set_head(self, cursor: sqlite3.Cursor, task: Task, head: Head) -> None:
        """Change it."""
        query = "UPDATE partitions SET first = ?, next = ?, last_ms = ?, sum = ? WHERE id = ?"
        cursor.execute(query, (*head, sum_of(*task, *head), self.numbers[task]))

    def bounds(self, cursor: sqlite3.Cursor, task: Task) -> Bounds:
        """The offsets that are kept."""
        return Bounds(*self.head(cursor, task)[:2])

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
                raise self.damaged(f"record {row - low} of {task.topic}[{task.partition}]")
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
                raise self.damaged(f"record {offset} of {task.topic}[{task.partition}]")

    def damaged(self, what: str) -> LogDamaged:
        """The error for a part of the file that does not agree with its checksum."""
        where = self.directory / FILE
        return LogDamaged(f"{where}: {what} is damaged: keep the file for recovery and name another directory")

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
        if self._inode is not None and _inode(self.directory / FILE) != self._inode:
            raise LogDamaged(
                f"{self.directory / FILE} was removed or replaced while it was in use, what is written there is lost: "
                "put it back, or start again on a new one"
            )
        try:
            yield
        except sqlite3.Error as error:
            raise explained(error, self.directory / FILE) from error


def sum_of(*fields: int | str) -> int:
    """The checksum of a row that is not a record."""
    return int(crc32c.crc32c(repr(fields).encode("utf-8", "surrogatepass")))


def _sum(row: int, append_ms: int, key: bytes, value: bytes | None) -> int:
    head = struct.pack("<qq?", row, append_ms, value is None)
    return crc32c.crc32c(value or b"", crc32c.crc32c(key, crc32c.crc32c(head)))


def _inode(file: Path) -> int:
    try:
        return file.stat().st_ino
    except OSError:
        return -1


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
