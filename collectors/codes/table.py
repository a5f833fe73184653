"""Code tables: rows of vendor codes as the product's own words. CSV and TOML files beside this module hold them."""

import csv
import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sickbay.messages import Action, Blame, Severity

When = Literal["", "now", "at_checkpoint", "when_idle"]
Scope = Literal["process", "device", "domain", "host", "fabric"]


class Code(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a vendor's code means when nothing else is known: a row of a table."""

    code: int
    kind: str  # a row of kinds.toml
    severity: Severity
    blame: Blame = Blame.EITHER
    scope: Scope = "device"
    advice: Action | None = None
    when: When = ""  # the moment the advice is meant for
    verified: bool = True  # False: the source is not sure, so no strong advice
    meaning: str = ""
    source: str = ""  # keys of sources.toml, joined with +
    sample: str = ""  # a composed line in the real grammar


def unknown(code: int) -> Code:
    """The row of a code that no table has: told to people, acted on by nobody."""
    return Code(
        code=code,
        kind="accelerator.unknown_code",
        severity=Severity.WARNING,
        advice=Action.WATCH,
        verified=False,
        meaning="not in the table",
    )


def toml(name: str) -> dict[str, Any]:
    """A TOML file of this folder."""
    return tomllib.loads(_text(name))


def rows(name: str) -> dict[int, Code]:
    """A CSV table of this folder by code. Raises msgspec.ValidationError for a word that is none of ours."""
    return {row.code: row for row in map(_row, csv.DictReader(_text(name).splitlines()))}


@cache
def sources() -> dict[str, str]:
    """Full titles of the sources by key."""
    return {key: str(title) for key, title in toml("sources.toml").items()}


def changed(row: Code, fields: dict[str, str]) -> Code:
    """The row with some columns replaced, checked like a new one."""
    return msgspec.convert(msgspec.to_builtins(row) | _typed(fields), Code)


def _row(cells: dict[str, str]) -> Code:
    return msgspec.convert(_typed(cells) | {"code": int(cells["code"])}, Code)


def _typed(cells: dict[str, str]) -> dict[str, Any]:
    typed: dict[str, Any] = dict(cells)
    if "advice" in typed:
        typed["advice"] = typed["advice"] or None
    if "verified" in typed:
        typed["verified"] = {"yes": True, "no": False}.get(typed["verified"], typed["verified"])
    return typed


def _text(name: str) -> str:
    return resources.files("collectors.codes").joinpath(name).read_text(encoding="utf-8")
