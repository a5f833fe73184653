"""The index under `topology`: every version of every edge by component, and what names tell without an edge."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias

from sickbay.components import HOST_SCOPED, UNKNOWN, Kind, Name, parts_of
from sickbay.cycles import loops
from sickbay.messages import Edge, Relation

CONTAINMENT = (
    Relation.PART_OF,
    Relation.ATTACHED_TO,
    Relation.POWERED_BY,
    Relation.COOLED_BY,
    Relation.MANAGED_BY,
    Relation.MOUNTS,
)  # along these a fault of the parent reaches the child; routes have other ways and are none of them
SYMMETRIC = frozenset({Relation.LINK_END, Relation.SAME_GROUP})
OWNERS = frozenset({Kind.HOST, Kind.SWITCH})  # what ports belong to

Key: TypeAlias = tuple[Name, Relation, Name]
Rank: TypeAlias = tuple[int, int, int]

_KINDS = {str(kind): kind for kind in Kind}
_KINDS_BY_NAME = {
    *((str(kind), str(Kind.HOST)) for kind in HOST_SCOPED if kind is not Kind.HOST),
    *((str(kind), str(Kind.SWITCH)) for kind in HOST_SCOPED),
    (str(Kind.OPTIC), str(Kind.PORT)),
}  # (child, parent) that names and links tell without an edge
WRITTEN = frozenset({"inventory", "netbox", "slurm", "import"})  # sources that people wrote down: what is seen wins
BEGIN, END = -(2**63), 2**63


class Conflict(NamedTuple):
    """Edges that cannot all be true: `self_edge`, `bad_name`, `two_parents`, `end_taken`, `cycle`, or
    `sources_disagree`: then the first of them is held to be true."""

    what: str
    edges: tuple[Edge, ...]

    def __str__(self) -> str:
        told = [f"{edge.child} {edge.relation} {edge.parent}" for edge in self.edges[:4]]
        return f"{self.what}: {'; '.join(told)}{'; ...' if len(self.edges) > 4 else ''}"


class Index:
    """Versions by edge (the latest word first), edges by component. Times are not looked at here."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self.versions: dict[Key, list[Edge]] = {}
        self.up: dict[Name, list[Key]] = {}  # edges of a child
        self.down: dict[Name, list[Key]] = {}  # edges of a parent
        self.near: dict[Name, list[Key]] = {}  # symmetric edges of either end
        for edge in edges:
            self.versions.setdefault(key_of(edge), []).append(edge)
        for key, versions in self.versions.items():
            versions.sort(key=lambda edge: (rank(edge), -END if edge.to_ms is None else -edge.to_ms), reverse=True)
            child, relation, parent = key
            upper, lower = (self.near, self.near) if relation in SYMMETRIC else (self.up, self.down)
            upper.setdefault(child, []).append(key)
            lower.setdefault(parent, []).append(key)

    @cached_property
    def names(self) -> frozenset[Name]:
        """Every component that an edge names."""
        return frozenset([*self.up, *self.down, *self.near])

    @cached_property
    def changes(self) -> list[int]:
        """Times at which an edge begins or ends: between two of them every view is the same."""
        told = (edge for versions in self.versions.values() for edge in versions)
        return sorted({time for edge in told for time in (edge.from_ms, edge.to_ms) if time is not None})

    @cached_property
    def inside(self) -> dict[Name, list[Name]]:
        """What is part of a component by name, of the parts that edges name (and what these are part of)."""
        found: dict[Name, list[Name]] = {}
        waiting = list(self.names)
        seen = set(waiting)
        while waiting:
            component = waiting.pop()
            owner = self.implied(component)
            if owner:
                found.setdefault(owner, []).append(component)
                if owner not in seen:
                    seen.add(owner)
                    waiting.append(owner)
        return found

    @cached_property
    def ports(self) -> dict[Name, list[Name]]:
        """Linked ports by the hosts and switches they may belong to."""
        found: dict[Name, list[Name]] = {}
        for port, keys in self.near.items():
            if any(key[1] is Relation.LINK_END for key in keys):
                for owner in self.owners(port):
                    found.setdefault(owner, []).append(port)
        return found

    def owners(self, port: Name) -> set[Name]:
        """Hosts and switches that a port belongs to at any time, by name or by edge."""
        told = [parent for _, relation, parent in self.up.get(port, ()) if relation is Relation.PART_OF]
        return {owner for owner in (*told, self.implied(port)) if owner and kind(owner) in OWNERS}

    def implied(self, component: Name) -> Name | None:
        """What a component is part of by its name alone, None where the name does not tell."""
        own = kind(component)
        if own not in HOST_SCOPED or own is Kind.HOST:
            return None
        first, *rest = parts_of(component)
        if first in ("", UNKNOWN) or (own is Kind.FABRIC and not rest and component in self.down):
            return None  # a scale-up domain of several hosts bears a name of its own
        if own is Kind.OPTIC and rest:
            return f"{Kind.PORT}:{component.partition(':')[2]}"
        switch = f"{Kind.SWITCH}:{first}"
        return switch if switch in self.switches else f"{Kind.HOST}:{first}"

    @cached_property
    def switches(self) -> frozenset[Name]:
        """Every switch that an edge names."""
        return frozenset(component for component in self.names if component.startswith(f"{Kind.SWITCH}:"))

    @cached_property
    def core(self) -> frozenset[Name]:
        """Components that could be in a loop at some time: usually none, so that views need not look."""
        told = [(key[0], key[2]) for key in self.versions if key[1] in CONTAINMENT]
        kinds: dict[str, set[str]] = {}
        for child, parent in {(_prefix(child), _prefix(parent)) for child, parent in told} | _KINDS_BY_NAME:
            kinds.setdefault(child, set()).add(parent)
        looped = {member: group for group in loops(kinds) for member in group}
        pairs = [told, self._pairs_by_name() if looped else [], self._pairs_by_link() if looped else []]
        graph: dict[Name, list[Name]] = {}
        for child, parent in chain.from_iterable(pairs):
            below, above = _prefix(child), _prefix(parent)
            if below == above or above in looped.get(below, ()):
                graph.setdefault(child, []).append(parent)
        return frozenset(member for group in loops(graph) for member in group)

    def _pairs_by_name(self) -> Iterator[tuple[Name, Name]]:
        yield from ((child, owner) for owner, children in self.inside.items() for child in children)

    def _pairs_by_link(self) -> Iterator[tuple[Name, Name]]:
        for end, relation, other in self.versions:
            if relation is Relation.LINK_END:
                for port, far in ((end, other), (other, end)):
                    switches = [owner for owner in self.owners(far) if kind(owner) is Kind.SWITCH]
                    yield from ((part, switch) for part in (port, *self.owners(port)) for switch in switches)


def kind(component: Name) -> Kind | None:
    """The kind of a name, None for what is no name."""
    return _KINDS.get(component.partition(":")[0])


def _prefix(component: Name) -> str:
    return component.partition(":")[0]


def key_of(edge: Edge) -> Key:
    """What stays the same over the versions of an edge; symmetric edges in one order."""
    if edge.relation in SYMMETRIC and edge.parent < edge.child:
        return (edge.parent, edge.relation, edge.child)
    return (edge.child, edge.relation, edge.parent)


def other_of(key: Key, component: Name) -> Name:
    """The other end of a symmetric edge."""
    return key[2] if key[0] == component else key[0]


def rank(edge: Edge) -> Rank:
    """How good a word is: what was seen before what people wrote down, then the later: when it was told or from when
    it holds, whichever is later."""
    begin = begin_of(edge)
    seen = edge.source.partition(":")[0] not in WRITTEN
    return (int(seen), max(begin, BEGIN if edge.seen_ms is None else edge.seen_ms), begin)


def log_key(edge: Edge) -> str:
    """The key of an edge in the log, where only the newest record of a key is kept: each source's word is its own."""
    return f"{edge.child} {edge.relation} {edge.parent} {edge.source}".replace("\n", " ")


def begin_of(edge: Edge) -> int:
    """The start of validity, an open one as the least number."""
    return BEGIN if edge.from_ms is None else edge.from_ms


def group_of(key: Key) -> str:
    """Parents among which a child can have one only: of each kind one that it is part of, one switch of a port."""
    child, relation, parent = key
    above = kind(parent)
    single = (relation is Relation.PART_OF and above is not Kind.COHORT) or (
        relation is Relation.ATTACHED_TO and kind(child) in (Kind.PORT, Kind.OPTIC)
    )
    return str(above) if single else parent


def latest(rivals: list[tuple[Rank, Name]]) -> Name | None:
    """The one of the latest word; None where two words are equally late: neither is known to be true."""
    last = max((rank for rank, _ in rivals), default=None)
    found = {component for rank, component in rivals if rank == last}
    return found.pop() if len(found) == 1 else None


def refusal(edge: Edge) -> str:
    """Why an edge cannot be used, "" if it can."""
    if edge.child == edge.parent:
        return "self_edge"
    ends = (edge.child, edge.parent)
    return "bad_name" if any(kind(end) is None or parts_of(end)[0] in ("", UNKNOWN) for end in ends) else ""


def disagreement(claims: list[Edge]) -> Conflict | None:
    """Claims to one place of which one is the best word, and another source says otherwise; None for all else."""
    last = max((rank(edge) for edge in claims), default=None)
    best = [edge for edge in claims if rank(edge) == last]
    if len(best) != 1:
        return None  # as good as each other: a conflict of its own
    others = [edge for edge in claims if edge.source != best[0].source]
    other = sorted(others, key=lambda edge: (edge.parent, edge.child))
    return Conflict("sources_disagree", (best[0], *other)) if other else None


def rivals(index: Index) -> list[Conflict]:
    """Edges that claim the same single place with words equally late."""
    found = []
    for keys in index.up.values():
        found += [Conflict("two_parents", edges) for edges in _ties(index, keys)]
    for end, keys in index.near.items():
        links = [key for key in keys if key[1] is Relation.LINK_END]
        found += [Conflict("end_taken", edges) for edges in _ties(index, links, end)]
    return found


def _ties(index: Index, keys: list[Key], end: Name | None = None) -> list[tuple[Edge, ...]]:
    if len(keys) < 2:
        return []
    claims: dict[tuple[str, Relation, Rank], dict[Key, Edge]] = {}
    for key in keys:
        place = end or group_of(key)
        for edge in index.versions[key]:
            if edge.to_ms is None or edge.to_ms > begin_of(edge):
                claims.setdefault((place, key[1], rank(edge)), {}).setdefault(key, edge)
    return [tuple(edges.values()) for edges in claims.values() if len(edges) > 1]
