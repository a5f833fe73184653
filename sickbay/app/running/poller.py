"""Polling as stages of a service, one a question: one that hangs holds up no other.

Each begins with what an earlier run told, so that nothing stays open for ever.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec import ValidationError

from collectors.cluster.poll import Poller, Source, sources
from sickbay import actions
from sickbay.actions import LedgerMessage
from sickbay.admission import secret
from sickbay.app.running.service import Context, Make
from sickbay.log import Log, tasks_of
from sickbay.log.reading import records
from sickbay.messages import AnyMessage, decode
from sickbay.settings import Config
from sickbay.topics import CONTROL

SLACK_S = 20.0  # for the log's answers: an append waits so long for brokers that are away


@dataclass(frozen=True, slots=True)
class Polling:
    """Makes the stage that asks one source."""

    source: Source[Any]

    @property
    def limit_s(self) -> float:
        """How long a step may take before it counts as hanging: the question, and the log's answer."""
        return self.source.limit_s + SLACK_S

    def __call__(self, context: Context) -> Poller:
        """The stage, which knows what an earlier run told. Raises ConfigError."""
        source, security = self.source, context.config.security
        key = secret(security.key_file) if security.key_file else None
        if source.remembered is not None:
            source.state = source.remembered(_told(context.log, source.remembers))
        return Poller([source], context.log.appender(), context.metrics, context.say, key)


def pollings(names: Sequence[str], config: Config) -> dict[str, Polling]:
    """The stages that ask the named entries of the pollers' catalogue. Raises ConfigError, and KeyError for others."""
    chosen = sources(tuple(dict.fromkeys(names)), config)
    return {f"poll {source.name}": Polling(source) for source in chosen}


def limits(stages: Mapping[str, Make]) -> dict[str, float]:
    """Seconds that a step of each polling stage may take."""
    return {name: make.limit_s for name, make in stages.items() if isinstance(make, Polling)}


def _told(log: Log, topic: str) -> Iterator[AnyMessage | LedgerMessage]:
    """Everything that a topic still holds, in order; what cannot be read is somebody else's."""
    reader = log.reader()
    for task in tasks_of(log.topics, [topic]):
        for record in records(reader, task):
            if record.value:
                with suppress(ValidationError):
                    yield actions.decode(record.value) if topic == CONTROL else decode(record.value)
