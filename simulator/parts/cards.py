"""One accelerator with its NIC: every name that they have in some tool, and what they are parts of.

Host names, UUIDs and serials follow from the seed alone; renaming must change nothing but names.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sickbay.components import Kind, Name, name
from sickbay.messages import Edge, Identity, Relation
from simulator.parts.fabrics import SOURCE, Fabric
from simulator.parts.models import USUAL, model

# Where an eight-card board of the HGX kind puts its cards and their NICs.
ACCELERATOR_PCI = ("18:00", "2a:00", "3a:00", "5d:00", "9a:00", "ab:00", "ba:00", "db:00")
NIC_PCI = ("19:00", "2b:00", "3b:00", "5e:00", "9b:00", "ac:00", "bb:00", "dc:00")
ROOT_PORT = ("15:01", "26:01", "37:01", "48:01", "97:01", "a7:01", "b7:01", "d7:01")
BOARD = len(ACCELERATOR_PCI)


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
    model: str = USUAL
    second_leaf: str = ""  # at the end of the cable of the NIC's second port, "" = it has one
    second_leaf_port: str = ""

    @property
    def domain(self) -> int:
        """PCI domain: a second board of a host has one of its own."""
        return self.index // BOARD

    @property
    def pci(self) -> str:
        """PCI address as the kernel prints it, without function."""
        return f"{self.domain:04x}:{ACCELERATOR_PCI[self.index % BOARD]}"

    @property
    def nic_pci(self) -> str:
        """PCI address of the NIC, with function."""
        return f"{self.domain:04x}:{NIC_PCI[self.index % BOARD]}.0"

    @property
    def root_pci(self) -> str:
        """PCI address of the port above the card, with function."""
        return f"{self.domain:04x}:{ROOT_PORT[self.index % BOARD]}.0"

    @property
    def interface(self) -> str:
        """Network interface of the NIC."""
        domain = f"P{self.domain}" if self.domain else ""
        return f"en{domain}p{int(NIC_PCI[self.index % BOARD][:2], 16)}s0np0"

    @property
    def component(self) -> Name:
        """Name of the accelerator."""
        return name(Kind.ACCELERATOR, self.host, self.pci)

    @property
    def rdma(self) -> str:
        """RDMA device of the NIC."""
        return f"mlx5_{self.index}"

    @property
    def nic(self) -> Name:
        """Name of the NIC."""
        return name(Kind.NIC, self.host, self.nic_pci)

    @property
    def port(self) -> Name:
        """Name of the NIC's port: on Ethernet everybody calls it by its interface, else by its RDMA device."""
        own = (self.interface,) if self.fabric == "ethernet" else (self.rdma, "1")
        return name(Kind.PORT, self.host, *own)

    @property
    def second_port(self) -> Name:
        """Name of the NIC's second port, where it has one."""
        own = (f"{self.interface[:-4]}f1np1",) if self.fabric == "ethernet" else (self.rdma, "2")
        return name(Kind.PORT, self.host, *own)

    @property
    def switch_port(self) -> Name:
        """Name of the port at the other end of the cable."""
        return name(Kind.PORT, self.leaf, self.leaf_port)

    @property
    def second_switch_port(self) -> Name:
        """Name of the port at the other end of the second port's cable."""
        return name(Kind.PORT, self.second_leaf, self.second_leaf_port)


def identities_of(card: Card) -> tuple[Identity, Identity]:
    """All names of an accelerator and its NIC."""
    return (
        Identity(
            host=card.host, index=str(card.index), pci=card.pci, uuid=card.uuid, serial=card.serial,
            model=model(card.model).title,
        ),
        Identity(host=card.host, kind="nic", index=str(card.index), pci=card.nic_pci, name=card.interface),
    )  # fmt: skip


def edges_of(card: Card) -> Iterator[Edge]:
    """What a card and its NIC are parts of, and the cables."""
    host = name(Kind.HOST, card.host)
    yield Edge(child=card.component, parent=host, relation=Relation.PART_OF, source=SOURCE)
    yield from _cable(host, card.port, card.leaf, card.switch_port)
    if card.second_leaf:
        yield from _cable(host, card.second_port, card.second_leaf, card.second_switch_port)


def _cable(host: Name, port: Name, leaf: str, switch_port: Name) -> Iterator[Edge]:
    switch = name(Kind.SWITCH, leaf)
    yield Edge(child=port, parent=host, relation=Relation.PART_OF, source=SOURCE)
    yield Edge(child=switch_port, parent=switch, relation=Relation.PART_OF, source=SOURCE)
    yield Edge(child=port, parent=switch_port, relation=Relation.LINK_END, source=SOURCE)
    yield Edge(child=host, parent=switch, relation=Relation.ATTACHED_TO, source=SOURCE)
