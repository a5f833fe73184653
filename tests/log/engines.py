"""The engines that the contract tests run on, with a clock that the test moves."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

from confluent_kafka import KafkaException, TopicPartition

from sickbay.log import Appender, Batch, Log, Position, Record, Task, TaskLog
from sickbay.log.kafka import KafkaLog
from sickbay.log.kafka_clients import confluent
from sickbay.log.memory import MemoryLog
from sickbay.log.sqlite import SqliteLog
from sickbay.settings import LogSettings
from sickbay.topics import Topic

TOPICS = {
    topic.name: topic
    for topic in (
        Topic("in", "any", ("event",), 3, keep_ms=1000, max_bytes=2000, driving=True),
        Topic("fast", "any", ("frame",), 2, keep_ms=1000, max_bytes=200_000, sync="normal", driving=True),
        Topic("out", "any", ("event",), 2, max_bytes=2000),
        Topic("state", "any", ("state",), 1, compacted=True, lag_ms=100, max_bytes=2000),
    )
}
START_MS = 1_700_000_000_000


class Embedded(Log, Protocol):
    """An engine that does its own upkeep."""

    def sweep(self, limit: int = 1000) -> int: ...


@dataclass
class Engine:
    """An open engine. `shares`: whether a group may have several members; `winds`: whether the test moves its clock."""

    log: Log
    shares: bool
    clock: list[int] = field(default_factory=lambda: [START_MS])
    winds: bool = True

    def after(self, ms: int) -> None:
        self.clock[0] += ms

    @cached_property
    def appender(self) -> Appender:
        """One for all appends of a test."""
        return self.log.appender()

    def put(self, topic: str, *values: bytes | None, key: bytes = b"k", partition: int | None = 0) -> None:
        for value in values:
            self.appender.append(topic, key, value, partition=partition)
        self.appender.flush()

    def all(self, topic: str, partition: int = 0) -> list[Record]:
        task = Task(topic, partition)
        reader = self.log.reader()
        found: list[Record] = []
        at, end = reader.bounds(task)
        while at < end and (some := reader.read(task, at, 7)):
            found += some
            at = some[-1].offset + 1
        return found

    def sweep(self, limit: int) -> int:
        return cast(Embedded, self.log).sweep(limit)

    def sweep_all(self) -> int:
        removed = 0
        while some := self.sweep(3):
            removed += some
        return removed

    def expire(self, task: Task) -> None:
        """Remove what is there as age would, where the topic has one."""
        self.after(5000)
        self.sweep_all()
        assert self.log.reader().bounds(task).begin == self.log.reader().bounds(task).end


def memory(directory: Path) -> Iterator[Engine]:
    clock = [START_MS]
    log = MemoryLog(TOPICS, clock=lambda: clock[0], seed=len(str(directory)))
    yield Engine(log, True, clock)
    log.close()


def sqlite(directory: Path) -> Iterator[Engine]:
    clock = [START_MS]
    log = SqliteLog(directory / "log", TOPICS, clock=lambda: clock[0])
    yield Engine(log, False, clock)
    log.close()


ENGINES: dict[str, Callable[[Path], Iterator[Engine]]] = {"memory": memory, "sqlite": sqlite}


class Patient:
    """A Kafka member whose poll without a time limit waits until it has told its tasks and given all that is there.

    The embedded engines answer at once; a broker needs some milliseconds to share out tasks and to send records.
    """

    def __init__(self, log: KafkaLog, member: Any) -> None:
        self._log, self._member = log, member
        self._at: dict[Task, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)

    def poll(self, limit: int = 500, timeout_s: float = 0.0) -> Batch:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            batch: Batch = self._member.poll(limit, timeout_s or 0.05)
            self._follow(batch)
            if timeout_s or batch != Batch() or (self._at and self._is_at_end()):
                return batch
            assert time.monotonic() < deadline, "the broker gave neither tasks nor records"

    def seek(self, task: Task, offset: int) -> None:
        self._member.seek(task, offset)
        self._at[task] = offset

    def _follow(self, batch: Batch) -> None:
        for task in batch.revoked:
            self._at.pop(task, None)
        for task in batch.assigned:
            position = self._member.committed(task)
            self._at[task] = self._log.reader().bounds(task).begin if position is None else position.offset
        self._at |= {record.task: record.offset + 1 for record in batch.records}

    def _is_at_end(self) -> bool:
        reader = self._log.reader()
        return all(offset >= reader.bounds(task).end for task, offset in self._at.items())


class PatientLog(KafkaLog):
    """A Kafka log with patient members."""

    def join(self, *arguments: Any) -> Any:
        return Patient(self, super().join(*arguments))

    def lead(self, *arguments: Any) -> Any:
        return Patient(self, super().lead(*arguments))


@dataclass
class KafkaEngine(Engine):
    """On real brokers time cannot be moved: ages and compaction are their business, and `expire` removes by request."""

    def all(self, topic: str, partition: int = 0) -> list[Record]:
        self.settled(Task(topic, partition))
        return super().all(topic, partition)

    def settled(self, task: Task) -> None:
        """Wait until no transaction is open: a broker marks the end of one some milliseconds after its commit."""
        for _ in range(100):
            with contextlib.suppress(KafkaException):  # the leader of a new partition is not known yet
                if self.log.reader().bounds(task).end >= self.written(task):
                    return
            time.sleep(0.05)
        raise AssertionError(f"a transaction stays open in {task}")

    def written(self, task: Task) -> int:
        """The end of a partition with what is not committed."""
        log = cast(PatientLog, self.log)
        client = confluent()
        log.declared.admin.list_topics(timeout=10)  # or it asks a restarted broker with an epoch that is over
        place = client.TopicPartition(log.settings.prefix + task.topic, task.partition)
        future = log.declared.admin.list_offsets({place: client.admin.OffsetSpec.latest()})[place]
        return int(future.result(timeout=10).offset)

    def expire(self, task: Task) -> None:
        end = self.log.reader().bounds(task).end
        log = cast(PatientLog, self.log)
        name = log.settings.prefix + task.topic
        for future in log.declared.admin.delete_records([TopicPartition(name, task.partition, end)]).values():
            future.result(timeout=10)


def kafka(brokers: str, replication: int = 1) -> Iterator[KafkaEngine]:
    """An engine with topics of its own, removed at the end."""
    prefix = f"test-{os.getpid()}-{next(_COUNT)}."
    settings = LogSettings(
        engine="kafka", brokers=brokers, prefix=prefix, replication=replication, session_s=2, lead_session_s=1
    )
    log = PatientLog(settings, TOPICS, poll_interval_ms=4000)
    yield KafkaEngine(log, True, winds=False)
    log.close()
    log.declared.admin.delete_topics([prefix + name for name in TOPICS])


_COUNT = itertools.count()
PATIENCE_S = 20.0


def told(member: TaskLog) -> Batch:
    """The next change of tasks that the member is told, at most PATIENCE_S later."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        batch = member.poll(timeout_s=0.05)
        if batch.assigned or batch.revoked:
            return batch
    raise AssertionError("no change of tasks was told")


def drained(member: TaskLog, limit: int = 5) -> list[Record]:
    """Everything that is there now, after the assignment."""
    found: list[Record] = []
    while True:
        batch = member.poll(limit)
        if not batch.records and not batch.assigned and not batch.revoked:
            return found
        found += batch.records


def done(record: Record, metadata: str = "") -> dict[Task, Position]:
    """The positions of a processor that has just done `record`."""
    return {record.task: Position(record.offset + 1, metadata)}
