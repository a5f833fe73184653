"""Links between switches: whose they are, what they carry, and what is lost with one."""

import numpy as np
import pytest

from simulator.parts.cables import Strain
from simulator.parts.cluster import Cluster, build
from simulator.parts.fabrics import Plan
from simulator.parts.uplinks import BYTES, UPWARD, Uplinks, spines, uplinks, uplinks_of

PLAIN = build(seed=1, hosts=8, per_host=4)
PLANNED = build(seed=1, hosts=16, per_host=4, layout="rail", plan=Plan(tiers=2, radix=64, unit=8))
MOVED = 1e9  # bytes a second of each card


def carried(cluster: Cluster, strain: Strain, seconds: int = 5) -> np.ndarray:
    links = Uplinks(cluster, 3)
    for _ in range(seconds):
        links.tick(strain, np.full(len(cluster.cards), MOVED))
    told = links.ports(0, frozenset())
    return np.asarray(told.values["tx_bytes_total"])[::2]


@pytest.mark.parametrize("cluster", [PLAIN, PLANNED])
def test_each_port_of_a_switch_is_used_once(cluster: Cluster) -> None:
    own = [end for one in uplinks(cluster) for end in one.ends] + [card.switch_port for card in cluster.cards]
    assert len(own) == len(set(own))
    assert {one.spine for one in uplinks(cluster)} == set(spines(cluster))


@pytest.mark.parametrize("cluster", [PLAIN, PLANNED])
def test_the_uplinks_of_a_leaf_stand_at_their_rows_among_all(cluster: Cluster) -> None:
    every = uplinks(cluster)
    told = [pair for leaf in cluster.leaves for pair in uplinks_of(cluster, leaf)]
    assert told == list(enumerate(every))


@pytest.mark.parametrize("cluster", [PLAIN, PLANNED])
def test_half_of_what_the_cards_move_goes_up_whoever_carries_it(cluster: Cluster) -> None:
    whole = UPWARD * MOVED * 5 * len(cluster.cards)
    even, lost = carried(cluster, Strain()), carried(cluster, Strain(uplinks_down={1}))
    skewed = carried(cluster, Strain(uplink_weights={0: 4.0}))
    for one in (even, lost, skewed):
        assert one.sum() == pytest.approx(whole, rel=1e-6)
    assert lost[1] == 0
    assert skewed[0] > 2 * even[0]


def test_an_uplink_that_is_asked_for_more_than_it_has_drops_the_rest() -> None:
    links = Uplinks(PLAIN, 3)
    links.tick(Strain(), np.full(len(PLAIN.cards), 10 * BYTES))
    told = links.ports(0, frozenset())
    assert np.asarray(told.values["tx_bytes_total"]).max() == BYTES
    assert np.asarray(told.values["tx_discards_total"])[::2].min() > 0


def test_a_switch_that_tells_nothing_leaves_the_other_end_to_be_read() -> None:
    first = uplinks(PLAIN)[0]
    told = Uplinks(PLAIN, 3).ports(0, frozenset({first.leaf})).component
    assert first.ends[0] not in told
    assert first.ends[1] in told
