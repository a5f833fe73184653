"""Clos fabrics of two and three tiers: degrees, ways and routes."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.messages import Relation
from sickbay.routes import routes_among
from simulator.parts.cluster import Cluster, Plan, build
from simulator.parts.fabrics import Switches
from simulator.parts.uplinks import uplinks


@st.composite
def switches(draw: st.DrawFn) -> Switches:
    """Fabrics that their radix allows."""
    tiers, radix = draw(st.sampled_from([2, 3])), draw(st.sampled_from([8, 16, 32]))
    share = draw(st.sampled_from([0.5, 1.0]))
    down = draw(st.integers(2, radix // 2))
    up = max(1, round(down * share))
    most = up * radix // up if tiers == 2 else radix * 2
    leaves = tuple(f"leaf-x-{number:02d}" for number in range(draw(st.integers(1, min(most, 40)))))
    return Switches(
        Plan(tiers=tiers, radix=radix, uplinks=share),
        draw(st.sampled_from(["ethernet", "infiniband"])),
        "x",
        leaves,
        down,
    )


def feasible(one: Switches) -> bool:
    """Whether the radix suffices: what does not fit is refused, see below."""
    try:
        return bool(one.trunks) or True
    except ValueError:
        return False


@settings(max_examples=40, deadline=None)
@given(switches().filter(feasible))
def test_no_port_is_used_twice_and_no_switch_has_more_than_its_radix(one: Switches) -> None:
    ends = [end for trunk in one.trunks for end in trunk.ends]
    assert len(set(ends)) == len(ends)
    links = Counter(switch for trunk in one.trunks for switch in (trunk.lower, trunk.upper))
    for leaf in one.leaves:
        links[leaf] += one.down
    assert max(links.values()) <= one.plan.radix
    assert set(links) == set(one.names)


@settings(max_examples=40, deadline=None)
@given(switches().filter(feasible))
def test_a_leaf_reaches_every_spine_of_its_pod_and_every_leaf(one: Switches) -> None:
    above: defaultdict[str, set[str]] = defaultdict(set)
    for trunk in one.trunks:
        above[trunk.lower].add(trunk.upper)
    for pod, leaves in enumerate(one.pods):
        assert all(above[leaf] == set(one.spines[pod]) for leaf in leaves)
    ways = {leaf: {*above[leaf], *(core for spine in above[leaf] for core in above[spine])} for leaf in one.leaves}
    first = ways[one.leaves[0]]
    assert all(first & other for other in ways.values())


@settings(max_examples=25, deadline=None)
@given(switches().filter(feasible))
def test_links_are_shared_out_evenly(one: Switches) -> None:
    for pod, spines in enumerate(one.spines):
        loads = [sum(trunk.upper == spine for trunk in one.lower_trunks) for spine in spines]
        assert max(loads) - min(loads) <= 1, pod


def test_the_table_of_published_sizes() -> None:
    leaves = tuple(f"leaf-{number}" for number in range(64))
    two = Switches(Plan(radix=64), "ethernet", "x", leaves, 32)
    assert (len(two.spines[0]), len(two.trunks)) == (32, 2048)
    leaves = tuple(f"leaf-{number}" for number in range(320))
    three = Switches(Plan(tiers=3, radix=64), "ethernet", "x", leaves, 32)
    assert (sum(map(len, three.spines)), sum(map(len, three.cores)), len(three.trunks)) == (320, 160, 20_480)


def test_what_the_radix_does_not_allow_is_refused() -> None:
    with pytest.raises(ValueError, match="more than two tiers"):
        _ = Switches(Plan(radix=4), "ethernet", "x", tuple(map(str, range(5))), 2).trunks
    with pytest.raises(ValueError, match="more than three tiers"):
        _ = Switches(Plan(tiers=3, radix=4), "ethernet", "x", tuple(map(str, range(9))), 2).trunks
    with pytest.raises(ValueError, match="has not 7 to hosts"):
        _ = Switches(Plan(radix=8), "ethernet", "x", ("a",), 7).trunks
    with pytest.raises(ValueError, match="two or three tiers"):
        Plan(tiers=4)


def small(tiers: int) -> Cluster:
    """Two pods of two leaves where there are three tiers."""
    return build(hosts=8, per_host=1, layout="rail", plan=Plan(tiers=tiers, radix=4, unit=2))


def test_routes_are_those_that_the_links_tell() -> None:
    for cluster in (build(hosts=8, layout="rail", plan=Plan(unit=4, radix=64)), small(3)):
        edges = cluster.edges()
        mine = {(edge.child, edge.parent) for edge in edges if edge.relation is Relation.ROUTED_OVER}
        links = [edge for edge in edges if edge.relation is not Relation.ROUTED_OVER]
        assert mine == {(edge.child, edge.parent) for edge in routes_among(links)}


def test_the_default_cluster_has_nothing_above_its_leaves() -> None:
    relations = Counter(edge.relation for edge in build().edges())
    assert build().switches is None
    assert Relation.ROUTED_OVER not in relations


def test_the_measured_uplinks_are_those_of_the_plan() -> None:
    cluster = small(3)
    assert cluster.switches is not None
    assert [one.ends for one in uplinks(cluster)] == [one.ends for one in cluster.switches.lower_trunks]


def test_second_ports_hang_on_twins_of_their_leaves() -> None:
    cluster = build(hosts=4, plan=Plan(ports=2))
    assert all(card.second_leaf == card.leaf.replace("leaf-", "twin-") for card in cluster.cards)
    assert {card.second_port for card in cluster.cards}.isdisjoint(cluster.ports)
