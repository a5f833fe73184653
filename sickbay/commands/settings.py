"""The settings file of a command: the one that is named, else `sickbay.toml` of this folder, else the defaults."""

import os
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from cyclopts import Parameter

from sickbay.config import ConfigError, load, placed
from sickbay.settings import Config, Metrics

DEFAULT = Path("sickbay.toml")
LISTEN = "SICKBAY_LISTEN"  # takes the place of [metrics] listen: processes of a host share a file, but no port

ConfigFile: TypeAlias = Annotated[
    Path | None, Parameter(name="--config", help="Settings (default: sickbay.toml in the current folder, if there).")
]


def settings_of(config: Path | None) -> Config:
    """The settings to use. Raises ConfigError that says what is wrong and what would be right."""
    if config is not None:
        return _listening(load(config))
    return _listening(load(DEFAULT) if DEFAULT.is_file() else placed(Config(), Path()))


def _listening(config: Config) -> Config:
    listen = os.environ.get(LISTEN)
    if listen is None:
        return config
    try:
        metrics = msgspec.convert({**msgspec.to_builtins(config.metrics), "listen": listen}, Metrics)
    except msgspec.ValidationError:
        raise ConfigError(f"{LISTEN} = {listen!r}: must be host:port, or empty for nowhere") from None
    return msgspec.structs.replace(config, metrics=metrics)
