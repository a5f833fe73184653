"""Polling as a stage of a service: it begins with what an earlier run told, so that nothing stays open for ever."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import ValidationError

from collectors.poll import Poller, sources
from sickbay.admission import secret
from sickbay.app.service import Context, Make
from sickbay.log import Log, tasks_of
from sickbay.log.reading import records
from sickbay.messages import AnyMessage, decode
from sickbay.settings import Config

SLACK_S = 20.0  # for the log's answers: an append waits so long for brokers that are away


def polling(names: Sequence[str]) -> Make:
    """Makes the stage that polls the named entries of the pollers' catalogue. Making it may raise ConfigError."""

    def made(context: Context) -> Poller:
        security = context.config.security
        key = secret(security.key_file) if security.key_file else None
        chosen = sources(tuple(dict.fromkeys(names)), context.config)
        for source in chosen:
            if source.remembered is not None:
                source.state = source.remembered(_told(context.log, source.remembers))
        return Poller(chosen, context.log.appender(), context.metrics, context.say, key)

    return made


def step_s(config: Config) -> float:
    """How long a step may take before it counts as hanging: the longest question, and the log's answer."""
    return config.slurm.timeout_s + SLACK_S


def _told(log: Log, topic: str) -> Iterator[AnyMessage]:
    """Everything that a topic still holds, in order; what cannot be read is somebody else's."""
    reader = log.reader()
    for task in tasks_of(log.topics, [topic]):
        for record in records(reader, task):
            if record.value:
                with suppress(ValidationError):
                    yield decode(record.value)
