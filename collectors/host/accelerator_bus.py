"""Accelerators on the host's bus: of which vendor they are, and the names that their driver's files tell.

It joins what an exporter calls a device with what the kernel's log calls it, where a driver tells both; and where there
are accelerators and nothing is set that asks their vendor's exporter, it says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collectors.agent.source import Collected, Host, Seen
from collectors.formats.pcie_files import what_is
from collectors.formats.vendors import makers, vendor_of
from collectors.host.tree import Tree
from sickbay.components import pci_address
from sickbay.messages import Identity

INTERVAL_S = 30.0
DEVICES = "sys/bus/pci/devices"


@dataclass(frozen=True, slots=True)
class Card:
    """An accelerator on the bus, by files of /sys: Linux Documentation/gpu/amdgpu/driver-misc for serial and model."""

    pci: str
    vendor: str
    serial: str
    model: str
    driver: str = ""


class AcceleratorBus:
    """The collector `accelerator_bus`."""

    name = "accelerator_bus"
    asks_driver = False

    def __init__(self, host: Host) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._tree = host, Tree(host.root)

    def collect(self, now_ms: int) -> Collected:
        """Identities of devices of which the driver tells more than the address."""
        cards = list(look(self._tree))
        told = [
            Identity(host=self._host.name, pci=card.pci, serial=card.serial, model=card.model)
            for card in cards
            if card.serial
        ]
        seen = [Seen(one, now_ms, DEVICES, host=self._host.name) for one in told]
        absent = "" if cards else "no accelerator on the bus"
        return Collected(seen, problem=self._tree.blind() or self._unasked(cards), absent=absent)

    def close(self) -> None:
        """Nothing is held open."""

    def _unasked(self, cards: Sequence[Card]) -> str:
        asks = self._host.settings.driver_calls
        by_tool = {vendor.name for vendor in makers().values() if vendor.tools and asks}
        vendors = [card.vendor for card in cards if card.vendor and card.vendor not in by_tool]
        if not vendors or self._host.settings.exporters:
            return ""
        names = ", ".join(sorted(set(vendors)))
        return f"{len(vendors)} accelerators on the bus ({names}), and no exporter is set in [agent] exporters"


def look(tree: Tree) -> Iterator[Card]:
    """Whole accelerators of all vendors, not the functions of guests."""
    for folder in tree.names(DEVICES):
        address = pci_address(folder)
        path = f"{DEVICES}/{folder}"
        if address is None or what_is(tree.read(f"{path}/class")) != "accelerator" or tree.exists(f"{path}/physfn"):
            continue
        driver = (tree.leads_to(f"{path}/driver") or [""])[-1]
        vendor = vendor_of(tree.read(f"{path}/vendor"), driver)
        serial, model = tree.read(f"{path}/serial_number", 128), tree.read(f"{path}/product_name", 128)
        yield Card(address, vendor, serial, model, driver)


def collectors(host: Host) -> Sequence[AcceleratorBus]:
    """One."""
    return (AcceleratorBus(host),)
