"""Switches among the owners of cabled ports: by the hosts that are known, else by how many links they have."""

from sickbay.messages import Edge, Relation
from sickbay.owners import switches_among
from sickbay.topology import Topology


def cable(one: str, other: str) -> Edge:
    return Edge(child=f"port:{one}", parent=f"port:{other}", relation=Relation.LINK_END, source="inventory")


def switches(edges: list[Edge], hosts: tuple[str, ...] = ()) -> set[str]:
    return {edge.parent for edge in switches_among(edges, hosts)}


def test_what_a_known_host_is_cabled_to_is_a_switch() -> None:
    edges = [cable("h1/eth2", "leaf/1"), cable("h2/eth2", "leaf/2")]
    assert switches(edges) == set()
    assert switches(edges, ("h1",)) == {"switch:leaf"}
    assert switches([*edges, Edge(child="host:h2", parent="rack:r1", relation=Relation.PART_OF)]) == {"switch:leaf"}
    assert switches([cable("h1/eth2", "h2/eth2")], ("h1", "h2")) == set()


def test_of_unknown_owners_the_one_with_many_links_to_those_with_few() -> None:
    rails = [cable(f"h{host}/eth{rail}", f"leaf{rail}/{host}") for host in range(8) for rail in range(2)]
    assert switches(rails) == {"switch:leaf0", "switch:leaf1"}
    square = [cable(f"a{one}/{other}", f"b{other}/{one}") for one in range(4) for other in range(4)]
    assert switches(square) == set(), "nothing tells one side from the other"


def test_one_edge_is_enough_for_all_ports_and_is_not_told_again() -> None:
    edges = [cable(f"h{host}/eth2", f"leaf/{host}") for host in range(4)]
    told = [*edges, *switches_among(edges, ("h0",))]
    assert Topology(told).at().hosts_under("switch:leaf") == ("h0", "h1", "h2", "h3")
    assert switches(told, ("h0",)) == set()


def test_what_has_more_links_than_any_host_and_to_switches_alone_is_above_them() -> None:
    edges = [cable(f"h{host}/eth2", f"leaf{host % 3}/{host}") for host in range(9)]
    edges += [cable(f"leaf{leaf}/40", f"spine/{leaf}") for leaf in range(3)]
    assert switches(edges, ("h0", "h1", "h2")) == {"switch:leaf0", "switch:leaf1", "switch:leaf2", "switch:spine"}
