"""Cables as switches hear of them (LLDP): both ends of a link under the names that their own sources use.

A host's end is the interface that it tells by name (`port:gpu07/eth2`), which agents join with its RDMA port
(`port_names`); where a port id is an address, the port's description is the name if it can be one, else the address
stands for it. A switch's end is named by the target that calls itself so. Of several neighbours on one port (adapters
speak beside their hosts) the one with a system name counts. A neighbour that falls silent keeps its cable: links are
needed most when they are down.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from collectors.cluster.switch_ports import SETTLE_MS
from collectors.formats.switch_facts import Fact
from sickbay.components import Kind, Name, name
from sickbay.messages import Edge, Relation, replace

SOURCE = "lldp"
MOST_NEIGHBOURS = 8  # of one port
_ADDRESS = re.compile(r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}|(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}")
_INTERFACE = re.compile(r"(?:\d{1,3}(?=[A-Z]))?[A-Za-z][\w.:/-]{0,40}")  # `400GE1/0/5` too
_HOST = re.compile(r"[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}\.?")
_NUMERIC = re.compile(r"[\d.]+")
_LOCAL = ("7", "LOCAL", "local")  # port id subtype: a number or word that means something to that device alone


@dataclass(slots=True)
class Neighbours:
    """What one switch hears on its ports: port -> neighbour -> what it says."""

    heard: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)  # port -> when a neighbour there last said something new

    def take(self, fact: Fact, now_ms: int) -> None:
        """One fact that came now."""
        near = self.heard.setdefault(fact.key, {})
        if fact.value is None and not fact.field:
            if len(near) > 1 and any(told.get("system") for key, told in near.items() if key != fact.lane):
                near.pop(fact.lane, None)
                self.changed[fact.key] = now_ms
            return
        if fact.lane not in near and len(near) >= MOST_NEIGHBOURS:
            near.pop(next(iter(near)))
        told = near.pop(fact.lane, {})
        near[fact.lane] = told  # the newest word last
        if told.get(fact.field) != str(fact.value or ""):
            told[fact.field] = str(fact.value or "")
            self.changed[fact.key] = now_ms

    def settled(self, now_ms: int) -> list[str]:
        """Ports whose neighbours have said all they say at once: their words come one by one."""
        due = sorted(port for port, at_ms in self.changed.items() if not 0 <= now_ms - at_ms < SETTLE_MS)
        for port in due:
            del self.changed[port]
        return due

    def again(self, now_ms: int) -> None:
        """All of them are to be looked at now, but for those whose words still come."""
        for port in self.heard:
            self.changed.setdefault(port, now_ms - SETTLE_MS)

    def other_end(self, port: str, switches: Mapping[str, str]) -> Name | None:
        """The port at the other end, None where nobody told it; `switches`: what they call themselves -> target."""
        best = max(self.heard.get(port, {}).values(), key=lambda told: bool(told.get("system")), default={})
        system = owner(best.get("system", ""), switches)
        end = interface(best)
        return name(Kind.PORT, system, end) if system and end else None


def owner(told: str, switches: Mapping[str, str]) -> str:
    """The switch or host of a system name: hosts without their domain, as schedulers and agents name them."""
    label = told.partition(".")[0]
    if not _HOST.fullmatch(told) or label.lower() == "localhost":
        return ""
    if known := switches.get(told) or switches.get(label):
        return known
    return told if _NUMERIC.fullmatch(told) else label


def interface(told: Mapping[str, str]) -> str:
    """The port that a neighbour speaks of, as that device names it."""
    port, text = told.get("port", ""), told.get("port_text", "")
    vague = bool(_ADDRESS.fullmatch(port)) or told.get("port_type", "") in _LOCAL or not _INTERFACE.fullmatch(port)
    if vague and _INTERFACE.fullmatch(text):
        return text
    return port.lower() if _ADDRESS.fullmatch(port) else port if _INTERFACE.fullmatch(port) else ""


def joined(near: Name, far: Name, switches: frozenset[str]) -> Edge:
    """The link between two ports: the host's end first, of two switches in the order of their names, so that both
    tell the same."""
    ends = sorted((near, far), key=lambda port: (port.partition(":")[2].partition("/")[0] in switches, port))
    return Edge(child=ends[0], parent=ends[1], relation=Relation.LINK_END, source=SOURCE)


def renewed(before: Edge | None, now: Edge | None, now_ms: int) -> Iterator[Edge]:
    """What to tell where a port's link was `before` and is `now`: nothing where they are the same."""
    same = before and now and (before.child, before.parent) == (now.child, now.parent)
    if now is None or same:
        return
    if before is not None:
        yield replace(before, to_ms=now_ms)
    yield replace(now, from_ms=None if before is None else now_ms, seen_ms=now_ms)
