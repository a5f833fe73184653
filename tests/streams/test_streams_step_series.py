"""One row per step out of what ranks told, against a naive twin, in any order and batches."""

import math
import random
from collections import defaultdict
from statistics import median

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.messages import Step
from sickbay.step_rows import TOGETHER_MS, by_step
from streams import step_series
from streams.step_series import LATENESS_MS, NO_RANK, OpenSteps, StepRows, StepSeries, series, taken, told

Row = tuple[int, int, int, float, float]  # step, rank, at_ms, duration_ms, work
START = 1_790_000_000_000

row = st.tuples(
    st.integers(0, 4),
    st.integers(NO_RANK, 4),
    st.integers(0, 60).map(lambda s: START + s * 3_000),
    st.one_of(st.integers(0, 5).map(float), st.sampled_from([math.nan, math.inf, -1.0])),
    st.one_of(st.integers(1, 4).map(float), st.sampled_from([math.nan, 0.0])),
)
rows = st.lists(row, max_size=30)


def columns(told_rows: list[Row]) -> StepRows:
    step, rank, at_ms, duration, work = zip(*told_rows, strict=True) if told_rows else ((),) * 5
    whole = [np.array(column, np.int64) for column in (step, rank, at_ms)]
    return StepRows(whole[0], whole[1], whole[2], np.array(duration, float), np.array(work, float))


def plain(found: StepSeries) -> list[tuple[float | None, ...]]:
    """Missing as None, so that equal is equal."""
    table = zip(*(column.tolist() for column in found), strict=True)
    return [tuple(None if isinstance(x, float) and math.isnan(x) else x for x in line) for line in table]


def twin(told_rows: list[Row]) -> list[tuple[float | None, ...]]:
    attempts: list[list[Row]] = []
    for one in sorted(told_rows, key=lambda r: (r[0], r[2])):
        if not 0 <= one[3] < math.inf:
            continue
        if attempts and attempts[-1][-1][0] == one[0] and one[2] - attempts[-1][-1][2] <= TOGETHER_MS:
            attempts[-1].append(one)
        else:
            attempts.append([one])
    return sorted((_line(attempt) for attempt in attempts), key=lambda line: (line[1], line[0]))


@pytest.mark.slow
@given(rows)
def test_the_archives_own_way_tells_the_same(told_rows: list[Row]) -> None:
    step, rank, at_ms, duration, work = zip(*told_rows, strict=True) if told_rows else ((),) * 5
    steps = pl.DataFrame(
        {"step": step, "rank": rank, "time": at_ms, "duration_ms": duration, "work": work, "phase": [""] * len(step)},
        schema={
            "step": pl.Int64, "rank": pl.Int64, "time": pl.Datetime("ms"), "duration_ms": pl.Float64,
            "work": pl.Float64, "phase": pl.String,
        },
    )  # fmt: skip
    found = by_step(steps.lazy()).collect().with_columns(pl.col("end").dt.epoch("ms"))
    assert found.columns == [name.replace("end_ms", "end") for name in StepSeries._fields]
    assert found.rows() == plain(series(columns(told_rows)))


def _line(attempt: list[Row]) -> tuple[float, ...]:
    words: dict[int, tuple[int, float, float]] = {}
    for _, rank, at_ms, duration, work in attempt:
        word = (at_ms, duration, work if work > 0 else -math.inf)
        words[rank] = max(words.get(rank, word), word)
    durations = [duration for _, duration, _ in words.values()]
    longest = max(durations)
    per_work = [duration / work for _, duration, work in words.values() if work > 0]
    return (
        attempt[0][0],
        max(one[2] for one in attempt),
        len(words),
        median(durations),
        longest - min(durations),
        longest,
        min(rank for rank, word in words.items() if word[1] == longest),
        median(per_work) if per_work else None,  # type: ignore[return-value]
    )


@pytest.mark.slow
@settings(max_examples=150)
@given(rows)
def test_steps_equal_their_naive_twin(told_rows: list[Row]) -> None:
    assert plain(series(columns(told_rows))) == twin(told_rows)


@pytest.mark.slow
@settings(max_examples=100)
@given(rows, st.randoms(use_true_random=False))
def test_order_batches_repetition_and_ticks_change_nothing(told_rows: list[Row], chance: random.Random) -> None:
    arrivals = [(one[2] + chance.randint(0, LATENESS_MS - 1), one) for one in told_rows + told_rows[::3]]
    at_end = START + 10_000_000
    state, found = OpenSteps(), list[tuple[float | None, ...]]()
    for append_ms, one in sorted(arrivals, key=lambda arrival: arrival[0]):
        if chance.random() < 0.5:
            state, part = told(state, append_ms)
            found += plain(part)
        state = taken(state, columns([one]))
    state, part = told(state, at_end)
    assert state.late == 0
    assert len(state.rows.step) == 0
    assert sorted(found + plain(part), key=lambda line: (line[1], line[0])) == twin(told_rows)


def test_a_slow_rank_is_named_and_work_is_divided_by() -> None:
    told_rows = [(7, rank, START + rank, 900.0 if rank == 3 else 500.0, 100.0) for rank in range(5)]
    (line,) = plain(series(columns(told_rows)))
    assert line == (7, START + 4, 5, 500.0, 400.0, 900.0, 3, 5.0)


#  0      15        30 s
#  [step 1 )[late    told
def test_a_step_is_told_when_nothing_can_come_and_later_words_are_counted() -> None:
    state = taken(OpenSteps(), columns([(1, 0, START, 500.0, 1.0)]))
    state, early = told(state, START + TOGETHER_MS + LATENESS_MS - 1)
    assert plain(early) == []
    state, found = told(state, START + TOGETHER_MS + LATENESS_MS)
    assert found.step.tolist() == [1]
    state = taken(state, columns([(1, 1, START, 500.0, 1.0)]))
    assert (state.late, len(state.rows.step)) == (1, 0)
    assert told(state, START)[0] is state  # the clock never runs back


def test_a_step_done_again_after_a_restart_is_a_row_of_its_own() -> None:
    again = [(5, rank, START + at, 500.0, 1.0) for at in (0, 600_000) for rank in (0, 1)]
    assert series(columns(again)).end_ms.tolist() == [START, START + 600_000]


def test_memory_is_bounded_and_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_series, "MOST_ROWS", 10)
    state = OpenSteps()
    for step in range(30):
        state = taken(state, columns([(step, 0, START + step, 1.0, 1.0)]))
        assert len(state.rows.step) <= 10
    assert len(state.rows.step) + state.crowded == 30
    assert 29 in state.rows.step
    assert taken(state, columns([(0, 0, START, 1.0, 1.0)])).late == 1


def test_messages_without_a_step_time_are_left_out() -> None:
    messages = [
        Step(step=1, rank=2, duration_ms=10.0, work=5.0, at_ms=START),
        Step(step=1, duration_ms=11.0),
        Step(step=1, rank=3),
        Step(step=1, rank=4, duration_ms=9.0, phase="checkpoint_begin"),
    ]
    found = step_series.rows_of(messages, append_ms=START + 9)
    assert found.rank.tolist() == [2, NO_RANK]
    assert found.at_ms.tolist() == [START, START + 9]
    by_rank = defaultdict(list)
    for rank, work in zip(found.rank.tolist(), found.work.tolist(), strict=True):
        by_rank[rank].append(work)
    assert by_rank[2] == [5.0]
    assert math.isnan(by_rank[NO_RANK][0])
