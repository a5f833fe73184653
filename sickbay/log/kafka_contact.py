"""Whether the brokers are there, as one client of Kafka hears it: silence of the log and a log that is away must not
look alike."""

import contextlib
import time
from typing import Any

from sickbay.log.kafka_clients import CALL_S, confluent
from sickbay.log.kafka_errors import MISTRUST, WRONG_PASSWORD, explained, missing
from sickbay.settings import LogSettings


class Contact:
    """What the client complained about since a broker last spoke to it."""

    def __init__(self, settings: LogSettings) -> None:
        self._settings, self._client = settings, confluent()
        self._trouble: Any = None  # the newest complaint about the brokers
        self._since_s = 0.0
        self._absent: dict[str, float] = {}  # topics that the brokers do not have: since when

    def complain(self, error: Any) -> None:
        """The client has trouble with the brokers."""
        self._trouble, self._since_s = error, self._since_s or time.monotonic()

    def heard(self) -> None:
        """A broker speaks."""
        self._trouble, self._since_s = None, 0.0

    def absent(self, topic: str) -> None:
        """The brokers say that they have no such topic: so says one that just started, too."""
        self._absent.setdefault(topic, time.monotonic())

    def check(self, consumer: Any) -> None:
        """Raises LogError where there has been no contact for too long, or where there can be none."""
        for name, since_s in list(self._absent.items()):
            if time.monotonic() - since_s > CALL_S:
                self._look_for(consumer, name)
        if self._trouble is None:
            return
        name, text = self._trouble.name(), self._trouble.str()
        if name in WRONG_PASSWORD | MISTRUST:
            raise explained(name, text, self._settings)
        try:
            consumer.list_topics(timeout=1)
            self.heard()
        except self._client.KafkaException:
            if time.monotonic() - self._since_s > CALL_S:
                raise explained("_ALL_BROKERS_DOWN", text, self._settings) from None

    def _look_for(self, consumer: Any, name: str) -> None:
        with contextlib.suppress(self._client.KafkaException):
            if consumer.list_topics(name, timeout=1).topics[name].error is not None:
                raise missing(name, self._settings)
            del self._absent[name]
