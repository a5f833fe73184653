"""What traffic is routed over, from the links between switches: a leaf's over its spines, a spine's over its cores.

A leaf has hosts, a spine has none and links to leaves. What has neither is a core only where it joins spines without a
leaf in common: else it may be a leaf without hosts. Redundant ways: a leaf does not hang on any one spine, and of
links between equals, or where no host is known, nothing is told.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations

from sickbay.components import UNKNOWN, Kind, Name, name, parts_of
from sickbay.edges import OWNERS, begin_of, kind
from sickbay.messages import Edge, Relation

SOURCE = "routes"

_Pair = tuple[Name, Name]
_Near = Mapping[Name, set[Name]]


def routes_among(edges: Collection[Edge], hosts: Iterable[str] = ()) -> Iterator[Edge]:
    """An edge for each pair of linked switches of which one routes over the other, valid as long as a link is.

    `hosts`: those that run jobs or measure themselves, beside those that edges name. An owner of ports that nobody
    calls a switch counts as a host.
    """
    links = _links(edges)
    near = _near(pair for pair, told in links.items() if any(one.to_ms is None for one in told))
    known = {end for edge in edges for end in (edge.child, edge.parent) if kind(end) is Kind.HOST}
    if near.keys().isdisjoint(known | {name(Kind.HOST, host) for host in hosts}):
        return
    above = _above(links, {one for one, far in near.items() if any(kind(end) is Kind.HOST for end in far)})
    for child, parent in sorted(above):
        yield _edge(child, parent, [*links.get((child, parent), ()), *links.get((parent, child), ())])


def _links(edges: Iterable[Edge]) -> dict[_Pair, list[Edge]]:
    """Links by their owners, hosts and switches."""
    edges = list(edges)
    switches = {end for edge in edges for end in (edge.child, edge.parent) if kind(end) is Kind.SWITCH}
    told = {
        edge.child: edge.parent
        for edge in edges
        if edge.relation is Relation.PART_OF and kind(edge.child) is Kind.PORT and kind(edge.parent) in OWNERS
    }
    found: defaultdict[_Pair, list[Edge]] = defaultdict(list)
    for edge in edges:
        if edge.relation is Relation.LINK_END and kind(edge.child) is kind(edge.parent) is Kind.PORT:
            one, other = (told.get(end) or _owner(end, switches) for end in (edge.child, edge.parent))
            if one and other and one != other:
                found[one, other].append(edge)
    return found


def _owner(port: Name, switches: Collection[Name]) -> Name:
    """The owner that a port's own name tells, "" where it tells none."""
    first = parts_of(port)[0]
    if first in ("", UNKNOWN):
        return ""
    switch = name(Kind.SWITCH, first)
    return switch if switch in switches else name(Kind.HOST, first)


def _near(pairs: Iterable[_Pair]) -> dict[Name, set[Name]]:
    found: defaultdict[Name, set[Name]] = defaultdict(set)
    for one, other in pairs:
        found[one].add(other)
        found[other].add(one)
    return dict(found)


def _above(links: Iterable[_Pair], leaves: Collection[Name]) -> set[_Pair]:
    """(child, parent) of all switches of which one is above the other."""
    near = _near(pair for pair in links if kind(pair[0]) is kind(pair[1]) is Kind.SWITCH)
    below = {one: far & {*leaves} for one, far in near.items() if one not in leaves}
    spines = {one for one, far in below.items() if far}
    cores = {one for one in below.keys() - spines if _joins(near[one] & spines, below)}
    return {(leaf, spine) for spine in spines for leaf in below[spine]} | {
        (spine, core) for core in cores for spine in near[core] & spines
    }


def _joins(spines: Collection[Name], below: _Near) -> bool:
    """Whether two of the spines have no leaf in common."""
    leaves = {frozenset(below[spine]) for spine in spines}
    return any(one.isdisjoint(other) for one, other in combinations(leaves, 2))


def _edge(child: Name, parent: Name, links: list[Edge]) -> Edge:
    """From the first link's begin to the last one's end."""
    ends = [one.to_ms for one in links]
    return Edge(
        child=child,
        parent=parent,
        relation=Relation.ROUTED_OVER,
        from_ms=None if any(one.from_ms is None for one in links) else min(map(begin_of, links)),
        to_ms=None if None in ends else max(end for end in ends if end is not None),
        seen_ms=max((one.seen_ms for one in links if one.seen_ms is not None), default=None),
        source=SOURCE,
    )
