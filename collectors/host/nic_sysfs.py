"""Ports of network adapters by the kernel's own files: state, rate and counters, once a second, without any tool.

A port is one row, under its RDMA device where it has one (`adapters`, `port_names`): of an Ethernet fabric state and
speed stand under its interface, the transport's counters under the RDMA device.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from collectors import rows
from collectors.agent.source import Collected, Host, Seen
from collectors.formats.metric_names import files
from collectors.formats.port_files import Key, Ports
from collectors.host.adapters import ETHERNET, IPOIB, NET, RDMA, Adapters, adapters, identities
from collectors.host.tree import Tree
from sickbay.components import UNKNOWN, Kind, Name, name
from sickbay.messages import Event, Identity
from sickbay.schema import Samples

LOOK_AROUND_MS = 30_000  # between two looks for devices that came or went
MOST_PORTS = 512
_WORDS = ("state", "phys_state", "rate")
# What the link itself counts stands under the interface of an Ethernet port, with its state.
_OF_TRANSPORT = ("counters/port_rcv_data", "counters/port_xmit_data", "counters/port_xmit_wait")


class Port(NamedTuple):
    """One port and its files below `folder`; a port may have two of them."""

    component: Name
    folder: str
    files: tuple[str, ...]


class NicSysfs:
    """The collector `nic_sysfs`."""

    name = "nic_sysfs"
    asks_driver = False

    def __init__(self, host: Host) -> None:
        self.interval_s = host.settings.sample_s
        self._host, self._tree = host, Tree(host.root)
        self._boot_id = self._tree.read("proc/sys/kernel/random/boot_id")
        self._ports, self._identities = list[Port](), list[Identity]()
        self._looked_ms: int | None = None
        self._read = Ports(wraps_of(host.places(self.name), self._boot_id))

    def collect(self, now_ms: int) -> Collected:
        """One row for each port."""
        seen: list[Seen] = []
        if self._looked_ms is None or not 0 <= now_ms - self._looked_ms < LOOK_AROUND_MS:
            self._looked_ms = now_ms
            self._tree.let_go()
            self._ports, self._identities = look_around(self._tree)
            seen += [Seen(one, now_ms, RDMA, host=self._host.name) for one in self._identities]
        told: dict[Name, dict[str, str]] = {}
        for port in self._ports:
            told.setdefault(port.component, {}).update(self._texts(port))
        cells, events = self._read.read(told)
        records: list[Samples | Event] = [*rows.samples("port", cells, now_ms), *events]
        seen += [Seen(record, now_ms, RDMA, host=self._host.name) for record in records]
        absent = "" if self._ports else "no port of a network adapter"
        return Collected(seen, self._place(), problem=self._tree.blind(), absent=absent)

    def close(self) -> None:
        """Let the files go."""
        self._tree.let_go()

    def _texts(self, port: Port) -> Iterator[tuple[str, str]]:
        if not self._tree.exists(port.folder):
            return
        for file in port.files:
            if text := self._tree.again(f"{port.folder}/{file}"):
                if file == "operstate" and text == "unknown":  # the driver keeps no state: its carrier stands for it
                    text = {"1": "up", "0": "down"}.get(self._tree.read(f"{port.folder}/carrier"), text)
                yield file, text

    def _place(self) -> bytes | None:
        return place_of(self._read.wraps, self._boot_id) if self._read.wraps else None


def wraps_of(place: bytes | None, boot_id: str) -> dict[Key, int]:
    """How often counters went round in this boot, from what an earlier run left."""
    try:
        boot, rows = msgspec.json.decode(place or b"", type=tuple[str, list[tuple[str, str, int]]])
    except msgspec.MsgspecError:
        return {}
    return {(port, file): turns for port, file, turns in rows} if boot == boot_id else {}


def place_of(wraps: dict[Key, int], boot_id: str) -> bytes:
    """The same, to be left behind."""
    return msgspec.json.encode((boot_id, [(port, file, turns) for (port, file), turns in sorted(wraps.items())]))


def look_around(tree: Tree) -> tuple[list[Port], list[Identity]]:
    """The ports that are here, and which names and addresses are one port or adapter."""
    found = adapters(tree)
    fabric = {pci for device, pci in found.devices.items() if pci and device in found.ports}
    ports = [port for device in found.ports for port in _rdma_ports(tree, found, device)]
    for device, pci in found.interfaces.items():
        kind = tree.read(f"{NET}/{device}/type")
        if kind == ETHERNET or (kind == IPOIB and pci not in fabric):
            own = found.twins.get(device, device)
            ports.append(_port(tree, name(Kind.PORT, UNKNOWN, *own.split("/")), f"{NET}/{device}", _net_files()))
    return [port for port in ports if port.files][:MOST_PORTS], list(identities(tree, found))


def _rdma_ports(tree: Tree, found: Adapters, device: str) -> Iterator[Port]:
    interfaces = tree.names(f"{RDMA}/{device}/device/net")
    for number in found.ports[device]:
        folder = f"{RDMA}/{device}/ports/{number}"
        beside = bool(interfaces) and tree.read(f"{folder}/link_layer") == "Ethernet"
        wanted = [file for file in _rdma_files() if not beside or file in _OF_TRANSPORT or file.startswith("hw_")]
        yield _port(tree, name(Kind.PORT, UNKNOWN, device, number), folder, wanted)


def _rdma_files() -> list[str]:
    return [*_WORDS, *(file for file in files() if file.startswith(("counters/", "hw_counters/")))]


def _net_files() -> list[str]:
    return [
        "flags",
        "operstate",
        "speed",
        "carrier_changes",
        *(one for one in files() if one.startswith("statistics/")),
    ]


def _port(tree: Tree, component: Name, folder: str, wanted: Iterable[str]) -> Port:
    """The files of a port that are there: adapters and kernels differ."""
    there = {below: set(tree.names(f"{folder}/{below}".rstrip("/"))) for below in _folders(wanted)}
    return Port(component, folder, tuple(one for one in wanted if one.rpartition("/")[2] in there[_folder(one)]))


def _folder(file: str) -> str:
    return file.rpartition("/")[0]


def _folders(wanted: Iterable[str]) -> set[str]:
    return {_folder(file) for file in wanted}


def collectors(host: Host) -> Sequence[NicSysfs]:
    """One: a host without adapters tells nothing."""
    return (NicSysfs(host),)
