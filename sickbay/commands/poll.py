"""`sickbay poll`: asks schedulers what runs where."""

from typing import TYPE_CHECKING

from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.service import Context, Stage
    from sickbay.settings import Config


def poll(*sources: str, config: ConfigFile = None) -> int:
    """Poll sources, such as slurm, and tell the log what has changed. Ends on SIGTERM with exit status 0.

    A source that does not answer is said, counted and asked again; nothing that it told before ends because of it.
    """
    from collectors.poll import CATALOGUE
    from sickbay.app.service import Context, Service
    from sickbay.commands.output import complain, usage
    from sickbay.config import ConfigError
    from sickbay.log import wall_ms
    from sickbay.log.opened import open_log
    from sickbay.selfmetrics import SelfMetrics

    known = ", ".join(CATALOGUE)
    if not sources:
        return usage("poll", f"nothing to poll: name a source ({known})")
    if unknown := [name for name in sources if name not in CATALOGUE]:
        return usage("poll", f"no source {unknown[0][:80]!r}; there are {known}")
    settings = settings_of(config)
    if settings.log.engine == "memory":
        raise ConfigError('[log] engine = "memory": no other process could read it; use "kafka" or "sqlite"')

    def say(text: str) -> None:
        complain(f"sickbay poll: {text}")

    log = open_log(settings.log)
    try:
        context = Context(settings, log, SelfMetrics(), say, wall_ms)
        say(f"polls {', '.join(sources)} to {settings.log.brokers or settings.log.path}")
        service = Service(context, {"poll": lambda given: stage(given, *sources)}, step_s=step_s(settings))
        return service.run()
    finally:
        log.close()


def step_s(config: "Config") -> float:
    """How long a step may take before it counts as hanging: the longest question, and the log's answer."""
    return 10.0 + config.slurm.timeout_s


def stage(context: "Context", *names: str) -> "Stage":
    """The stage that polls the named sources. Raises ConfigError."""
    from collectors.poll import Poller, sources
    from sickbay.admission import secret

    security = context.config.security
    key = secret(security.key_file) if security.key_file else None
    chosen = sources(tuple(dict.fromkeys(names)), context.config)
    return Poller(chosen, context.log.appender(), context.metrics, context.say, key)
