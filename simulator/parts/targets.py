"""What a fault can hit: the parts of a cluster by kind, and what joins the hosts of a site, as edges.

parts_of(cluster, "spine")                     names of switches
parts_of(cluster, "card", of="kpx-r03-n01")    the cards of a host
some(rng, cluster, "link", 3)                  three of them, drawn
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np

from sickbay.components import Name, link
from sickbay.messages import Edge
from simulator.parts import facility, racks
from simulator.parts.cables import HOST, LEAF, optic
from simulator.parts.cluster import Card, Cluster
from simulator.parts.uplinks import spines, uplinks

Part: TypeAlias = Card | str  # a card; the bare name of a host or switch; the whole name of all else


def _spines(cluster: Cluster) -> tuple[Part, ...]:
    if cluster.switches:
        return tuple(spine for pod in cluster.switches.spines for spine in pod)
    return spines(cluster)


def _trunks(cluster: Cluster) -> tuple[Part, ...]:
    told = cluster.switches.trunks if cluster.switches else uplinks(cluster)
    return tuple(one.component for one in told)


def link_of(card: Card) -> Name:
    """The link between a card's NIC and its leaf."""
    return link(card.port.partition(":")[2], card.switch_port.partition(":")[2])


def _fed(cluster: Cluster, what: Callable[[facility.Fed], tuple[str, ...]]) -> tuple[Part, ...]:
    return tuple(dict.fromkeys(one for fed in facility.feeds(cluster).values() for one in what(fed)))


_FOUND: dict[str, Callable[[Cluster], tuple[Part, ...]]] = {
    "card": lambda cluster: cluster.cards,
    "host": lambda cluster: cluster.hosts,
    "leaf": lambda cluster: cluster.leaves,
    "spine": _spines,
    "core": lambda cluster: tuple(one for group in cluster.switches.cores for one in group) if cluster.switches else (),
    "link": lambda cluster: tuple(link_of(card) for card in cluster.cards),
    "trunk": _trunks,
    "port": lambda cluster: tuple(cluster.ports),
    "switch_port": lambda cluster: tuple(card.switch_port for card in cluster.cards),
    "nic": lambda cluster: tuple(card.nic for card in cluster.cards),
    "optic": lambda cluster: tuple(optic(card, HOST) for card in cluster.cards),
    "switch_optic": lambda cluster: tuple(optic(card, LEAF) for card in cluster.cards),
    "rack": lambda cluster: tuple(facility.feeds(cluster)),
    "pdu": lambda cluster: _fed(cluster, lambda fed: fed.pdus),
    "cdu": lambda cluster: _fed(cluster, lambda fed: (fed.cdu,)),
    "management": lambda cluster: _fed(cluster, lambda fed: (fed.manager.partition(":")[2],)),
    "storage": racks.storage,
    "domain": lambda cluster: tuple(domain.component for domain in racks.domains(cluster)),
    "tray": lambda cluster: tuple(tray for domain in racks.domains(cluster) for tray in domain.trays),
}
KINDS = tuple(_FOUND)


def parts_of(cluster: Cluster, kind: str, of: str = "") -> tuple[Part, ...]:
    """All parts of a kind of `KINDS`; `of`: only what belongs to that host or leaf. Raises KeyError, ValueError.

    `card`: the cards themselves; `host`, `leaf`, `spine`, `core`, `tray`, `management`, `rack`: bare names; all else:
    component names. `link` and `optic`: of hosts; `trunk`: links between switches.
    """
    if kind not in _FOUND:
        raise KeyError(f"no such kind of part: {kind}; one of {', '.join(KINDS)}")
    found = _FOUND[kind](cluster)
    if not of:
        return found
    if len(found) != len(cluster.cards):
        raise ValueError(f"{kind}: of a host or leaf only parts are told that every card has")
    return tuple(part for part, card in zip(found, cluster.cards, strict=True) if of in (card.host, card.leaf))


def some(rng: np.random.Generator, cluster: Cluster, kind: str, count: int = 1, of: str = "") -> tuple[Part, ...]:
    """Different parts of a kind, drawn: at most as many as there are."""
    found = parts_of(cluster, kind, of)
    return tuple(found[i] for i in rng.permutation(len(found))[:count].tolist())


def spare_hosts(cluster: Cluster, busy: Iterable[str]) -> tuple[str, ...]:
    """The idle part: hosts that none of these jobs' hosts are."""
    taken = set(busy)
    return tuple(host for host in cluster.hosts if host not in taken)


def site_edges(cluster: Cluster, feeds: int = 1) -> Iterator[Edge]:
    """Every edge that there is of a cluster: parts, cables, switches, domains, power, cooling, management, storage."""
    yield from cluster.told_edges()
    yield from facility.edges(cluster, feeds)
    yield from racks.domain_edges(cluster)
    yield from racks.storage_edges(cluster)
    yield from racks.switch_edges(cluster)
    yield from racks.optic_edges(cluster)
