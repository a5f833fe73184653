"""Edges of the fabric over many looks at it, whoever tells them: those that begin, stand and end. Pure.

An edge ends after two whole looks without it, and never within ten minutes: a switch that reboots is back by then, and
until then diagnosis must know what hangs on it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from sickbay.components import Kind, Name, name
from sickbay.messages import AnyMessage, Edge, Relation
from sickbay.messages import replace as changed

MISSES = 2  # whole looks without an edge
GONE_MS = 600_000  # [house] a switch's reboot takes three to six minutes

Key: TypeAlias = tuple[Name, Name, str]


class Held(NamedTuple):
    """An edge in force, when a look last showed it, and how many whole ones since did not."""

    edge: Edge
    seen_ms: int
    misses: int = 0

    @property
    def link(self) -> bool:
        """Whether it joins two ports."""
        return self.edge.relation is Relation.LINK_END


def key_of(edge: Edge) -> Key:
    """What stays the same over the versions of an edge."""
    return edge.child, edge.parent, edge.relation.value


def remembered(told: Iterable[AnyMessage], source: str) -> dict[Key, Held]:
    """The edges that an earlier run told and did not end."""
    newest = {key_of(one): one for one in told if isinstance(one, Edge) and one.source == source}
    return {key: Held(one, -1) for key, one in newest.items() if one.to_ms is None}


def share(found: Mapping[Key, Edge], held: Mapping[Key, Held]) -> float:
    """Of the links held, those that were found."""
    links = [key for key, one in held.items() if one.link]
    return sum(key in found for key in links) / len(links) if links else 1.0


def with_found(
    before: Mapping[Key, Held], found: Mapping[Key, Edge], ended: Collection[Name], source: str, now_ms: int
) -> tuple[dict[Key, Held], list[Edge]]:
    """Edges in force with those found, and those that are new. One that was never seen may have been there for ever;
    one of a port that had another link (`ended`: that once had one) has a beginning."""
    held = {key: one if one.seen_ms >= 0 else one._replace(seen_ms=now_ms) for key, one in before.items()}
    taken = {*ended, *(end for key, one in held.items() if one.link for end in key[:2])}
    told: list[Edge] = []
    for key, edge in found.items():
        if key not in held:
            begun = edge.relation is Relation.LINK_END and not taken.isdisjoint(key[:2])
            told.append(changed(edge, from_ms=now_ms if begun else None, seen_ms=now_ms, source=source))
        held[key] = Held(held[key].edge if key in held else told[-1], now_ms)
    return held, told


def end_missing(held: dict[Key, Held], found: Mapping[Key, Edge], excused: Collection[Name], now_ms: int) -> list[Edge]:
    """Counts what a whole look lacks, and takes out what was lacking long enough. `excused`: ports not looked at."""
    joined = _joined(held)
    ended: list[Edge] = []
    for key in [key for key in held if key not in found]:
        above = key[2] == Relation.ATTACHED_TO.value and key[:2] in joined  # whoever is above whom, cables stand
        if above or not {*key[:2]}.isdisjoint(excused):
            continue
        held[key] = one = held[key]._replace(misses=held[key].misses + 1)
        if one.misses >= MISSES and now_ms - one.seen_ms >= GONE_MS:
            ended.append(changed(held.pop(key).edge, to_ms=now_ms, seen_ms=now_ms))
    return ended


def ended_ports(told: Iterable[Edge]) -> set[Name]:
    """Ports whose link has ended."""
    return {end for one in told if one.to_ms is not None for end in (one.child, one.parent)}


def owner(port: Name) -> Name:
    """The switch of a switch's port."""
    return name(Kind.SWITCH, *port.partition(":")[2].split("/")[:-1])


def _joined(held: Mapping[Key, Held]) -> set[tuple[Name, Name]]:
    """Switches between which a link stands, in both orders."""
    owners = ((owner(key[0]), owner(key[1])) for key, one in held.items() if one.link)
    return {pair for one in owners for pair in (one, one[::-1])}
