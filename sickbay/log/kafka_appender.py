"""Appending to Kafka with kafka-python, pure Python, so that it runs on whatever processor a host has.

At least once: a record is repeated until a broker has it or its time is over. Records of a partition keep their order,
as one request is under way at a time. What waits is bounded: who appends faster than the brokers take is held up, and
told `LogBusy` when that lasts.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, SaslAuthenticationFailedError

from sickbay.log import Closed, LogBusy, LogError, Output, Receipt, checks
from sickbay.log.kafka_clients import CALL_S, OVERHEAD, arguments, connected, reached, why_unreachable
from sickbay.log.kafka_errors import explained, missing, name_of
from sickbay.log.kafka_topics import BATCH_BYTES
from sickbay.settings import LogSettings
from sickbay.topics import MIB, Topic

WAITING_BYTES = 16 * MIB  # that wait for the brokers; an agent may have 80 MB in all
CLOSE_S = 5.0  # for what still waits at the end: a process that was asked to end has little time
DELIVERY_S = 20.0  # for one record, repeats included: longer than a broker's restart, shorter than an agent's patience
LINGER_MS = 5  # records of so long go together


class KafkaOutcome:
    """What became of one append of a KafkaAppender."""

    __slots__ = ("_appender", "_future", "size", "topic")

    def __init__(self, appender: "KafkaAppender", topic: str, size: int) -> None:
        self._appender, self.topic, self.size = appender, topic, size
        self._future: Any = None

    def follow(self, future: Any) -> None:
        """From now on it tells what becomes of `future`."""
        self._future = future
        future.add_callback(lambda _: self._appender.settled(self, None))
        future.add_errback(lambda error: self._appender.settled(self, error))

    def done(self) -> bool:
        """Whether the outcome is known."""
        return bool(self._future.is_done)

    def result(self) -> Receipt:
        """Where it landed, waiting for it at most DELIVERY_S and a little. Raises the LogError that stopped it."""
        return self.awaited(time.monotonic() + DELIVERY_S + CALL_S)

    def awaited(self, deadline: float) -> Receipt:
        """The same, waiting until then."""
        try:
            found = self._future.get(timeout=max(0.0, deadline - time.monotonic()))
        except KafkaError as error:
            raise self._appender.explained(error, self.topic) from None
        return Receipt(self.topic, found.partition, found.offset, found.timestamp)


class KafkaAppender:
    """An `Appender` of a Kafka log. Raises LogBusy where no broker is reached within CALL_S."""

    def __init__(
        self,
        settings: LogSettings,
        topics: Mapping[str, Topic],
        *,
        waiting_bytes: int = WAITING_BYTES,
        patience_s: float = CALL_S,
        delivery_s: float = DELIVERY_S,
    ) -> None:
        self._settings, self._topics = settings, topics
        self._room, self._patience_s = waiting_bytes, patience_s
        self._changed = threading.Condition()
        self._waiting: set[KafkaOutcome] = set()
        self._bytes = 0
        self._failed: LogError | None = None
        self._closed = self._gone = False
        self._known: set[str] = set()  # topics that were seen on the brokers
        self._producer = _producer(settings, topics, delivery_s)

    def append(self, topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> KafkaOutcome:
        """Hand over one record. Raises UnknownTopic or TooLarge at once, LogBusy where too much waits for too long."""
        place = checks.placed(self._topics, Output(topic, key, value, partition))
        outcome = KafkaOutcome(self, topic, len(key) + len(value or b"") + OVERHEAD)
        self._reserve(outcome)
        try:
            self._find(topic)
            name = self._settings.prefix + topic
            outcome.follow(self._producer.send(name, key=key, value=value, partition=place.partition))
        except BaseException as error:
            self._release(outcome)
            if isinstance(error, KafkaError):
                raise self.explained(error, topic) from None
            raise
        return outcome

    def _find(self, topic: str) -> None:
        """At its first record: is the topic there, with the declared partitions?"""
        if topic in self._known:
            return
        name = self._settings.prefix + topic
        try:
            found = len(self._producer.partitions_for(name))
        except KafkaTimeoutError:
            raise (
                missing(name, self._settings) if reached(self._settings) else why_unreachable(self._settings)
            ) from None
        if found != self._topics[topic].partitions:
            raise LogError(
                f"topic {name!r} at {self._settings.brokers} has {found} partitions, not "
                f"{self._topics[topic].partitions}: keys would go elsewhere; correct [log] prefix or the topic"
            )
        self._known.add(topic)

    def _reserve(self, outcome: KafkaOutcome) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._fits(outcome), self._patience_s):
                raise LogBusy(
                    f"{self._bytes} bytes wait for {self._settings.brokers}, and for {self._patience_s:.0f} s there "
                    "was no room for more: nothing was appended; try again later"
                )
            if self._closed:
                raise Closed("the appender was closed")
            self._waiting.add(outcome)
            self._bytes += outcome.size

    def _fits(self, outcome: KafkaOutcome) -> bool:
        return not self._waiting or self._bytes + outcome.size <= self._room

    def _release(self, outcome: KafkaOutcome) -> None:
        with self._changed:
            if outcome in self._waiting:
                self._waiting.remove(outcome)
                self._bytes -= outcome.size
                self._changed.notify_all()

    def settled(self, outcome: KafkaOutcome, error: BaseException | None) -> None:
        """Called by the sender's thread when the fate of a record is known."""
        if error is not None:
            self._failed = self._failed or self.explained(error, outcome.topic)
        self._release(outcome)

    def explained(self, error: BaseException, topic: str) -> LogError:
        """The client's error as one of ours."""
        if self._gone:
            return Closed(f"{topic}: the appender was closed before a broker had this")
        return explained(name_of(error), str(error), self._settings, self._settings.prefix + topic)

    def flush(self, limit_s: float | None = None) -> None:
        """Wait until every append so far has an outcome. Raises the first error since the last flush."""
        with self._changed:
            waiting = list(self._waiting)
        limit_s = DELIVERY_S + CALL_S if limit_s is None else limit_s
        deadline = time.monotonic() + limit_s
        for outcome in waiting:
            if not self._until(outcome, deadline):
                raise LogBusy(f"{self._settings.brokers}: no answer within {limit_s:.0f} s: check that the brokers run")
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _until(self, outcome: KafkaOutcome, deadline: float) -> bool:
        with self._changed:
            left = max(0.0, deadline - time.monotonic())
            return self._changed.wait_for(lambda: outcome not in self._waiting, left)

    def close(self) -> None:
        """Flush, for at most CLOSE_S, and let go. Raises the first error since the last flush."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        try:
            self.flush(CLOSE_S)
        finally:
            self._gone = True
            self._producer.close(timeout=1)


def _producer(settings: LogSettings, topics: Mapping[str, Topic], delivery_s: float) -> Any:
    largest = max((topic.max_bytes for topic in topics.values()), default=MIB)
    told = arguments(
        settings,
        acks="all",
        enable_idempotence=False,  # at least once is the promise; it would end in lost batches when its epoch is bumped
        max_in_flight_requests_per_connection=1,  # keeps the order of a partition
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        max_request_size=max(largest + 4 * OVERHEAD, MIB),
        delivery_timeout_ms=int(delivery_s * 1000),
        max_block_ms=3000,
        allow_auto_create_topics=False,
        metrics_enabled=False,
    )
    told["request_timeout_ms"] = min(int(CALL_S * 1000), int(delivery_s * 1000) - LINGER_MS)
    if not reached(settings):
        raise why_unreachable(settings)
    with _refusals() as refused:
        try:
            return connected(KafkaProducer, told)
        except KafkaTimeoutError:
            reason = refused[0] if refused else None
        except KafkaError as error:
            reason = error
    raise why_unreachable(settings) if reason is None else explained(name_of(reason), str(reason), settings)


class _Listener(logging.Handler):
    """The client keeps trying when its user is refused, and only its log tells."""

    def __init__(self, heard: list[KafkaError]) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self._heard += [one for one in record.args or () if isinstance(one, SaslAuthenticationFailedError)]


@contextmanager
def _refusals() -> Iterator[list[KafkaError]]:
    heard: list[KafkaError] = []
    listener = _Listener(heard)
    _CLIENT_LOG.addHandler(listener)
    try:
        yield heard
    finally:
        _CLIENT_LOG.removeHandler(listener)


_CLIENT_LOG = logging.getLogger("kafka")
_CLIENT_LOG.addHandler(
    logging.NullHandler()
)  # every failed connection is a line otherwise; our errors tell what matters
