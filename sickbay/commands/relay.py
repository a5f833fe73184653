"""`sickbay relay`: takes in the frames of a rack or pod, and packs them."""

from typing import Annotated

from cyclopts import Parameter

from sickbay.commands.settings import ConfigFile, settings_of


def relay(
    *,
    config: ConfigFile = None,
    listen: Annotated[str, Parameter(help="HOST:PORT to listen at (default: [listen] address).")] = "",
    pod: Annotated[str, Parameter(help="The rack or pod (default: [listen] pod, else this host's name).")] = "",
) -> int:
    """Take in what agents of a rack or pod send over HTTPS; up to 32 frames become one record of the log.

    An agent is answered when the log has its record. Ends on SIGTERM with exit status 0.
    """
    from sickbay.app.running.opening import awaited_log
    from sickbay.app.running.service import Context, Service
    from sickbay.app.running.up import listening
    from sickbay.commands.output import complain
    from sickbay.commands.process import end
    from sickbay.commands.up import listening_at
    from sickbay.config import ConfigError
    from sickbay.selfmetrics import SelfMetrics

    settings = listening_at(settings_of(config), listen, pod)
    made = listening(settings, packs=True)
    if settings.log.engine == "memory":
        raise ConfigError('[log] engine = "memory": no other process could read it; use "kafka" or "sqlite"')

    def say(text: str) -> None:
        complain(f"sickbay relay: {text}")

    log = awaited_log(settings.log, say)
    if log is None:
        return 0
    service = Service(Context(settings, log, SelfMetrics(), say), {"relay": made})
    return end(service, log, service.run())
