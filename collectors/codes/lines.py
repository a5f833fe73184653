"""Lines of a driver that are one event by themselves: rows of a TOML file of this folder, tried in its order."""

import re
from functools import cache

import msgspec
from msgspec import Struct

from collectors.codes.table import toml
from sickbay.messages import Action, Severity


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
def rules(name: str) -> tuple[Rule, ...]:
    """All lines of that table."""
    return tuple(msgspec.convert(row, Rule) for row in toml(name)["line"])


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
