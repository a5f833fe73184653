"""Modules that serve several ports of one device: breakout and twin-port optics, told under each port with one serial.

Such a module is a part of its own, named after its serial number: what dies with it dies at all its ports. A cable with
fixed ends shows one serial at two devices: that is no shared module.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Edge, Identity, Relation

SOURCE = "modules"
MOST_PORTS = 16  # of one module: more ports with one number bear no number at all
_SERIAL = re.compile(r"(?=.*[1-9])[0-9A-Za-z-]{5,40}")


def shared_modules(identities: Iterable[Identity]) -> Iterator[Edge]:
    """An edge for each port of a module that serves several."""
    ports: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for one in identities:
        known = one.host not in ("", UNKNOWN) and not one.host.startswith("~")
        if one.kind == Kind.OPTIC and one.name and known and _SERIAL.fullmatch(one.serial.strip()):
            ports[one.host, one.serial.strip()].add(one.name)
    for (host, serial), names in sorted(ports.items()):
        if 1 < len(names) <= MOST_PORTS:
            module = name(Kind.OPTIC, host, serial)
            for port in sorted(names):
                child = name(Kind.PORT, host, *port.split("/"))
                yield Edge(child=child, parent=module, relation=Relation.ATTACHED_TO, source=SOURCE)
