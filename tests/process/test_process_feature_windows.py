"""Windows that come, are joined, slide and are forgotten: always what a plain sort of all of them would give."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sickbay.app import feature_windows
from sickbay.app.feature_windows import FeatureWindows, in_order

W = 10
Step = tuple[int, list[int], int, int]  # end, components, frontier behind the newest, windows kept


def window(end_ms: int, components: list[int], column: str) -> pl.DataFrame:
    names = [f"port:h{one}/eth0" for one in components]
    data = {"component": names, "end_ms": [end_ms] * len(names), column: [float(end_ms + one) for one in components]}
    schema = {"component": pl.String, "end_ms": pl.Int64, column: pl.Float64}
    return pl.DataFrame(data, schema=schema)


steps = st.lists(
    st.tuples(
        st.integers(1, 8),
        st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True),
        st.sampled_from([0, 1, 2, 99]),
        st.integers(2, 5),
    ),
    max_size=12,
)


@pytest.mark.slow
@given(steps, st.booleans())
def test_like_a_plain_sort_of_everything(told: list[Step], many: bool) -> None:
    few = feature_windows.FEW_ROWS
    feature_windows.FEW_ROWS = 0 if many else few
    try:
        found, all_of_them, end = FeatureWindows(), list[tuple[int, pl.DataFrame]](), 0
        for place, (ahead, components, behind, keep) in enumerate(told):
            end += W * (ahead > 1)
            frame = window(end, components, "ab"[place % 2])
            found.add("port", end, frame)
            all_of_them.append((end, frame))
            before, frontier = end - keep * W, end - behind * W
            all_of_them = [one for one in all_of_them if one[0] >= before]
            found.forget(before)
            due = [one for at, one in all_of_them if at <= frontier]
            wanted = pl.concat(due, how="diagonal_relaxed") if due else pl.DataFrame()
            given_out = found.until(frontier).get("port", pl.DataFrame())
            assert given_out.height == wanted.height
            if wanted.height:
                columns = [name for name in ("component", "end_ms", "a", "b") if name in wanted.columns]
                by = ["component", "end_ms", *columns[2:]]
                assert_frame_equal(given_out.select(columns).sort(by), wanted.select(columns).sort(by))
                keys = given_out.select("component", "end_ms")
                assert_frame_equal(keys, keys.sort("component", "end_ms"))
    finally:
        feature_windows.FEW_ROWS = few


def test_none_means_all_and_tables_are_apart() -> None:
    found = FeatureWindows()
    found.add("port", 10, window(10, [1, 2], "a"))
    found.add("optic", 20, window(20, [3], "a"))
    assert {table: frame.height for table, frame in found.until(None).items()} == {"port": 2, "optic": 1}
    assert {table: frame.height for table, frame in found.until(15).items()} == {"port": 2}
    assert found.until(0) == {}
    assert {table: frame.height for table, frame in found.until(None).items()} == {"port": 2, "optic": 1}


def test_many_rows_are_sorted_like_few() -> None:
    frame = pl.concat([window(end, list(range(300, 0, -1)), "a") for end in range(2000, 0, -10)])
    assert frame.height > feature_windows.FEW_ROWS
    assert_frame_equal(in_order(frame), frame.sort("component", "end_ms"))
