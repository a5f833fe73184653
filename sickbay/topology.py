"""Time-versioned topology: what is part of, attached to, powered or cooled by what, and since when.

Of two words on the same edge, or on a place that only one can have, what was seen counts before what people wrote down
(`edges.WRITTEN`), then the later one (`seen_ms`, or the start it tells if that is later); an edge leaves only by a
version that ends it, never because a sweep did not show it. What names tell needs no edge: `accelerator:h/x`
is part of `host:h`, `optic:h/p` of `port:h/p`; a host, and its port, are attached to the switch at the other end of
the link. What cannot be true is recorded in `conflicts` and ignored.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

from sickbay.components import Kind, Name, parts_of
from sickbay.cycles import loops
from sickbay.edges import (
    CONTAINMENT,
    END,
    OWNERS,
    Conflict,
    Index,
    Key,
    Rank,
    begin_of,
    disagreement,
    group_of,
    key_of,
    kind,
    latest,
    other_of,
    rank,
    refusal,
    rivals,
)
from sickbay.messages import Edge, Relation

__all__ = ["CONTAINMENT", "Conflict", "Topology", "View"]

_Up: TypeAlias = tuple[Relation, Name]
_KEPT_VIEWS = 8  # moments that one round of diagnosis asks for: window ends and a few onsets
_ORDER = {relation: place for place, relation in enumerate(CONTAINMENT)}


class Topology:
    """All edges that are known, with their versions. Immutable; `add` gives a new one, indexed when first asked."""

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        self._edges: dict[tuple[Key, int | None, int | None], Edge] = {}
        self._refused: dict[tuple[Key, str], Conflict] = {}
        for edge in edges:
            key = key_of(edge)
            if why := refusal(edge):
                self._refused.setdefault((key, why), Conflict(why, (edge,)))
                continue
            known = self._edges.setdefault((key, edge.from_ms, edge.to_ms), edge)
            if known is not edge and (rank(known), known.source) < (rank(edge), edge.source):
                self._edges[key, edge.from_ms, edge.to_ms] = edge
        self._views: dict[int, View] = {}

    def __iter__(self) -> Iterator[Edge]:
        """Every version of every edge that is not refused."""
        return iter(self._edges.values())

    def add(self, edges: Iterable[Edge]) -> "Topology":
        """These and more. Costs one pass over all of them: add in batches."""
        refused = (edge for conflict in self._refused.values() for edge in conflict.edges)
        return Topology([*refused, *self._edges.values(), *edges])

    def renamed(self, named: Callable[[Edge], Edge]) -> "Topology":
        """The same under other names; itself where none differs."""
        told = [named(edge) for edge in self._edges.values()]
        if all(one is edge for one, edge in zip(told, self._edges.values(), strict=True)):
            return self
        return Topology([*(edge for conflict in self._refused.values() for edge in conflict.edges), *told])

    @property
    def components(self) -> int:
        """Number of components that edges name."""
        return len(self._index.names)

    @property
    def links(self) -> int:
        """Number of port pairs that were ever told to be joined."""
        return sum(relation is Relation.LINK_END for _, relation, _ in self._index.versions)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """What was ignored. Cycles, and what sources disagree on, are those of the latest view."""
        cycles = [Conflict("cycle", edges) for edges in self.at().cycles()]
        return (*self._refused.values(), *rivals(self._index), *cycles, *self.at().disagreements())

    def at(self, at_ms: int | None = None) -> "View":
        """The topology at that time; None = after everything told, planned changes too."""
        epoch = len(self._index.changes) if at_ms is None else bisect_right(self._index.changes, at_ms)
        if epoch not in self._views:
            while len(self._views) >= _KEPT_VIEWS:
                self._views.pop(next(iter(self._views)))
            self._views[epoch] = View(self._index, END - 1 if at_ms is None else at_ms)
        return self._views[epoch]

    @cached_property
    def _index(self) -> Index:
        return Index(self._edges.values())


class View:
    """The topology at one moment. A look-up costs what the component has edges, once."""

    def __init__(self, index: Index, at_ms: int) -> None:
        self._index = index
        self._at_ms = at_ms
        self._memo: dict[Name, tuple[_Up, ...]] = {}
        self._ends: dict[Name, Name | None] = {}

    def parents(self, component: Name, *relations: Relation) -> tuple[Name, ...]:
        """What a component hangs on directly, by the relations asked for (default: all of `CONTAINMENT`)."""
        wanted = relations or CONTAINMENT
        found = [parent for relation, parent in self._up(component) if relation in wanted]
        return tuple(dict.fromkeys([*found, *self._neighbours(component, wanted)]))

    def children(self, component: Name, *relations: Relation) -> tuple[Name, ...]:
        """What hangs on a component directly, of the parts that edges name."""
        wanted = relations or CONTAINMENT
        found = [
            child
            for child in self._candidates(component)
            if any(parent == component and relation in wanted for relation, parent in self._up(child))
        ]
        return (*found, *self._neighbours(component, wanted))

    def ancestors(self, component: Name) -> tuple[Name, ...]:
        """Everything a component hangs on, nearest first: what lies between two others stands between them."""
        far = self._distances(component, {})
        return tuple(sorted(far, key=lambda parent: (far[parent], parent)))

    def descendants(self, component: Name) -> tuple[Name, ...]:
        """Everything that hangs on a component, nearest first."""
        return tuple(self._below(component))

    def shared_parents(self, components: Iterable[Name], least: int = 2) -> list[tuple[Name, int]]:
        """(ancestor, how many hang on it) for ancestors of at least `least` components, nearest first."""
        known: dict[Name, dict[Name, int]] = {}
        counts: dict[Name, int] = {}
        far: dict[Name, int] = {}
        for component in dict.fromkeys(components):
            for parent, distance in self._distances(component, known).items():
                counts[parent] = counts.get(parent, 0) + 1
                far[parent] = max(far.get(parent, 0), distance)
        shared = [(parent, count) for parent, count in counts.items() if count >= least]
        return sorted(shared, key=lambda pair: (far[pair[0]], -pair[1], pair[0]))

    def other_end(self, port: Name) -> Name | None:
        """The port at the other end of the link, None where unknown or where two claim to be it."""
        if port not in self._index.near:
            return None
        if port not in self._ends:
            other = self._claimed_end(port)
            self._ends[port] = other if other is not None and self._claimed_end(other) == port else None
        return self._ends[port]

    def hosts_under(self, component: Name) -> tuple[str, ...]:
        """Hosts that lose something with a component: a host itself, or all that hang on it, sorted."""
        below = (component, *self._below(component, stop=Kind.HOST))
        return tuple(sorted({parts_of(part)[0] for part in below if kind(part) is Kind.HOST}))

    def cycles(self) -> list[tuple[Edge, ...]]:
        """Edges in force that lead back to where they began: ignored."""
        found = []
        for group in self._loops:
            told = (self._told(child).items() for child in sorted(group))
            found.append(tuple(edge for ups in told for (_, parent), edge in ups if parent in group))
        return found

    def disagreements(self) -> list[Conflict]:
        """Places that only one can have and sources give to several: the best word is held to be true."""
        places = [self._places(keys) for keys in self._index.up.values() if len(keys) > 1]
        links = [[key for key in keys if key[1] is Relation.LINK_END] for keys in self._index.near.values()]
        places += [[keys] for keys in links if len(keys) > 1]
        found = []
        for keys in (keys for group in places for keys in group if len(keys) > 1):
            claims = [edge for key in keys if (edge := self._in_force(key))]
            if len(claims) > 1 and (conflict := disagreement(claims)):
                found.append(conflict)
        return found

    @staticmethod
    def _places(keys: list[Key]) -> list[list[Key]]:
        """Edges of one child by the place that they claim, where only one can have it."""
        groups: dict[tuple[Relation, str], list[Key]] = {}
        for key in keys:
            groups.setdefault((key[1], group_of(key)), []).append(key)
        return list(groups.values())

    @cached_property
    def _loops(self) -> list[frozenset[Name]]:
        core = self._index.core
        return _loops_among(
            {child: [*self._told(child), *self._implied(child), *self._linked(child)] for child in core}
        )

    @cached_property
    def _loop_of(self) -> dict[Name, frozenset[Name]]:
        return {child: group for group in self._loops for child in group}

    def _up(self, component: Name) -> tuple[_Up, ...]:
        """(relation, parent) of a component, in the order of `CONTAINMENT`, then any other relation."""
        found = self._memo.get(component)
        if found is None:
            loop = self._loop_of.get(component, frozenset())
            told = [up for up in self._told(component) if up[1] not in loop or up[0] not in CONTAINMENT]
            implied = self._implied(component)
            if _tells_owner(component, told):
                implied = []
            found = tuple(sorted({*told, *implied, *self._linked(component)}, key=_in_order))
            if component in self._index.names or component in self._index.inside:  # others: asked for without bound
                self._memo[component] = found
        return found

    def _told(self, component: Name) -> dict[_Up, Edge]:
        """Parents by the edges in force; where only one can be, that of the latest word."""
        groups: dict[tuple[Relation, str], list[tuple[Rank, Name]]] = {}
        edges: dict[_Up, Edge] = {}
        for key in self._index.up.get(component, ()):
            if edge := self._in_force(key):
                edges[key[1:]] = edge
                groups.setdefault((key[1], group_of(key)), []).append((rank(edge), key[2]))
        winners = ((relation, latest(claims)) for (relation, _), claims in groups.items())
        return {(relation, parent): edges[relation, parent] for relation, parent in winners if parent is not None}

    def _in_force(self, key: Key) -> Edge | None:
        for version in self._index.versions[key]:  # the latest word first
            if begin_of(version) <= self._at_ms:
                return None if version.to_ms is not None and version.to_ms <= self._at_ms else version
        return None

    def _implied(self, component: Name) -> list[_Up]:
        owner = self._index.implied(component)
        return [(Relation.PART_OF, owner)] if owner else []

    def _linked(self, component: Name) -> list[_Up]:
        """Switches at the other end of a port's link, or of any port of a host."""
        own = kind(component)
        if own is Kind.HOST:
            ports = [port for port in self._index.ports.get(component, ()) if self._owner(port) == component]
        elif own is Kind.PORT and component in self._index.near and kind(self._owner(component) or "") is Kind.HOST:
            ports = [component]
        else:
            return []
        owners = (self._owner(other) for other in map(self.other_end, ports) if other)
        return [(Relation.ATTACHED_TO, owner) for owner in owners if owner and kind(owner) is Kind.SWITCH]

    def _owner(self, port: Name) -> Name | None:
        """The host or switch of a port: as told, else by its name."""
        told = [parent for relation, parent in self._told(port) if relation is Relation.PART_OF]
        return next((parent for parent in sorted(told) if kind(parent) in OWNERS), self._index.implied(port))

    def _claimed_end(self, port: Name) -> Name | None:
        links = (key for key in self._index.near.get(port, ()) if key[1] is Relation.LINK_END)
        return latest([(rank(edge), other_of(key, port)) for key in links if (edge := self._in_force(key))])

    def _neighbours(self, component: Name, wanted: Collection[Relation]) -> list[Name]:
        found: set[Name] = set()
        if Relation.LINK_END in wanted and (other := self.other_end(component)):
            found.add(other)
        if Relation.SAME_GROUP in wanted:
            keys = (key for key in self._index.near.get(component, ()) if key[1] is Relation.SAME_GROUP)
            found |= {other_of(key, component) for key in keys if self._in_force(key)}
        return sorted(found)

    def _candidates(self, component: Name) -> list[Name]:
        """What may hang on a component, each once, sorted."""
        found = {key[0] for key in self._index.down.get(component, ())}
        found.update(self._index.inside.get(component, ()))
        if kind(component) is Kind.SWITCH:
            ends = [other for port in self._index.ports.get(component, ()) if (other := self.other_end(port))]
            found.update(ends, (owner for owner in map(self._owner, ends) if owner))
        return sorted(found)

    def _below(self, component: Name, stop: Kind | None = None) -> list[Name]:
        """Descendants, breadth first; parts of the kind `stop` are not looked into."""
        found: dict[Name, None] = {component: None}
        for part in (queue := [component]):
            if part != component and stop is not None and kind(part) is stop:
                continue
            for child in self.children(part):
                if child not in found:
                    found[child] = None
                    queue.append(child)
        return queue[1:]

    def _distances(self, component: Name, known: dict[Name, dict[Name, int]]) -> dict[Name, int]:
        """Ancestors with the length of the longest way up to them. `known` keeps those of others: few share many."""
        stack = [component]
        while stack:
            part = stack[-1]
            parents = self.parents(part)
            waiting = [parent for parent in parents if parent not in known]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            far = dict.fromkeys(parents, 1)
            for parent in parents:
                for above, distance in known[parent].items():
                    far[above] = max(far.get(above, 0), distance + 1)
            known[part] = far
        return known[component]


def _loops_among(graph: dict[Name, list[_Up]]) -> list[frozenset[Name]]:
    return loops(
        {
            child: [parent for relation, parent in ups if relation in CONTAINMENT and parent in graph]
            for child, ups in graph.items()
        }
    )


def _in_order(up: _Up) -> tuple[int, Relation, Name]:
    return (_ORDER.get(up[0], len(_ORDER)), *up)


def _tells_owner(component: Name, told: list[_Up]) -> bool:
    """Whether an edge leads to the owner that the name implies, so that it need not be said twice."""
    own = parts_of(component)[0]
    inside = [parent for relation, parent in told if relation is Relation.PART_OF]
    if kind(component) is Kind.OPTIC:
        return any(kind(parent) is Kind.PORT for parent in inside)
    return any(kind(parent) in OWNERS or (parts_of(parent)[0] == own and "/" in parent) for parent in inside)
