"""Clusters as built: names, cables and joins of every part, whatever the shape."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.components import kind_of, part, parts_of
from sickbay.messages import Relation, encode
from sickbay.topology import Topology
from simulator.parts.cluster import Cluster, Plan, build
from simulator.parts.models import models
from simulator.parts.targets import site_edges

SHAPES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 1000),
        "hosts": st.integers(1, 9),
        "per_host": st.sampled_from([1, 2, 8, 16]),
        "layout": st.sampled_from(["leaf", "rail"]),
        "hosts_per_leaf": st.integers(1, 4),
        "breakout": st.sampled_from([1, 2, 4]),
        "fabric": st.sampled_from(["ethernet", "infiniband"]),
        "naming": st.sampled_from(["rack", "flat", "dotted", "unit"]),
        "hosts_per_rack": st.integers(0, 5),
        "plan": st.sampled_from([None, Plan(unit=2, radix=256), Plan(tiers=3, unit=3, radix=128, ports=2)]),
    }
)


def told(cluster: Cluster) -> list[bytes]:
    """All that a cluster tells of itself."""
    return [*map(encode, cluster.edges()), *map(encode, cluster.identities())]


@settings(max_examples=15, deadline=None)
@given(SHAPES)
def test_every_port_is_used_once_and_every_cable_has_two_ends(shape: dict[str, Any]) -> None:
    cluster = build(**shape)
    links = [edge for edge in cluster.edges() if edge.relation is Relation.LINK_END]
    ends = [end for edge in links for end in (edge.child, edge.parent)]
    assert len(set(ends)) == len(ends)
    owned = {edge.child for edge in cluster.edges() if edge.relation is Relation.PART_OF}
    assert set(ends) <= owned
    twice = 2 if shape["plan"] and shape["plan"].ports == 2 else 1
    trunks = len(cluster.switches.trunks) if cluster.switches else 0
    assert len(links) == twice * len(cluster.cards) + trunks


@settings(max_examples=10, deadline=None)
@given(SHAPES)
def test_the_topology_is_accepted_whole_and_all_names_are_valid(shape: dict[str, Any]) -> None:
    edges = list(site_edges(build(**shape), feeds=2))
    assert Topology(edges).conflicts == ()
    for component in {end for edge in edges for end in (edge.child, edge.parent)}:
        assert kind_of(component)
        assert all(piece and part(piece) == piece for piece in parts_of(component))


@settings(max_examples=15, deadline=None)
@given(SHAPES)
def test_the_same_arguments_give_the_same_cluster(shape: dict[str, Any]) -> None:
    assert told(build(**shape)) == told(build(**shape))


@settings(max_examples=10, deadline=None)
@given(SHAPES)
def test_renaming_hosts_changes_their_names_only(shape: dict[str, Any]) -> None:
    cluster = build(**shape)
    names = [f"renamed{row:03d}" for row in range(shape["hosts"])]
    other = build(**{**shape, "names": names})
    new = dict(zip(cluster.hosts, names, strict=True))
    word = re.compile("|".join(map(re.escape, sorted(new, key=len, reverse=True))))
    renamed = [word.sub(lambda match: new[match[0]], one.decode()) for one in told(cluster)]
    assert renamed == [one.decode() for one in told(other)]
    assert other.racks == cluster.racks


@settings(max_examples=15, deadline=None)
@given(SHAPES)
def test_identities_join_each_card_by_address_serial_and_index(shape: dict[str, Any]) -> None:
    cluster = build(**shape)
    cards = [one for one in cluster.identities() if one.kind == "accelerator"]
    assert [f"accelerator:{one.host}/{one.pci}" for one in cards] == cluster.components
    for names in ([one.uuid for one in cards], [one.serial for one in cards], [(one.host, one.index) for one in cards]):
        assert len(set(names)) == len(names)
    assert [cluster.row(component) for component in cluster.components] == list(range(len(cluster.cards)))


def test_an_unknown_component_has_no_row() -> None:
    with pytest.raises(ValueError, match="accelerator:nobody"):
        build().row("accelerator:nobody/0000:18:00")


def test_hosts_of_one_leaf_hang_on_it_and_rails_hang_on_a_leaf_each() -> None:
    plain, rails = build(hosts=4), build(hosts=4, layout="rail")
    assert [len(plain.under(leaf)) for leaf in plain.leaves] == [16, 16]
    assert all({card.index for card in rails.under(leaf)} == {row} for row, leaf in enumerate(rails.leaves))


def test_rails_of_a_plan_end_with_their_unit() -> None:
    cluster = build(hosts=10, layout="rail", plan=Plan(unit=4))
    assert len(cluster.leaves) == 3 * 8
    for leaf in cluster.leaves:
        rows = {cluster.host_index[card.host] for card in cluster.under(leaf)}
        assert len({row // 4 for row in rows}) == 1
        assert len({card.index for card in cluster.under(leaf)}) == 1


def test_a_plan_may_be_told_as_a_table() -> None:
    assert build(plan={"tiers": 3, "radix": 32}).plan == Plan(tiers=3, radix=32)


def test_models_share_a_cluster_in_the_order_told() -> None:
    cluster = build(hosts=5, models={"h100": 2, "ascend_910b": 3})
    assert [cluster.of(host)[0].model for host in cluster.hosts] == ["h100"] * 2 + ["ascend_910b"] * 3
    assert cluster.model_of.tolist() == [0] * 16 + [1] * 24
    assert {one.model for one in cluster.identities() if one.kind == "accelerator"} == {
        models()["h100"].title, models()["ascend_910b"].title
    }  # fmt: skip


def test_models_of_different_boards_do_not_share_a_cluster() -> None:
    with pytest.raises(ValueError, match="gb200 has 4 cards"):
        build(hosts=4, models=["h100", "gb200"])


def test_an_unknown_model_is_told_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="h100"):
        build(models=["h101"])


def test_names_follow_the_scheme() -> None:
    assert all(host.startswith(rack) for host, rack in zip(build().hosts, build().racks, strict=True))
    assert build(naming="flat").hosts[0].endswith("00001")
    assert build(naming="dotted").hosts[1].startswith("node-0002.")
    assert build(naming="unit", plan=Plan(unit=3)).hosts[3].endswith("-su02-n001")


@pytest.mark.slow
def test_ten_thousand_hosts_with_all_edges() -> None:
    cluster = build(hosts=12_500, layout="rail", plan=Plan(tiers=3, radix=128, unit=64))
    assert len(cluster.cards) == 100_000
    assert cluster.row(cluster.components[-1]) == 99_999
    count = sum(edge.relation is Relation.LINK_END for edge in cluster.told_edges())
    assert cluster.switches is not None
    assert count == 100_000 + len(cluster.switches.trunks)
    load = np.array([len(cluster.under(leaf)) for leaf in cluster.leaves])
    assert load.max() == 64
