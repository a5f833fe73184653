"""The verbs of a plan as data: whom they are for, what they interrupt, how they are undone and read back."""

import tomllib
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct

IRREVERSIBLE = "irreversible"


class Verb(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of verbs.toml."""

    name: str
    target: tuple[str, ...]  # kinds of component, "owner" for people, "*" for anything
    phase: Literal["know", "contain", "job", "repair", "people"]
    interrupts: bool
    reversible: bool
    undo: str
    read_back: str
    time_out_s: int
    least_p: float
    approval: bool
    en: str
    zh: str


@cache
def verbs() -> dict[str, Verb]:
    """All verbs by name."""
    table = tomllib.loads(resources.files("remediation").joinpath("verbs.toml").read_text(encoding="utf-8"))
    return {name: msgspec.convert(row | {"name": name}, Verb) for name, row in table.items()}


def fits(verb: Verb, target: str) -> bool:
    """Whether the verb is for that kind of target."""
    return "*" in verb.target or target.partition(":")[0] in verb.target
