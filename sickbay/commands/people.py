"""Who runs a command, in which zone, and the log that the answer is for."""

from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from sickbay.config import ConfigError

if TYPE_CHECKING:
    from sickbay.log import Log
    from sickbay.settings import Cluster, LogSettings


def user() -> str:
    """The name of the user, `unknown` where the system has none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def zone_of(settings: "Cluster") -> tzinfo | None:
    """The zone in which people tell times: the cluster's, None (this machine's) where none is set."""
    return ZoneInfo(settings.timezone) if settings.timezone else None


def shared_log(settings: "LogSettings") -> "Log":
    """The log that other processes have: asking or telling must not make an empty one. Raises ConfigError, LogError."""
    from sickbay.log.opened import open_log

    if settings.engine == "memory":
        raise ConfigError('[log] engine = "memory": no other process could read it; use "kafka" or "sqlite"')
    if settings.engine == "sqlite" and not Path(settings.path).is_dir():
        raise ConfigError(f"there is no log at {settings.path}: name its settings with --config FILE")
    return open_log(settings)
