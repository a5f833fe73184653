"""Outputs and positions as one: the transactional producer of one member, thrown away after every failure.

A transaction is open only while `commit` runs. Its id comes from group and member, so that the next life of a member
ends what an earlier one left open, and an earlier one that wakes up is fenced.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sickbay.log import LogBusy, LogError, OutcomeUnknown, Output, Position, Receipt, Task, checks
from sickbay.log.kafka_clients import OVERHEAD, confluent, properties
from sickbay.log.kafka_errors import LOST, explained
from sickbay.log.kafka_topics import BATCH_BYTES
from sickbay.settings import LogSettings
from sickbay.topics import MIB, Topic

COMMIT_S = (
    6.0  # for one commit, with making a producer, which ends what an earlier life left open: two answers at least,
)
# as with 4.5 s no producer was made within 50 s of a lone broker's restart (measured); all of it fails within 10 s
LEAST_S = 1.0  # for a commit after a producer was made slowly: else the next attempt would begin with that again
ANSWER_S = 3.0  # for one answer of a broker; a call of the client waits for that, whatever it is told
OPEN_MS = 10_000  # an open transaction of a dead process hides what lies behind it until then
ABORT_S = 1.0
GRACE_S = 1.0
WAITING_KBYTES = 64 * 1024


class Lost(Exception):
    """The broker says that this member's time is over; `name` is its word for it."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class Transactions:
    """Commits under one name. Making a producer of that name fences an older one; `allow` raises where it must not."""

    def __init__(
        self,
        settings: LogSettings,
        topics: Mapping[str, Topic],
        name: str,
        allow: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self.topics, self._allow = settings, topics, allow
        self._client = confluent()
        largest = max((topic.max_bytes for topic in topics.values()), default=MIB)
        self._properties = properties(
            settings,
            transactional_id=settings.prefix + name,
            transaction_timeout_ms=OPEN_MS,
            message_timeout_ms=OPEN_MS - 1000,
            socket_timeout_ms=int(ANSWER_S * 1000),
            message_max_bytes=max(largest + 4 * OVERHEAD, MIB),
            batch_size=BATCH_BYTES,  # a topic takes at least so much at once
            linger_ms=0,
            retry_backoff_ms=20,  # the broker is still writing the marks of the last transaction: 100 ms is too long
            topic_metadata_propagation_max_ms=2000,
            queue_buffering_max_kbytes=WAITING_KBYTES,
        )
        self._producer: Any = None
        self._half_made: Any = None

    def ready(self) -> Any:
        """The producer; after it was made, no older transaction of its name is open. Raises Lost, LogBusy, LogError."""
        if self._producer is None:
            self._allow()
            producer, self._half_made = self._half_made or self._client.Producer(self._properties), None
            try:
                self._bounded(producer.init_transactions, COMMIT_S)
            except self._client.KafkaException as error:
                if error.args[0].retriable():  # the next attempt goes on with it
                    self._half_made = producer
                raise self._explained(error.args[0]) from None
            self._producer = producer
        return self._producer

    def commit(self, outputs: Sequence[Output], positions: Mapping[Task, Position], group: Any) -> list[Receipt]:
        """All or nothing. Raises Lost, OutcomeUnknown, or another LogError where nothing was committed."""
        deadline = time.monotonic() + COMMIT_S
        producer = self.ready()
        deadline = max(deadline, time.monotonic() + LEAST_S)
        try:
            receipts = self._prepare(producer, outputs, positions, group, deadline)
        except BaseException:
            self.drop(abort=True)
            raise
        self._settle(producer, deadline)
        return receipts

    def _prepare(
        self, producer: Any, outputs: Sequence[Output], positions: Mapping[Task, Position], group: Any, deadline: float
    ) -> list[Receipt]:
        try:
            producer.begin_transaction()
            told: list[Any] = [None] * len(outputs)
            for place, output in enumerate(outputs):
                self._produce(producer, output, told, place, deadline)
            offsets = [self._offset(task, position) for task, position in positions.items()]
            if offsets:
                self._bounded(producer.send_offsets_to_transaction, _left(deadline), offsets, group)
            if producer.flush(_left(deadline)):
                raise LogBusy(f"{self._settings.brokers}: no answer within {COMMIT_S:.0f} s: nothing was committed")
        except self._client.KafkaException as error:
            raise self._explained(error.args[0]) from None
        return [self._receipt(output, one) for output, one in zip(outputs, told, strict=True)]

    def _produce(self, producer: Any, output: Output, told: list[Any], place: int, deadline: float) -> None:
        def keep(error: Any, message: Any) -> None:
            told[place] = error or message

        task = checks.placed(self.topics, output)
        name = self._settings.prefix + task.topic
        while True:
            try:
                producer.produce(name, output.value, output.key, partition=task.partition, on_delivery=keep)
                producer.poll(0)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise LogBusy(f"{self._settings.brokers} takes records too slowly: nothing was committed") from None
                producer.poll(0.05)

    def _receipt(self, output: Output, told: Any) -> Receipt:
        if told is None:
            raise LogBusy(f"{self._settings.brokers}: no word of an output: nothing was committed")
        if isinstance(told, self._client.KafkaError):
            raise self._explained(told, self._settings.prefix + output.topic)
        return Receipt(output.topic, told.partition(), told.offset(), told.timestamp()[1])

    def _offset(self, task: Task, position: Position) -> Any:
        name = self._settings.prefix + task.topic
        return self._client.TopicPartition(name, task.partition, position[0], position[1])

    def _settle(self, producer: Any, deadline: float) -> None:
        """The commit proper. What fails after it was asked for may have happened, unless the broker says otherwise."""
        while True:
            try:
                return self._bounded(producer.commit_transaction, max(1.0, _left(deadline)))
            except LogBusy:
                self.drop(abort=False)
                raise OutcomeUnknown(
                    f"{self._settings.brokers}: no answer to a commit: read what is committed"
                ) from None
            except self._client.KafkaException as caught:
                error = caught.args[0]
                if error.retriable() and time.monotonic() < deadline:
                    continue
                self.drop(abort=error.txn_requires_abort())
                if error.txn_requires_abort():
                    raise self._explained(error) from None
                if error.name() in LOST:
                    raise Lost(error.name(), error.str()) from None
                raise OutcomeUnknown(
                    f"{self._settings.brokers}: no answer to a commit ({error.str()}): forget the open work, read what "
                    "is committed and go on from there"
                ) from None

    def _explained(self, error: Any, what: str = "") -> LogError | Lost:
        if error.name() in LOST:
            return Lost(error.name(), error.str())
        return explained(error.name(), error.str(), self._settings, what)

    def _bounded(self, call: Callable[..., None], limit_s: float, *arguments: Any) -> None:
        """The client's call with its own limit, and ours: when a broker restarts, librdkafka 2.16 may never return."""
        ended: list[BaseException | None] = []

        def run() -> None:
            try:
                call(*arguments, limit_s)
                ended.append(None)
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(limit_s + GRACE_S)
        if not ended:  # what it may still do is fenced by the next producer
            raise LogBusy(
                f"{self._settings.brokers}: no answer within {limit_s:.0f} s: nothing was committed; try again"
            )
        if ended[0] is not None:
            raise ended[0]

    def drop(self, *, abort: bool) -> None:
        """Throw the producer away; the next one ends what it may have left open."""
        producer, self._producer, self._half_made = self._producer, None, None
        if producer is None:
            return
        with contextlib.suppress(self._client.KafkaException, LogBusy):
            if abort:  # where it fails, the next producer's init_transactions aborts it, or the broker after OPEN_MS
                self._bounded(producer.abort_transaction, ABORT_S)
        with contextlib.suppress(self._client.KafkaException):
            producer.purge()
            producer.poll(0)


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())
