"""AMD codes: RAS blocks of a device (`amd_blocks.toml`) and the lines that are one event each (`amd_lines.toml`)."""

import re
from functools import cache

import msgspec
from msgspec import Struct

from collectors.codes.table import toml
from sickbay.messages import Action, Severity

OTHER = "accelerator.internal_fault"


class Block(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One block of the device."""

    uncorrectable: str  # the event kind
    meaning: str


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that is one event by itself; None: as the kind says."""

    pattern: str
    kind: str
    code: str
    sample: str
    advice: Action | None = None
    severity: Severity | None = None

    def found(self, text: str) -> bool:
        """Whether the text is such a line."""
        return _compiled(self.pattern).search(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def blocks() -> dict[str, Block]:
    """All blocks that are more than an internal fault, or named in documents."""
    return {name: msgspec.convert(row, Block) for name, row in toml("amd_blocks.toml").items()}


@cache
def rules() -> tuple[Rule, ...]:
    """All lines of the table, in the order in which they are tried."""
    return tuple(msgspec.convert(row, Rule) for row in toml("amd_lines.toml")["line"])


def uncorrectable_kind(block: str) -> str:
    """The event kind of an uncorrectable error in `block`, whatever its case."""
    known = blocks().get(block.lower())
    return known.uncorrectable if known else OTHER
