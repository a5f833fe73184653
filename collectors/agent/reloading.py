"""Which settings a running agent takes up when it is told to reload, and which need a new start."""

from sickbay.settings import Agent, Config

SECTIONS = ("cluster", "log", "security", "windows", "metrics")  # what an agent reads of them stays as it was
FIXED = ("host", "root", "spool", "spool_max_bytes", "frame_s", "alerts", "alerts_after_s")  # of [agent]


def needs_restart(before: Config, after: Config) -> list[str]:
    """The settings that differ and that only a new start takes up, such as `[agent] spool`."""
    sections = [f"[{name}]" for name in SECTIONS if getattr(before, name) != getattr(after, name)]
    return sections + [f"[agent] {name}" for name in FIXED if getattr(before.agent, name) != getattr(after.agent, name)]


def taken_up(before: Config, after: Config) -> Config:
    """The settings of a running agent after a reload: the new ones, except those that need a new start."""
    from msgspec.structs import replace

    kept: dict[str, object] = {name: getattr(before.agent, name) for name in FIXED}
    agent: Agent = replace(after.agent, **kept)
    config: Config = replace(after, agent=agent, **{name: getattr(before, name) for name in SECTIONS})
    return config
