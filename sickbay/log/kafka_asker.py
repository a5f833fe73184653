"""Questions about partitions and groups of a Kafka log, on connections of their own."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from sickbay.log import Bounds, Closed, LogBusy, LogError, Position, Task, checks
from sickbay.log.kafka_clients import CALL_S, CLIENT, arguments, confluent, connected, fetching
from sickbay.log.kafka_errors import MISSING, SLOW, explained, name_of
from sickbay.settings import LogSettings
from sickbay.topics import MIB, Topic

RETRY_S = 0.05
ANSWER_S = 1.0  # for one attempt: a leader that died never answers, and the next one is found in time
HOLDER_MS = 1000  # for each of the three requests that this question takes: a poll waits for all


class Asker:
    """Questions about partitions and groups, asked by any thread; it never fetches, so answers do not wait."""

    def __init__(self, settings: LogSettings, topics: Mapping[str, Topic]) -> None:
        self._settings, self._topics = settings, topics
        self._client = confluent()
        self._consumer = self._client.Consumer(
            fetching(settings, MIB) | {"group.id": f"{settings.prefix}{CLIENT}-asks"}
        )
        self._groups: dict[tuple[str, bool], Any] = {}
        self._closed = False
        self._lock = threading.Lock()

    def place(self, task: Task, offset: int | None = None) -> Any:
        """The client's word for it."""
        name, partition = self._settings.prefix + task.topic, task.partition
        if offset is None:
            return self._client.TopicPartition(name, partition)
        return self._client.TopicPartition(name, partition, offset)

    def bounds(self, task: Task) -> Bounds:
        """The offsets that are kept; an open transaction and what lies behind it are not there yet."""
        checks.known(self._topics, task)
        deadline = time.monotonic() + CALL_S
        while True:
            self._allow()
            try:
                found = self._consumer.get_watermark_offsets(self.place(task), timeout=ANSWER_S)
                if found is not None:
                    return Bounds(*found)
            except self._client.KafkaException as caught:
                error = caught.args[0]
                passing = error.retriable() or error.name() in SLOW | MISSING  # so says a broker that just woke, too
                there = self._asks_anew(self._consumer)
                if error.name() in MISSING and not there:  # it only forgot what the brokers once said
                    raise LogBusy(f"{self._settings.brokers}: no answer: check that the brokers run") from None
                if not passing or time.monotonic() > deadline:
                    raise self._explained(error, task.topic) from None
            if time.monotonic() > deadline:
                raise LogBusy(f"{self._settings.brokers}: no answer within {CALL_S:.0f} s")
            time.sleep(RETRY_S)  # a partition that was just made, or whose leader moves

    def _asks_anew(self, consumer: Any) -> bool:
        """Who leads which partition; whether somebody said so. A client without subscriptions goes on asking a dead
        leader for the 15 minutes that it believes what it once heard (librdkafka 2.16: metadata.max.age.ms)."""
        try:
            consumer.list_topics(timeout=ANSWER_S)
        except self._client.KafkaException:
            return False
        return True

    def committed(self, group: str, task: Task) -> Position | None:
        """What a group committed, once no transaction of it is open."""
        return self.positions(group, [task], stable=True).get(task)

    def positions(self, group: str, tasks: Sequence[Task], *, stable: bool) -> dict[Task, Position]:
        """What a group committed, of those tasks where it did. `stable`: once no transaction of them is open."""
        for task in tasks:
            checks.known(self._topics, task)
        deadline = time.monotonic() + CALL_S
        while True:
            self._allow()
            answer, error = self._positions(self._of(group, stable), tasks, deadline - time.monotonic())
            if error is None:
                return answer
            passing = error.retriable() or error.name() in SLOW  # so says a broker that begins to keep the group, too
            if not passing or time.monotonic() > deadline:
                raise self._explained(error, group)
            time.sleep(RETRY_S)

    def _positions(self, consumer: Any, tasks: Sequence[Task], left_s: float) -> tuple[dict[Task, Position], Any]:
        """What was committed, or the first error."""
        try:
            answer = consumer.committed([self.place(task) for task in tasks], timeout=max(ANSWER_S, left_s))
        except self._client.KafkaException as error:
            return {}, error.args[0]
        failed = next((one.error for one in answer if one.error is not None), None)
        told = () if failed else (one for one in answer if one.offset >= 0)
        return dict(map(self._position, told)), failed

    def ends(self, tasks: Sequence[Task], *, stable: bool) -> dict[Task, int]:
        """The offsets of the next appends, or where the oldest open transaction begins (`stable`)."""
        for task in tasks:
            checks.known(self._topics, task)
        if not tasks:
            return {}
        deadline = time.monotonic() + CALL_S
        while True:
            consumer = self._of(f"{CLIENT}-asks", stable)
            answer, error, what = self._ends(consumer, tasks)
            if error is None:
                return answer
            if not self._asks_anew(consumer) and error.name() in MISSING:
                raise LogBusy(f"{self._settings.brokers}: no answer: check that the brokers run")
            if not (error.retriable() or error.name() in SLOW | MISSING) or time.monotonic() > deadline:
                raise self._explained(error, what)

    def _ends(self, consumer: Any, tasks: Sequence[Task]) -> tuple[dict[Task, int], Any, str]:
        """The ends, or the first error and the topic that it is about."""
        try:  # the "time" -1 asks for the end: one request a broker, for all its partitions
            places = [self.place(task, self._client.OFFSET_END) for task in tasks]
            answer = consumer.offsets_for_times(places, timeout=ANSWER_S)
        except self._client.KafkaException as error:
            return {}, error.args[0], ""
        named = [(Task(one.topic.removeprefix(self._settings.prefix), one.partition), one) for one in answer]
        for task, one in named:
            if one.error is not None:
                return {}, one.error, task.topic
        return {task: one.offset for task, one in named}, None, ""

    def _of(self, group: str, stable: bool) -> Any:
        """A consumer that asks for a group without being of it. Not the admin client: that one aborts the process where
        a broker goes away in mid-question (librdkafka issue 4605, open, seen with 2.16)."""
        with self._lock:
            self._allow()
            if (group, stable) not in self._groups:
                told = fetching(self._settings, MIB) | {"group.id": self._settings.prefix + group}
                told["isolation.level"] = "read_committed" if stable else "read_uncommitted"
                self._groups[group, stable] = self._client.Consumer(told)
            return self._groups[group, stable]

    def _position(self, one: Any) -> tuple[Task, Position]:
        task = Task(one.topic.removeprefix(self._settings.prefix), one.partition)
        return task, Position(one.offset, one.metadata or "")

    def holder(self, group: str, member: str) -> str | None:
        """The broker's name for the life that now is `member` of `group`, None where there is none."""
        members = self._described(group)["members"]
        return next((str(one["member_id"]) for one in members if one["group_instance_id"] == member), None)

    def unheld(self, group: str, tasks: Iterable[Task]) -> tuple[frozenset[Task], str]:
        """Those of the tasks that no member of `group` was given, and the first of its members: who is to say so.

        Nothing while members come and go.
        """
        told = self._described(group)
        shares = [one["member_assignment"] for one in told["members"]]
        if told["group_state"] != "Stable" or not shares or not all(isinstance(share, dict) for share in shares):
            return frozenset(), ""
        topics = [topic for share in shares for topic in share["assigned_partitions"]]
        held = {(topic["topic"], partition) for topic in topics for partition in topic["partitions"]}
        left = {task for task in tasks if (self._settings.prefix + task.topic, task.partition) not in held}
        return frozenset(left), min(str(one["group_instance_id"]) for one in told["members"])

    def _described(self, group: str) -> Mapping[str, Any]:
        self._allow()
        name = self._settings.prefix + group
        try:
            told = arguments(self._settings, bootstrap_timeout_ms=HOLDER_MS, request_timeout_ms=HOLDER_MS)
            admin = connected(KafkaAdminClient, told)
            try:
                described: Mapping[str, Any] = admin.describe_groups([name])[name]
            finally:
                admin.close()
        except KafkaError as error:
            raise explained(name_of(error), str(error), self._settings, name) from None
        return described

    def _allow(self) -> None:
        if self._closed:
            raise Closed("the log was closed")

    def _explained(self, error: Any, what: str) -> LogError:
        return explained(error.name(), error.str(), self._settings, self._settings.prefix + what)

    def close(self) -> None:
        """Let go."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for one in (self._consumer, *self._groups.values()):
                    one.close()
