"""A cluster: hosts with accelerators and NICs, leaf switches, and every name a part has in some tool.

Host names, UUIDs and serials follow from the seed alone; renaming must change nothing but names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from sickbay.components import Kind, Name, name
from sickbay.messages import Edge, Identity, Relation

Layout = Literal["leaf", "rail"]
Fabric = Literal["ethernet", "infiniband"]

# Where an eight-card board of the HGX kind puts its cards and their NICs.
ACCELERATOR_PCI = ("18:00", "2a:00", "3a:00", "5d:00", "9a:00", "ab:00", "ba:00", "db:00")
NIC_PCI = ("19:00", "2b:00", "3b:00", "5e:00", "9b:00", "ac:00", "bb:00", "dc:00")
ROOT_PORT = ("15:01", "26:01", "37:01", "48:01", "97:01", "a7:01", "b7:01", "d7:01")
MODEL = "NVIDIA H100 80GB HBM3"


@dataclass(frozen=True, slots=True)
class Card:
    """One accelerator with the NIC on the same PCIe switch."""

    host: str
    index: int
    uuid: str
    serial: str
    leaf: str
    leaf_port: str
    address: str  # of the NIC on the training network
    fabric: Fabric = "ethernet"

    @property
    def pci(self) -> str:
        """PCI address as the kernel prints it, without function."""
        return f"0000:{ACCELERATOR_PCI[self.index % 8]}"

    @property
    def nic_pci(self) -> str:
        """PCI address of the NIC, with function."""
        return f"0000:{NIC_PCI[self.index % 8]}.0"

    @property
    def root_pci(self) -> str:
        """PCI address of the port above the card, with function."""
        return f"0000:{ROOT_PORT[self.index % 8]}.0"

    @property
    def interface(self) -> str:
        """Network interface of the NIC."""
        return f"enp{int(NIC_PCI[self.index % 8][:2], 16)}s0np0"

    @property
    def component(self) -> Name:
        """Name of the accelerator."""
        return name(Kind.ACCELERATOR, self.host, self.pci)

    @property
    def rdma(self) -> str:
        """RDMA device of the NIC."""
        return f"mlx5_{self.index}"

    @property
    def port(self) -> Name:
        """Name of the NIC's port: on Ethernet everybody calls it by its interface, else by its RDMA device."""
        own = (self.interface,) if self.fabric == "ethernet" else (self.rdma, "1")
        return name(Kind.PORT, self.host, *own)

    @property
    def switch_port(self) -> Name:
        """Name of the port at the other end of the cable."""
        return name(Kind.PORT, self.leaf, self.leaf_port)


@dataclass(frozen=True)
class Cluster:
    """Hosts in rack order; `cards` in host order, `per_host` each: a card's place is its row in every array."""

    hosts: tuple[str, ...]
    leaves: tuple[str, ...]
    cards: tuple[Card, ...]
    per_host: int = 8
    layout: Layout = "leaf"
    breakout: int = 1  # ports of a switch that one module serves

    @cached_property
    def host_index(self) -> dict[str, int]:
        """Row of each host."""
        return {host: row for row, host in enumerate(self.hosts)}

    @cached_property
    def components(self) -> list[Name]:
        """Names of the accelerators, in row order."""
        return [card.component for card in self.cards]

    @cached_property
    def ports(self) -> list[Name]:
        """Names of the NIC ports, in row order."""
        return [card.port for card in self.cards]

    def rows(self, host: str) -> slice:
        """Rows of the cards of a host."""
        first = self.host_index[host] * self.per_host
        return slice(first, first + self.per_host)

    def of(self, host: str) -> tuple[Card, ...]:
        """Cards of a host."""
        return self.cards[self.rows(host)]

    def row(self, component: Name) -> int:
        """Row of an accelerator. Raises ValueError."""
        if component not in self._row_of:
            raise ValueError(component)
        return self._row_of[component]

    @cached_property
    def _row_of(self) -> dict[Name, int]:
        return {component: row for row, component in enumerate(self.components)}

    @cached_property
    def _under(self) -> dict[str, tuple[Card, ...]]:
        found: dict[str, list[Card]] = {}
        for card in self.cards:
            found.setdefault(card.leaf, []).append(card)
        return {leaf: tuple(cards) for leaf, cards in found.items()}

    def under(self, leaf: str) -> tuple[Card, ...]:
        """Cards whose NIC hangs on a leaf switch."""
        return self._under.get(leaf, ())

    def identities(self) -> list[Identity]:
        """All names of every accelerator and NIC, as the driver and `lspci` tell them."""
        return [identity for card in self.cards for identity in identities_of(card)]

    def edges(self) -> list[Edge]:
        """The topology: parts of hosts, both ends of every cable, hosts on their leaves."""
        return [edge for card in self.cards for edge in edges_of(card)]


def identities_of(card: Card) -> tuple[Identity, Identity]:
    """All names of an accelerator and its NIC."""
    return (
        Identity(
            host=card.host, index=str(card.index), pci=card.pci, uuid=card.uuid, serial=card.serial, model=MODEL
        ),
        Identity(host=card.host, kind="nic", index=str(card.index), pci=card.nic_pci, name=card.interface),
    )  # fmt: skip


def edges_of(card: Card) -> tuple[Edge, ...]:
    """What a card and its NIC are parts of, and the cable."""
    host, switch = name(Kind.HOST, card.host), name(Kind.SWITCH, card.leaf)
    return (
        Edge(child=card.component, parent=host, relation=Relation.PART_OF, source="simulator"),
        Edge(child=card.port, parent=host, relation=Relation.PART_OF, source="simulator"),
        Edge(child=card.switch_port, parent=switch, relation=Relation.PART_OF, source="simulator"),
        Edge(child=card.port, parent=card.switch_port, relation=Relation.LINK_END, source="simulator"),
        Edge(child=host, parent=switch, relation=Relation.ATTACHED_TO, source="simulator"),
    )


def build(
    *, seed: int = 0, hosts: int = 8, per_host: int = 8, layout: Layout = "leaf", hosts_per_leaf: int = 2,
    names: Sequence[str] = (), breakout: int = 1, fabric: Fabric = "ethernet",
) -> Cluster:  # fmt: skip
    """A cluster whose names depend on `seed` only, where none are given. `leaf`: a host hangs on one leaf; `rail`: a
    leaf per card index."""
    rng = np.random.default_rng([seed, 0xC1])
    site = "".join(rng.choice(list("abcdefghkmnpqrstuvwxz"), 3))
    rack, step = int(rng.integers(1, 60)), 4
    names = tuple(names) or tuple(f"{site}-r{rack + i // step:02d}-n{i % step + 1:02d}" for i in range(hosts))
    count = per_host if layout == "rail" else -(-len(names) // hosts_per_leaf)
    leaves = tuple(f"leaf-{site}-{i + 1:02d}" for i in range(count))
    cards = tuple(
        _card(rng, host, row, index, per_host, leaves, layout, hosts_per_leaf, fabric)
        for row, host in enumerate(names)
        for index in range(per_host)
    )
    return Cluster(names, leaves, cards, per_host, layout, breakout)


def _card(
    rng: np.random.Generator, host: str, row: int, index: int, per_host: int, leaves: tuple[str, ...],
    layout: Layout, hosts_per_leaf: int, fabric: Fabric,
) -> Card:  # fmt: skip
    raw = rng.bytes(16).hex()
    rail = layout == "rail"
    leaf = leaves[index] if rail else leaves[row // hosts_per_leaf]
    socket = row if rail else (row % hosts_per_leaf) * per_host + index
    return Card(
        host=host,
        index=index,
        uuid=f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}",
        serial=f"16{int(raw[:10], 16) % 10**11:011d}",
        leaf=leaf,
        leaf_port=str(socket + 1) if fabric == "infiniband" else f"Ethernet{socket * 4}",
        fabric=fabric,
        address=f"10.{20 + index}.{row // 250}.{row % 250 + 1}",
    )
