"""Network adapters as the kernel's files tell them: their interfaces, RDMA devices and addresses, and which are one.

An interface and an RDMA port are one where both are of the same function and speak the same link layer, and nothing
else of it claims either: of a function with several ports, `dev_port` tells (include/linux/netdevice.h). Interfaces of
guests and those stacked on others (VLANs, partitions of InfiniBand) are no ports. A bond of two functions that share
one RDMA device leaves the second without one: such a device is neither's.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.formats.series_names import is_virtual
from collectors.host.tree import Tree
from sickbay.components import Kind, pci_address
from sickbay.messages import Identity

RDMA, NET = "sys/class/infiniband", "sys/class/net"
IPOIB, ETHERNET = "32", "1"  # sys/class/net/*/type (include/uapi/linux/if_arp.h)
_LAYER = {"InfiniBand": IPOIB, "Ethernet": ETHERNET}
_REPRESENTOR = re.compile(r"pf\d+(?:vf|sf)\d+$")  # of a function that a guest has: no port of its own


@dataclass(slots=True)
class Adapters:
    """What is here. `ports`: the ports of each RDMA device; `twins`: interface -> the RDMA port that is the same."""

    interfaces: dict[str, str] = field(default_factory=dict)  # -> address
    devices: dict[str, str] = field(default_factory=dict)  # of RDMA -> address
    ports: dict[str, list[str]] = field(default_factory=dict)
    twins: dict[str, str] = field(default_factory=dict)


def adapters(tree: Tree) -> Adapters:
    """Looks around."""
    found = Adapters(
        {one: pci for one in tree.names(NET) if (pci := own_address(tree, one)) is not None},
        {one: _address(tree, f"{RDMA}/{one}/device") for one in tree.names(RDMA)},
    )
    found.ports = {one: tree.names(f"{RDMA}/{one}/ports") for one in found.devices if not of_guest(tree, one)}
    for device in found.ports:
        found.twins |= _twins(tree, found, device)
    return found


def of_guest(tree: Tree, device: str) -> bool:
    """Whether an RDMA device is a virtual function."""
    return tree.exists(f"{RDMA}/{device}/device/physfn")


def own_address(tree: Tree, device: str) -> str | None:
    """The address of an interface's adapter, None for interfaces without one and for those of guests."""
    folder = f"{NET}/{device}"
    if is_virtual(device) or not tree.exists(f"{folder}/device") or tree.exists(f"{folder}/device/physfn"):
        return None
    if _REPRESENTOR.fullmatch(tree.read(f"{folder}/phys_port_name")):
        return None
    return _address(tree, f"{folder}/device")


def _address(tree: Tree, link: str) -> str:
    pieces = tree.leads_to(link)
    return pci_address(pieces[-1], function=True) or "" if pieces else ""


def _twins(tree: Tree, found: Adapters, device: str) -> dict[str, str]:
    """The interfaces of an RDMA device's ports, where each port has one and no other."""
    address, ports = found.devices[device], found.ports[device]
    beside = [one for one, other in found.devices.items() if other == address]
    if not address or len(beside) > 1 or "bond" in device:
        return {}
    near = [one for one, pci in found.interfaces.items() if pci == address and not _stacked(tree, one)]
    near = [one for one in near if not _shares_bond(tree, found, one)]
    twins = {}
    for number in ports:
        layer = _LAYER.get(tree.read(f"{RDMA}/{device}/ports/{number}/link_layer"))
        fits = [one for one in near if tree.read(f"{NET}/{one}/type") == layer]
        if len(ports) > 1:
            fits = [one for one in fits if str(int(_digits(tree, one, "dev_port") or "-1") + 1) == number]
        if len(fits) == 1:
            twins[fits[0]] = f"{device}/{number}"
    return twins


def _stacked(tree: Tree, interface: str) -> bool:
    own, below = _digits(tree, interface, "ifindex"), _digits(tree, interface, "iflink")
    return "." in interface or bool(own and below and own != below)


def _shares_bond(tree: Tree, found: Adapters, interface: str) -> bool:
    """Whether the interface is bonded with one that has no RDMA device of its own: the two share one."""
    master = _master(tree, interface)
    addresses = set(found.devices.values())
    return bool(master) and any(
        pci not in addresses and _master(tree, one) == master for one, pci in found.interfaces.items()
    )


def _master(tree: Tree, interface: str) -> str:
    return (tree.leads_to(f"{NET}/{interface}/master") or [""])[-1]


def _digits(tree: Tree, interface: str, file: str) -> str:
    text = tree.read(f"{NET}/{interface}/{file}")
    return text if text.isascii() and text.isdecimal() and len(text) < 9 else ""


def identities(tree: Tree, found: Adapters) -> Iterator[Identity]:
    """One of each adapter, and one of each port that has more than one name. An address that several interfaces or
    ports have names none of them."""
    count = Counter(found.interfaces.values())
    sole = {pci: one for one, pci in found.interfaces.items() if count[pci] == 1}
    for device, pci in found.devices.items():
        if pci:
            guid, model = tree.read(f"{RDMA}/{device}/node_guid"), tree.read(f"{RDMA}/{device}/board_id")
            yield Identity(kind=Kind.NIC, index=device, pci=pci, uuid=guid, name=sole.get(pci, ""), model=model)
    for pci, interface in sole.items():
        if pci and pci not in found.devices.values():
            yield Identity(kind=Kind.NIC, pci=pci, name=interface)
    yield from _port_identities(tree, found)


def _port_identities(tree: Tree, found: Adapters) -> Iterator[Identity]:
    own = {port: interface for interface, port in found.twins.items()}
    count = Counter(found.devices.values())
    for device, numbers in found.ports.items():
        pci = found.devices[device]
        shared = len(numbers) > 1 or count[pci] > 1
        guid = _guid(tree.read(f"{RDMA}/{device}/node_guid"))
        for number in numbers:
            port = f"{device}/{number}"
            alone = not shared and (port in own or pci not in found.interfaces.values())
            yield Identity(
                kind=Kind.PORT,
                index=port,
                pci=pci if alone else "",
                uuid=f"{guid}/{number}" if guid else "",
                name=own.get(port, ""),
            )


def _guid(text: str) -> str:
    """As tools of the fabric print it: `a088:c203:00ab:1000` is `0xa088c20300ab1000`."""
    digits = text.replace(":", "").lower()
    return f"0x{digits}" if re.fullmatch(r"[0-9a-f]{16}", digits) and digits.strip("0") else ""
