"""Windows against a naive twin, and the laws they keep."""

import math
import random
from collections import defaultdict
from typing import TypeAlias

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay.schema import ACCELERATOR, TABLES, Samples
from streams.windows import features, join, sampling_ms, width_for

GAUGE, COUNTER = "power_watts", "bus_replays_total"
START = 1_790_000_000_000
WIDTH = 10_000
Row: TypeAlias = tuple[str, int, float | None, float | None]  # component, at_ms, gauge, counter

rows = st.lists(
    st.tuples(
        st.sampled_from(["accelerator:h1/0000:3b:00", "accelerator:h2/0000:3b:00", "accelerator:h2/0000:cb:00"]),
        st.one_of(st.integers(0, 60_000), st.integers(0, 8_000_000)).map(lambda ms: START + ms),
        st.one_of(st.none(), st.integers(0, 700).map(float)),
        st.one_of(st.none(), st.integers(-1, 2000).map(float)),
    ),
    max_size=40,
)


def samples(told: list[Row]) -> Samples:
    column = {GAUGE: [row[2] for row in told], COUNTER: [row[3] for row in told]}
    values = {name: np.array([math.nan if v is None else v for v in col], float) for name, col in column.items()}
    return Samples("accelerator", [row[0] for row in told], np.array([row[1] for row in told], np.int64), values)


def windows(told: list[Row], width_ms: int = WIDTH) -> pl.DataFrame:
    return features(join([samples(told)])["accelerator"], ACCELERATOR, width_ms)


def twin(told: list[Row]) -> dict[tuple[str, int], dict[str, float | None]]:
    """The same features, one row at a time."""
    merged: dict[tuple[str, int], list[float | None]] = defaultdict(lambda: [None, None])
    for component, at, *values in told:
        for place, value in enumerate(values):
            if value is not None and (place == 0 or value >= 0):
                before = merged[component, at][place]
                merged[component, at][place] = value if before is None else max(value, before)
        merged[component, at]
    out: dict[tuple[str, int], dict[str, list[float]]] = {}
    last: dict[str, tuple[int, float | None]] = {}
    for (component, at), (gauge, counter) in sorted(merged.items()):
        window = out.setdefault((component, (at // WIDTH + 1) * WIDTH), {"g": [], "i": [], "t": [], "n": []})
        window["n"].append(1)
        at_before, before = last.get(component, (-math.inf, None))
        gap = at - at_before
        if gap > 3_600_000:
            before = None
        else:
            window["t"].append(gap)
            if counter is not None and before is not None and (counter >= before / 2 or gap <= 60_000):
                step_back = before / 2 <= counter < before
                window["i"].append(counter - before if counter >= before else 0 if step_back else counter)
        if gauge is not None:
            window["g"].append(gauge)
        last[component] = (at, before if counter is None else counter)
    return {
        key: {
            "n": sum(w["n"]),
            "covered_ms": sum(w["t"]) if w["t"] else None,
            GAUGE: sum(w["g"]) / len(w["g"]) if w["g"] else None,
            f"{GAUGE}__max": max(w["g"], default=None),
            f"{GAUGE}__spread": max(w["g"]) - min(w["g"]) if w["g"] else None,
            f"{COUNTER}__increase": sum(w["i"]) if w["i"] else None,
        }
        for key, w in out.items()
    }


@pytest.mark.slow
@given(rows.filter(bool))
def test_windows_equal_their_naive_twin(told: list[Row]) -> None:
    found = {
        (row.pop("component"), row.pop("end_ms")): {name: row.get(name) for name in ("n", "covered_ms", *row)}
        for row in windows(told).to_dicts()
    }
    expected = twin(told)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        for name, value in row.items():
            twins = expected[key][name]
            assert value == (None if twins is None else pytest.approx(twins, rel=1e-6)), (key, name)


@pytest.mark.slow
@given(rows.filter(bool), st.randoms(use_true_random=False), st.integers(1, 7))
def test_order_and_batches_do_not_matter(told: list[Row], chance: random.Random, size: int) -> None:
    shuffled = [*told, *told[:3]]
    chance.shuffle(shuffled)
    batches = [samples(shuffled[start : start + size]) for start in range(0, len(shuffled), size)]
    narrow = [
        Samples("accelerator", b.component, b.at_ms, {name: b.values[name]}) for b in batches for name in b.values
    ]
    assert features(join(batches)["accelerator"], ACCELERATOR).equals(windows(told))
    assert features(join(narrow)["accelerator"], ACCELERATOR).equals(windows(told))


@pytest.mark.slow
@given(rows.filter(bool))
def test_renaming_components_changes_only_names(told: list[Row]) -> None:
    renamed = [(component.replace("/", "-renamed/"), *rest) for component, *rest in told]
    expected = windows(told).with_columns(pl.col("component").str.replace("/", "-renamed/", literal=True))
    assert windows(renamed).equals(expected.sort("component", "end_ms"))  # type: ignore[arg-type]


#  0s      10s     20s     30s
#  [ 5 9   )[ 11    )[ 2     )     counter: first sample, then 4, then 2, then a restart that has counted 2
def test_increases_run_over_window_borders_and_restarts() -> None:
    name = "accelerator:h1/0000:3b:00"
    told: list[Row] = [(name, START + s * 1000, None, v) for s, v in ((1, 5.0), (4, 9.0), (12, 11.0), (21, 2.0))]
    assert windows(told)[f"{COUNTER}__increase"].to_list() == [4.0, 2.0, 2.0]
    assert windows(told)["covered_ms"].to_list() == [3_000, 8_000, 9_000]
    assert windows(told)["n"].to_list() == [2, 1, 1]


@pytest.mark.parametrize(
    ("gap_s", "before", "after", "increase"),
    [
        (10, 1000.0, 999.0, 0.0),  # a step back: not a restart that has counted 999
        (10, 1000.0, 3.0, 3.0),
        (300, 1000.0, 3.0, None),  # swapped or rebooted meanwhile: nobody knows when it counted these
        (300, 1000.0, 1007.0, 7.0),
        (7200, 1000.0, 1007.0, None),
    ],
)
def test_what_a_falling_counter_tells(gap_s: int, before: float, after: float, increase: float | None) -> None:
    name = "accelerator:h1/0000:3b:00"
    found = windows([(name, START, None, before), (name, START + gap_s * 1000, None, after)])
    assert found[f"{COUNTER}__increase"].to_list()[-1] == increase


def test_missing_is_null_and_never_zero() -> None:
    found = windows([("accelerator:h1/0", START, None, None), ("accelerator:h1/0", START + 1000, None, None)])
    assert found["n"].to_list() == [2]
    assert found.select(GAUGE, f"{GAUGE}__max", f"{GAUGE}__spread", f"{COUNTER}__increase").row(0) == (None,) * 4


def test_of_two_values_told_at_once_the_worse_stays() -> None:
    def optic(rx_dbm: float, celsius: float) -> Samples:
        values = {"rx_power_dbm": np.array([rx_dbm]), "temperature_celsius": np.array([celsius])}
        return Samples("optic", ["optic:s1/7"], np.array([START], np.int64), values)

    for lanes in ([optic(-2.0, 40.0), optic(-12.0, 41.0)], [optic(-12.0, 41.0), optic(-2.0, 40.0)]):
        frame = join(lanes)["optic"]
        assert frame.row(0) == ("optic:s1/7", START, -12.0, 41.0)
        twice = pl.concat([join([lane])["optic"] for lane in lanes])
        assert features(twice, TABLES["optic"])["rx_power_dbm"].to_list() == [-12.0]


def test_a_gauge_that_falls_is_no_restart() -> None:
    assert windows([("accelerator:h1/0", START, 57.0, None), ("accelerator:h1/0", START + 1000, 21.0, None)])[
        f"{GAUGE}__spread"
    ].to_list() == [36.0]


def test_tables_are_joined_apart_and_dark_ones_are_absent() -> None:
    port = Samples("port", ["port:h1/a/1"], np.array([START], np.int64), {"up": np.array([1.0])})
    frames = join([port, samples([("accelerator:h1/0", START, 1.0, 2.0)])])
    assert sorted(frames) == ["accelerator", "port"]
    assert frames["port"].columns == ["component", "at_ms", "up"]
    assert join([]) == {}
    assert features(frames["port"], TABLES["port"])["up__max"].to_list() == [1.0]


def test_empty_frame_gives_no_window() -> None:
    frame = pl.DataFrame(schema={"component": pl.String, "at_ms": pl.Int64, GAUGE: pl.Float64})
    assert features(frame, ACCELERATOR).is_empty()
    assert sampling_ms(frame) == 0


def test_sampling_is_the_median_gap_and_the_width_holds_two() -> None:
    told: list[Row] = [("accelerator:h1/0", START + s * 1000, 1.0, None) for s in (0, 30, 60, 90, 300)]
    told += [("accelerator:h2/0", START + s * 1000, 1.0, None) for s in (7, 37, 67)]
    frame = join([samples(told)])["accelerator"]
    assert sampling_ms(frame) == 30_000
    assert width_for(30_000) == 60_000
    assert width_for(1_000) == 10_000
