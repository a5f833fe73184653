"""`sickbay agent`: watches one host."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sickbay.commands.settings import ConfigFile, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from collectors.agent.agent import Agent
    from sickbay.app.running.exposition import Exposition
    from sickbay.log import Appender
    from sickbay.selfmetrics import SelfMetrics
    from sickbay.settings import Config

WAIT_S = 0.5  # at most, for a collection: an event is spooled as soon as it is read


def agent(
    *,
    config: ConfigFile = None,
    host: Annotated[str, Parameter(help="This host's name (default: as set, else what the system says).")] = "",
    root: Annotated[Path | None, Parameter(help="Read every path below this folder (default: as set, else /).")] = None,
) -> int:
    """Watch one host: its kernel log, exporters and training logs.

    SIGHUP makes it read its settings again. Ends on SIGTERM with everything spooled.
    """
    import os
    import signal
    import threading

    # Before numpy is loaded: it begins a thread for each processor, of 200 on a host, and the agent multiplies nothing.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from collectors.agent.agent import start
    from sickbay.commands.output import complain
    from sickbay.log import wall_ms
    from sickbay.selfmetrics import SelfMetrics

    stop, again = threading.Event(), threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, lambda *_: again.set())
    settings = _changed(settings_of(config), host, root)
    metrics = SelfMetrics()
    running = start(settings, connection(settings), metrics=metrics, say=lambda text: complain(f"agent: {text}"))
    exposition = exposed(settings.metrics.listen, metrics, running)
    try:
        while not stop.is_set():
            running.step(wall_ms(), WAIT_S)
            if again.is_set():
                again.clear()
                reload(running, lambda: _changed(settings_of(config), host, root), complain)
    finally:
        running.close()
        if exposition is not None:
            exposition.close()
    return 0


def reload(running: "Agent", read: "Callable[[], Config]", complain: "Callable[[str], None]") -> None:
    """Take up the settings as they are now; settings that cannot be used change nothing, and it says so."""
    from sickbay.config import ConfigError

    try:
        late = running.reload(read())
    except (ConfigError, ValueError) as error:
        return complain(f"agent: goes on with the settings it has: {error}")
    complain("agent: took up the settings" + (f"; only a new start takes up {', '.join(late)}" if late else ""))


def exposed(listen: str, metrics: "SelfMetrics", running: "Agent") -> "Exposition | None":
    """The agent's metrics and readiness over HTTP, where the settings say so."""
    if not listen:
        return None
    from sickbay.app.running.exposition import Exposition

    return Exposition(listen, metrics, lambda: {"agent": why} if (why := running.waiting) else {})


def _changed(config: "Config", host: str, root: Path | None) -> "Config":
    """The settings with what the command line says."""
    from msgspec.structs import replace

    told = {key: value for key, value in (("host", host), ("root", str(root) if root else "")) if value}
    return replace(config, agent=replace(config.agent, **told))


def connection(config: "Config") -> "Callable[[], Appender]":
    """Opens what the agent appends to: a Kafka producer, or the embedded log of this machine."""
    from sickbay.config import ConfigError
    from sickbay.log.opened import open_appender

    if config.log.engine == "memory":
        raise ConfigError('[log] engine = "memory": no other process could read it; use "kafka" or "sqlite"')
    return lambda: open_appender(config.log)
