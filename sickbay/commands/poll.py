"""`sickbay poll`: asks schedulers what runs where."""

from typing import Annotated

from cyclopts import Parameter

from sickbay.commands.settings import ConfigFile, settings_of


def poll(
    *sources: Annotated[str, Parameter(help="What to poll, such as slurm. At least one.")],
    config: ConfigFile = None,
) -> int:
    """Poll sources, such as slurm, and tell the log what has changed. Ends on SIGTERM with exit status 0.

    A source that does not answer is said, counted and asked again; nothing that it told before ends because of it.
    """
    from collectors.cluster.poll import CATALOGUE
    from sickbay.app.running.opening import awaited_log
    from sickbay.app.running.poller import limits, pollings
    from sickbay.app.running.service import Context, Service
    from sickbay.commands.output import complain, usage
    from sickbay.commands.process import end
    from sickbay.config import ConfigError
    from sickbay.log import wall_ms
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

    stages = pollings(sources, settings)
    log = awaited_log(settings.log, say)
    if log is None:
        return 0
    context = Context(settings, log, SelfMetrics(), say, wall_ms)
    say(f"polls {', '.join(sources)} to {settings.log.brokers or settings.log.path}")
    service = Service(context, {**stages}, longer=limits(stages))
    return end(service, log, service.run())
