"""The engines that the contract tests run on, with a clock that the test moves."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sickbay.log import Log, Position, Record, Task, TaskLog
from sickbay.log.memory import MemoryLog
from sickbay.log.sqlite import SqliteLog
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
    """An open engine. `shares`: whether a group may have several members."""

    log: Embedded
    shares: bool
    clock: list[int] = field(default_factory=lambda: [START_MS])

    def after(self, ms: int) -> None:
        self.clock[0] += ms

    def put(self, topic: str, *values: bytes | None, key: bytes = b"k", partition: int | None = 0) -> None:
        appender = self.log.appender()
        for value in values:
            appender.append(topic, key, value, partition=partition)
        appender.close()

    def all(self, topic: str, partition: int = 0) -> list[Record]:
        task = Task(topic, partition)
        reader = self.log.reader()
        found: list[Record] = []
        at, end = reader.bounds(task)
        while at < end and (some := reader.read(task, at, 7)):
            found += some
            at = some[-1].offset + 1
        return found

    def sweep_all(self) -> int:
        removed = 0
        while some := self.log.sweep(3):
            removed += some
        return removed


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
