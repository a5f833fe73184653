"""Settings: one TOML file, typed, checked when it is read. An error names the file, the key and what would be right.

    [cluster]
    name = "south"

    [log]
    engine = "sqlite"
    path = "/var/lib/sickbay/log"

Every setting has a default; an empty file is a valid one. A key that is not known is refused, not passed over: a
misspelt limit must not leave the default in force unseen.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta, Struct

MAX_CONFIG = 1 << 20  # bytes

_DURATION = re.compile(r"([0-9]{1,9})(ms|s|min|h|d)")
_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

ClusterName: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


class ConfigError(ValueError):
    """The file cannot be used; the text names file, key and remedy."""


class Cluster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[cluster]: `name` is the namespace of topics, archive and metrics; `timezone` that of stamps without zone."""

    name: ClusterName = "cluster"
    timezone: str = "UTC"


class LogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[log]: the engine, and the directory of an embedded one on a local disk. `max_bytes` bounds its file."""

    engine: Literal["memory", "sqlite"] = "sqlite"
    path: str = "sickbay-log"
    max_bytes: Annotated[int, Meta(ge=1 << 20)] | None = None


class Windows(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[windows], as durations. `width` of a window, `lateness` it waits for, `horizon` that detectors look back."""

    width: timedelta = timedelta(seconds=10)
    lateness: timedelta = timedelta(seconds=10)
    horizon: timedelta = timedelta(hours=2)


class Report(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[report]: the language of sentences."""

    lang: Literal["en", "zh"] = "en"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    cluster: Cluster = Cluster()
    log: LogSettings = LogSettings()
    windows: Windows = Windows()
    report: Report = Report()


def load(path: Path) -> Config:
    """The settings in the file at `path`. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CONFIG + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    if len(raw) > MAX_CONFIG:
        raise ConfigError(f"{path}: larger than {MAX_CONFIG} bytes: this is no settings file")
    return parse(raw, str(path))


def parse(raw: bytes, name: str) -> Config:
    """The settings in a TOML text; `name` is what errors call it. Raises ConfigError."""
    try:
        tree = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: not TOML: {error}") from None
    for problem in _unknown(tree, Config, ""):
        raise ConfigError(f"{name}: {problem}")
    try:
        config = msgspec.convert(tree, Config, dec_hook=_no_hook)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_readable(str(error))}") from None
    _check(config, name)
    return config


def duration_ms(value: timedelta) -> int:
    """A setting of time in milliseconds."""
    return value // timedelta(milliseconds=1)
