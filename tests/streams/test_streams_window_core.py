"""The code that counts windows, against two naive twins, and the laws it keeps."""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sickbay.schema import PORT, Samples
from streams.window_core import Features, Last, close
from streams.window_rows import Rows
from streams.windows import features, join
from tests.streams.window_twins import Found, Row, frames, loops

START = 1_790_000_000_000
WIDTH = 10_000
GAUGES = ("up", "speed_gigabits_per_second")  # the first is `low`
COUNTERS = ("rx_bytes_total", "retransmits_total")  # the second goes round at 2^32
WANTED = ["n", "covered_ms", *(f"{g}{end}" for g in GAUGES for end in ("", "__max", "__spread"))]
WANTED += [f"{c}__increase" for c in COUNTERS]
LIVE = [*WANTED, *(f"{g}__min" for g in GAUGES)]

gauge = st.one_of(st.just(math.nan), st.integers(0, 9).map(float), st.floats(-1e6, 1e6, width=32))
counter = st.one_of(
    st.integers(-1, 60),
    st.sampled_from([0, 255, 65_535, 2**32 - 1, 2**32 - 2, 2**32 - 2**28, 2**31, 2**32 + 7, 2**40, 2**63 - 1]),
    st.integers(0, 2**50),
)
spans = [st.integers(0, ms) for ms in (30_000, 200_000, 9_000_000)]
when = st.one_of(*spans, st.integers(0, 30).map(lambda s: s * 1000)).map(lambda ms: START + ms)
row = st.tuples(st.sampled_from([f"port:h{h}/a/1" for h in range(4)]), when, gauge, gauge, counter, counter)
rows = st.lists(row, max_size=40).map(
    lambda told: [(name, at_ms, dict(zip(GAUGES + COUNTERS, values, strict=True))) for name, at_ms, *values in told]
)


def rows_of(told: Sequence[Row], names: Sequence[str], dtype: type = np.float32) -> Rows:
    def block(columns: tuple[str, ...], kind: type) -> Any:
        return np.array([[values[c] for c in columns] for _, _, values in told], kind).reshape(-1, len(columns))

    code = np.array([names.index(name) for name, _, _ in told], np.int32)
    at_ms = np.array([at_ms for _, at_ms, _ in told], np.int64)
    return Rows(code, at_ms, GAUGES, block(GAUGES, dtype), COUNTERS, block(COUNTERS, np.int64))


def numbers(found: Features, end_ms: int) -> Found:
    told = [zip(found.columns, row, strict=True) for row in found.values.T.tolist()]
    return {
        (name, end_ms): {column: value for column, value in row if not math.isnan(value)}
        for name, row in zip(found.names, told, strict=True)
    }


def frame_of(told: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"component": name, "at_ms": at_ms, **{column: float(value) for column, value in values.items()}}
            for name, at_ms, values in told
        ]
    )


def live(told: Sequence[Row], width_ms: int = WIDTH, chance: random.Random | None = None) -> Found:
    """Window after window, each with its rows in any order and under names in any order."""
    windows = defaultdict(list)
    for one in told:
        windows[(one[1] // width_ms + 1) * width_ms].append(one)
    last, found = Last(), Found()
    for end_ms, part in sorted(windows.items()):
        names = sorted({name for name, _, _ in part} | {"port:idle/a/1"})
        if chance:
            chance.shuffle(part)
            chance.shuffle(names)
        window, last = close(rows_of(part, names), names, last, PORT, end_ms, width_ms, LIVE)
        assert list(window.names) == sorted(window.names)
        assert window.values.dtype == np.float32
        found |= numbers(window, end_ms)
    return found


@pytest.mark.slow
@settings(max_examples=150)
@given(rows, st.sampled_from([1_000, 10_000, 60_000, 7_200_000]))
def test_windows_closed_one_by_one_equal_plain_loops(told: list[Row], width_ms: int) -> None:
    assert live(told, width_ms) == loops(told, PORT, width_ms)


@pytest.mark.slow
@settings(max_examples=100)
@given(rows, st.randoms(use_true_random=False))
def test_order_and_repetition_change_no_bit(told: list[Row], chance: random.Random) -> None:
    again = [*told, *(one for one in told if chance.random() < 0.3)]
    assert live(again, chance=chance) == live(told)


@pytest.mark.slow
@settings(max_examples=100)
@given(rows.filter(bool), st.sampled_from([1_000, 10_000, 60_000, 7_200_000]))
def test_all_windows_at_once_equal_data_frames(told: list[Row], width_ms: int) -> None:
    frame = frame_of(told)
    assert_frame_equal(features(frame, PORT, width_ms), frames(frame, PORT, width_ms), rel_tol=1e-6, abs_tol=1e-30)


@pytest.mark.slow
@given(rows.filter(bool))
def test_all_windows_at_once_equal_those_closed_one_by_one(told: list[Row]) -> None:
    found = features(frame_of(told), PORT, WIDTH).select("component", "end_ms", *WANTED)
    at_once = {
        (component, end_ms): {name: value for name, value in zip(WANTED, values, strict=True) if value is not None}
        for component, end_ms, *values in found.iter_rows()
    }
    closed = live(told)
    assert at_once == {key: {name: one[name] for name in WANTED if name in one} for key, one in closed.items()}


def many(seed: int, components: int, *, missing: float, kept: float) -> tuple[Rows, list[str], list[Row]]:
    """Enough rows for several blocks."""
    chance = np.random.default_rng(seed)
    code, second = np.divmod(chance.permutation(components * 10), 10)
    of = chance.random(len(code)) < kept
    code, at_ms = code[of], START + second[of] * 1000 + code[of] % 7
    gauges = chance.random((len(code), 2), np.float32)
    counters = at_ms[:, None] // 1000 * 5 - START // 200 + chance.integers(0, 7, (len(code), 2)) + code[:, None]
    gauges[chance.random(gauges.shape) < missing] = np.nan
    counters[chance.random(counters.shape) < missing] = -1
    names = [f"port:h{at:05}/a/1" for at in range(components)]
    told: list[Row] = [
        (names[of], at, dict(zip(GAUGES + COUNTERS, [*gauge, *count], strict=True)))
        for of, at, gauge, count in zip(code.tolist(), at_ms.tolist(), gauges.tolist(), counters.tolist(), strict=True)
    ]
    return Rows(code.astype(np.int32), at_ms, GAUGES, gauges, COUNTERS, counters), names, told


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "kept"), [(0.0, 1.0), (0.0, 0.9), (0.02, 1.0), (0.02, 0.7)])
def test_many_components_equal_plain_loops(missing: float, kept: float) -> None:
    rows, names, told = many(7, 4_000, missing=missing, kept=kept)
    found, _ = close(rows, names, Last(), PORT, START + WIDTH, WIDTH, LIVE)
    assert numbers(found, START + WIDTH) == loops(told, PORT, WIDTH)


def told(at_s: float, count: int, name: str = "port:h1/a/1", speed: float = 400.0) -> Row:
    values = {"up": 1.0, "speed_gigabits_per_second": speed, "rx_bytes_total": 5, "retransmits_total": count}
    return name, START + round(at_s * 1000), values


@pytest.mark.parametrize(
    ("before", "after", "gap_s", "increase"),
    [
        (100, 107, 1, 7),
        (2**32 - 3, 4, 1, 7),  # round
        (2**32 - 3, 4, 90, None),  # after a long gap nobody knows
        (100, 3, 60, 3),
        (100, 3, 60.001, None),  # cleared, but a minute is the most that tells when
        (100, 107, 3_600, 7),
        (100, 107, 3_600.001, None),  # more than an hour of silence
        (2**31, 4, 1, 4),  # from the middle: cleared
        (2**33, 4, 1, 4),  # no counter of 32 bits
        (100, 2**32 - 1, 1, None),  # stuck on all ones: not "no new errors"
        (2**32 - 1, 2**32 - 1, 1, None),
        (65_535, 65_535, 1, 0),  # a fair count of a wide counter
    ],
)
def test_what_a_wide_or_stuck_counter_tells(before: int, after: int, gap_s: float, increase: int | None) -> None:
    found = live([told(0, before), told(gap_s, after)])
    assert found[max(found)].get("retransmits_total__increase") == increase


def test_a_negative_zero_is_told_as_zero() -> None:
    rows = rows_of([told(0, 1, speed=-0.0)], ["port:h1/a/1"])
    found, _ = close(rows, ["port:h1/a/1"], Last(), PORT, START + WIDTH, WIDTH, LIVE)
    assert not np.signbit(found.values).any()


def test_sums_of_monstrous_counts_do_not_turn_negative() -> None:
    found = live([told(second, (1, 2**62)[second % 2]) for second in range(9)])
    assert found[max(found)]["retransmits_total__increase"] == float(np.float32(4 * 2.0**62))


def test_of_a_count_and_all_ones_told_at_once_the_count_stays() -> None:
    both = [told(0, 100), told(1, 2**32 - 1), told(1, 103)]
    assert live(both)[both[0][0], START + WIDTH]["retransmits_total__increase"] == 3
    samples = [
        Samples("port", [name], np.array([at_ms]), {key: np.array([float(value)]) for key, value in values.items()})
        for name, at_ms, values in both
    ]
    assert features(join(samples)["port"], PORT, WIDTH)["retransmits_total__increase"].to_list() == [3.0]


def test_only_what_is_wanted_and_told_is_computed() -> None:
    names = ["port:h1/a/1"]
    wanted = ["up", "n", "symbol_errors_total__increase", "rx_bytes_total__increase"]
    found, last = close(rows_of([told(0, 1)], names), names, Last(), PORT, START + WIDTH, WIDTH, wanted)
    assert found.columns == ("up", "n", "rx_bytes_total__increase")
    assert last.columns == ("rx_bytes_total",)
    with pytest.raises(ValueError, match="up__increase"):
        close(rows_of([told(0, 1)], names), names, Last(), PORT, START + WIDTH, WIDTH, ["up__increase"])


def test_rows_of_another_window_and_doubled_names_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        close(rows_of([told(0, 1)], ["port:h1/a/1"]), ["port:h1/a/1"], Last(), PORT, START, WIDTH, WANTED)
    with pytest.raises(ValueError, match="twice"):
        close(rows_of([told(0, 1)], ["port:h1/a/1"]), ["port:h1/a/1"] * 2, Last(), PORT, START + WIDTH, WIDTH, WANTED)


def test_what_is_remembered_comes_goes_and_is_forgotten_after_an_hour() -> None:
    last = Last()
    for second, name in ((0, "port:h1/a/1"), (12, "port:h2/a/1"), (3_615, "port:h2/a/1")):
        end_ms = (START + second * 1000) // WIDTH * WIDTH + WIDTH
        _, last = close(rows_of([told(second, 9, name)], [name]), [name], last, PORT, end_ms, WIDTH, WANTED)
    assert last.names == ("port:h2/a/1",)
    assert last.at_ms.tolist() == [START + 3_615_000]
    assert last.counters.tolist() == [[5, 9]]


def test_a_counter_that_a_source_no_longer_tells_is_still_remembered() -> None:
    names, last = ["port:h1/a/1"], Last()
    for second, columns in ((0, COUNTERS), (10, COUNTERS[:1]), (20, COUNTERS)):
        whole = rows_of([told(second, 3 + second)], names)
        part = Rows(whole.code, whole.at_ms, GAUGES, whole.gauges, columns, whole.counters[:, : len(columns)])
        found, last = close(part, names, last, PORT, START + second * 1000 + WIDTH, WIDTH, WANTED)
    assert numbers(found, 0)[names[0], 0]["retransmits_total__increase"] == 20


def test_an_empty_window_keeps_what_was_known() -> None:
    names = ["port:h1/a/1"]
    _, last = close(rows_of([told(0, 1)], names), names, Last(), PORT, START + WIDTH, WIDTH, WANTED)
    found, after = close(rows_of([], []), [], last, PORT, START + 2 * WIDTH, WIDTH, WANTED)
    assert found.names == ()
    assert found.values.shape == (len(WANTED), 0)
    assert after.names == last.names
    assert after.counters.tolist() == last.counters.tolist()
