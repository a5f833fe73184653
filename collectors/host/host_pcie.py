"""Host links of accelerators, network adapters and disks: width, speed and bus errors, by the kernel's own files."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from collectors import rows
from collectors.agent.source import Collected, Host, Seen
from collectors.formats.pcie_files import ERROR_FILES, LINK_FILES, Bus, Link, What, columns, link_of, what_is
from collectors.host.tree import Tree
from sickbay.components import UNKNOWN, Kind, Name, name, pci_address
from sickbay.messages import Event
from sickbay.schema import Samples

INTERVAL_S = 10.0
LOOK_AROUND_MS = 60_000  # between two looks for devices that came or went
DEVICES = "sys/bus/pci/devices"


class Device(NamedTuple):
    """A device that is followed, and the port above it ("" where none is told)."""

    address: str
    what: What
    above: str


class HostPcie:
    """The collector `host_pcie`."""

    name = "host_pcie"
    asks_driver = False

    def __init__(self, host: Host) -> None:
        self.interval_s = max(INTERVAL_S, host.settings.sample_s)
        self._host, self._tree, self._bus = host, Tree(host.root), Bus()
        self._devices: list[Device] = []
        self._looked_ms: int | None = None

    def collect(self, now_ms: int) -> Collected:
        """A row for each accelerator, and events of what grew worse."""
        if self._looked_ms is None or not 0 <= now_ms - self._looked_ms < LOOK_AROUND_MS:
            self._looked_ms, self._devices = now_ms, list(look_around(self._tree))
        cells: dict[Name, dict[str, float]] = {}
        events: list[Event] = []
        for device in self._devices:
            own, above = self._link(device.address), self._link(device.above)
            events += self._bus.errors(device.address, self._texts(device.address, ERROR_FILES), now_ms)
            if device.what == "accelerator":
                address = pci_address(device.address) or device.address
                cells[name(Kind.ACCELERATOR, UNKNOWN, address)] = columns(own, above)
            else:
                events += self._bus.narrow(device.address, device.what, own, above)
        for port in sorted({device.above for device in self._devices if device.above}):
            events += self._bus.errors(port, self._texts(port, ERROR_FILES), now_ms)
        records: list[Samples | Event] = [*rows.samples("accelerator", cells, now_ms), *events]
        seen = [Seen(record, now_ms, DEVICES, host=self._host.name) for record in records]
        absent = "" if self._devices else "no accelerator, adapter or disk on the bus"
        return Collected(seen, problem=self._tree.blind(), absent=absent)

    def close(self) -> None:
        """Nothing is held open."""

    def _link(self, address: str) -> Link:
        return link_of(self._texts(address, LINK_FILES)) if address else Link()

    def _texts(self, address: str, files: Sequence[str]) -> dict[str, str]:
        return {file: text for file in files if (text := self._tree.read(f"{DEVICES}/{address}/{file}"))}


def look_around(tree: Tree) -> Iterator[Device]:
    """The devices that are followed: whole ones, not the functions of guests."""
    for folder in tree.names(DEVICES):
        address = pci_address(folder, function=True)
        what = what_is(tree.read(f"{DEVICES}/{folder}/class"))
        if address is not None and what and not tree.exists(f"{DEVICES}/{folder}/physfn"):
            above = (tree.leads_to(f"{DEVICES}/{folder}") or [""])[-2:-1]
            yield Device(address, what, pci_address(above[0], function=True) or "" if above else "")


def collectors(host: Host) -> Sequence[HostPcie]:
    """One."""
    return (HostPcie(host),)
