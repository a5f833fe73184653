"""The agent's spool: what was seen is on disk before it is sent, and stays there until the log has told its outcome.

One SQLite file. An entry gets the next sequence number of its topic in the transaction that stores it, so whoever reads
the log can tell a repeat (the same number) from a loss (a gap). Facts (layouts, identities) are kept and told again by
every run; places (how far a log was read) move in the same transaction as the entries that came of it.
"""

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from collectors.agent.spool_file import SpoolError, claimed, made

BACK_MS = 2_000  # by which a clock may be corrected without a word
OVERHEAD = 200  # bytes that an entry takes beside its payload: row, key, index


class Rank(IntEnum):
    """What is given up first when there is no room."""

    TELEMETRY = 0
    STEPS = 1
    EVENTS = 2


class Draft(NamedTuple):
    """An entry without its number: `build` makes the payload of (incarnation, sequence) once it has one."""

    topic: str
    key: bytes
    rank: Rank
    build: Callable[[int, int], bytes]


class Entry(NamedTuple):
    """One entry as it is sent."""

    id: int
    topic: str
    key: bytes
    sequence: int
    payload: bytes
    live: bool = True  # not of a backlog


class Fact(NamedTuple):
    """A record of a compacted topic."""

    topic: str
    key: bytes
    payload: bytes


class Dropped(NamedTuple):
    """Entries that were given up: numbers `first` to `last` of a topic, `lost` of them."""

    topic: str
    first: int
    last: int
    lost: int


@dataclass(slots=True)
class Held:
    """What lies in the spool."""

    entries: int = 0
    bytes: int = 0
    flying: set[int] = field(default_factory=set)  # handed to the client, without an outcome yet


_BY_AGE = (
    "SELECT id, topic, key, sequence, payload FROM entries WHERE rank = ? AND at_ms {} ? ORDER BY at_ms, id LIMIT ?"
)
_DROP = (
    "INSERT INTO dropped VALUES (?, ?, ?, 1) ON CONFLICT (topic) DO UPDATE SET "
    "first = min(first, excluded.first), last = max(last, excluded.last), lost = lost + 1"
)
_LIVE, _BACKLOG = _BY_AGE.format(">="), _BY_AGE.format("<")
_TURNS = [(query, rank) for query in (_LIVE, _BACKLOG) for rank in sorted(Rank, reverse=True)]
_LAST = "SELECT payload FROM entries WHERE rank = ? ORDER BY at_ms DESC, id DESC LIMIT ?"
_OLDEST = "SELECT min(at_ms) FROM entries WHERE rank = ?"


class Spool:
    """The spool of `host` in `directory`, which is its own; `None`: in memory only. Safe between threads."""

    def __init__(self, directory: Path | None, host: str, max_bytes: int) -> None:
        self._lock, self._max = threading.Lock(), max_bytes
        self._claim = -1 if directory is None else claimed(directory)
        self._done: list[tuple[Entry, bool]] = []  # have an outcome and still lie here; whether it is a drop
        self.damaged = ""  # what became of a file that could not be read
        try:
            self._db = self._opened(directory, max_bytes)
            self.incarnation = self._incarnation(host)
        except BaseException:
            self._release()
            raise
        rows = self._db.execute("SELECT topic, key, payload FROM facts ORDER BY topic, key")
        self._facts = {(row[0], row[1]): Fact(*row) for row in rows}
        count, size, newest_ms = self._db.execute(
            "SELECT count(*), coalesce(sum(length(payload)), 0), coalesce(max(at_ms), 0) FROM entries"
        ).fetchone()
        self._newest_ms: int = newest_ms
        self.held = Held(count, size + count * OVERHEAD)
        self._gave_up = True  # drops may wait to be told: else nobody needs to look

    def _opened(self, directory: Path | None, max_bytes: int) -> sqlite3.Connection:
        if directory is None:
            return made(":memory:", max_bytes)
        path = directory / "spool.sqlite"
        try:
            return made(str(path), max_bytes)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, full, not allowed: it is not the file's fault
                raise SpoolError(f"{path}: {error}") from None
            self.damaged = f"{path}: {error}; put aside"
        for suffix in ("", "-wal", "-shm"):
            damaged = path.with_name(path.name + suffix)
            if damaged.exists():
                damaged.rename(path.with_name(f"damaged-{time.time_ns() // 1_000_000_000}{suffix}"))
        return made(str(path), max_bytes)

    def _incarnation(self, host: str) -> int:
        with self._write(full=True) as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('incarnation', ?)", (str(secrets.randbits(48)),))
            db.execute("INSERT OR IGNORE INTO meta VALUES ('host', ?)", (host,))
            told = dict(db.execute("SELECT name, value FROM meta").fetchall())
        if told["host"] != host:
            raise SpoolError(f"this spool belongs to host {told['host']}: give {host} a directory of its own")
        return int(told["incarnation"])

    @contextmanager
    def _write(self, *, full: bool) -> Iterator[sqlite3.Connection]:
        """One transaction. `full`: on disk before it returns, also if the machine loses its power."""
        with self._lock:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def add(
        self,
        drafts: Sequence[Draft],
        now_ms: int,
        *,
        facts: Iterable[Fact] = (),
        places: Mapping[str, bytes] | None = None,
        told: Iterable[Dropped] = (),
    ) -> None:
        """Store all of it or nothing. `told`: drops that these drafts tell of. Raises sqlite3.Error."""
        facts = list(facts)
        with self._write(full=True) as db:
            _forget(db, told)
            now_ms = self._dated(db, now_ms)
            grown = sum(self._insert(db, draft, now_ms) for draft in drafts)
            db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", facts)
            db.executemany("INSERT OR REPLACE INTO places VALUES (?, ?)", (places or {}).items())
            over = self.held.bytes + grown - self._max
            gone, freed = self._make_room(db, over) if over > 0 else (0, 0)
            self._facts = self._facts | {(fact.topic, fact.key): fact for fact in facts}  # before who takes an entry
        self._newest_ms = now_ms
        self._count(len(drafts) - gone, grown - freed)

    def _dated(self, db: sqlite3.Connection, now_ms: int) -> int:
        """When it is stored: a clock that is set back changes no order, and leaves nothing young for ever."""
        if now_ms < self._newest_ms - BACK_MS:
            db.execute("UPDATE entries SET at_ms = ? WHERE at_ms > ?", (now_ms, now_ms))
            return now_ms
        return max(now_ms, self._newest_ms)

    def _count(self, entries: int, size: int) -> None:
        with self._lock:
            self.held.entries += entries
            self.held.bytes += size

    def move(self, places: Mapping[str, bytes]) -> None:
        """Store places alone. Raises sqlite3.Error."""
        with self._write(full=False) as db:
            db.executemany("INSERT OR REPLACE INTO places VALUES (?, ?)", places.items())

    def _insert(self, db: sqlite3.Connection, draft: Draft, now_ms: int) -> int:
        row = db.execute(
            "INSERT INTO sequences VALUES (?, 1) ON CONFLICT (topic) DO UPDATE SET next = next + 1 RETURNING next",
            (draft.topic,),
        ).fetchone()
        payload = draft.build(self.incarnation, row[0])
        db.execute(
            "INSERT INTO entries (rank, topic, key, sequence, at_ms, payload) VALUES (?, ?, ?, ?, ?, ?)",
            (int(draft.rank), draft.topic, draft.key, row[0], now_ms, payload),
        )
        return len(payload) + OVERHEAD

    def _make_room(self, db: sqlite3.Connection, over: int) -> tuple[int, int]:
        """Give up the least precious and oldest; how many, and their bytes. What is being sent stays."""
        rows = db.execute("SELECT id, topic, sequence, length(payload) FROM entries ORDER BY rank, at_ms, id")
        gone, freed = [], 0
        for id_, topic, sequence, size in rows:
            if freed >= over:
                break
            if id_ not in self.held.flying:
                gone.append((id_, topic, sequence))
                freed += size + OVERHEAD
        rows.close()
        db.executemany("DELETE FROM entries WHERE id = ?", [(id_,) for id_, _, _ in gone])
        db.executemany(_DROP, [(topic, sequence, sequence) for _, topic, sequence in gone])
        self._gave_up = True
        return len(gone), freed

    def take(self, limit: int, limit_bytes: int, live_after_ms: int, old_frames: int | None = None) -> list[Entry]:
        """What to send next: what is newer than `live_after_ms` before the backlog, events first, each oldest first.

        `old_frames`: so many of the backlog's telemetry at most.
        """
        if len(self.held.flying) >= self.held.entries:
            return []
        with self._lock:
            found: list[Entry] = []
            size = 0
            for query, rank in _TURNS:
                own, live = limit - len(found), query is _LIVE
                if rank is Rank.TELEMETRY and not live and old_frames is not None:
                    own = min(own, old_frames)
                rows = self._db.execute(query, (int(rank), live_after_ms, max(0, own) + len(self.held.flying)))
                for row in rows:
                    if own <= 0 or (found and size + len(row[4]) > limit_bytes):
                        break
                    if row[0] not in self.held.flying:
                        found.append(Entry._make((*row, live)))
                        size += len(row[4])
                        own -= 1
                rows.close()
            self.held.flying |= {entry.id for entry in found}
            return found

    def last(self, rank: Rank, limit: int) -> list[bytes]:
        """The payloads of the newest entries of a rank, oldest first."""
        with self._lock:
            rows = self._db.execute(_LAST, (int(rank), limit)).fetchall()
            return [row[0] for row in reversed(rows)]

    def since_ms(self) -> int | None:
        """When the oldest entry was stored, None where there is none."""
        if not self.held.entries:
            return None
        with self._lock:
            ages = [self._db.execute(_OLDEST, (int(rank),)).fetchone()[0] for rank in Rank]
            return min((age for age in ages if age is not None), default=None)

    def settle(self, delivered: Iterable[Entry], failed: Iterable[Entry], hopeless: Iterable[Entry] = ()) -> None:
        """What became of taken entries: delivered ones go, failed ones wait for their next turn, hopeless ones are
        dropped and told. What a full disk does not let go is not sent again by this run."""
        self._done += [(entry, False) for entry in delivered] + [(entry, True) for entry in hopeless]
        self.held.flying -= {entry.id for entry in failed}
        if not self._done:
            return
        with suppress(sqlite3.Error):
            with self._write(full=False) as db:
                db.executemany("DELETE FROM entries WHERE id = ?", [(entry.id,) for entry, _ in self._done])
                db.executemany(_DROP, [(one.topic, one.sequence, one.sequence) for one, told in self._done if told])
                self._gave_up = self._gave_up or any(told for _, told in self._done)
            self._count(-len(self._done), -sum(len(entry.payload) + OVERHEAD for entry, _ in self._done))
            self.held.flying -= {entry.id for entry, _ in self._done}
            self._done = []

    def dropped(self) -> list[Dropped]:
        """Drops that were not told yet."""
        if not self._gave_up:
            return []
        with self._lock:
            found = [Dropped(*row) for row in self._db.execute("SELECT topic, first, last, lost FROM dropped")]
            self._gave_up = bool(found)
            return found

    def forget(self, told: Iterable[Dropped]) -> None:
        """These drops were told; of a topic that dropped more since, only those are left. Raises sqlite3.Error."""
        with self._write(full=False) as db:
            _forget(db, told)

    def facts(self) -> list[Fact]:
        """All facts."""
        return list(self._facts.values())

    def place(self, source: str) -> bytes | None:
        """Where a source stopped, None where it never began."""
        with self._lock:
            row = self._db.execute("SELECT place FROM places WHERE source = ?", (source,)).fetchone()
            return row[0] if row else None

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            self._db.close()
        self._release()

    def _release(self) -> None:
        if self._claim >= 0:
            os.close(self._claim)
            self._claim = -1


def _forget(db: sqlite3.Connection, told: Iterable[Dropped]) -> None:
    for one in told:
        db.execute("UPDATE dropped SET lost = lost - ? WHERE topic = ?", (one.lost, one.topic))
    db.execute("DELETE FROM dropped WHERE lost <= 0")
