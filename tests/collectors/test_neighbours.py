"""Bounds of undated lines."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.inputs.neighbours import bounds


def test_an_undated_line_lies_between_its_dated_neighbours() -> None:
    assert bounds([10, None, 30, None]) == [(None, None), (10, 30), (None, None), (30, None)]
    assert bounds([None, 10]) == [(None, 10), (None, None)]


def test_where_dates_run_backwards_nothing_is_told() -> None:
    assert bounds([30, None, 10])[1] == (None, None)


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=30))
def test_it_agrees_with_its_naive_twin(dates: list[int | None]) -> None:
    told = bounds(dates)
    for place, at in enumerate(dates):
        low = max((one for one in dates[:place] if one is not None), default=None)
        high = min((one for one in dates[place + 1 :] if one is not None), default=None)
        crossed = low is not None and high is not None and low > high
        assert told[place] == ((None, None) if at is not None or crossed else (low, high))
