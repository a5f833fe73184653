"""`sickbay doctor`: what works here, what is missing, what to do."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sickbay.commands.output import deliver, write_json
from sickbay.commands.settings import DEFAULT, ConfigFile, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from sickbay.doctor import Check


def doctor(
    *,
    config: ConfigFile = None,
    json: Annotated[bool, Parameter(help="JSON on standard output.", negative="")] = False,
) -> int:
    """Check this installation and what its settings name: log, poll sources, listener; nobody is asked anything.

    With --config, also what an agent could read on this host, and whether Slurm answers.

    Exit status 0 if all that is needed is there and right, else 1.
    """
    from sickbay.doctor import examine

    checks = [
        *examine(),
        _settings(config),
        *_parts(config),
        *_way(config),
        *_sources(config),
        *_scheduler(config),
    ]
    if json:
        import msgspec

        write_json(msgspec.json.encode([check._asdict() for check in checks]))
    else:
        deliver(lambda: _print(checks))
    return 0 if all(check.ok is not False for check in checks) else 1


def _settings(config: "Path | None") -> "Check":
    """The settings file can be used; none is fine too."""
    from sickbay.config import ConfigError
    from sickbay.doctor import Check

    try:
        found = settings_of(config)
    except ConfigError as error:
        return Check("settings", False, str(error), "correct the file: docs/reference.md has every setting")
    told = str(config or DEFAULT) if config or DEFAULT.is_file() else "no file: the defaults"
    return Check("settings", True, f"{told}; the log: {found.log.url or found.log.brokers or found.log.path}")


def _parts(config: "Path | None") -> "list[Check]":
    """Each part that the settings name, begun as `up` and `poll` would."""
    from sickbay.config import ConfigError

    try:
        settings = settings_of(config)
    except ConfigError:
        return []  # the check of the settings tells it
    from sickbay.app.running.setting_checks import checks

    return checks(settings)


def _way(config: "Path | None") -> "list[Check]":
    """Whether the listener of an agent takes its records; nothing where the settings name none."""
    from sickbay.config import ConfigError
    from sickbay.doctor import Check
    from sickbay.log import LogError

    try:
        settings = settings_of(config)
    except ConfigError:
        return []  # the check of the settings tells it
    if config is None or settings.log.engine != "https":
        return []
    from sickbay.log.https_appender import HttpsAppender
    from sickbay.topics import TOPICS

    try:
        appender = HttpsAppender(settings.log, TOPICS)
        appender.tried()
        appender.close()
    except LogError as error:
        return [Check("way", False, str(error), "see [log] url, ca_file and token_file")]
    return [Check("way", True, f"{settings.log.url} takes records")]


def _sources(config: "Path | None") -> "list[Check]":
    """Each source of this host's agent, tried once; nothing where no file of settings is given."""
    from sickbay.config import ConfigError
    from sickbay.doctor import Check

    if config is None:
        return []
    from collectors.agent.catalogue import sources_of
    from collectors.agent.hosting import host_of
    from collectors.agent.trying import tried
    from sickbay.log import wall_ms

    try:
        settings = settings_of(config)
        host = host_of(settings, lambda source: None)
    except ConfigError:
        return []  # the check of the settings tells it
    except ValueError as error:
        return [Check("agent", False, str(error), "set host in [agent]")]
    made, left = sources_of(host)
    found = sorted([*left, *tried(made, wall_ms, settings.agent.timeout_s + 1.0)])
    right = {"ok": True, "blind": False, "hangs": False}
    return [
        Check(f"agent {one.source}", right.get(one.word), f"{one.word}: {one.why}" if one.why else one.word, one.help)
        for one in found
    ]


def _scheduler(config: "Path | None") -> "list[Check]":
    """Whether Slurm answers, and what of its settings undoes our work; nothing where the settings name no Slurm."""
    from sickbay.config import ConfigError
    from sickbay.doctor import Check

    if config is None:
        return []
    from collectors.cluster.poll import PollFailed
    from collectors.cluster.scheduler_slurm import Commands
    from collectors.cluster.slurm_site import RETURNS_ANY, UNTESTED
    from collectors.formats.slurm_site import timers

    try:
        settings = settings_of(config)
        if settings.remediation.scheduler != "slurm":
            return []
        found = timers(Commands(settings.slurm)("scontrol", "show", "config"))
    except ConfigError:
        return []  # the check of the settings tells it
    except PollFailed as error:
        return [
            Check("slurm", False, str(error), "let `scontrol ping` work for this user: [slurm] bin, conf, timeout_s")
        ]
    if found.get("ReturnToService") == RETURNS_ANY:
        return [Check("slurm", None, UNTESTED, "set ReturnToService=1 in slurm.conf: Sickbay's tests then come first")]
    return [Check("slurm", True, f"answers; ReturnToService={found.get('ReturnToService', '')}")]


def _print(checks: "list[Check]") -> None:
    from rich.console import Console
    from rich.text import Text

    out = Console(highlight=False, soft_wrap=True)
    width = max((len(check.name) for check in checks), default=0) + 2
    words = {True: ("ok", "green"), None: ("note", "yellow"), False: ("FAIL", "bold red")}
    for check in checks:
        word, colour = words[check.ok]
        advice = f"  -> {check.do}" if check.ok is not True and check.do else ""
        out.print(Text(f"{word:<7}{check.name:<{width}}{check.says}{advice}", style=colour))
