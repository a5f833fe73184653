"""One member of a group on Kafka: confluent-kafka's consumer, with static membership, and its transactions.

The client's own thread keeps the membership alive and fetches ahead; what it says about tasks is told by `poll` only.
Tasks move cooperatively: one that stays is not disturbed. Whoever does not poll for `poll_interval_ms` loses all.
"""

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sickbay.log import (
    Batch,
    Closed,
    Fenced,
    LogBusy,
    LogError,
    OffsetOutOfRange,
    OutcomeUnknown,
    Output,
    Position,
    Receipt,
    Record,
    Replaced,
    Task,
    checks,
    tasks_of,
)
from sickbay.log.kafka_asker import Asker
from sickbay.log.kafka_clients import CALL_S, confluent, fetching
from sickbay.log.kafka_contact import Contact
from sickbay.log.kafka_cover import Cover, leave
from sickbay.log.kafka_errors import (
    MISSING,
    MISTRUST,
    SLOW,
    TAKEN_OVER,
    UNREACHABLE,
    WRONG_PASSWORD,
    explained,
)
from sickbay.log.kafka_held import Held
from sickbay.log.kafka_transactions import Lost, Transactions
from sickbay.settings import LogSettings
from sickbay.topics import MIB, Topic

SLICE_S = 0.1  # a change of tasks is seen so long after it was told to the client's thread


class Patience(NamedTuple):
    """How long a member may be silent: without a sign of life of the process, and without a poll."""

    session_ms: int
    poll_interval_ms: int


class KafkaTasks:
    """A `TaskLog` of a Kafka log."""

    HEARTBEATS = 4  # a session

    def __init__(
        self,
        settings: LogSettings,
        topics: Mapping[str, Topic],
        group: str,
        names: Iterable[str],
        member: str,
        patience: Patience,
        asker: Asker,
    ) -> None:
        self.group, self.member = group, member
        self._settings, self._asker = settings, asker
        self._client = confluent()
        self._writer = self._transactions(topics)
        self._held = Held()
        self._broken_s = 0.0  # since when the client is of no use any more
        self._identity = ""  # the broker's name for this life of the member, while it is in the group
        self._out: LogError | None = None  # why it is out for good
        self._contact = Contact(settings)
        self._cover = Cover(asker, group, member, patience.session_ms / 1000)
        self._known: dict[tuple[str, int], Task] = {}  # tasks by the brokers' names
        self._topics, self._names, self._patience = topics, list(names), patience
        self._consumer: Any = None
        self._membership: Any = None
        self._begin()

    def _transactions(self, topics: Mapping[str, Topic]) -> Transactions:
        return Transactions(self._settings, topics, f"{self.group}/{self.member}")

    def _begin(self) -> None:
        """The clients: one that fetches, and one that is in the group; here both are one."""
        self._consumer = self._membership = self._joined(self._names)

    def _fetching(self) -> dict[str, object]:
        topics = [self._topics[name] for name in self._names]
        largest = max((topic.max_bytes for topic in topics), default=MIB)
        partitions = max(4, sum(topic.partitions for topic in topics))
        in_bulk = all(topic.holds == ("frame",) for topic in topics)
        return fetching(self._settings, largest, partitions, in_bulk=in_bulk) | {
            "group.id": self._settings.prefix + self.group
        }

    def _joined(self, names: Iterable[str]) -> Any:
        patience = self._patience
        told = self._fetching() | {
            "group.instance.id": self.member,
            "session.timeout.ms": patience.session_ms,
            "heartbeat.interval.ms": max(100, patience.session_ms // self.HEARTBEATS),
            "max.poll.interval.ms": max(patience.session_ms, patience.poll_interval_ms),
            "partition.assignment.strategy": "cooperative-sticky",
            "error_cb": self._contact.complain,
        }
        names = list(names)
        self._cover.joined(tasks_of(self._topics, names))
        consumer = self._client.Consumer(told)
        called = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._revoked}
        consumer.subscribe([self._settings.prefix + name for name in names], **called)
        return consumer

    # What the client calls while it is polled.

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._identity = consumer.memberid() or ""
        consumer.incremental_assign(partitions)  # at the committed offset; where there is none it complains
        self._held.took(self._task(partition.topic, partition.partition) for partition in partitions)

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        consumer.incremental_unassign(partitions)
        self._held.lost(self._task(partition.topic, partition.partition) for partition in partitions)

    def _task(self, name: str, partition: int) -> Task:
        return Task(name.removeprefix(self._settings.prefix), partition)

    # TaskLog

    def poll(self, limit: int = 500, timeout_s: float = 0.0) -> Batch:
        """The next records, or a change of tasks (see `TaskLog`)."""
        deadline = time.monotonic() + timeout_s
        if self._identity and not self._broken_s and self._cover.asks_to_leave():
            leave(self._settings, self.group, self.member, self._identity)  # the client hears of it, and joins again
        while True:
            self._allow()
            if self._broken_s:
                self._join_again()
            else:
                self._fetch(limit, min(SLICE_S, max(0.0, deadline - time.monotonic())))
            if self._held.changed:
                return self._change()
            for error in self._held.out_of_range.values():
                raise error
            records = self._held.records(limit)
            if records:
                return Batch(records)
            if time.monotonic() >= deadline:
                self._contact.check(self._consumer)
                return Batch()

    def _fetch(self, limit: int, wait_s: float) -> None:
        """Serve the client, and take what it has fetched."""
        room = self._held.room(limit)
        first = self._consumer.poll(wait_s if room == limit and not self._held.changed else 0)
        if first is not None:
            self._take(first)
            for message in self._consumer.consume(room - 1, 0) if room > 1 else ():
                self._take(message)

    def _join_again(self) -> None:
        """Another process took the name. Or none did: two requests of ours overtook each other on a slow broker.

        A life of ours that nobody lives vanishes from the group after its session; another's stays.
        """
        if self._asker.holder(self.group, self.member) is not None:
            if time.monotonic() - self._broken_s > 1.5 * self._patience.session_ms / 1000:
                self._out = checks.replaced(self.group, self.member)
            time.sleep(SLICE_S)
            return
        self._end()
        self._held.lost(self._held.all())
        self._identity, self._broken_s = "", 0.0
        self._begin()

    def _end(self) -> None:
        for one in dict.fromkeys((self._membership, self._consumer)):  # the first still calls us, who use the other
            with contextlib.suppress(self._client.KafkaException, RuntimeError):
                one.close()

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is None or error.name() == "_PARTITION_EOF":
            self._contact.heard()
        if error is not None:
            return self._hear(error, message)
        place = message.topic(), message.partition()
        task = self._known.get(place) or self._known.setdefault(place, self._task(*place))
        self._held.keep(
            Record(task[0], task[1], message.offset(), message.timestamp()[1], message.key() or b"", message.value()),
            task,
        )

    def _hear(self, error: Any, message: Any) -> None:
        name = error.name()
        if name == "_PARTITION_EOF":
            return
        if error.fatal() or name == "_FATAL":
            self._broken_s = time.monotonic()
        elif name in ("_AUTO_OFFSET_RESET", "_LOG_TRUNCATION"):
            self._misplaced(self._task(message.topic(), message.partition()), message.offset())
        elif name == "_MAX_POLL_EXCEEDED":
            pass  # told as lost tasks
        elif name in MISSING:
            self._contact.absent(message.topic())
        elif name in UNREACHABLE | WRONG_PASSWORD | MISTRUST or error.retriable():
            self._contact.complain(error)
        else:
            raise explained(name, error.str(), self._settings, message.topic() or self.group)

    def _misplaced(self, task: Task, offset: int | None) -> None:
        """Nothing was committed: from the oldest record on. Or the offset is not there: to be told."""
        if not self._held.has(task):
            return
        if offset is None or offset < 0:
            if task not in self._held.placed:  # else that came late: it is read from elsewhere by now
                self._stand(task, self._client.OFFSET_BEGINNING)
            return
        self._held.out_of_range[task] = OffsetOutOfRange(task, offset, self._asker.bounds(task))

    def _stand(self, task: Task, offset: int) -> None:
        self._held.forget(task)
        (self._held.placed.discard if offset == self._client.OFFSET_STORED else self._held.placed.add)(task)
        self._consumer.incremental_unassign([self._asker.place(task)])
        self._consumer.incremental_assign([self._asker.place(task, offset)])

    def _change(self) -> Batch:
        """Tell it, once no older transaction of this member is open: what is committed is final then."""
        self._ready()
        again = self._held.start_over
        batch = self._held.change()
        for task in batch.assigned if again else ():
            self._stand(task, self._client.OFFSET_STORED)
        return batch

    def _ready(self) -> None:
        try:
            self._writer.ready()
        except Lost as lost:
            raise LogBusy(f"group {self.group!r}: {lost}: try again") from None

    def assignment(self) -> frozenset[Task]:
        """The tasks this member holds, as told by `poll`."""
        return frozenset(self._held.told)

    def seek(self, task: Task, offset: int) -> None:
        """Read `task` from `offset` on. Raises OffsetOutOfRange, and Fenced for a task that is not held."""
        self._allow()
        if task not in self._held.told:
            raise checks.fenced(self.group, self.member, f"{task.topic}[{task.partition}] is not held")
        checks.in_range(task, offset, self._asker.bounds(task))
        if self._held.has(task):
            self._stand(task, offset)

    def committed(self, task: Task) -> Position | None:
        """What the group committed for `task`."""
        self._allow()
        self._ready()  # where a commit failed, this ends it: else nothing is told until the broker gives it up
        try:
            found = self._consumer.committed([self._asker.place(task)], timeout=CALL_S / 2)[0]
        except self._client.KafkaException as error:
            if error.args[0].name() in SLOW:
                return self._asker.committed(self.group, task)  # which says why, where the broker does
            raise explained(error.args[0].name(), error.args[0].str(), self._settings, self.group) from None
        if found.error is not None and found.error.name() in SLOW:
            return self._asker.committed(self.group, task)
        if found.error is not None:
            raise explained(found.error.name(), found.error.str(), self._settings, self.group)
        return None if found.offset < 0 else Position(found.offset, found.metadata or "")

    def commit(self, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> list[Receipt]:
        """Append `outputs` and store `positions`, all or nothing."""
        self._allow()
        self._check(outputs, positions)
        if not outputs and not positions:
            return []
        group = self._membership.consumer_group_metadata()
        if (self._membership.memberid() or "") != self._identity:  # the client has heard of it, `poll` will tell
            self._held.start_over = True
            raise checks.fenced(self.group, self.member, "it was silent for too long")
        try:
            return self._writer.commit(outputs, self._fencing(positions), group)
        except Lost as lost:
            self._held.start_over = True
            raise self._fenced(lost) from None
        except OutcomeUnknown:
            self._held.start_over = True
            raise

    def _fencing(self, positions: Mapping[Task, Position]) -> Mapping[Task, Position]:
        """What the broker checks the group's generation with."""
        return positions

    def _check(self, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> None:
        for task, position in positions.items():
            checks.fits(task, position)
            if task not in self._held.told:
                raise checks.fenced(self.group, self.member, f"{task.topic}[{task.partition}] is not held")
        for output in outputs:
            checks.placed(self._writer.topics, output)
        if self._held.start_over:
            raise checks.fenced(self.group, self.member, "the last commit failed; poll first")

    def _fenced(self, lost: Lost) -> Fenced:
        if lost.name in TAKEN_OVER:
            holder = self._asker.holder(self.group, self.member)
            if holder not in (None, self._identity):
                self._out = checks.replaced(self.group, self.member)
                return Replaced(str(self._out))
        return checks.fenced(self.group, self.member, str(lost))

    def _allow(self) -> None:
        if self._out is not None:
            raise self._out

    def close(self) -> None:
        """Leave the group; its tasks go to the others."""
        if isinstance(self._out, Closed):
            return
        was_in = self._out is None and bool(self._identity)
        self._out, self._held = Closed("the member left its group: join again"), Held()
        self._writer.drop(abort=False)
        self._end()
        if was_in:
            leave(self._settings, self.group, self.member, self._identity)
