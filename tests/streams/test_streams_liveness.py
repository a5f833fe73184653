"""Who was heard within the last window, and who went silent, against a naive twin."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import liveness
from streams.liveness import FORGET_MS, Heard, heard, ticked

WINDOW = 10_000
words = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 60_000)), max_size=30)


@pytest.mark.slow
@given(words, st.lists(st.integers(1, 90_000), max_size=6), st.randoms(use_true_random=False))
def test_liveness_equals_its_naive_twin(told: list[tuple[str, int]], ticks: list[int], chance: random.Random) -> None:
    """Records before a tick in any order, batches and repetition; a tick is told what was appended before it."""
    state, tick_before = Heard(), 0
    for tick in sorted(ticks):
        before = [word for word in told if word[1] <= tick]
        fresh = [word for word in before if word[1] > tick_before or chance.random() < 0.2]
        chance.shuffle(fresh)
        while fresh:
            part, fresh = fresh[:3], fresh[3:]
            state = heard(state, [name for name, _ in part], [at for _, at in part])
        state, found = ticked(state, tick, WINDOW)
        last = {name: max(at for n, at in before if n == name) for name, _ in before}
        assert dict(zip(found.names, found.heard_ms.tolist(), strict=True)) == last
        assert list(found.names) == sorted(last)
        assert [name for name, alive in zip(found.names, found.alive, strict=True) if alive] == sorted(
            name for name, at in last.items() if at > tick - WINDOW
        )
        assert [name for name, fell in zip(found.names, found.fell, strict=True) if fell] == sorted(
            name for name, at in last.items() if tick_before - WINDOW < at <= tick - WINDOW
        )
        tick_before = tick


#  0     10     20
#  a  b   a      tick: a was heard, b has been silent since 3 s
def test_who_went_silent_and_since_when() -> None:
    state = heard(Heard(), ["a", "b", "a"], [0, 3_000, 11_000])
    state, now = ticked(state, 20_000, WINDOW)
    assert now.names == ("a", "b")
    assert now.alive.tolist() == [True, False]
    assert now.fell.tolist() == [False, True]
    assert now.heard_ms.tolist() == [11_000, 3_000]
    state, later = ticked(state, 20_500, WINDOW)
    assert later.fell.tolist() == [False, False]  # told once
    _, back = ticked(heard(state, ["b"], [20_600]), 21_000, WINDOW)
    assert back.alive.tolist() == [False, True]


def test_the_clock_never_runs_back() -> None:
    state, _ = ticked(heard(Heard(), ["a"], [1_000]), 50_000, WINDOW)
    assert ticked(state, 5_000, WINDOW)[1].alive.tolist() == [False]


def test_what_was_silent_for_a_day_is_forgotten() -> None:
    state = heard(Heard(), ["a", "b"], [1_000, 2_000])
    state, found = ticked(state, FORGET_MS + 1_000, WINDOW)
    assert found.names == ("b",)
    assert state.names == ("b",)


def test_memory_is_bounded_and_the_longest_silent_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "MOST", 2)
    assert heard(Heard(), ["c", "a", "b"], [3, 2, 1]).names == ("a", "c")


def test_a_state_is_never_changed() -> None:
    before = heard(Heard(), ["a"], [1])
    heard(before, ["a", "b"], [9, 9])
    assert (before.names, before.at_ms.tolist()) == (("a",), [1])
