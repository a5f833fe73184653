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
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from sickbay.settings import PATHS, Cluster, Config
from sickbay.source_settings import Section

MAX_CONFIG = 1 << 20  # bytes


class ConfigError(ValueError):
    """The settings cannot be used; the text names file, key and remedy."""


class Setting(NamedTuple):
    """One row of the reference: `[section] key`."""

    section: str
    key: str
    default: Any
    right: str


def load(path: Path) -> Config:
    """The settings in the file at `path`. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CONFIG + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    if len(raw) > MAX_CONFIG:
        raise ConfigError(f"{path}: larger than {MAX_CONFIG} bytes: no settings file")
    config = parse(raw, str(path))
    return placed(config, path.parent)


def placed(config: Config, folder: Path) -> Config:
    """The settings with every relative file and folder taken from `folder`."""
    for section, keys in PATHS.items():
        table = getattr(config, section)
        named = {key: text for key in keys if (text := getattr(table, key)) and "://" not in text}
        found = {key: str(folder / text) for key, text in named.items()}
        config = msgspec.structs.replace(config, **{section: msgspec.structs.replace(table, **found)})
    return config


def parse(raw: bytes, name: str) -> Config:
    """The settings in a TOML text; `name` is what errors call it. Raises ConfigError."""
    try:
        tree = tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: not TOML: {error}") from None
    problem = next(_problems(tree), None)
    if problem is not None:
        raise ConfigError(f"{name}: {problem}")
    return msgspec.convert(tree, Config)


def settings() -> list[Setting]:
    """Every setting, in the order of the file."""
    return [
        Setting(section, field.name, field.default, _right(hints[field.name]))
        for section, table in _sections().items()
        for hints in [get_type_hints(table, include_extras=True)]
        for field in msgspec.structs.fields(table)
    ]


def _sections() -> dict[str, type[Section]]:
    return {field.name: field.type for field in msgspec.structs.fields(Config)}


def _right(annotation: Any) -> str:
    """The description in an annotation, also in that of an optional setting."""
    metas = [annotation, *get_args(annotation), *(part for arg in get_args(annotation) for part in get_args(arg))]
    return next(meta.description or "" for meta in metas if isinstance(meta, Meta))


def _problems(tree: Mapping[str, Any]) -> Iterator[str]:
    """Everything that is wrong, most helpful words first: unknown keys, wrong values, settings that contradict."""
    sections = _sections()
    for section, table in tree.items():
        if section not in sections:
            yield f"no section [{section}]{_meant(section, sections)}"
        elif not isinstance(table, dict):
            yield f"{section} must be a section: write [{section}] on a line of its own"
        else:
            yield from _wrong(section, sections[section], table)
    yield from _contradictions(msgspec.convert(tree, Config))


def _wrong(section: str, kind: type[Section], table: Mapping[str, Any]) -> Iterator[str]:
    hints = get_type_hints(kind, include_extras=True)
    for key, value in table.items():
        if key not in hints:
            yield f"no setting {key} in [{section}]{_meant(key, hints)}"
            continue
        try:
            msgspec.convert(value, hints[key])
        except msgspec.ValidationError:
            yield f"[{section}] {key} = {_shown(value)}: must be {_right(hints[key])}"


def _contradictions(config: Config) -> Iterator[str]:
    try:
        ZoneInfo(config.cluster.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        right = _right(get_type_hints(Cluster, include_extras=True)["timezone"])
        yield f"[cluster] timezone = {_shown(config.cluster.timezone)}: must be {right}"


def _meant(word: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f": did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
