"""`sickbay up`: everything in one process, for one machine or a small site."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.demonstrating.simulated_site import Simulated
    from sickbay.settings import Config

SIMULATED = Path("sickbay-simulated")
HOSTS = ("n1", "n2", "n3", "n4")


def up(
    *,
    config: ConfigFile = None,
    agent: Annotated[
        tuple[Path, ...], Parameter(help="Settings of an agent to run here too; may be repeated.", negative="")
    ] = (),
    simulate: Annotated[
        bool,
        Parameter(help="Watch a made-up site of four hosts, whose cards fall off the bus, and act on it.", negative=""),
    ] = False,
    listen: Annotated[
        str | bool,
        Parameter(
            help="Take in what others send, at HOST:PORT (default: [listen] address).", negative="", show_default=False
        ),
    ] = False,
    seconds: Annotated[float | None, Parameter(help="End after so long (default: on SIGTERM or Ctrl-C).")] = None,
) -> int:
    """Run all of Sickbay in one process: stages, poller, remediation and agents, on the log that the settings name.

    Ends in good order with exit status 0; 4 where a stage failed or hangs.
    """
    import threading

    from sickbay.app.remediating.remediator import LOOK_S
    from sickbay.app.running import up as whole
    from sickbay.app.running.opening import awaited_log
    from sickbay.app.running.poller import limits
    from sickbay.app.running.service import Context, Service
    from sickbay.app.running.stages import LONGER
    from sickbay.commands.output import complain
    from sickbay.commands.process import end
    from sickbay.selfmetrics import SelfMetrics

    settings = listening_at(settings_of(config), listen)
    agents, simulated = [settings_of(file) for file in agent], None
    if simulate:
        settings, simulated = simulated_site(settings)
        agents += simulated.agents(settings)

    def say(text: str) -> None:
        complain(f"{time.strftime('%H:%M:%S')} {text}")

    log = awaited_log(settings.log, say)
    if log is None:
        return 0
    made = whole.stages(settings, agents, simulated)
    longer = {**LONGER, **limits(made), "remediation": LOOK_S}
    service = Service(Context(settings, log, SelfMetrics(), say), made, longer=longer)
    say(f"up: {', '.join(made)}; the log: {settings.log.brokers or settings.log.path}")
    if seconds is not None:
        timer = threading.Timer(seconds, service.stop)
        timer.daemon = True  # else the process, told to end before, would wait for it
        timer.start()
    return end(service, log, service.run())


def listening_at(config: "Config", listen: str | bool, pod: str = "") -> "Config":
    """The settings with what the command line says of the listener. Raises ConfigError."""
    import re

    from msgspec.structs import replace

    from sickbay.config import ConfigError
    from sickbay.source_settings import LISTEN

    if listen is True and not config.listen.address:
        raise ConfigError("--listen: [listen] address is empty: name HOST:PORT, such as 0.0.0.0:9443")
    address = listen if isinstance(listen, str) else ""
    if not re.fullmatch(LISTEN, address):
        raise ConfigError(f"--listen {address[:80]!r}: must be HOST:PORT, such as 0.0.0.0:9443")
    told = {key: value for key, value in (("address", address), ("pod", pod)) if value}
    return replace(config, listen=replace(config.listen, **told))


def simulated_site(config: "Config") -> "tuple[Config, Simulated]":
    """A made-up site beside the log, and the settings to watch it with."""
    from sickbay.app.demonstrating.simulated_site import Simulated

    simulated = Simulated(SIMULATED.absolute(), HOSTS)
    return simulated.settings(config), simulated
