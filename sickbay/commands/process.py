"""`sickbay process`: the stages between the log's topics."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.running.service import Service


def process(
    *stages: Annotated[
        str,
        Parameter(help="ticker, windows, explicit, diagnosis, lag, alerts, archive (default: what the settings name)."),
    ],
    config: ConfigFile = None,
) -> int:
    """Run stages: ticker, windows, explicit, diagnosis, lag, alerts, archive (default: all that the settings ask for).

    Windows and explicit may be shared among processes; several on one machine need different names in SICKBAY_MEMBER.
    Of several with diagnosis one leads and the others take over. Ends on SIGTERM in good order with exit status 0; 4
    where a stage failed, or hung: a poll or commit over 10 s.
    """
    from sickbay.app.running.opening import awaited_log
    from sickbay.app.running.service import Context, Service
    from sickbay.app.running.stages import LONGER, STAGES, chosen
    from sickbay.commands.output import complain, usage
    from sickbay.config import ConfigError
    from sickbay.selfmetrics import SelfMetrics

    settings = settings_of(config)
    if unknown := [name for name in stages if name not in STAGES]:
        return usage("process", f"no stage {unknown[0]!r}; there are {', '.join(STAGES)}")
    if settings.log.engine == "memory":
        raise ConfigError('[log] engine = "memory": no other process could read it; use "kafka" or "sqlite"')
    made = chosen(stages, settings)

    def say(text: str) -> None:
        complain(f"sickbay process: {text}")

    log = awaited_log(settings.log, say)
    if log is None:
        return 0
    service = Service(Context(settings, log, SelfMetrics(), say), made, longer=LONGER)
    say(f"runs {', '.join(made)} on {settings.log.brokers or settings.log.path}")
    status = service.run()
    return end(service, log, status)


def end(service: "Service", log: object, status: int) -> int:
    """Closes the log; a stage that was left behind may hold it, so that only the end of the process helps."""
    import os
    import sys

    if service.left_behind:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    getattr(log, "close", lambda: None)()
    return status
