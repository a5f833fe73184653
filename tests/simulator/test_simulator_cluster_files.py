"""A planned fabric as its tools tell it: what the collectors read of it is the plan."""

import pytest

from collectors.formats import ibnetdiscover
from collectors.formats.reading import Tally
from sickbay.components import Name
from sickbay.messages import Edge, Relation
from simulator.output.cable_files import cabling, sweep, switches
from simulator.parts.cluster import Cluster, Plan, build


def trunks(cluster: Cluster) -> set[frozenset[Name]]:
    """Ports at both ends of all links between switches."""
    assert cluster.switches is not None
    return {frozenset(one.ends) for one in cluster.switches.trunks}


@pytest.mark.parametrize("tiers", [2, 3])
def test_a_sweep_of_a_planned_fabric_is_read_as_the_plan(tiers: int) -> None:
    plan = Plan(tiers=tiers, radix=8, unit=2)
    cluster = build(hosts=8, per_host=2, layout="rail", fabric="infiniband", plan=plan)
    text = sweep(cluster, 1_700_000_000_000, ())
    told = [one.record for one in ibnetdiscover.read([text.encode()], Tally())]
    links = {
        frozenset((one.child, one.parent))
        for one in told
        if isinstance(one, Edge) and one.relation is Relation.LINK_END
    }
    own = {frozenset((card.port, card.switch_port)) for card in cluster.cards}
    assert links == own | trunks(cluster)


def test_a_leaf_that_a_sweep_missed_is_in_no_link_of_it() -> None:
    cluster = build(hosts=4, per_host=2, layout="rail", fabric="infiniband", plan=Plan(radix=8, unit=2))
    text = sweep(cluster, 1_700_000_000_000, {cluster.leaves[1]})
    assert cluster.leaves[1] not in text
    assert cluster.leaves[0] in text


def test_the_lists_of_cables_and_switches_have_all_tiers() -> None:
    cluster = build(hosts=8, per_host=1, layout="rail", plan=Plan(tiers=3, radix=4, unit=2))
    assert cluster.switches is not None
    rows = cabling(cluster).splitlines()[1:]
    assert len(set(rows)) == len(rows) == len(cluster.cards) + len(cluster.switches.trunks)
    assert {row.partition(",")[0] for row in switches(cluster).splitlines()[1:]} == set(cluster.switches.names)
