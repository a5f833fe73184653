"""One sweep of the fabric, and how far it can be believed. Pure.

Ports that a switch itself reports down explain why what lies behind them was not reached; so does a cable that leads
elsewhere now. Whatever is missing without such a reason was not looked at, however many links that may be.

  clean   nobody failed to answer, the subnet manager stayed the same, and everything missing is explained. States of
          ports are believed.
  whole   clean, no switch that is known is mute, and at least half of the known links are in it: the asker is not
          itself in the part that was cut off. What is missing is counted as missing.

Of any sweep, what is new is taken.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from collectors.cluster.fabric_edges import owner
from collectors.formats.ibnetdiscover import End, Fabric, Names, port_names, switch_names
from collectors.formats.link_listing import UP, Port
from sickbay.components import Kind, Name, name

LEAST_SHARE = 0.5  # [house] of the links known: with fewer, the asker may be the part that was cut off
SILENT_SHARE = 0.01  # [house] of the links may lead to nodes that hang: more is a fabric that does not answer
_PATH = re.compile(r"DR path [^;]{0,40}; ?dlid [^;]{0,20}; ?([\d,]{1,200})")
_TROUBLE = re.compile(r"bad status|timed out|iberror|mad_rpc", re.IGNORECASE)  # others are no question to a node
MOST_WARNINGS = 2000  # lines that are looked at


@dataclass(frozen=True, slots=True)
class Answer:
    """What the tools said: ports of switches, complaints, and who managed the subnet before and after; "" = nobody."""

    ports: tuple[Port, ...]
    warnings: tuple[str, ...] = ()
    managers: tuple[str, str] = ("", "")
    failed: str = ""  # why the sweep ended early


@dataclass(frozen=True)
class Known:
    """What earlier sweeps told. `names`: of ends; `links`: those in force, in both directions; `switches`: all that
    ever answered; `described`: what nodes called themselves; `manager`: who managed the subnet last. Nodes by GUID."""

    names: Mapping[End, Name] = field(default_factory=dict)
    links: Mapping[End, End] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    described: Mapping[str, str] = field(default_factory=dict)
    manager: str = ""


class Judged(NamedTuple):
    """How far a sweep goes, and why no further."""

    clean: bool
    whole: bool
    why: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """An answer as a fabric."""

    answer: Answer
    known: Known

    @cached_property
    def rows(self) -> dict[End, Port]:
        """The switches' ports."""
        return {End(port.guid, port.number): port for port in self.answer.ports}

    @cached_property
    def switches(self) -> frozenset[str]:
        """Switches that answered, by GUID."""
        return frozenset(port.guid for port in self.answer.ports)

    @cached_property
    def nodes(self) -> frozenset[str]:
        """Everything that answered."""
        return self.switches | {port.far for port in self.answer.ports if port.far}

    @cached_property
    def described(self) -> dict[str, str]:
        """What nodes call themselves: of one that did not answer that, its earlier word."""
        told: dict[str, str] = {}
        for port in self.answer.ports:
            for guid, text in ((port.guid, port.description), (port.far, port.far_description)):
                if guid and not told.get(guid):
                    told[guid] = text or self.known.described.get(guid, "")
        return told

    @cached_property
    def mute(self) -> frozenset[str]:
        """Nodes without any description: their names cannot be known."""
        return frozenset(guid for guid, text in self.described.items() if not text)

    @cached_property
    def fabric(self) -> Fabric:
        """Nodes, ports and links for the reader of topologies."""
        fabric = Fabric()
        for guid, text in self.described.items():
            fabric.node(guid.removeprefix("0x"), "S" if guid in self.switches else "H", text)
        for line, (end, port) in enumerate(self.rows.items(), 1):
            if end.node not in self.mute:
                far = End(port.far, port.far_number) if port.far and not self._unsure(port) else None
                fabric.join(end, far, line)
        return fabric

    def _unsure(self, port: Port) -> bool:
        """Whether what a port leads to cannot be named: it told no description, or it may be a switch that told none
        of its ports, as only adapters have a second word in theirs."""
        strange = port.far not in self.switches and port.far not in self._named
        return port.far in self.mute or (not self.clean and strange and " " not in port.far_description)

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(end.node for end in self.known.names)

    @cached_property
    def links(self) -> dict[End, End]:
        """Both directions of every link."""
        return {end: far for pair in self.fabric.links for end, far in (pair, pair[::-1])}

    def names(self, *, fresh: bool) -> Names:
        """What ends are called. Where two claim a name, or a description names nothing, the GUID is the name. Not
        `fresh`: what was named before keeps its name, as a part of the fabric shows only one of two that share it."""
        switches = switch_names(self.fabric)
        if not fresh:
            switches |= {end.node: owner(port) for end, port in self.known.names.items() if end.node in switches}
        told = port_names(self.fabric, switches)
        ports = {end: told.get(end) or _by_guid(end) for end in self.fabric.ends if not self._inside(end)}
        if not fresh:
            ports |= {end: port for end, port in self.known.names.items() if end in ports}
        return Names(switches, _each_own(ports))

    @cached_property
    def doubles(self) -> frozenset[str]:
        """Names that several claim: a host installed from another's image, two switches that nobody named apart."""
        count = Counter(port_names(self.fabric, switch_names(self.fabric)).values())
        count.update(text for guid, text in self.described.items() if guid in self.switches and text)
        return frozenset(text for text, claims in count.items() if claims > 1)

    def _inside(self, end: End) -> bool:
        """Aggregation nodes look like adapters and are parts of a switch."""
        return "Aggregation Node" in self.described.get(end.node, "")

    @cached_property
    def silent(self) -> frozenset[End]:
        """Ports that are up and whose far end did not answer."""
        return frozenset(end for end, port in self.rows.items() if port.state != "Down" and not port.far)

    def judged(self, share: float = 1.0) -> Judged:
        """How far this sweep can be believed. `share`: of the links known, those that it shows."""
        hidden = {self._far(end) for end in self.silent} & self.known.switches
        more = [f"{len(hidden)} switches do not answer: what hangs on them is not known"] if hidden else []
        more += [f"{share:.0%} of the known links were reached"] if share < LEAST_SHARE else []
        return Judged(self.clean, self.clean and not more, (*self.troubles, *more))

    @property
    def clean(self) -> bool:
        """Whether what it says of ports can be believed."""
        return not self.troubles

    @cached_property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong with it, the gravest first."""
        return tuple(self._troubles())

    def _troubles(self) -> Iterable[str]:
        answer, before, after = self.answer, *self.answer.managers
        if answer.failed:
            yield answer.failed
        if before != after or (before and self.known.manager and before != self.known.manager):
            yield f"the subnet manager changed: {self.known.manager or before or 'none'}, now {after or 'none'}"
        elif not before:
            yield "no subnet manager answers"
        if len(self.silent) > max(1, SILENT_SHARE * sum(bool(port.far) for port in answer.ports)):
            yield f"{len(self.silent)} ports are up and nobody answers behind them"
        if (unanswered := len(trouble(answer.warnings))) > len(self.silent):
            yield f"{unanswered} nodes did not answer"
        if odd := sum(port.state not in ("Down", "Initialize", "Armed", UP) for port in answer.ports):
            yield f"{odd} ports told no state"
        if lost := self.unexplained():
            yield f"{lost} ports of switches are missing without a reason"

    def _far(self, end: End) -> str:
        far = self.known.links.get(end)
        return far.node if far else ""

    def unexplained(self) -> int:
        """Ports that must be in the answer and are not: it was cut. A switch that answers tells all its ports, so those
        of links that are known, and those that others lead to; and a known switch that others lead to tells its own.

        What lies behind nodes that are missing is explained where every way to them is down, moved or mute, so that
        only those ways are looked at.
        """
        known = sum(end.node in self.switches and end not in self.rows for end in self.known.links)
        led_to = (End(port.far, port.far_number) for port in self.answer.ports if port.far)
        switches = self.switches | self.known.switches
        return known + sum(end.node in switches and end not in self.rows for end in led_to)


def trouble(warnings: Sequence[str]) -> set[str]:
    """Nodes that did not answer, by the way to them; complaints that tell none count once each kind."""
    found: set[str] = set()
    for text in warnings[:MOST_WARNINGS]:
        if _TROUBLE.search(text):
            path = _PATH.search(text)
            found.add(path[1] if path else re.sub(r"\d+", "", text)[:80])
    return found


def _by_guid(end: End) -> Name:
    return name(Kind.PORT, end.node, str(end.port))


def _each_own(ports: Mapping[End, Name]) -> dict[End, Name]:
    """Every end a name of its own."""
    count: dict[Name, int] = {}
    for port in ports.values():
        count[port] = count.get(port, 0) + 1
    return {end: port if count[port] == 1 else _by_guid(end) for end, port in ports.items()}
