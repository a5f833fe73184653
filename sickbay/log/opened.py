"""From settings to a log: the one place that knows all engines, and imports only the one that is asked for."""

from collections.abc import Mapping
from pathlib import Path

from sickbay.log import Appender, Log, Outcome, UnfitPlace
from sickbay.settings import LogSettings
from sickbay.topics import TOPICS, Topic


def open_log(settings: LogSettings, topics: Mapping[str, Topic] = TOPICS) -> Log:
    """The log that the settings name. Raises LogError, which says what to do."""
    if settings.engine == "memory":
        from sickbay.log.memory import MemoryLog

        return MemoryLog(topics)
    if settings.engine == "sqlite":
        from sickbay.log.sqlite import SqliteLog

        return SqliteLog(Path(settings.path), topics, max_bytes=settings.max_bytes)
    if settings.engine == "https":
        raise UnfitPlace('[log] engine = "https" is the way of agents to a listener: all else needs the log itself')
    from sickbay.log.kafka import KafkaLog

    return KafkaLog(settings, topics)


def open_appender(settings: LogSettings, topics: Mapping[str, Topic] = TOPICS) -> Appender:
    """Only an appender, for agents: on Kafka it needs kafka-python alone and no right but to write. Raises LogError."""
    if settings.engine == "https":
        from sickbay.log.https_appender import HttpsAppender

        return HttpsAppender(settings, topics)
    if settings.engine == "kafka":
        from sickbay.log.kafka_appender import KafkaAppender

        return KafkaAppender(settings, topics)
    return _OwnLog(open_log(settings, topics))


class _OwnLog:
    """An appender that closes its log with itself."""

    def __init__(self, log: Log) -> None:
        self._log, self._appender = log, log.appender()

    def append(self, topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> Outcome:
        return self._appender.append(topic, key, value, partition=partition)

    def flush(self, limit_s: float | None = None) -> None:
        self._appender.flush(limit_s)

    def close(self) -> None:
        try:
            self._appender.close()
        finally:
            self._log.close()
