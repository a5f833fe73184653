"""Which interface is which RDMA port by the kernel's files: cards with two ports, bonds, VLANs, guests."""

from pathlib import Path

import pytest

from collectors.host.adapters import adapters, identities
from collectors.host.optic_ethtool import look_around
from collectors.host.tree import Tree
from collectors.port_names import PortNames
from sickbay.messages import replace
from tests.collectors.recorded import lay_out


def rdma(device: str, address: str, *ports: str, layer: str = "Ethernet") -> str:
    """An RDMA device and its ports."""
    folder = f"sys/class/infiniband/{device}"
    files = [f"{folder}/ports/{number}/link_layer: {layer}" for number in ports]
    return "\n".join([f"{folder}/device -> ../../../devices/{address}", f"sys/devices/{address}/class: 0x0200", *files])


def net(interface: str, address: str, **files: str) -> str:
    """An interface; `master`: its bond."""
    folder = f"sys/class/net/{interface}"
    told = {"type": "1", "speed": "100000"} | files
    bond = told.pop("master", "")
    lines = [f"{folder}/{file}: {text}" for file, text in told.items()]
    lines += [f"{folder}/master -> ../{bond}", f"sys/class/net/{bond}/type: 1"] if bond else []
    return "\n".join(
        [f"{folder}/device -> ../../../devices/{address}", f"sys/devices/{address}/net/{interface}/x: 1", *lines]
    )


A, B = "0000:19:00.0", "0000:19:00.1"
SITES = {  # what is there -> which interface is which RDMA port
    "one port": ([rdma("mlx5_0", A, "1"), net("eth2", A)], {"eth2": "mlx5_0/1"}),
    "one port, which its driver counts otherwise": (
        [rdma("bnxt_re1", A, "1"), net("eth2", A, dev_port="1")], {"eth2": "bnxt_re1/1"}
    ),
    "two functions": (
        [rdma("mlx5_0", A, "1"), rdma("mlx5_1", B, "1"), net("eth2", A), net("eth3", B)],
        {"eth2": "mlx5_0/1", "eth3": "mlx5_1/1"},
    ),
    "two ports of one function": (
        [rdma("mlx4_0", A, "1", "2"), net("eth3", A, dev_port="1"), net("eth2", A, dev_port="0")],
        {"eth2": "mlx4_0/1", "eth3": "mlx4_0/2"},
    ),
    "two ports of one function that nothing tells apart": (
        [rdma("mlx4_0", A, "1", "2"), net("eth2", A), net("eth3", A)], {}
    ),
    "two ports of one function with two fabrics": (
        [rdma("mlx4_0", A, "1", layer="InfiniBand"), "sys/class/infiniband/mlx4_0/ports/2/link_layer: Ethernet",
         net("ib0", A, type="32", dev_port="0"), net("eth2", A, dev_port="1")],
        {"ib0": "mlx4_0/1", "eth2": "mlx4_0/2"},
    ),
    "a partition of the fabric": (
        [rdma("mlx5_0", A, "1", layer="InfiniBand"), net("ib0", A, type="32", ifindex="4", iflink="4"),
         net("ib0.8001", A, type="32", ifindex="7", iflink="4"), net("storage", A, type="32", ifindex="8", iflink="4")],
        {"ib0": "mlx5_0/1"},
    ),
    "a bond of two ports with one RDMA device": (
        [rdma("rocep25s0", A, "1"), net("eth2", A, master="bond0"), net("eth3", B, master="bond0")], {}
    ),
    "a bond of two ports with an RDMA device each": (
        [rdma("mlx5_0", A, "1"), rdma("mlx5_1", B, "1"), net("eth2", A, master="bond0"),
         net("eth3", B, master="bond0")],
        {"eth2": "mlx5_0/1", "eth3": "mlx5_1/1"},
    ),
    "a bond's device": ([rdma("mlx5_bond_0", A, "1"), net("eth2", A)], {}),
    "representors of guests": (
        [rdma("mlx5_0", A, "1"), net("eth2", A, phys_port_name="p0"), net("eth9", A, phys_port_name="pf0vf1")],
        {"eth2": "mlx5_0/1"},
    ),
    "two RDMA devices at one address": ([rdma("mlx5_0", A, "1"), rdma("smi1", A, "1"), net("eth2", A)], {}),
    "an interface of the other fabric": ([rdma("mlx5_0", A, "1", layer="InfiniBand"), net("eth2", A)], {}),
    "two interfaces of one port": ([rdma("mlx5_0", A, "1"), net("eth2", A), net("eth3", A)], {}),
}  # fmt: skip


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Tree, dict[str, str]]:
    listing, twins = SITES[request.param]
    return Tree(lay_out("\n".join(listing), tmp_path)), twins


def test_interfaces_and_their_rdma_ports(site: tuple[Tree, dict[str, str]]) -> None:
    tree, twins = site
    assert adapters(tree).twins == twins
    asked = {interface: port for interface, port, _ in look_around(tree)}
    assert {one: port for one, port in asked.items() if "/" in port} == twins


def test_identities_join_the_same_and_nothing_else(site: tuple[Tree, dict[str, str]]) -> None:
    tree, twins = site
    found = adapters(tree)
    names = PortNames(replace(one, host="h") for one in identities(tree, found))
    for interface in found.interfaces:
        assert names.canonical(f"port:h/{interface}") == f"port:h/{twins.get(interface, interface)}"
    for address in set(found.interfaces.values()):
        at = [twins.get(one, one) for one, pci in found.interfaces.items() if pci == address]
        stands = names.canonical(f"optic:h/{address}").removeprefix("optic:h/")
        assert stands == address or (stands in at and (len(at) == 1 or stands in twins.values()))


def test_a_guest_s_device_is_no_port(tmp_path: Path) -> None:
    lay_out("\n".join([rdma("mlx5_0", A, "1"), net("eth2", A), f"sys/devices/{A}/physfn -> ../{B}"]), tmp_path)
    found = adapters(Tree(tmp_path))
    assert (found.twins, found.ports, found.interfaces) == ({}, {}, {})
