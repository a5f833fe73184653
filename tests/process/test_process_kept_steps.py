"""Steps in memory: rows per job and step, and the newest as told; whenever memory began, and however it was asked."""

from collections import defaultdict
from statistics import median

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from diagnosis.case import Case
from diagnosis.job_steps import step_series
from diagnosis.working import step_ms
from sickbay.app.diagnosing import kept_steps
from sickbay.app.diagnosing.kept_steps import EDGE_MS, KeptSteps
from sickbay.messages import Step

START = 1_790_000_000_000
HALF_HOUR = 120_000  # as short as this here

# (append time, how late it is, job, step, rank, duration) in seconds, seconds, letters and numbers
words = st.lists(
    st.tuples(
        st.integers(0, 300), st.integers(-2, 40) | st.integers(0, 3), st.sampled_from("ab"), st.integers(1, 9),
        st.none() | st.integers(0, 3), st.none() | st.integers(1, 50),
    ),
    max_size=60,
).map(lambda told: sorted(told, key=lambda one: one[0]))  # fmt: skip
Word = tuple[int, int, str, int, int | None, int | None]


def put(kept: KeptSteps, word: Word) -> None:
    append_s, late_s, job, step, rank, took = word
    at_ms, duration = START + (append_s - late_s) * 1000, None if took is None else float(took)
    kept.take(at_ms, Step(step=step, job=job, rank=rank, at_ms=at_ms, duration_ms=duration), START + append_s * 1000)


def asked(kept: KeptSteps, now_s: int) -> tuple[pl.DataFrame, list[Step]]:
    now_ms = START + now_s * 1000
    kept.clock(now_ms)
    kept.forget(now_ms - HALF_HOUR)
    return kept.series(now_ms - HALF_HOUR), [*kept.steps(now_ms - HALF_HOUR)]


@pytest.mark.slow
@given(words, st.lists(st.integers(0, 340), max_size=6), st.integers(0, 340), st.booleans())
def test_who_was_asked_before_and_who_just_began_tell_the_same(
    told: list[Word], looks: list[int], at_s: int, few: bool
) -> None:
    """A restart reads the horizon again, and ten seconds more."""
    bounds = (7, 4) if few else (1_000, 1_000)
    running, fresh = KeptSteps(*bounds), KeptSteps(*bounds)
    for word in told:
        for look in sorted(looks):
            if look < word[0] and look <= at_s:
                asked(running, look)
        if word[0] <= at_s:
            put(running, word)
    for word in told:
        if at_s - HALF_HOUR // 1000 - 10 <= word[0] <= at_s:
            put(fresh, word)
    series, steps = asked(running, at_s)
    again, same = asked(fresh, at_s)
    assert steps == same
    # what ranks told for longer than the edge, each within 15 s of another, is no step that memory must tell whole
    firm = pl.col("end_ms") >= START + at_s * 1000 - HALF_HOUR + 2 * EDGE_MS
    assert_frame_equal(series.filter(firm), again.filter(firm))


@given(st.lists(st.sampled_from("abc"), max_size=60))
def test_no_job_takes_more_than_its_part_and_of_all_the_newest_stay(jobs: list[str]) -> None:
    kept = KeptSteps(most=10, most_of_job=4)
    for place, job in enumerate(jobs):
        kept.take(START, Step(step=place, job=job), START)
    of_job = defaultdict[str, list[int]](list)
    for place, job in enumerate(jobs):
        of_job[job].append(place)
    newest = sorted(place for places in of_job.values() for place in places[-4:])[-10:]
    assert [step.step for step in kept.steps(0)] == newest
    assert kept.left_out == len(jobs) - len(newest)


def test_a_job_of_many_ranks_has_its_pace_for_the_whole_horizon() -> None:
    kept, at_ms = KeptSteps(most=1_000, most_of_job=500), START
    for step in range(60):
        at_ms = START + 2_000 * step
        for rank in range(200):
            took = 1_500.0 + rank
            kept.take(at_ms, Step(step=step, job="7", rank=rank, at_ms=at_ms, duration_ms=took), at_ms)
    kept.clock(at_ms + 60_000)
    rows = kept.series(START - EDGE_MS)
    assert rows["step"].to_list() == [*range(60)]
    assert set(rows["ranks"]) == {200}
    assert set(rows["slowest_rank"]) == {199}
    case = Case(steps=tuple(kept.steps(0)), step_series=rows)
    assert len(case.steps) == 500
    assert step_ms(case, "7") == median(1_500.0 + rank for rank in range(200))


def test_offline_the_same_follows_from_all_steps() -> None:
    told = [
        Step(step=step, job=job, rank=rank, at_ms=START + 3_000 * step, duration_ms=100.0 * (rank + 1))
        for step in range(20) for job in "xy" for rank in range(3)
    ]  # fmt: skip
    told.append(Step(step=3, job="x", phase="load", duration_ms=9e9))
    kept = KeptSteps()
    for one in told[:-1]:
        kept.take(one.at_ms or 0, one, one.at_ms or 0)
    kept.clock(START + 200_000)
    assert_frame_equal(step_series(Case(steps=tuple(told))), kept.series(START - EDGE_MS))
    assert step_ms(Case(steps=tuple(told)), "x") == 200.0


def test_steps_without_a_time_have_a_pace_and_no_end() -> None:
    case = Case(steps=tuple(Step(step=step, job="x", duration_ms=5.0) for step in range(3)))
    assert step_series(case)["end_ms"].to_list() == [None] * 3
    assert step_ms(case, "x") == 5.0


def test_numbers_that_nothing_can_hold_are_no_steps() -> None:
    kept = KeptSteps()
    huge = Step(step=10**30, job="x", duration_ms=1.0)
    for one in (huge, Step(step=1, rank=-(10**30), job="x", duration_ms=1.0), Step(step=1, job="x", duration_ms=-1.0)):
        kept.take(START, one, START)
    kept.clock(START + 90_000)
    assert not kept.series(0).height
    assert not step_series(Case(steps=(huge,))).height


def test_jobs_that_are_open_at_once_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_steps, "MOST_JOBS", 2)
    kept = KeptSteps()
    for job in "abc":
        kept.take(START, Step(step=1, job=job, duration_ms=1.0), START)
    assert kept.late == 1
    later = START + 60_000
    kept.take(later, Step(step=2, job="c", duration_ms=1.0), later)
    kept.clock(later + 60_000)
    assert kept.series(0).select("job", "step").rows() == [("a", 1), ("b", 1), ("c", 2)]


def test_rows_are_bounded_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_steps, "MOST_ROWS", 8)
    kept = KeptSteps()
    for step in range(12):
        kept.take(START + 20_000 * step, Step(step=step, job="x", duration_ms=1.0), START + 20_000 * step)
    kept.clock(START + 900_000)
    assert kept.series(0)["step"].to_list()[-1] == 11
    assert kept.series(0).height <= 8
