"""Which owners of linked ports are switches, where a list of cables tells only that two ports are joined.

What a known host is cabled to is a switch, and so is what has more links than any host, all of them to switches; where
no host is known, an owner with many links to owners that have few. Whoever stays unknown counts as a host, as the
names of its ports say.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from statistics import median

from sickbay.components import UNKNOWN, Kind, Name, name, parts_of
from sickbay.edges import WRITTEN, kind
from sickbay.messages import Edge, Relation

SOURCE = "import"  # a word that anything that was seen outranks
MANY, TIMES = 4, 2  # [house] far owners that only a switch has, and how many more links than the usual one of these

assert SOURCE in WRITTEN


def switches_among(edges: Collection[Edge], hosts: Iterable[str]) -> Iterator[Edge]:
    """One edge for each owner that must be a switch and that no edge calls one: a port of it is part of it.

    `hosts`: those that run jobs or measure themselves, beside those that edges name.
    """
    named = {end for edge in edges for end in (edge.child, edge.parent)}
    told = {parts_of(end)[0] for end in named if kind(end) is Kind.HOST} | set(hosts)
    switches = {parts_of(end)[0] for end in named if kind(end) is Kind.SWITCH}
    far, ports = _links(edges)
    most = max((len(far[host]) for host in told & far.keys()), default=None)  # links of a known host
    unknown = sorted(far.keys() - told - switches)
    leaves = [owner for owner in unknown if not told.isdisjoint(far[owner]) or _has_many(owner, far)]
    above = switches | set(leaves)  # what has more links than any host, and to switches alone, is one above them
    spines = [
        one for one in unknown if one not in above and most and len(far[one]) > most and above.issuperset(far[one])
    ]
    for owner in sorted({*leaves, *spines}):
        yield Edge(child=ports[owner], parent=name(Kind.SWITCH, owner), relation=Relation.PART_OF, source=SOURCE)


def _links(edges: Iterable[Edge]) -> tuple[dict[str, list[str]], dict[str, Name]]:
    """Owners at the other ends of an owner's links, one a link, and the first port of each."""
    far, ports = defaultdict[str, list[str]](list), dict[str, Name]()
    for edge in edges:
        if edge.relation is Relation.LINK_END and kind(edge.child) is kind(edge.parent) is Kind.PORT:
            for port, other in ((edge.child, edge.parent), (edge.parent, edge.child)):
                owner, end = parts_of(port)[0], parts_of(other)[0]
                if UNKNOWN not in (owner, end) and owner != end:
                    far[owner].append(end)
                    ports[owner] = min(ports.get(owner, port), port)
    return far, ports


def _has_many(owner: str, far: dict[str, list[str]]) -> bool:
    others = set(far[owner])
    return len(others) >= MANY and len(far[owner]) >= TIMES * median(len(far[other]) for other in others)
