"""Wide windows out of narrow ones: a naive twin, and the samples themselves."""

import math
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay import wide_features
from sickbay.schema import PORT
from streams.feature_record import Block, frame_of
from streams.window_core import Features, Last, close
from streams.window_rows import Rows

COLUMNS = ("n", "covered_ms", "up", "up__max", "up__spread", "rx_bytes_total__increase", "up__min")
START = 1_790_000_040_000  # a whole minute

cell = st.one_of(st.just(math.nan), st.integers(0, 50).map(float))
window = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(1, 9).map(float), *[cell] * 6), max_size=3).map(
    lambda told: Features(
        tuple(sorted(told)), COLUMNS, np.array([told[name] for name in sorted(told)], np.float32).reshape(-1, 7).T
    )
)


def widened(parts: list[Features]) -> Features:
    """The parts as windows of 10 s of one minute, as they lie in an archive."""
    blocks = [Block("port", START + 10_000 * at, one.names, one.columns, one.values) for at, one in enumerate(parts, 1)]
    frames = [frame_of(one).cast({column: pl.Float32 for column in COLUMNS if column in one.columns}) for one in blocks]
    rows = wide_features.widened(pl.concat(frames).lazy(), 60_000).collect()
    assert set(rows["end_ms"]) <= {START + 60_000}
    values = rows.select(pl.exclude("component", "end_ms").cast(pl.Float32).fill_null(math.nan))
    return Features(tuple(rows["component"]), tuple(values.columns), values.to_numpy().T)


@pytest.mark.slow
@given(st.lists(window, min_size=1, max_size=6))
def test_wide_windows_equal_their_naive_twin(parts: list[Features]) -> None:
    told: dict[str, list[dict[str, float]]] = defaultdict(list)
    for part in parts:
        for at, name in enumerate(part.names):
            told[name].append(dict(zip(part.columns, part.values[:, at].tolist(), strict=True)))
    found = widened(parts)
    assert list(found.names) == sorted(told)
    for at, name in enumerate(found.names):
        assert found.values[:, at].tolist() == pytest.approx(wide(told[name]), rel=1e-6, nan_ok=True)


def wide(rows: list[dict[str, float]]) -> list[float]:
    def given(*columns: str) -> list[list[float]]:
        every = [[row[column] for column in columns] for row in rows]
        return [one for one in every if not any(map(math.isnan, one))]

    weight = sum(n for n, _ in given("n", "up"))
    most, least = given("up__max"), [top - spread for top, spread in given("up__max", "up__spread")]
    sums = {column: sum(x for (x,) in given(column)) if given(column) else math.nan for column in COLUMNS}
    return [
        sums["n"],
        sums["covered_ms"],
        sum(n * x for n, x in given("n", "up")) / weight if weight else math.nan,
        max((x for (x,) in most), default=math.nan),
        max(x for (x,) in most) - min(least) if most and least else math.nan,
        sums["rx_bytes_total__increase"],
        min((x for (x,) in given("up__min")), default=math.nan),
    ]


def test_a_wide_window_out_of_narrow_ones_is_that_of_the_samples() -> None:
    width_ms, factor = 10_000, 6
    chance = np.random.default_rng(width_ms + factor)
    code, second = np.divmod(np.arange(180, dtype=np.int64), 60)
    at_ms = START + second * 1000 + chance.integers(0, 900, 180)
    gauge = chance.random((180, 1), np.float32)
    counter = (second * 11 + code)[:, None]
    names = ["port:a", "port:b", "port:c"]

    def windows(wide_ms: int) -> list[Features]:
        last, found = Last(), []
        for end_ms in range(START + wide_ms, START + width_ms * factor + 1, wide_ms):
            of = (at_ms >= end_ms - wide_ms) & (at_ms < end_ms)
            rows = Rows(code[of], at_ms[of], ("up",), gauge[of], ("rx_bytes_total",), counter[of])
            one, last = close(rows, names, last, PORT, end_ms, wide_ms, COLUMNS)
            found.append(one)
        return found

    (direct,) = windows(width_ms * factor)
    made = widened(windows(width_ms))
    assert (made.names, made.columns) == (direct.names, direct.columns)
    np.testing.assert_allclose(made.values, direct.values, rtol=2e-6)


def test_each_window_belongs_to_the_wide_one_that_ends_with_or_after_it() -> None:
    ends = [START + 10_000 * at for at in (1, 6, 7, 13)]
    rows = pl.DataFrame({"component": "port:a", "end_ms": ends, "up": pl.Series([1, 2, 3, 4], dtype=pl.Float32)})
    found = wide_features.widened(rows.lazy(), 60_000).collect()
    assert found.rows() == [
        ("port:a", START + 60_000, 1.5),
        ("port:a", START + 120_000, 3.0),
        ("port:a", START + 180_000, 4.0),
    ]


def test_a_spread_without_its_maximum_is_left_out() -> None:
    rows = pl.DataFrame({"component": ["a"], "end_ms": [START], "up__spread": pl.Series([1.0], dtype=pl.Float32)})
    assert wide_features.widened(rows.lazy(), 60_000).collect().columns == ["component", "end_ms"]
