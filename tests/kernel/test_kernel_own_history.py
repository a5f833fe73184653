"""Slope and change of a component's own windows, against naive twins."""

import math
from statistics import linear_regression, median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sickbay.own_history import change, newest_last, slope

value = st.one_of(st.just(math.nan), st.integers(-1000, 1000).map(float))
histories = st.integers(0, 9).flatmap(
    lambda windows: st.lists(st.lists(value, min_size=windows, max_size=windows), max_size=6).map(
        lambda rows: np.array(rows, np.float32).reshape(len(rows), windows).T
    )
)


@pytest.mark.slow
@given(histories, st.integers(1, 5))
def test_slopes_equal_the_naive_line(block: NDArray[np.float32], gap: int) -> None:
    end_ms = np.array([1_790_000_000_000 + at * 10_000 + (at > 2) * gap * 10_000 for at in range(len(block))], np.int64)
    for found, own in zip(slope(block, end_ms), block.T.tolist(), strict=True):
        seconds = ((end_ms - end_ms.min(initial=1_790_000_000_000)) / 1000).tolist()
        told = [(t, x) for t, x in zip(seconds, own, strict=True) if not math.isnan(x)]
        expected = linear_regression(*zip(*told, strict=True)).slope if len(told) > 1 else math.nan
        assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.slow
@given(histories, st.sampled_from([0.0, 2.0]), st.integers(1, 4))
def test_changes_equal_their_naive_twin(block: NDArray[np.float32], floor: float, least: int) -> None:
    found = change(block, floor=floor, least=least)
    for at, own in enumerate(block.T.tolist()):
        earlier = [x for x in own[:-1] if not math.isnan(x)]
        assert found.earlier[at] == len(earlier)
        difference = deviation = math.nan
        if len(earlier) >= least and not math.isnan(own[-1]):
            difference = own[-1] - median(earlier)
            scale = max(1.4826 * median(abs(x - median(earlier)) for x in earlier), floor)
            far = difference / scale if scale else math.copysign(math.inf, difference)
            deviation = far if difference else 0.0
        assert found.difference[at] == pytest.approx(difference, nan_ok=True)
        assert found.deviation[at] == pytest.approx(deviation, nan_ok=True)


def test_a_sudden_drop_after_a_steady_run() -> None:
    clock = np.array([[1980.0], [1975], [1985], [1980], [1410]])
    assert change(clock).difference.tolist() == [-570]
    assert change(clock, floor=100).deviation.tolist() == [-5.7]
    assert math.isnan(change(clock[2:]).difference[0])  # two windows are no history


def test_who_fell_silent_is_judged_by_its_last_word() -> None:
    block = np.array([[1.0, math.nan], [2.0, math.nan], [math.nan, math.nan]])
    np.testing.assert_array_equal(newest_last(block), [[1.0, math.nan], [math.nan, math.nan], [2.0, math.nan]])
    assert newest_last(np.empty((0, 3))).shape == (0, 3)


def test_a_steady_climb_per_second() -> None:
    ends = np.arange(6, dtype=np.int64) * 10_000
    heat = np.array([[60.0 + 0.2 * second] for second in range(0, 60, 10)])
    heat[3] = math.nan
    assert slope(heat, ends)[0] == pytest.approx(0.2)
    assert np.isnan(slope(heat[:1], ends[:1])).all()
