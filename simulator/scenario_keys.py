"""The keys of a scenario file, and the file from them: `dump` writes what `convert` reads."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sickbay.messages import Verdict
from sickbay.vocabulary import faults
from simulator.truth.plan import STAGES

Source = Literal["kernel", "job", "switch", "scheduler"]
VERDICTS = tuple(map(str, Verdict))
_MOST_SECONDS = 31 * 86_400


class Cluster(Struct, kw_only=True, forbid_unknown_fields=True):
    """`[cluster]`. `build`: what `simulator.parts.cluster.build` takes."""

    hosts: int | str | list[str] = 8
    feeds: int = 1
    build: dict[str, Any] = {}


class Job(Struct, kw_only=True, forbid_unknown_fields=True):
    """`[[job]]`. `with`: fields of `simulator.workload.run.Job`."""

    hosts: str | list[str]
    restart_owner: str = ""
    no_stop_until_s: int | None = None
    more: dict[str, Any] = msgspec.field(default_factory=dict, name="with")


class At(Struct, kw_only=True, forbid_unknown_fields=True):
    """`[[at]]`: one thing that happens. `with`: its settings."""

    s: int
    on: str = ""
    fault: str = ""
    decoy: str = ""
    line: str = ""
    printed_by: Source = "kernel"
    reading: str = ""
    maintenance: str = ""
    restart: str = ""
    act: str = ""
    more: dict[str, Any] = msgspec.field(default_factory=dict, name="with")


class RightKeys(Struct, kw_only=True, forbid_unknown_fields=True):
    """`[[right]]`: an incident that must be told; a night without one wants none."""

    verdicts: list[str]
    components: list[str] = []
    faults: list[str] = []
    plan: list[str] = []
    by_s: int | None = None


class Forbidden(Struct, kw_only=True, forbid_unknown_fields=True):
    """`[forbidden]`: `verb`, `verb@when`, or `verb TARGET, TARGET`. `spare_all`: no host beyond the right answers."""

    acts: list[str] = []
    spare_all: bool = True


class DutyKeys(Struct, kw_only=True, forbid_unknown_fields=True):
    """`[[duty]]`: what a later stage must do."""

    stage: str
    says: str


class Night(Struct, kw_only=True, forbid_unknown_fields=True):
    """A scenario file. `wants`: what the simulator cannot show of it yet; `scale`: what is smaller than life."""

    title: str
    night: int = 0
    tier: int = 0
    shows: str = ""
    scale: str = ""
    seconds: int = 600
    wants: list[str] = []
    exonerate: list[str] = []
    page: bool | None = None
    incidents_at_most: int | None = None
    noise: str | dict[str, float] = ""
    cluster: Cluster = msgspec.field(default_factory=Cluster)
    job: list[Job] = []
    at: list[At] = []
    right: list[RightKeys] = []
    forbidden: Forbidden = msgspec.field(default_factory=Forbidden)
    duty: list[DutyKeys] = []


def convert(raw: Mapping[str, Any]) -> Night:
    """The night. Raises ValueError that names the key and what is allowed."""
    _keys(raw)
    try:
        told = msgspec.convert(raw, Night)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if not 0 < told.seconds <= _MOST_SECONDS:
        raise ValueError(f"seconds: 1 to {_MOST_SECONDS}, not {told.seconds}")
    if late := [one.s for one in told.at if not 0 <= one.s < told.seconds]:
        raise ValueError(f"[[at]] s: 0 to {told.seconds - 1}, not {late[0]}")
    for one in told.right:
        check("[[right]] verdicts", one.verdicts, VERDICTS)
        check("[[right]] faults", one.faults, faults())
    check("[[duty]] stage", [one.stage for one in told.duty], STAGES)
    return told


def check(where: str, told: Collection[str], allowed: Collection[str]) -> None:
    """All that is told is allowed. Raises ValueError that says what is."""
    for one in told:
        if one not in allowed:
            raise ValueError(f"{where}: no such key or word: {one}; one of {', '.join(sorted(allowed)) or 'none'}")


_TABLES: Mapping[str, type[Struct]] = {
    "cluster": Cluster, "job": Job, "at": At, "right": RightKeys, "forbidden": Forbidden, "duty": DutyKeys,
}  # fmt: skip


def _keys(raw: Mapping[str, Any]) -> None:
    check("the file", raw, Night.__struct_encode_fields__)
    for table, made in _TABLES.items():
        told = raw.get(table, [])
        for place, one in enumerate(told if isinstance(told, list) else [told]):
            where = f"[[{table}]] {place + 1}" if isinstance(told, list) else f"[{table}]"
            if isinstance(one, Mapping):
                check(where, one, made.__struct_encode_fields__)


def dump(told: Night) -> str:
    """The night as TOML; keys that say nothing new are left out."""
    plain: dict[str, Any] = msgspec.to_builtins(told)
    defaults: dict[str, Any] = msgspec.to_builtins(Night(title=""))
    kept = {key: value for key, value in plain.items() if key not in _TABLES}
    parts = [_pair(key, value) for key, value in kept.items() if key == "title" or value != defaults[key]]
    for table, made in _TABLES.items():
        rows = plain[table]
        for row in rows if isinstance(rows, list) else [rows]:
            body = list(_body(row, made))
            if body or isinstance(rows, list):
                parts.append(f"\n[[{table}]]" if isinstance(rows, list) else f"\n[{table}]")
                parts += body
    return "\n".join(parts) + "\n"


def _body(row: Mapping[str, Any], made: type[Struct]) -> Iterator[str]:
    kept = {one.encode_name: one for one in msgspec.structs.fields(made)}
    for key, value in row.items():
        field = kept[key]
        default = field.default_factory() if callable(field.default_factory) else field.default
        if field.required or value != default:
            yield _pair(key, value)


def _pair(key: str, value: Any) -> str:
    return f"{key} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one character TOML escapes besides
