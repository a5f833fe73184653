"""NVIDIA codes: Xid (cards) and SXid (switches of the scale-up fabric), with what generation and driver change.

`nvidia_xid.csv` and `nvidia_sxid.csv` are the tables, `nvidia_exceptions.toml` the exceptions, `nvidia_phrases.toml`
what the driver says without a code. Any integer is answered.
"""

import re
from functools import cache
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from collectors.codes.table import Code, changed, rows, toml, unknown

Family = Literal["xid", "sxid"]


class Deviation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows that read differently on some generations or driver branches."""

    family: Family
    codes: tuple[int, ...]
    generations: tuple[str, ...] = ()
    driver_from: int = 0
    driver_before: int = 0
    change: dict[str, str] = {}
    note: str = ""
    source: str = ""

    def holds(self, generation: str, driver: int) -> bool:
        """Whether it is known to hold: an unknown generation or driver (0) meets no bound."""
        if self.generations and generation not in self.generations:
            return False
        if self.driver_from and driver < self.driver_from:
            return False
        return not self.driver_before or 0 < driver < self.driver_before


class Phrase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sentence of the driver that is one event by itself."""

    pattern: str
    kind: str  # a row of kinds.toml
    code: str
    sample: str

    def found(self, text: str) -> re.Match[str] | None:
        """Whether the text begins with it; the group `gpu`, where there is one, is the driver's number of the card."""
        return _compiled(self.pattern).match(text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def phrases() -> tuple[Phrase, ...]:
    """All sentences of the table, in the order in which they are tried."""
    return tuple(msgspec.convert(row, Phrase) for row in toml("nvidia_phrases.toml")["phrase"])


@cache
def xids() -> dict[int, Code]:
    """All Xid rows by code."""
    return rows("nvidia_xid.csv")


@cache
def sxids() -> dict[int, Code]:
    """All SXid rows by code."""
    return rows("nvidia_sxid.csv")


@cache
def exceptions() -> tuple[Deviation, ...]:
    """All exceptions in the file's order."""
    return tuple(msgspec.convert(row, Deviation) for row in toml("nvidia_exceptions.toml")["exception"])


def xid(code: int, *, generation: str = "", driver: int = 0) -> Code:
    """The row of an Xid, as it reads on this generation ("ampere") and driver branch (575) where they are known."""
    return _excepted("xid", xids().get(code) or unknown(code), generation, driver)


def sxid(code: int) -> Code:
    """The row of an SXid."""
    row = sxids().get(code)
    return row if row else replace(unknown(code), kind="fabric.switch_nonfatal")


def notes(family: Family, code: int) -> tuple[str, ...]:
    """What a reader of the code must know about generations and drivers."""
    return tuple(row.note for row in exceptions() if row.family == family and code in row.codes)


def _excepted(family: Family, row: Code, generation: str, driver: int) -> Code:
    if not generation and not driver:
        return row
    for exception in exceptions():
        if exception.family == family and row.code in exception.codes and exception.holds(generation, driver):
            row = changed(row, exception.change)
    return row
