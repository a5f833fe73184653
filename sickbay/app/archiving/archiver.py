"""The archive stage: writes what the log holds into Delta tables, every `[archive] every_s`, and keeps them in order.

A write that fails is told, counted and tried again: an archive that is behind, or whose tables are damaged, must not
stop the diagnosis beside it. Until it is mended the stage is not ready. What settings make wrong (no folder, another
log's archive) is told at the start, by an error.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime

from sickbay import selfmetrics
from sickbay.admission import admission
from sickbay.app.archiving.archive_frames import ArchiveFrames
from sickbay.app.running.service import Context
from sickbay.archive_place import place
from sickbay.config import ConfigError
from sickbay.log import Closed, LogError
from sickbay.schema import TABLES
from sickbay.topics import TELEMETRY
from streams.archive import Archive, ArchiveError, Feed, Written
from streams.archive_rows import Reading
from streams.archive_table import Beaten, Keeping
from streams.archive_upkeep import Upkeep

CLOSING_S = 10.0  # at the end; what is left then is the next start's
SAY_MS = 60_000  # people are told of a failure that goes on once a minute


class Archiver:
    """The stage (see `sickbay.app.running.service`). Raises ConfigError or ArchiveError where it cannot begin."""

    def __init__(self, context: Context) -> None:
        from deltalake.exceptions import DeltaError
        from polars.exceptions import PanicException, PolarsError

        settings = context.config.archive
        if not settings.path:
            raise ConfigError("[archive] path is empty: name a folder or a bucket for the archive")
        self._context, self._metrics = context, context.metrics
        self._every_ms = round(settings.every_s * 1000)
        self._failures = (DeltaError, OSError, LogError, ArchiveError, PolarsError, PanicException)
        self._damage = (DeltaError, PanicException)
        trust = admission(context.config.security)
        root = place(settings.path, settings.endpoint, settings.region)
        frames = ArchiveFrames(context.log, trust, context.metrics) if settings.telemetry else None
        self._made: Callable[[], Archive] = lambda: Archive(
            context.log, root, Reading(trust), context.clock, frames=frames
        )
        self._root = root
        self._archive: Archive | None = None  # where its tables can be read
        self.upkeep: list[Upkeep] = []
        self.waiting = ""  # what keeps it from writing
        self._keeping = Keeping(settings.full_rate_hours, settings.keep_days, settings.replaced_hours)
        self._next_ms = 0
        self._queue: deque[Feed] = deque()  # topics of this round that may still hold something
        self._chores: deque[Upkeep] = deque()  # then: tables of this round that may still need something
        self._complete_ms = 0
        self._failed_once = False  # in this round
        self._said: dict[str, int] = {}  # what: when
        self._open(context.clock())

    @property
    def archive(self) -> Archive:
        """The tables. Raises ArchiveError where they cannot be read."""
        if self._archive is None:
            raise ArchiveError(self.waiting)
        return self._archive

    def _open(self, now_ms: int) -> None:
        try:
            archive = self._made()
            full = zip(TABLES, archive.feeds[TELEMETRY].tables, strict=True) if TELEMETRY in archive.feeds else ()
            self.upkeep = [Upkeep(self._root, name, table, self._keeping) for name, table in full]
            self._archive = archive
        except self._damage as error:
            self._next_ms = now_ms + self._every_ms
            self._failed_now("tables", error, now_ms)

    def step(self, now_ms: int) -> bool:
        """One batch of one topic when it is time for a round; a topic that holds more comes again in the same round.
        Then upkeep, a piece at a time."""
        if not self._queue and not self._chores:
            if now_ms < self._next_ms:
                return False
            if self._archive is None:
                self._open(now_ms)
            if self._archive is None:
                return False
            self._queue.extend(self.archive.feeds.values())
            self._failed_once = False
        if self._queue:
            self._batch(now_ms)
            if not self._queue:
                self._all_read(now_ms)
        else:
            self._chore(now_ms)
        return bool(self._queue or self._chores)

    def _all_read(self, now_ms: int) -> None:
        self._next_ms = now_ms + self._every_ms
        if self._failed_once:
            return
        self.waiting = ""
        self._metrics.set(selfmetrics.ARCHIVE_SINCE, now_ms / 1000)
        if self.upkeep:
            feed = self.archive.feeds[TELEMETRY]
            with self._trying(feed, now_ms):
                self._complete_ms = feed.complete_ms()
                self._chores.extend(self.upkeep)

    def _chore(self, now_ms: int) -> None:
        upkeep = self._chores.popleft()
        with self._trying(self.archive.feeds[TELEMETRY], now_ms):
            if done := upkeep.step(self._complete_ms, _day(now_ms)):
                self._metrics.count(selfmetrics.ARCHIVE_UPKEEP, table=upkeep.name, what=done)
                self._chores.append(upkeep)

    @contextmanager
    def _trying(self, feed: Feed, now_ms: int) -> Iterator[None]:
        try:
            yield
        except Closed:
            raise
        except self._failures as error:
            self._failed(feed, error, now_ms)
            if isinstance(error, LogError):  # the log is away: it would be for the other topics too
                self._queue.clear()

    def _batch(self, now_ms: int) -> None:
        feed = self._queue.popleft()
        with self._trying(feed, now_ms):
            written = feed.round()
            self._look_after(feed, now_ms)
            self._count(feed.topic, written, now_ms)
            if written.more or written.beaten:
                self._queue.append(feed)

    def _look_after(self, feed: Feed, now_ms: int) -> None:
        for table in feed.tables:
            if feed.topic != TELEMETRY:  # its upkeep has rules of its own
                table.tidy(_day(now_ms), self._keeping)
            if table.dropped:
                names = ", ".join(sorted(table.dropped)[:5])
                self._say(f"{table.name} wide", f"archive: {table.name} is too wide: without {names} ...", now_ms)

    def _failed(self, feed: Feed, error: BaseException, now_ms: int) -> None:
        self._failed_once = True
        self._failed_now(feed.topic, error, now_ms)
        try:
            feed.reload()
        except self._failures as again:  # the same trouble: the next round begins with it
            self._metrics.count(selfmetrics.ARCHIVE_ERRORS, kind=type(again).__name__)

    def _failed_now(self, what: str, error: BaseException, now_ms: int) -> None:
        text = str(error).partition("\n")[0]  # deltalake adds where in its code that was
        self.waiting = f"{what}: {type(error).__name__}: {text}"
        self._metrics.count(selfmetrics.ARCHIVE_ERRORS, kind=type(error).__name__)
        self._say(what, f"archive: {self.waiting}", now_ms)

    def _count(self, topic: str, written: Written, now_ms: int) -> None:
        for table, rows in written.rows.items():
            self._metrics.count(selfmetrics.ARCHIVED, rows, table=table)
        if written.damaged:
            self._metrics.count(selfmetrics.ARCHIVE_DAMAGED, written.damaged, topic=topic)
            self._say(f"{topic} damaged", f"archive: {written.damaged} records passed over: {written.reason}", now_ms)
        if written.lost:
            self._metrics.count(selfmetrics.ARCHIVE_LOST, written.lost, topic=topic)
            self._say(f"{topic} lost", f"archive: {written.lost} records of {topic} were removed unread", now_ms)

    def _say(self, what: str, text: str, now_ms: int) -> None:
        if now_ms >= self._said.get(what, -SAY_MS) + SAY_MS:
            self._said[what] = now_ms
            self._context.say(text)

    def close(self) -> None:
        """Write what is there, as far as it can be done soon, and every position."""
        now_ms, until = self._context.clock(), time.monotonic() + CLOSING_S
        self._queue.clear()
        self._chores.clear()
        if self._archive is None:
            return
        self._next_ms = now_ms
        while self.step(now_ms) and self._queue and not self._failed_once and time.monotonic() < until:
            pass
        try:
            self.archive.settle()
        except (*self._failures, Beaten) as error:  # then a few records are read again
            self._say("settle", f"archive: {error}", now_ms)


def _day(now_ms: int) -> date:
    return datetime.fromtimestamp(now_ms / 1000, UTC).date()
