"""What joins hosts beside the network: scale-up domains with their switches, storage, racks of network switches.

A domain of one host is its board; one of several hosts (a rack of 72 cards, a super-node) has switches of its own
that every card hangs on. Names of domains of several hosts are their own, as schedulers call blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, Name, name
from sickbay.messages import Edge, Relation
from simulator.parts.cluster import Card, Cluster
from simulator.parts.fabrics import SOURCE
from simulator.parts.models import model

BOARD = "board"
STORAGE = ("scratch-MDT0000", "scratch-OST0000", "scratch-OST0001", "scratch-OST0002", "filer-01", "filer-02")
SHELVES = 16  # switches of a rack


@dataclass(frozen=True, slots=True)
class Domain:
    """Cards that scale-up links join, and the switches between them where several hosts have them in common."""

    component: Name
    cards: tuple[Card, ...]
    trays: tuple[str, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that it spans."""
        return tuple(dict.fromkeys(card.host for card in self.cards))


def domains(cluster: Cluster) -> tuple[Domain, ...]:
    """All scale-up domains, in host order."""
    found: list[Domain] = []
    row = 0
    while row < len(cluster.hosts):
        own = model(cluster.of(cluster.hosts[row])[0].model)
        span = max(1, own.domain // cluster.per_host)
        hosts = [
            host for host in cluster.hosts[row : row + span] if _of(cluster, host) == _of(cluster, cluster.hosts[row])
        ]
        found.append(_domain(cluster, hosts, len(found), own.trays if span > 1 else 0))
        row += len(hosts)
    return tuple(found)


def _of(cluster: Cluster, host: str) -> str:
    return cluster.of(host)[0].model


def _domain(cluster: Cluster, hosts: list[str], number: int, trays: int) -> Domain:
    cards = tuple(card for host in hosts for card in cluster.of(host))
    if not trays:
        return Domain(name(Kind.FABRIC, hosts[0], BOARD), cards, ())
    own = f"{cluster.site}-domain-{number + 1:02d}"
    return Domain(name(Kind.FABRIC, own), cards, tuple(f"{own}-tray-{tray + 1:02d}" for tray in range(trays)))


def domain_edges(cluster: Cluster) -> Iterator[Edge]:
    """Cards as parts of their domains, and on all its switches."""
    for domain in domains(cluster):
        for card in domain.cards:
            yield _edge(card.component, domain.component, Relation.PART_OF)
            for tray in domain.trays:
                yield _edge(card.component, name(Kind.SWITCH, tray), Relation.ATTACHED_TO)
        for tray in domain.trays:
            yield _edge(name(Kind.SWITCH, tray), domain.component, Relation.PART_OF)


def storage(cluster: Cluster) -> tuple[Name, ...]:
    """Storage targets of a site: a server of names, some of objects, two filers."""
    return tuple(name(Kind.STORAGE, target) for target in STORAGE) if cluster.hosts else ()


def storage_edges(cluster: Cluster) -> Iterator[Edge]:
    """Every host uses every target."""
    for host in cluster.hosts:
        for target in storage(cluster):
            yield _edge(name(Kind.HOST, host), target, Relation.MOUNTS)


def switch_racks(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Racks of the switches of the network, those above the leaves too, as far as a plan tells them."""
    switches = cluster.switches.names if cluster.switches else cluster.leaves
    shelves = cluster.plan.shelves if cluster.plan else SHELVES
    return {
        f"{cluster.site}-net-{at // shelves + 1:02d}": tuple(switches[at : at + shelves])
        for at in range(0, len(switches), shelves)
    }


def switch_edges(cluster: Cluster) -> Iterator[Edge]:
    """The network's switches in racks with two feeds and a management switch of their own."""
    for rack, switches in switch_racks(cluster).items():
        for switch in switches:
            child = name(Kind.SWITCH, switch)
            yield _edge(child, name(Kind.RACK, rack), Relation.PART_OF)
            yield from (_edge(child, name(Kind.PDU, f"pdu-{rack}-{side}"), Relation.POWERED_BY) for side in "ab")
            yield _edge(child, name(Kind.SWITCH, f"mgmt-{rack}"), Relation.MANAGED_BY)


def optic_edges(cluster: Cluster) -> Iterator[Edge]:
    """Modules that serve several ports of a switch are parts of the first one; the others hang on it."""
    from simulator.parts.cables import LEAF, mates, optic

    for leaf in cluster.leaves if cluster.breakout > 1 else ():
        for card in cluster.under(leaf):
            first = mates(cluster, card)[0]
            if first is not card:
                yield _edge(optic(card, LEAF), optic(first, LEAF), Relation.PART_OF)


def _edge(child: Name, parent: Name, relation: Relation) -> Edge:
    return Edge(child=child, parent=parent, relation=relation, source=SOURCE)
