"""`sickbay remediate`: the stage that holds, requeues, tests and releases; by default it only shows."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from sickbay.app.remediating.remediator import Remediator
    from sickbay.app.running.service import Context
    from sickbay.settings import Config


def remediate(
    *,
    config: ConfigFile = None,
    mode: Annotated[
        Literal["observe", "advise", "act"] | None, Parameter(help="Instead of that of the settings.")
    ] = None,
) -> int:
    """Decide on open incidents, do it as far as the mode allows, and print each change of the ledger as one line.

    observe shows what would be done, advise waits for `sickbay incidents approve`, act does it. Ends on SIGTERM with
    exit status 0; 4 where it failed or another process took its place.
    """
    from sickbay.app.remediating.remediator import LOOK_S
    from sickbay.app.running.opening import awaited_log
    from sickbay.app.running.service import Context, Service
    from sickbay.commands.output import complain
    from sickbay.commands.process import end
    from sickbay.config import ConfigError
    from sickbay.selfmetrics import SelfMetrics

    settings = _with(settings_of(config), mode)
    if settings.log.engine == "memory":
        raise ConfigError('[log] engine = "memory": no other process could write it; use "kafka" or "sqlite"')

    def say(text: str) -> None:
        complain(f"sickbay remediate: {text}")

    log = awaited_log(settings.log, say)
    if log is None:
        return 0
    service = Service(Context(settings, log, SelfMetrics(), say), {"remediation": _make}, step_s=LOOK_S)
    acts = settings.remediation
    say(f"mode {acts.mode}, scheduler {acts.scheduler}, on {settings.log.brokers or settings.log.path}")
    return end(service, log, service.run())


def _make(context: "Context") -> "Remediator":
    from sickbay.app.remediating.remediator import Remediator, scheduler_of

    return Remediator(context, scheduler_of(context.config, context.clock), told=_print)


def _print(line: str) -> None:
    from sickbay.commands.output import deliver

    deliver(partial(print, line, flush=True))


def _with(settings: "Config", mode: str | None) -> "Config":
    from msgspec.structs import replace

    return settings if mode is None else replace(settings, remediation=replace(settings.remediation, mode=mode))
