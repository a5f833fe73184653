"""The settings file of a command: the one that is named, else `sickbay.toml` of this folder, else the defaults."""

from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from sickbay.config import load, placed
from sickbay.settings import Config

DEFAULT = Path("sickbay.toml")

ConfigFile: TypeAlias = Annotated[
    Path | None, Parameter(name="--config", help="Settings (default: sickbay.toml in the current folder, if there).")
]


def settings_of(config: Path | None) -> Config:
    """The settings to use. Raises ConfigError that says what is wrong and what would be right."""
    if config is not None:
        return load(config)
    return load(DEFAULT) if DEFAULT.is_file() else placed(Config(), Path())
