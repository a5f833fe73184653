"""Faults and event kinds as data: loaded once, checked once, read by everyone. Sentences live in sentences/."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct

from sickbay.components import Kind
from sickbay.messages import Action, Blame, Severity


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault class of faults.toml."""

    name: str
    component: Kind
    role: Literal["primary", "symptom", "workload"]
    action: Action
    test: str
    prior: float  # events per 1,000 node-days
    en: str
    zh: str
    runbook: str = ""


class EventKind(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event kind of kinds.toml."""

    name: str
    component: Kind
    severity: Severity
    blame: Blame
    fault: str  # "" = not evidence by itself


_Row = TypeVar("_Row", Fault, EventKind)


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("sickbay").joinpath(name).read_text(encoding="utf-8"))


def row_of(table: type[_Row], file: str, name: str, row: dict[str, Any]) -> _Row:
    """A row of a data file. Raises ValueError that names the row, the field and the words that there are."""
    for key, allowed in get_type_hints(table).items():
        words = [str(one) for one in allowed] if isinstance(allowed, type(Kind)) else list(get_args(allowed))
        if words and key in row and row[key] not in words:
            raise ValueError(
                f"{file}: [{name}] {key}: there is no {str(row[key])[:60]!r}; there are {', '.join(words)}"
            )
    try:
        return msgspec.convert(row | {"name": name}, table)
    except msgspec.ValidationError as error:
        raise ValueError(f"{file}: [{name}]: {error}") from None


@cache
def faults() -> dict[str, Fault]:
    """All fault classes by name."""
    return {name: row_of(Fault, "faults.toml", name, row) for name, row in _toml("faults.toml").items()}


@cache
def event_kinds() -> dict[str, EventKind]:
    """All event kinds by full name."""
    return {
        f"{domain}.{what}": row_of(EventKind, "kinds.toml", f"{domain}.{what}", row)
        for domain, rows in _toml("kinds.toml").items()
        for what, row in rows.items()
    }
