"""What the topology says of one part, and of itself: for people, and for scripts as one struct."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from collectors.cluster.disagreements import said
from sickbay.clock import rfc3339
from sickbay.components import Kind, Name, kind_of
from sickbay.edges import kind
from sickbay.messages import Edge, Relation
from sickbay.plain import plain
from sickbay.rails import host_links, rails
from sickbay.topology import Topology

SHOWN = 40  # lines of one kind that people read; a script gets all


class Neighbour(Struct, frozen=True):
    """A part that another hangs on, or that hangs on it."""

    component: Name
    relation: Relation


class Version(Struct, frozen=True):
    """One word of one source on an edge of the part."""

    child: Name
    relation: Relation
    parent: Name
    source: str
    from_ms: int | None
    to_ms: int | None
    seen_ms: int | None


class Shown(Struct, frozen=True):
    """One part at one time. `rail`: of a host's port in a rail-optimised fabric; `rail_of_leaf`: where that is
    another's, probably a cable in the wrong place."""

    component: Name
    at_ms: int | None
    parents: tuple[Neighbour, ...]
    children: tuple[Neighbour, ...]
    other_end: Name | None
    ancestors: tuple[Name, ...]
    hosts_under: tuple[str, ...]
    versions: tuple[Version, ...]
    rail: int | None = None
    rail_of_leaf: int | None = None


class Summary(Struct, frozen=True):
    """The topology at one time in numbers."""

    at_ms: int | None
    components: dict[str, int]
    relations: dict[str, int]
    sources: dict[str, int]
    links: int
    half_links: int  # ports whose other end is told by one side only, or by several
    rails: int
    odd_ports: tuple[Name, ...]  # on a leaf of another rail than their own
    conflicts: tuple[str, ...]


def shown(topology: Topology, told: Iterable[Edge], component: Name, at_ms: int | None) -> Shown | None:
    """What is known of a part; None where nothing names it. `told`: every source's word."""
    versions = tuple(_version(edge) for edge in told if component in (edge.child, edge.parent))
    view = topology.at(at_ms)
    up, down = tuple(_near(view.parents, component)), tuple(_near(view.children, component))
    if not (versions or up or down):
        return None
    found = rails(host_links(topology, at_ms)) if kind_of(component) is Kind.PORT else None
    return Shown(
        component=component,
        at_ms=at_ms,
        parents=up,
        children=down,
        other_end=view.other_end(component),
        ancestors=view.ancestors(component),
        hosts_under=view.hosts_under(component),
        versions=versions,
        rail=found.rail.get(component) if found else None,
        rail_of_leaf=found.odd.get(component) if found else None,
    )


def _near(look: Callable[..., tuple[Name, ...]], component: Name) -> Iterator[Neighbour]:
    for relation in Relation:
        for other in look(component, relation):
            yield Neighbour(other, relation)


def _version(edge: Edge) -> Version:
    return Version(
        edge.child, edge.relation, edge.parent, edge.source, edge.from_ms, edge.to_ms, edge.seen_ms
    )  # fmt: skip


def summary(topology: Topology, told: Iterable[Edge], at_ms: int | None) -> Summary:
    """The topology in numbers."""
    view, edges = topology.at(at_ms), [edge for edge in told if edge.to_ms is None]
    names = {end for edge in edges for end in (edge.child, edge.parent)}
    ends = {end for edge in edges if edge.relation is Relation.LINK_END for end in (edge.child, edge.parent)}
    joined = sum(view.other_end(end) is not None for end in ends)
    found = rails(host_links(topology, at_ms))
    return Summary(
        at_ms=at_ms,
        components=dict(sorted(Counter(str(kind(one)) for one in names).items())),
        relations=dict(sorted(Counter(str(edge.relation) for edge in edges).items())),
        sources=dict(sorted(Counter(edge.source for edge in edges).items())),
        links=joined // 2,
        half_links=len(ends) - joined,
        rails=len(set(found.rail.values())),
        odd_ports=tuple(sorted(found.odd)),
        conflicts=tuple(str(one) if one.what == "cycle" else f"{one.what}: {said(one)}" for one in topology.conflicts),
    )


def lines_of(one: Shown) -> Iterator[str]:
    """A part, for people."""
    yield plain(one.component + (f" at {rfc3339(one.at_ms)}" if one.at_ms is not None else ""))
    if one.other_end:
        yield plain(f"  other end    {one.other_end}")
    if one.rail is not None:
        odd = f", but its leaf is of rail {one.rail_of_leaf}: cabled wrongly?" if one.rail_of_leaf is not None else ""
        yield f"  rail         {one.rail}{odd}"
    yield from _listed("hangs on", [f"{near.relation} {near.component}" for near in one.parents])
    yield from _listed("on it hang", [f"{near.relation} {near.component}" for near in one.children])
    yield from _listed("hosts under", list(one.hosts_under))
    yield from _listed("told", [_told(version) for version in one.versions])


def _told(one: Version) -> str:
    times = [
        f"{word} {rfc3339(at)}"
        for word, at in (("from", one.from_ms), ("until", one.to_ms), ("seen", one.seen_ms))
        if at
    ]
    return " ".join([f"{one.child} {one.relation} {one.parent}", f"({one.source or 'no source'})", *times])


def _listed(head: str, items: list[str]) -> Iterator[str]:
    for place, item in enumerate(items[:SHOWN]):
        yield plain(f"  {head if not place else '':<12} {item}")
    if len(items) > SHOWN:
        yield f"  {'':<12} and {len(items) - SHOWN} more: --json"


def summary_lines(one: Summary) -> Iterator[str]:
    """The numbers, for people."""
    for head, counts in (("components", one.components), ("edges", one.relations), ("sources", one.sources)):
        yield plain(f"{head:<12} " + (", ".join(f"{count} {what}" for what, count in counts.items()) or "none"))
    yield f"{'links':<12} {one.links} with both ends" + (f", {one.half_links} ends alone" if one.half_links else "")
    if one.rails:
        yield f"{'rails':<12} {one.rails}"
    yield from (plain(f"  odd cable  {port}") for port in one.odd_ports[:SHOWN])
    yield f"{'conflicts':<12} {len(one.conflicts)}" + (": sickbay topology show --conflicts" if one.conflicts else "")
