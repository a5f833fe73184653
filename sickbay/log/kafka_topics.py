"""The declared topics on the brokers: created where missing, and refused where they are not as declared."""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from sickbay.log import LogBusy, LogError
from sickbay.log.kafka_clients import OVERHEAD, SETUP_S, confluent, properties, reached, why_unreachable
from sickbay.log.kafka_errors import MISTRUST, SLOW, UNREACHABLE, WRONG_PASSWORD, explained
from sickbay.settings import LogSettings
from sickbay.topics import DAY_MS, HOUR_MS, KIB, TOMBSTONE_MS, Topic

BATCH_BYTES = 128 * KIB  # of records sent together; a topic takes at least so much, whatever one value may have


def options(topic: Topic, copies: int) -> dict[str, str]:
    """The topic's settings on the brokers, by Kafka's names."""
    kept = {"cleanup.policy": "delete", "retention.ms": str(-1 if topic.keep_ms is None else topic.keep_ms)}
    if topic.compacted:
        kept = {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": str(topic.lag_ms),
            "delete.retention.ms": str(TOMBSTONE_MS),
        }
    return kept | {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(max(topic.max_bytes, BATCH_BYTES) + 2 * OVERHEAD + KIB),
        "min.insync.replicas": "2" if copies >= 3 else "1",
        "segment.ms": str(_segment_ms(topic)),
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
    }


def _segment_ms(topic: Topic) -> int:
    """Only whole, closed segments are removed or compacted: an eighth of the age keeps at most so much too long."""
    if topic.compacted or topic.keep_ms is None:
        return DAY_MS
    return min(max(topic.keep_ms // 8, HOUR_MS // 6), DAY_MS)


class Topics:
    """Creates and checks topics on the brokers."""

    def __init__(self, settings: LogSettings, topics: Mapping[str, Topic]) -> None:
        self._settings, self._topics = settings, topics
        self._client = confluent()
        self._complaints: deque[Any] = deque(maxlen=20)
        told = properties(settings) | {"error_cb": self._complaints.append}
        self.admin = self._client.admin.AdminClient(told)

    def ensure(self) -> None:
        """Create what is missing and check the rest. Raises LogError, which names the topic and what is wrong."""
        if not reached(self._settings):
            raise why_unreachable(self._settings)
        there = self._there()
        self._create([topic for topic in self._topics.values() if self._name(topic) not in there])
        for topic in self._topics.values():
            found = there.get(self._name(topic), topic.partitions)
            if found != topic.partitions:
                raise LogError(
                    f"topic {self._name(topic)!r} at {self._settings.brokers} has {found} partitions, not "
                    f"{topic.partitions}: keys would go elsewhere; use another [log] prefix, or remove the topic"
                )
        self._check([topic for topic in self._topics.values() if self._name(topic) in there])

    def _name(self, topic: Topic) -> str:
        return self._settings.prefix + topic.name

    def _there(self) -> dict[str, int]:
        deadline = time.monotonic() + SETUP_S
        while True:
            try:
                found = self.admin.list_topics(timeout=1)
                return {name: len(topic.partitions) for name, topic in found.topics.items() if _is_led(topic)}
            except self._client.KafkaException as error:
                self.admin.poll(0)  # brings the complaints
                self._give_up(error.args[0], late=time.monotonic() > deadline)

    def _give_up(self, error: Any, *, late: bool) -> None:
        """Raises the reason where waiting on does not help."""
        for complaint in self._complaints:
            if complaint.name() in WRONG_PASSWORD | MISTRUST:
                raise explained(complaint.name(), complaint.str(), self._settings)
        if error.name() not in UNREACHABLE | SLOW:
            raise explained(error.name(), error.str(), self._settings)
        if late:
            raise why_unreachable(self._settings)

    def _create(self, topics: Iterable[Topic]) -> None:
        copies = self._settings.replication
        new = [
            self._client.admin.NewTopic(self._name(topic), topic.partitions, copies, config=options(topic, copies))
            for topic in topics
        ]
        if not new:
            return
        futures = self.admin.create_topics(new, operation_timeout=SETUP_S, request_timeout=SETUP_S)
        for name, future in futures.items():
            try:
                future.result(timeout=SETUP_S + 1)
            except self._client.KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # another process was faster
                    raise self._not_created(name, error.args[0]) from None
        self._await({topic.topic for topic in new})

    def _await(self, names: set[str]) -> None:
        """A broker knows of a new topic some milliseconds after another made it."""
        deadline = time.monotonic() + SETUP_S
        while not names <= self._there().keys():
            if time.monotonic() > deadline:
                raise LogBusy(f"new topics do not appear at {self._settings.brokers} within {SETUP_S:.0f} s: try again")
            time.sleep(0.05)

    def _not_created(self, name: str, error: Any) -> LogError:
        if error.name() == "INVALID_REPLICATION_FACTOR":
            copies = self._settings.replication
            return LogError(f"topic {name!r}: fewer brokers than [log] replication = {copies}: lower it or add brokers")
        return explained(error.name(), error.str(), self._settings, name)

    def _check(self, topics: Iterable[Topic]) -> None:
        kind = self._client.admin.ConfigResource
        asked = {kind(kind.Type.TOPIC, self._name(topic)): topic for topic in topics}
        if not asked:
            return
        for resource, future in self.admin.describe_configs(list(asked), request_timeout=SETUP_S).items():
            try:
                found = future.result(timeout=SETUP_S + 1)
            except self._client.KafkaException as error:
                raise explained(error.args[0].name(), error.args[0].str(), self._settings, resource.name) from None
            self._compare(asked[resource], {name: entry.value for name, entry in found.items()})

    def _compare(self, topic: Topic, found: Mapping[str, str]) -> None:
        """What would make records wrong is refused; ages and sizes may be the operator's own choice, larger or not."""
        wanted = options(topic, self._settings.replication)
        for name in ("message.timestamp.type", "cleanup.policy"):
            if found.get(name, wanted[name]) != wanted[name]:
                raise LogError(
                    f"topic {self._name(topic)!r} at {self._settings.brokers} has {name} = {found[name]}, not "
                    f"{wanted[name]}: correct it there (kafka-configs --alter), or use another [log] prefix"
                )
        if int(found.get("max.message.bytes", wanted["max.message.bytes"])) < int(wanted["max.message.bytes"]):
            raise LogError(
                f"topic {self._name(topic)!r} at {self._settings.brokers} takes {found['max.message.bytes']} bytes: "
                f"raise its max.message.bytes to {wanted['max.message.bytes']}"
            )


def _is_led(topic: Any) -> bool:
    return topic.error is None and all(one.leader >= 0 for one in topic.partitions.values())
