"""What is routed over what: leaves over spines, spines over cores, and silence where the tiers cannot be told."""

from collections.abc import Iterable

from sickbay.messages import Edge, Relation
from sickbay.routes import routes_among
from sickbay.topology import Topology


def cable(one: str, other: str, from_ms: int | None = None, to_ms: int | None = None) -> Edge:
    return Edge(
        child=f"port:{one}", parent=f"port:{other}", relation=Relation.LINK_END,
        from_ms=from_ms, to_ms=to_ms, source="lldp",
    )  # fmt: skip


def switch(*names: str) -> list[Edge]:
    return [Edge(child=f"port:{one}/0", parent=f"switch:{one}", relation=Relation.PART_OF) for one in names]


def pod(name: str, spines: Iterable[str]) -> list[Edge]:
    """Two leaves of two hosts each, linked to all of the spines."""
    leaves = [f"{name}leaf{number}" for number in range(2)]
    edges = switch(*leaves, *spines)
    edges += [cable(f"{leaf}h{host}/eth0", f"{leaf}/{host}") for leaf in leaves for host in range(2)]
    return edges + [cable(f"{leaf}/{spine}", f"{spine}/{leaf}") for leaf in leaves for spine in spines]


def routes(edges: list[Edge], hosts: Iterable[str] = ("aleaf0h0",)) -> set[tuple[str, str]]:
    told = list(routes_among(edges, hosts))
    assert all(edge.relation is Relation.ROUTED_OVER for edge in told)
    return {(edge.child.partition(":")[2], edge.parent.partition(":")[2]) for edge in told}


A = {(leaf, spine) for leaf in ("aleaf0", "aleaf1") for spine in ("s1", "s2")}


def test_leaves_are_routed_over_their_spines() -> None:
    assert routes(pod("a", ("s1", "s2"))) == A
    named = Edge(child="host:aleaf0h0", parent="rack:r1", relation=Relation.PART_OF)
    assert routes([*pod("a", ("s1", "s2")), named], ()) == A


def test_without_a_known_host_nothing_is_told() -> None:
    assert routes(pod("a", ("s1", "s2")), ()) == set()
    assert routes(pod("a", ("s1", "s2")), ("elsewhere",)) == set()


def test_cores_are_above_spines_of_several_pods() -> None:
    edges = [*pod("a", ("s1", "s2")), *pod("b", ("s3", "s4")), *switch("core")]
    edges += [cable(f"s{number}/9", f"core/{number}") for number in range(1, 5)]
    b = {(leaf, spine) for leaf in ("bleaf0", "bleaf1") for spine in ("s3", "s4")}
    assert routes(edges) == A | b | {(f"s{number}", "core") for number in range(1, 5)}


def test_a_leaf_without_hosts_is_no_core_and_equals_are_not_told() -> None:
    edges = [*pod("a", ("s1", "s2")), *switch("spare")]
    edges += [cable("s1/9", "spare/1"), cable("s2/9", "spare/2"), cable("aleaf0/mlag", "aleaf1/mlag")]
    assert routes(edges) == A


def test_what_may_be_a_host_behind_a_spine_makes_it_a_leaf() -> None:
    assert routes([*pod("a", ("s1", "s2")), cable("router/1", "s1/9")]) == {one for one in A if one[1] == "s2"}


def test_chips_of_a_chassis_are_switches_of_their_own() -> None:
    edges = [cable("h1/eth0", "big/L1/1"), cable("big/L1/2", "big/S1/1")]
    edges += [
        Edge(child=f"port:big/{port}", parent=f"switch:big/{port[:2]}", relation=Relation.PART_OF)
        for port in ("L1/1", "L1/2", "S1/1")
    ]
    assert routes(edges, ("h1",)) == {("big/L1", "big/S1")}


def test_a_route_ends_with_its_last_link() -> None:
    edges = pod("a", ("s1",))
    twin = cable("aleaf0/twin", "s1/twin")
    gone = [cable("aleaf0/s1", "s1/aleaf0", to_ms=5) if edge.child == "port:aleaf0/s1" else edge for edge in edges]
    both = Topology([*edges, *routes_among([*gone, twin], ("aleaf0h0",))])
    assert both.at(9).parents("switch:aleaf0", Relation.ROUTED_OVER) == ("switch:s1",)
    told = [*routes_among(edges, ("aleaf0h0",)), *routes_among(gone, ("aleaf0h0",))]
    view = Topology([*edges, *told])
    assert view.at(4).parents("switch:aleaf0", Relation.ROUTED_OVER) == ("switch:s1",)
    assert view.at(5).parents("switch:aleaf0", Relation.ROUTED_OVER) == ()


def test_nothing_hangs_on_one_of_several_ways() -> None:
    edges = pod("a", ("s1", "s2"))
    view = Topology([*edges, *routes_among(edges, ("aleaf0h0",))]).at()
    assert view.hosts_under("switch:s1") == ()
    assert view.ancestors("host:aleaf0h0") == ("switch:aleaf0",)
    assert view.children("switch:s1", Relation.ROUTED_OVER) == ("switch:aleaf0", "switch:aleaf1")
