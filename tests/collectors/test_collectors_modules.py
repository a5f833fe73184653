"""Modules that serve several ports, and sweeps that saw a part of the fabric."""

from collectors.formats.reading import Reading
from collectors.inputs.gather import Gathered
from collectors.inputs.modules import shared_modules
from collectors.inputs.sweeps import partial_sweeps
from sickbay.messages import Edge, Identity, Relation


def module(host: str, port: str, serial: str) -> Identity:
    return Identity(host=host, kind="optic", name=port, serial=serial)


def test_ports_of_one_device_with_one_serial_share_a_module() -> None:
    told = [module("leaf1", "Ethernet0", "INL0001"), module("leaf1", "Ethernet4", "INL0001")]
    edges = list(shared_modules([*told, told[0], module("leaf1", "Ethernet8", "INL0002")]))
    assert [(edge.child, edge.parent) for edge in edges] == [
        ("port:leaf1/Ethernet0", "optic:leaf1/INL0001"), ("port:leaf1/Ethernet4", "optic:leaf1/INL0001"),
    ]  # fmt: skip


def test_a_cable_with_fixed_ends_and_serials_that_are_none_share_nothing() -> None:
    both_ends = [module("h1", "eth0", "AOC00077"), module("leaf1", "Ethernet0", "AOC00077")]
    blanks = [module("leaf1", f"Ethernet{port}", serial) for port in range(40) for serial in ("N/A", "00000000", "1")]
    many = [module("leaf2", f"Ethernet{port}", "SAMPLE1") for port in range(40)]
    nameless = [
        module("leaf1", "", "INL0001"),
        module("?", "Ethernet0", "INL0009"),
        module("?", "Ethernet4", "INL0009"),
    ]
    assert list(shared_modules([*both_ends, *blanks, *many, *nameless])) == []


def sweep(path: str, links: range) -> Gathered:
    edges = [Edge(child=f"port:h{n}/mlx5_0/1", parent=f"port:leaf/{n}", relation=Relation.LINK_END) for n in links]
    return Gathered(path, "ibnetdiscover", [Reading(edge) for edge in edges])


def test_a_sweep_that_is_a_part_of_another_is_told() -> None:
    found = list(partial_sweeps([sweep("full", range(40)), sweep("half", range(20)), sweep("again", range(40))]))
    assert [(one.path, one.kind, one.attributes) for one in found] == [
        ("half", "monitor.partial_sweep", {"links": "20", "of": "40"})
    ]


def test_other_fabrics_and_days_work_are_no_partial_sweeps() -> None:
    assert list(partial_sweeps([sweep("a", range(40)), sweep("b", range(50, 60)), sweep("c", range(38))])) == []
    assert list(partial_sweeps([])) == []
