"""Events of a job's own logs: facts that are not told are left out, a rank of an unknown job has a name."""

from collections.abc import Mapping
from typing import Any

from collectors.formats.masking import struck
from collectors.formats.speaking import told
from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import Event

LINE_LIMIT = 8192  # characters of a line that body grammars look at: no writer's fact stands further right
_MAX_FACT = 200


def event(kind: str, component: Name, facts: Mapping[str, str] | None = None, **fields: Any) -> Event:
    """An event with its kind's defaults; `facts` become attributes, empty ones are left out, secrets struck out."""
    attributes = {key: struck(value)[:_MAX_FACT] for key, value in (facts or {}).items() if value}
    if "message" in fields:
        fields["message"] = struck(fields["message"])
    return told(kind, component, attributes=attributes, **fields)


def rank_name(rank: int) -> Name:
    """The name of a rank of a job that the text does not tell; a negative rank is unknown too."""
    return name(Kind.RANK, UNKNOWN, str(rank) if rank >= 0 else UNKNOWN)
