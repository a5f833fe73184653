"""SQLite's errors in our words, which say what to do."""

import os
import sqlite3
from pathlib import Path

from sickbay.log import LogBusy, LogDamaged, LogError, LogFull, UnfitPlace

BUSY_S = 10.0  # a writer waits so long for another process: its longest is one full batch with a slow disk's sync


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
