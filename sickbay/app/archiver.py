"""The archive stage: writes what the log holds into Delta tables, every `[archive] every_s`.

A write that fails is told, counted and tried again: an archive that is behind must not stop the diagnosis beside it.
What would be wrong for ever (no folder, another log's archive) is told at the start, by an error.
"""

import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

from sickbay import selfmetrics
from sickbay.admission import admission
from sickbay.app.live import FrameReader
from sickbay.app.service import Context
from sickbay.config import ConfigError
from sickbay.log import Closed, LogError
from streams.archive import Archive, ArchiveError, Feed, Written
from streams.archive_rows import Reading
from streams.archive_table import Beaten

CLOSING_S = 10.0  # at the end; what is left then is the next start's
SAY_MS = 60_000  # people are told of a failure that goes on once a minute


class Archiver:
    """The stage (see `sickbay.app.service`). Raises ConfigError or ArchiveError where it cannot begin."""

    def __init__(self, context: Context) -> None:
        from deltalake.exceptions import DeltaError

        settings = context.config.archive
        if not settings.path:
            raise ConfigError("[archive] path is empty: name a folder for the archive")
        self._context, self._metrics = context, context.metrics
        self._every_ms = round(settings.every_s * 1000)
        self._failures = (DeltaError, OSError, LogError, ArchiveError)
        trust = admission(context.config.security)
        reading = Reading(trust, FrameReader(context.log, trust, context.metrics))
        self.archive = Archive(context.log, Path(settings.path), reading, context.clock)
        self._next_ms = 0
        self._queue: deque[Feed] = deque()  # topics of this round that may still hold something
        self._failed_once = False  # in this round
        self._said: dict[str, int] = {}  # what: when

    def step(self, now_ms: int) -> bool:
        """One batch of one topic when it is time for a round; a topic that holds more comes again in the same round."""
        if not self._queue:
            if now_ms < self._next_ms:
                return False
            self._queue.extend(self.archive.feeds.values())
            self._failed_once = False
        self._batch(now_ms)
        if not self._queue:
            self._next_ms = now_ms + self._every_ms
            if not self._failed_once:
                self._metrics.set(selfmetrics.ARCHIVE_SINCE, now_ms / 1000)
        return bool(self._queue)

    def _batch(self, now_ms: int) -> None:
        feed = self._queue.popleft()
        try:
            written = feed.round()
            self._look_after(feed, now_ms)
        except Closed:
            raise
        except self._failures as error:
            self._failed(feed, error, now_ms)
            if isinstance(error, LogError):  # the log is away: it would be for the other topics too
                self._queue.clear()
            return
        self._count(feed.topic, written, now_ms)
        if written.more or written.beaten:
            self._queue.append(feed)

    def _look_after(self, feed: Feed, now_ms: int) -> None:
        for table in feed.tables:
            table.tidy(datetime.fromtimestamp(now_ms / 1000, UTC).date())
            if table.dropped:
                names = ", ".join(sorted(table.dropped)[:5])
                self._say(f"{table.name} wide", f"archive: {table.name} is too wide: without {names} ...", now_ms)

    def _failed(self, feed: Feed, error: Exception, now_ms: int) -> None:
        self._failed_once = True
        self._metrics.count(selfmetrics.ARCHIVE_ERRORS, kind=type(error).__name__)
        self._say(feed.topic, f"archive: {feed.topic}: {type(error).__name__}: {error}", now_ms)
        try:
            feed.reload()
        except self._failures as again:  # the same trouble: the next round begins with it
            self._metrics.count(selfmetrics.ARCHIVE_ERRORS, kind=type(again).__name__)

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
        self._next_ms = now_ms
        while self.step(now_ms) and not self._failed_once and time.monotonic() < until:
            pass
        try:
            self.archive.settle()
        except (*self._failures, Beaten) as error:  # then a few records are read again
            self._say("settle", f"archive: {error}", now_ms)
