"""Decoding of scale-up link errors: the words in brackets, as `nvidia_links.toml` reads them."""

import re
from collections.abc import Sequence
from functools import cache

from msgspec import Struct, convert

from collectors.codes.table import toml

_HEX = re.compile(r"0x([0-9a-fA-F]{1,8})(?![0-9a-fA-F])")
MAX_WORDS = 16
CONTINUE = frozenset({"harmless", "threshold_only"})  # readings that ask for nothing


class Status(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the bits of an error status word mean for a unit."""

    code: int
    unit: str
    fatal: tuple[int, ...] = ()
    corrected: tuple[int, ...] = ()
    poison: tuple[int, ...] = ()

    def reading(self, status: int) -> str:
        """The gravest meaning of the bits set, "" where none is listed."""
        for word in ("fatal", "poison", "corrected"):
            if any(status & bit for bit in getattr(self, word)):
                return word
        return ""


class Layout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bit fields of the first word: low and high bit, both inclusive."""

    subcode_before_r575: tuple[int, int]
    subcode_from_r575: tuple[int, int]
    reason: tuple[int, int]


@cache
def layout() -> Layout:
    """Where the fields of the first word lie."""
    return convert(toml("nvidia_links.toml")["layout"], Layout)


@cache
def statuses() -> tuple[Status, ...]:
    """Rows of the status table, the longest unit first."""
    rows = [convert(row, Status) for row in toml("nvidia_links.toml")["status"]]
    return tuple(sorted(rows, key=lambda row: -len(row.unit)))


@cache
def _reasons() -> dict[int, str]:
    return {code: reading for reading, codes in toml("nvidia_links.toml")["reasons"].items() for code in codes}


@cache
def _register_bits() -> dict[int, dict[int, str]]:
    return {
        int(row["number"]): {bit: reading for reading, bits in row.items() if reading != "number" for bit in bits}
        for row in toml("nvidia_links.toml")["register"]
    }


@cache
def renamed() -> dict[str, str]:
    """A unit's name from R575 on -> its name before."""
    return {new: old for old, names in toml("nvidia_links.toml")["renamed"].items() for new in names}


def words(text: str) -> list[int]:
    """The hexadecimal words in `text`, at most sixteen."""
    return [int(word, 16) for word in _HEX.findall(text)[:MAX_WORDS]]


def bits(word: int, low: int, high: int) -> int:
    """Bits `low` to `high` of a word."""
    return word >> low & (1 << high - low + 1) - 1


def status_reading(code: int, unit: str, status: int) -> str:
    """fatal, corrected, poison or "" for an error status of a unit (Xid 144 to 146)."""
    unit = renamed().get(unit, unit)
    for row in statuses():
        if row.code == code and unit.startswith(row.unit):
            return row.reading(status)
    return ""


def reason_reading(reason: int) -> str:
    """Why a link went down, "other" for a reason that no source explains."""
    return _reasons().get(reason, "other")


def register_readings(registers: Sequence[int]) -> frozenset[str]:
    """What the bits set in the register words of Xid 74 say; `support` for a bit that no source explains."""
    told = _register_bits()
    return frozenset(
        told[number].get(bit, "support")
        for number, word in enumerate(registers, 1)
        if number in told
        for bit in range(word.bit_length())
        if word >> bit & 1
    )
