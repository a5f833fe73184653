"""AMD codes: RAS blocks of a device (`amd_blocks.toml`) and the lines that are one event each (`amd_lines.toml`)."""

from functools import cache

import msgspec
from msgspec import Struct

from collectors.codes import lines
from collectors.codes.lines import Rule
from collectors.codes.table import toml

OTHER = "accelerator.internal_fault"


class Block(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One block of the device."""

    uncorrectable: str  # the event kind
    meaning: str


@cache
def blocks() -> dict[str, Block]:
    """All blocks that are more than an internal fault, or named in documents."""
    return {name: msgspec.convert(row, Block) for name, row in toml("amd_blocks.toml").items()}


def rules() -> tuple[Rule, ...]:
    """All lines of the table, in the order in which they are tried."""
    return lines.rules("amd_lines.toml")


def uncorrectable_kind(block: str) -> str:
    """The event kind of an uncorrectable error in `block`, whatever its case."""
    known = blocks().get(block.lower())
    return known.uncorrectable if known else OTHER
