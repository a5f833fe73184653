"""Peers against a naive twin, and known answers."""

import math
import random
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streams.peers import NO_GROUP, Peers, compared, medians

value = st.one_of(st.just(math.nan), st.sampled_from([-0.0, 0.0, 1.0, -1.0]), st.floats(-1e6, 1e6, width=32))
members = st.lists(st.tuples(st.integers(NO_GROUP, 4), value, value), max_size=40)


def block(told: list[tuple[int, float, float]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    values = np.array([[row[1], row[2]] for row in told], np.float32).reshape(-1, 2).T
    return values, np.array([row[0] for row in told], np.int64)


def twin(column: list[float], group: list[int], of: int, floor: float, share: float) -> tuple[float, float, int]:
    """(deviation of member `of`, MAD of its group, its rank), by hand."""
    mates = [x for x, g in zip(column, group, strict=True) if g == group[of] and not math.isnan(x)]
    if group[of] == NO_GROUP or math.isnan(column[of]):
        return math.nan, math.nan, -1
    middle = median(mates)
    mad = median(abs(x - middle) for x in mates)
    scale, away = max(1.4826 * mad, floor, share * abs(middle)), column[of] - middle
    deviation = 0.0 if away == 0 else away / scale if scale else math.copysign(math.inf, away)
    return deviation, mad, sum(x < column[of] for x in mates)


@pytest.mark.slow
@settings(max_examples=150)
@given(members, st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 0.1]))
def test_peers_equal_their_naive_twin(told: list[tuple[int, float, float]], floor: float, share: float) -> None:
    values, group = block(told)
    found = compared(values, group, floor=floor, share=share)
    for at, column in enumerate(values.astype(float).tolist()):
        for of, own in enumerate(group.tolist()):
            deviation, mad, rank = twin(column, group.tolist(), of, floor, share)
            assert found.deviation[at, of] == pytest.approx(deviation, rel=1e-12, nan_ok=True)
            assert found.rank[at, of] == rank
            if rank >= 0:
                assert found.mad[at, own] == pytest.approx(mad, rel=1e-12)
        assert medians(values[at], group, found.median.shape[1]).tobytes() == found.median[at].tobytes()


def flat(found: Peers) -> list[bytes]:
    return [part.tobytes() for part in found]


@pytest.mark.slow
@given(members, st.randoms(use_true_random=False))
def test_the_order_of_members_changes_no_bit(told: list[tuple[int, float, float]], chance: random.Random) -> None:
    values, group = block(told)
    order = list(range(len(told)))
    chance.shuffle(order)
    shuffled = compared(values[:, order], group[order])
    found = compared(values, group)
    assert flat(Peers(*found[:3], found.deviation[:, order], found.rank[:, order])) == flat(shuffled)


def test_one_that_is_slow_stands_out_and_its_peers_do_not() -> None:
    clocks = np.array([[1980, 1975, 1980, 1410, 1985, math.nan, 1700]], np.float32)
    found = compared(clocks, np.array([7, 7, 7, 7, 7, 7, NO_GROUP]), floor=10.0)
    assert found.told[0, 7] == 5
    assert found.median[0, 7] == 1980
    assert found.mad[0, 7] == 5
    assert found.deviation[0, 3] == -57.0
    assert np.abs(found.deviation[0, [0, 1, 2, 4]]).max() <= 0.5
    assert found.rank[0].tolist() == [2, 1, 2, 0, 4, -1, -1]
    assert np.isnan(found.deviation[0, 5:]).all()


def test_without_spread_or_floor_what_differs_is_infinitely_far() -> None:
    found = compared(np.array([[5, 5, 5, 6, 4]], np.float32), np.zeros(5, np.int64))
    assert found.deviation[0].tolist() == [0, 0, 0, math.inf, -math.inf]


def test_floors_of_each_column() -> None:
    found = compared(np.array([[5, 5, 6], [5, 5, 6]], np.float32), np.zeros(3, np.int64), floor=np.array([1.0, 2.0]))
    assert found.deviation[:, 2].tolist() == [1.0, 0.5]


def test_nobody_and_nothing() -> None:
    assert compared(np.empty((2, 0), np.float32), np.empty(0, np.int64)).median.shape == (2, 0)
    assert compared(np.full((1, 2), math.nan, np.float32), np.zeros(2, np.int64)).told.tolist() == [[0]]
