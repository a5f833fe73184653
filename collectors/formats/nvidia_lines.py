"""What the grammars of NVIDIA's driver share: who speaks, which card is meant, and a code's event."""

import re
from collections.abc import Iterator
from typing import TypeVar

from collectors.codes.table import Code
from collectors.formats.reading import Line
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Event

T = TypeVar("T")

MAX_TEXT = 1000  # characters of a message that are looked at
MAX_STATE = 256  # streams, cards or switches remembered
PCI = r"(?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,24}?)"

_PIECES = re.compile(r"\n|#012")  # a record of several lines: as it is, or as rsyslog writes it
_INDEX = re.compile(r"\b(GPU\d{1,3})\b")
# A host's monitor that hands the kernel's line to the container word by word (modal.com/docs/guide/gpu-health).
_RELAYED = re.compile(r"\[gpu-health\] \[[A-Z]{1,10}\] GPU-[0-9a-fA-F-]{1,60}: S?XID: (?=NVRM: |nvidia-)")


def texts(line: Line) -> Iterator[str]:
    """What the driver says in this line, piece by piece; nothing where a program speaks that quotes it."""
    if line.origin not in ("", "kernel"):
        return
    for piece in _PIECES.split(line.body):
        text = piece.strip()[:MAX_TEXT].removeprefix("kernel: ")
        if text.startswith("[gpu-health] "):
            text = _RELAYED.sub("", text, count=1)
        if text.startswith(("NVRM: ", "nvidia", "Xid (")):
            yield text


def card(address: str, text: str = "") -> Name:
    """The card at a PCI address; where a scrubber took the address away, as the text calls it."""
    place = pci_address(address.removeprefix("PCI:"))
    if place is None:
        index = _INDEX.search(text)
        place = index[1] if index else UNKNOWN
    return name(Kind.ACCELERATOR, UNKNOWN, place)


def coded(row: Code, code: str, component: Name, attributes: dict[str, str], process: str = "") -> Event:
    """The event of a code's row on a component."""
    return Event(
        component=component,
        kind=row.kind,
        code=code,
        severity=row.severity,
        blame=row.blame,
        scope=row.scope,
        advice=row.advice,
        process=process,
        attributes=attributes | ({"when": row.when} if row.when else {}),
    )


def remember(state: dict[str, T], key: str, value: T) -> None:
    """Keeps a value under a key; forgets all others where there are too many."""
    if len(state) >= MAX_STATE:
        state.clear()
    state[key] = value
