"""The host that an agent watches: its name, what it calls itself, and the zone of its stamps."""

import os
import socket
from collections.abc import Callable
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from collectors.agent.source import Host
from collectors.identity import told_host
from sickbay.settings import Config


def host_of_settings(config: Config) -> str:
    """The name of the host to watch. Raises ValueError where nothing tells it."""
    told = config.agent.host or _calls_itself(Path(config.agent.root))
    if not (host := told_host(told)):
        raise ValueError("no name is known for this host: set host in [agent]")
    return host


def host_of(config: Config, places: Callable[[str], bytes | None]) -> Host:
    """What collectors need to know of the host."""
    aliases = frozenset({_calls_itself(Path(config.agent.root))} - {"", "localhost"})
    return Host(host_of_settings(config), config.agent, zone_of(config), aliases, places)


def zone_of(config: Config) -> tzinfo:
    """The zone of stamps that tell none: what the settings say, else the host's own, as its logger writes them."""
    own = Path(config.agent.root, "etc/localtime")
    try:
        if config.cluster.timezone:
            return ZoneInfo(config.cluster.timezone)
        if key := os.readlink(own).partition("zoneinfo/")[2]:  # below another root it points beside it
            return ZoneInfo(key)
    except (OSError, ValueError):
        pass
    try:
        with own.open("rb") as file:
            return ZoneInfo.from_file(file, key=str(own))
    except (OSError, ValueError):
        return UTC


def _calls_itself(root: Path) -> str:
    if root == Path("/"):
        return socket.gethostname()
    try:
        return (root / "etc/hostname").read_text(encoding="utf-8", errors="replace").strip()[:240]
    except OSError:
        return ""
