"""Faults and event kinds as data: loaded once, checked once, read by everyone. Sentences live in sentences/."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal

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


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("sickbay").joinpath(name).read_text(encoding="utf-8"))


@cache
def faults() -> dict[str, Fault]:
    """All fault classes by name."""
    return {name: msgspec.convert(row | {"name": name}, Fault) for name, row in _toml("faults.toml").items()}


@cache
def event_kinds() -> dict[str, EventKind]:
    """All event kinds by full name."""
    return {
        f"{domain}.{what}": msgspec.convert(row | {"name": f"{domain}.{what}"}, EventKind)
        for domain, rows in _toml("kinds.toml").items()
        for what, row in rows.items()
    }
