"""Breakout ports by their names: lanes of one module, which all of them are part of (`optic:leaf1/swp1`).

Only names in which the last number can be nothing else count. `Ethernet1/2` is lane 2 of module 1 for some makers and
module 2 of slot 1 for others: there the module's serial tells (`modules`), the name does not.
"""

import re
from collections.abc import Iterable, Iterator

from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import Edge, Relation

SOURCE = "lanes"
_LANES = (
    re.compile(r"^(swp\d{1,3})s\d$"),  # Cumulus: swp1s0
    re.compile(r"^(etp\d{1,3})[a-h]$"),  # SONiC's aliases: etp1a
    re.compile(r"^(Ethernet\d{1,3}/\d{1,3})/\d{1,2}$"),  # NX-OS Ethernet1/1/2, EOS of a chassis Ethernet3/1/2
    re.compile(r"^(\w[\w-]{0,30}\d/\d{1,3}/\d{1,3}):\d$"),  # Huawei 100GE1/0/1:1, H3C the same, Junos et-0/0/1:0
)


def module_of(port: str) -> str | None:
    """The module that a port's own name says it is a lane of: `swp1s0` -> `swp1`; None where it does not say."""
    return next((match[1] for form in _LANES if (match := form.match(port))), None)


def lane_edges(components: Iterable[Name]) -> Iterator[Edge]:
    """Each port that is a lane, and its own optic, as parts of the module. What is no such port is passed over."""
    for component in dict.fromkeys(components):
        kind, _, rest = component.partition(":")
        owner, _, port = rest.partition("/")
        module = module_of(port) if kind == Kind.PORT and owner not in ("", UNKNOWN) else None
        if module:
            whole = name(Kind.OPTIC, owner, *module.split("/"))
            for part in (component, name(Kind.OPTIC, owner, *port.split("/"))):
                yield Edge(child=part, parent=whole, relation=Relation.PART_OF, source=SOURCE)


def lanes_among(edges: Iterable[Edge]) -> Iterator[Edge]:
    """The lanes among the ports that edges name."""
    return lane_edges(end for edge in edges for end in (edge.child, edge.parent))
