"""What a fault can hit: parts by kind, domains of scale-up links, racks, power, storage."""

from collections import Counter

import numpy as np
import pytest

from sickbay.components import Kind, ends_of, kind_of, name
from sickbay.messages import Relation
from sickbay.topology import Topology
from simulator.parts.cables import LEAF, optic, serial
from simulator.parts.cluster import Card, Plan, build
from simulator.parts.racks import domains, switch_racks
from simulator.parts.targets import KINDS, link_of, parts_of, site_edges, some, spare_hosts

PLANNED = build(hosts=8, layout="rail", per_host=1, plan=Plan(tiers=3, radix=4, unit=2))
RACK = build(hosts=36, models=["gb200"], layout="rail", plan=Plan(unit=18, radix=64))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_part_is_there_once_each(kind: str) -> None:
    found = parts_of(RACK if kind == "tray" else PLANNED, kind)
    assert found
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"nic", "link", "trunk"}))
def test_every_part_is_in_the_topology(kind: str) -> None:
    cluster = RACK if kind == "tray" else PLANNED
    named = {end for edge in site_edges(cluster) for end in (edge.child, edge.parent)}
    bare = {"host": Kind.HOST, "rack": Kind.RACK}
    for found in parts_of(cluster, kind):
        if isinstance(found, Card):
            assert found.component in named
        elif kind in ("optic", "switch_optic"):
            assert found.replace("optic:", "port:", 1) in named
        else:
            assert (found if ":" in found else name(bare.get(kind, Kind.SWITCH), found)) in named


def test_links_and_trunks_are_named_after_their_ends() -> None:
    ports = {*parts_of(PLANNED, "port"), *parts_of(PLANNED, "switch_port")}
    for component in parts_of(PLANNED, "link"):
        assert isinstance(component, str)
        assert set(ends_of(component)) < ports
    linked = {frozenset((edge.child, edge.parent)) for edge in PLANNED.edges() if edge.relation is Relation.LINK_END}
    assert {frozenset(ends_of(str(one))) for one in parts_of(PLANNED, "trunk")} < linked


def test_parts_of_one_host_or_leaf() -> None:
    cluster = build()
    host = cluster.hosts[3]
    assert parts_of(cluster, "card", of=host) == cluster.of(host)
    assert parts_of(cluster, "link", of=cluster.leaves[0]) == tuple(map(link_of, cluster.under(cluster.leaves[0])))
    with pytest.raises(ValueError, match="every card"):
        parts_of(cluster, "storage", of=host)
    with pytest.raises(KeyError, match="one of card, host"):
        parts_of(cluster, "cable")


def test_parts_are_drawn_without_repetition_and_by_the_rng_alone() -> None:
    drawn = some(np.random.default_rng(3), PLANNED, "port", 5)
    assert len(set(drawn)) == 5
    assert drawn == some(np.random.default_rng(3), PLANNED, "port", 5)
    assert len(some(np.random.default_rng(3), PLANNED, "spine", 999)) == len(parts_of(PLANNED, "spine"))


def test_the_idle_part_is_what_no_job_uses() -> None:
    assert spare_hosts(PLANNED, PLANNED.hosts[:-2]) == PLANNED.hosts[-2:]


def test_a_board_is_a_domain_of_its_host() -> None:
    cluster = build(hosts=3)
    assert [one.component for one in domains(cluster)] == [f"fabric:{host}/board" for host in cluster.hosts]
    assert all(len(one.cards) == 8 and not one.trays for one in domains(cluster))


def test_a_rack_of_72_cards_hangs_on_nine_trays() -> None:
    first, second = domains(RACK)
    assert (len(first.cards), len(first.hosts), len(first.trays)) == (72, 18, 9)
    assert {RACK.racks[RACK.host_index[host]] for host in first.hosts} == {RACK.racks[0]}
    assert set(first.trays).isdisjoint(second.trays)
    view = Topology(site_edges(RACK)).at()
    tray = name(Kind.SWITCH, first.trays[0])
    assert set(view.children(tray, Relation.ATTACHED_TO)) == {card.component for card in first.cards}
    assert first.component in view.parents(first.cards[0].component, Relation.PART_OF)


def test_a_super_node_spans_48_hosts_and_a_started_one_is_smaller() -> None:
    cluster = build(hosts=50, models=["ascend_910c"])
    assert [(len(one.cards), len(one.trays)) for one in domains(cluster)] == [(384, 7), (16, 7)]


def test_domains_end_where_the_model_changes() -> None:
    cluster = build(hosts=60, models={"ascend_910c": 10, "h100": 50})
    assert [len(one.cards) for one in domains(cluster)] == [80] + [8] * 50


def test_every_host_is_powered_cooled_managed_and_mounts_storage() -> None:
    told: Counter[tuple[str, Relation]] = Counter((edge.child, edge.relation) for edge in site_edges(PLANNED, feeds=2))
    for host in PLANNED.hosts:
        child = name(Kind.HOST, host)
        assert told[child, Relation.POWERED_BY] == 2
        assert told[child, Relation.COOLED_BY] == told[child, Relation.MANAGED_BY] == 1
        assert told[child, Relation.MOUNTS] == len(parts_of(PLANNED, "storage"))


def test_every_switch_of_the_network_stands_in_a_rack() -> None:
    assert PLANNED.switches is not None
    standing = [switch for switches in switch_racks(PLANNED).values() for switch in switches]
    assert tuple(standing) == PLANNED.switches.names


def test_ports_of_one_module_share_its_serial() -> None:
    cluster = build(hosts=4, breakout=2)
    own = Counter(serial(cluster, card, LEAF) for card in cluster.cards)
    assert set(own.values()) == {2}
    shared = [edge for edge in site_edges(cluster) if kind_of(edge.child) is Kind.OPTIC]
    assert len(shared) == len(cluster.cards) // 2
    assert {edge.child for edge in shared} < {optic(card, LEAF) for card in cluster.cards}
