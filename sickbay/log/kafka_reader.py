"""Reading a Kafka log without a group: bounds, records, and what groups committed."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sickbay.log import Bounds, Ends, LogBusy, OffsetOutOfRange, Position, Record, Task, checks
from sickbay.log.kafka_asker import Asker
from sickbay.log.kafka_clients import CALL_S, CLIENT, confluent, fetching
from sickbay.log.kafka_errors import explained
from sickbay.settings import LogSettings
from sickbay.topics import MIB, Topic


class KafkaReader:
    """A `Reader` of a Kafka log. It goes on where the last read of a task ended without asking anew."""

    def __init__(self, settings: LogSettings, topics: Mapping[str, Topic], asker: Asker) -> None:
        self._settings, self._topics, self._asker = settings, topics, asker
        self._client = confluent()
        self._consumer: Any = None
        self._at: tuple[Task, int] | None = None  # what it stands on
        self._void: dict[Task, tuple[int, int]] = {}  # task: from, to: nothing but marks of transactions lies there

    def bounds(self, task: Task) -> Bounds:
        """The offsets that are kept."""
        return self._asker.bounds(task)

    def committed(self, group: str, task: Task) -> Position | None:
        """What a group committed."""
        return self._asker.committed(group, task)

    def positions(self, group: str, tasks: Sequence[Task]) -> dict[Task, Position]:
        """What a group committed, of those where it did, asked at once; a commit under way is not waited for."""
        return self._asker.positions(group, tasks, stable=False)

    def ends(self, tasks: Sequence[Task]) -> dict[Task, Ends]:
        """Where the tasks end, asked at once."""
        written = self._asker.ends(tasks, stable=False)
        return {task: Ends(end, max(end, written[task])) for task, end in self._asker.ends(tasks, stable=True).items()}

    def read(self, task: Task, offset: int, limit: int = 500) -> list[Record]:
        """Up to `limit` records from `offset` on, empty at the end. Raises OffsetOutOfRange."""
        bounds = self._asker.bounds(task)
        checks.in_range(task, offset, bounds)
        if offset == bounds.end or limit <= 0 or self._void.get(task) == (offset, bounds.end):
            return []
        if self._at != (task, offset):
            self._stand(task, offset)
        return self._collect(task, offset, limit, bounds.end)

    def _stand(self, task: Task, offset: int) -> None:
        if self._consumer is None:
            largest = max((topic.max_bytes for topic in self._topics.values()), default=MIB)
            told = fetching(self._settings, largest)
            self._consumer = self._client.Consumer(told | {"group.id": f"{self._settings.prefix}{CLIENT}-reads"})
        self._consumer.assign([self._asker.place(task, offset)])
        self._at = (task, offset)

    def _collect(self, task: Task, offset: int, limit: int, end: int) -> list[Record]:
        found: list[Record] = []
        deadline = time.monotonic() + CALL_S
        at = offset
        while len(found) < limit and at < end:
            messages = self._consumer.consume(min(limit - len(found), end - at), 0.02)
            if not messages and time.monotonic() > deadline:
                self.close()  # one that lost its way in an outage may never find it again: a fresh one does
                raise LogBusy(f"{self._settings.brokers}: no records of {task.topic} within {CALL_S:.0f} s: try again")
            for message in messages:
                error = message.error()
                if error is None:
                    found.append(
                        Record(*task, message.offset(), message.timestamp()[1], message.key() or b"", message.value())
                    )
                    at = message.offset() + 1
                elif error.name() == "_PARTITION_EOF":
                    at = max(at, message.offset())
                else:
                    self._raise(error, task, offset)
        following = found[-1].offset + 1 if found else offset
        self._at, self._void[task] = (task, following), (following, at)
        return found

    def _raise(self, error: Any, task: Task, offset: int) -> None:
        self._at = None
        if error.name() in ("_AUTO_OFFSET_RESET", "_LOG_TRUNCATION"):
            raise OffsetOutOfRange(task, offset, self._asker.bounds(task))
        if not error.retriable() and error.name() != "_ALL_BROKERS_DOWN":
            raise explained(error.name(), error.str(), self._settings, self._settings.prefix + task.topic)

    def close(self) -> None:
        """Let go."""
        consumer, self._consumer, self._at = self._consumer, None, None
        if consumer is not None:
            consumer.close()
