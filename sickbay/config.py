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
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta, Struct

MAX_CONFIG = 1 << 20  # bytes


class ConfigError(ValueError):
    """The settings cannot be used; the text names file, key and remedy."""


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file. Each field is annotated with what is right for it: errors and docs say it."""


class Cluster(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[cluster]`: one cluster is one namespace of topics, archive and metrics."""

    name: Annotated[
        str, Meta(pattern="^[a-z0-9][a-z0-9-]{0,62}$", description="1 to 63 lower-case letters, digits and hyphens")
    ] = "cluster"
    timezone: Annotated[str, Meta(description="an IANA zone such as Asia/Shanghai, for stamps without zone")] = "UTC"


class LogSettings(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[log]`: where the spine lies. A relative path counts from the settings file's folder."""

    engine: Annotated[Literal["memory", "sqlite"], Meta(description='"memory" or "sqlite"')] = "sqlite"
    path: Annotated[str, Meta(min_length=1, description="a directory on a local disk")] = "sickbay-log"
    max_bytes: (
        Annotated[int, Meta(ge=1 << 20, description="the greatest size of the log's file, at least 1048576")] | None
    ) = None


class Windows(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[windows]`: how telemetry is cut in time."""

    width_s: Annotated[int, Meta(ge=1, le=600, description="seconds of a window, 1 to 600")] = 10
    lateness_s: Annotated[int, Meta(ge=0, le=600, description="seconds a window waits for late data, 0 to 600")] = 10
    horizon_s: Annotated[
        int, Meta(ge=1, le=604_800, description="seconds that detectors look back, at least a window, at most 604800")
    ] = 7200


class Report(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[report]`: how it speaks to people."""

    lang: Annotated[Literal["en", "zh"], Meta(description='"en" or "zh"')] = "en"


class Config(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    cluster: Cluster = Cluster()
    log: LogSettings = LogSettings()
    windows: Windows = Windows()
    report: Report = Report()


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
    placed = str(path.parent / config.log.path)
    return msgspec.structs.replace(config, log=msgspec.structs.replace(config.log, path=placed))


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
        ZoneInfo(config.cluster.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        right = _right(get_type_hints(Cluster, include_extras=True)["timezone"])
        yield f"[cluster] timezone = {_shown(config.cluster.timezone)}: must be {right}"
    if config.windows.horizon_s < config.windows.width_s:
        yield f"[windows] horizon_s = {config.windows.horizon_s}: must be at least width_s = {config.windows.width_s}"


def _meant(word: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f": did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
