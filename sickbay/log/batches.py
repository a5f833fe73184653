"""Appending to the embedded log: many records in one transaction, each with an outcome of its own."""

import threading
from collections.abc import Callable, Sequence

from sickbay.log import Closed, LogError, Output, Receipt, checks
from sickbay.log.store import Store

BATCH_RECORDS = 500  # appended in one transaction; more are written without waiting for a flush
BATCH_BYTES = 4 << 20


class SqliteOutcome:
    """What became of one append of a SqliteAppender."""

    def __init__(self, appender: "SqliteAppender") -> None:
        self._appender = appender
        self.known: Receipt | LogError | None = None

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.known is not None

    def result(self) -> Receipt:
        """Where it landed, writing what is held back if need be. Raises the LogError that stopped it."""
        if self.known is None:
            self._appender.write()
        if isinstance(self.known, Receipt):
            return self.known
        raise self.known or Closed("the appender was closed before it wrote this")


class SqliteAppender:
    """An `Appender` of the embedded log: one transaction for many records."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.RLock()
        self._waiting: list[tuple[Output, SqliteOutcome]] = []
        self._bytes = 0
        self._failed: LogError | None = None
        self._closed = False

    def append(self, topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> SqliteOutcome:
        """Hold one record back for the next batch. Raises UnknownTopic or TooLarge."""
        output = Output(topic, key, value, partition)
        checks.placed(self._store.topics, output)
        with self._lock:
            if self._closed:
                raise Closed("the appender was closed")
            outcome = SqliteOutcome(self)
            self._waiting.append((output, outcome))
            self._bytes += len(value or b"")
            if len(self._waiting) >= BATCH_RECORDS or self._bytes >= BATCH_BYTES:
                self.write()
            return outcome

    def write(self) -> None:
        """Write what is held back and tell the outcomes; an error is told by them and by the next flush."""
        with self._lock:
            batch, self._waiting, self._bytes = self._waiting, [], 0
            if not batch:
                return
            try:
                known: Sequence[Receipt | LogError] = self._put([output for output, _ in batch])
            except LogError as error:
                known = [error] * len(batch)
                self._failed = self._failed or error
            for (_, outcome), what in zip(batch, known, strict=True):
                outcome.known = what

    def _put(self, outputs: Sequence[Output]) -> list[Receipt]:
        with self._store.write(self._store.sync_of({output.topic for output in outputs})) as cursor:
            return self._store.put(cursor, outputs, self._clock())

    def flush(self, limit_s: float | None = None) -> None:
        """Write what is held back. Raises the first error since the last flush. A file needs no limit."""
        with self._lock:
            self.write()
            failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Flush and refuse further appends."""
        with self._lock:
            self._closed = True
            self.flush()
