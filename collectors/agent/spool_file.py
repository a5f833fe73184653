"""The file of a spool: its tables, its limits, and that one agent alone holds it."""

import fcntl
import os
import sqlite3
from pathlib import Path

from sickbay.log.place import check_place

VERSION = 1
SLACK = 1.25  # of the file over the payloads in it: half-filled and freed pages
PAGE = 4096
BUSY_S = 5.0


class SpoolError(Exception):
    """The spool cannot be used; the text says what to do."""


_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sequences (topic TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (id INTEGER PRIMARY KEY, rank INTEGER NOT NULL, topic TEXT NOT NULL, key BLOB NOT NULL,
                      sequence INTEGER NOT NULL, at_ms INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE INDEX by_rank ON entries (rank, at_ms, id);
CREATE TABLE facts (topic TEXT, key BLOB, payload BLOB NOT NULL, PRIMARY KEY (topic, key)) WITHOUT ROWID;
CREATE TABLE places (source TEXT PRIMARY KEY, place BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE dropped (topic TEXT PRIMARY KEY, first INTEGER, last INTEGER, lost INTEGER) WITHOUT ROWID;
"""


def claimed(directory: Path) -> int:
    """A lock that the kernel lets go with the process. Raises SpoolError, UnfitPlace."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_place(directory)
        handle = os.open(directory / "spool.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SpoolError(f"{directory}: {error.strerror or error}: name a directory that can be written to") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise SpoolError(f"{directory} is in use by another agent: give each a directory of its own") from None
    return handle


def made(path: str, max_bytes: int) -> sqlite3.Connection:
    """The database at `path`, made where it is not there. Raises sqlite3.Error for a damaged one, SpoolError."""
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA page_size = {PAGE}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 256")  # pages: the side file stays near 1 MiB
        db.execute(f"PRAGMA journal_size_limit = {2 << 20}")
        db.execute(f"PRAGMA max_page_count = {int(max_bytes * SLACK) // PAGE + 64}")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise SpoolError(f"{path} is of another version: end that agent, or name another directory")
        if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("the file is damaged")
    except BaseException:
        db.close()
        raise
    return db
