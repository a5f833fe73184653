"""Lanes of a module by their names: what is proof, and what a shared module means for its ports."""

import pytest

from collectors.inputs.lanes import lane_edges, lanes_among, module_of
from sickbay.messages import Edge, Relation
from sickbay.topology import Topology


@pytest.mark.parametrize(
    ("port", "module"),
    [
        ("swp1s0", "swp1"), ("etp12b", "etp12"), ("Ethernet1/1/2", "Ethernet1/1"), ("100GE1/0/1:1", "100GE1/0/1"),
        ("HundredGigE1/0/25:1", "HundredGigE1/0/25"), ("et-0/0/1:0", "et-0/0/1"),
        ("Ethernet1/2", None), ("Ethernet4", None), ("swp1", None), ("mlx5_0/1", None), ("1/1/1", None),
    ],
)  # fmt: skip
def test_which_names_tell_a_lane(port: str, module: str | None) -> None:
    assert module_of(port) == module


def test_ports_and_optics_of_one_module_share_it() -> None:
    plain = Edge(child="port:leaf1/swp3", parent="switch:leaf1", relation=Relation.PART_OF)
    links = [
        Edge(child=f"port:h{lane}/n0", parent=f"port:leaf1/swp1s{lane}", relation=Relation.LINK_END) for lane in (0, 1)
    ]
    found = list(lanes_among([plain, *links]))
    assert {(one.child, one.parent) for one in found} == {
        (f"{kind}:leaf1/swp1s{lane}", "optic:leaf1/swp1") for kind in ("port", "optic") for lane in (0, 1)
    }
    topology = Topology([plain, *links, *found])
    view = topology.at()
    assert topology.conflicts == ()
    assert view.shared_parents(["port:leaf1/swp1s0", "port:leaf1/swp1s1"])[0] == ("optic:leaf1/swp1", 2)
    assert "switch:leaf1" in view.ancestors("port:leaf1/swp1s0")
    assert view.parents("port:h0/n0", Relation.ATTACHED_TO) == ("switch:leaf1",)
    assert view.hosts_under("switch:leaf1") == ("h0", "h1")


@pytest.mark.parametrize("component", ["port:?/swp1s0", "host:swp1s0", "optic:leaf1/swp1s0", "port:leaf1", "nonsense"])
def test_what_is_no_lane(component: str) -> None:
    assert list(lane_edges([component])) == []
