"""The log on Kafka: kafka-python appends, confluent-kafka reads and commits (docs/adr/0002)."""

import contextlib
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from sickbay.log import Closed, LogError, tasks_of
from sickbay.log.kafka_appender import KafkaAppender
from sickbay.log.kafka_asker import Asker
from sickbay.log.kafka_lead import KafkaLead
from sickbay.log.kafka_reader import KafkaReader
from sickbay.log.kafka_tasks import KafkaTasks, Patience
from sickbay.log.kafka_topics import Topics
from sickbay.settings import LogSettings
from sickbay.topics import TOPICS, Topic

_Closable = TypeVar("_Closable", KafkaAppender, KafkaTasks, KafkaLead, KafkaReader)

# A stage that works longer on one batch is stuck; a machine that starts swapping is not.
POLL_INTERVAL_MS = 60_000


class KafkaLog:
    """A `Log` on the brokers of `settings`. Missing topics are created, others checked. Raises LogError."""

    def __init__(
        self,
        settings: LogSettings,
        topics: Mapping[str, Topic] = TOPICS,
        *,
        poll_interval_ms: int = POLL_INTERVAL_MS,
    ) -> None:
        self.topics, self.settings = topics, settings
        self._patience = Patience(round(settings.session_s * 1000), poll_interval_ms)
        self._lead_patience = Patience(round(settings.lead_session_s * 1000), poll_interval_ms)
        self.declared = Topics(settings, topics)
        self.declared.ensure()
        self._asker = Asker(settings, topics)
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def appender(self) -> KafkaAppender:
        """A new appender."""
        self._allow()
        return self._kept(KafkaAppender(self.settings, self.topics))

    def join(self, group: str, topics: Iterable[str], member: str) -> KafkaTasks:
        """Become `member` of `group` over `topics`. One of the same name is replaced when this one has its tasks."""
        names = list(topics)
        tasks_of(self.topics, names)
        self._allow()
        return self._kept(KafkaTasks(self.settings, self.topics, group, names, member, self._patience, self._asker))

    def lead(self, group: str, topics: Iterable[str], member: str) -> KafkaLead:
        """Stand for the lead of `group`: all tasks or none. One of the same name is replaced."""
        names = list(topics)
        tasks_of(self.topics, names)
        self._allow()
        return self._kept(KafkaLead(self.settings, self.topics, group, names, member, self._lead_patience, self._asker))

    def reader(self) -> KafkaReader:
        """A reader, for one thread."""
        return self._kept(KafkaReader(self.settings, self.topics, self._asker))

    def _kept(self, one: _Closable) -> _Closable:
        with self._lock:
            self._open.add(one)
        return one

    def _allow(self) -> None:
        if self._closed:
            raise Closed("the log was closed")

    def close(self) -> None:
        """Let go of everything that was opened here."""
        with self._lock:
            self._closed = True
            still = list(self._open)
        for one in still:
            with contextlib.suppress(LogError):
                one.close()
        self._asker.close()
