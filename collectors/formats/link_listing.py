"""One line a port of every switch: `iblinkinfo --line --switches-only`, which tells both ends by GUID and the states.

An up port without a far end, a state `NoChange` or a blank description are queries that nobody answered, and the tool
ends with status 0 all the same. Source: rdma-core iblinkinfo.c and libibmad dump.c.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from collectors.formats.ibnetdiscover import MAX_ENDS
from collectors.formats.reading import Tally
from collectors.formats.text import lines

# 0x0000000000200001 "   leaf2"   3   1[  ] ==( 4X  53.125 Gbps Active/  LinkUp)==>  0x…5  6  1[  ] "h1 mlx5_0" ( )
_ROW = re.compile(
    r'^(?P<guid>0x[0-9a-fA-F]{8,16}) "(?P<told>.{0,300}?)"\s+\d{1,6}\s+(?P<port>\d{1,3})\[[^\]]{0,8}\]\s+'
    r"==\((?P<link>[^>]{0,120}?)\)==>\s+"
    r"(?:(?P<far>0x[0-9a-fA-F]{8,16})\s+\d{1,6}\s+(?P<far_port>\d{1,3})\[[^\]]{0,8}\]\s+"
    r'"(?P<far_told>.{0,300})"|\[[^\]]{0,8}\] "")'
    r"\s+\((?P<remark>[^()]{0,120})\)$"
)
_LINK = re.compile(r"^\s*(?:(?P<width>\d{1,2})X\s+(?:(?P<lane>\d{1,4}(?:\.\d{1,6})?) Gbps|(?P<word>FDR10))\s)?")
_STATES = re.compile(r"(?P<state>\w{1,24})\s{0,8}/\s{0,8}(?P<physical>\w{1,40})\s*$")
# What a lane is called by: the signal's rate less its coding, as /sys tells rates (53.125 -> "200 Gb/sec (4X HDR)").
LANES = {14.0625: 14.0, 25.78125: 25.0, 53.125: 50.0, 106.25: 100.0, 212.5: 200.0}
UP = "Active"


class Port(NamedTuple):
    """One port of a switch. `width` in lanes and `lane` in Gb/s are 0 where nobody told; `far` "" without a far end."""

    guid: str
    description: str
    number: int
    state: str
    physical: str
    width: int = 0
    lane: float = 0.0
    far: str = ""
    far_number: int = 0
    far_description: str = ""
    better: bool = False  # both ends could go wider or faster

    @property
    def rate(self) -> float:
        """Gb/s in use."""
        return self.width * self.lane


def ports(chunks: Iterable[bytes], tally: Tally) -> Iterator[Port]:
    """The ports of one listing; lines of another form are counted."""
    for number, row in lines(chunks, tally):
        if number > MAX_ENDS:
            tally.note(f"more than {MAX_ENDS} ports: the rest was left out")
            return
        match = _ROW.match(row.rstrip())
        states = _STATES.search(match["link"]) if match else None
        if match and states:
            yield _port(match, states)
        elif row.strip():
            tally.unparsed += 1


def _port(match: re.Match[str], states: re.Match[str]) -> Port:
    link = _LINK.match(match["link"])
    lane = 10.0 if link and link["word"] else float(link["lane"] or 0) if link else 0.0
    return Port(
        _guid(match["guid"]),
        " ".join(match["told"].split()),
        int(match["port"]),
        states["state"],
        states["physical"],
        int(link["width"] or 0) if link else 0,
        LANES.get(lane, lane),
        _guid(match["far"]) if match["far"] else "",
        int(match["far_port"] or 0),
        " ".join((match["far_told"] or "").split()),
        "Could be" in match["remark"],
    )


def _guid(text: str) -> str:
    return f"0x{text[2:].lower().rjust(16, '0')}"
