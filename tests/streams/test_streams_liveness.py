"""How long each host has been silent, window by window, against a naive twin; and at any restart the same."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import liveness
from streams.liveness import FORGET_MS, Listening
from streams.window_core import Last

WIDTH = 10_000
Told = dict[int, dict[str, tuple[float, float]]]  # end -> host -> silent_ms, frames

words = st.lists(st.tuples(st.integers(0, 90_000), st.sampled_from("abc")), max_size=30).map(sorted)


def closed(listening: Listening, frontier: int) -> Iterator[tuple[int, dict[str, tuple[float, float]], Last]]:
    for end in list(listening.due(frontier)):
        features, last = listening.close(end)
        yield end, dict(zip(features.names, map(tuple, features.values.T.tolist()), strict=True)), last


def naive(told: list[tuple[int, str]], frontier: int) -> Told:
    found: Told = {}
    for end in range(WIDTH, frontier + 1, WIDTH):
        for host in "abc":
            if before := [at for at, who in told if who == host and end - FORGET_MS < at < end]:
                frames = float(sum(at >= end - WIDTH for at in before))
                found.setdefault(end, {})[f"host:{host}"] = (float(end - max(before)), frames)
    return found


@given(words, st.lists(st.integers(0, 120_000), max_size=5).map(sorted), st.booleans())
def test_liveness_equals_its_naive_twin_whatever_the_ticks_and_restarts(
    told: list[tuple[int, str]], ticks: list[int], again: bool
) -> None:
    """A restart begins with the newest state, and reads again whatever frames it likes."""
    listening, found, fed = Listening(WIDTH), Told(), 0
    for tick in [*ticks, 140_000]:
        while fed < len(told) and told[fed][0] <= tick:
            listening.hear(told[fed][1], told[fed][0])
            fed += 1
        frontier = max(0, tick - 5_000) // WIDTH * WIDTH
        for end, rows, last in closed(listening, frontier):
            assert end not in found
            found[end] = rows
            if again:
                listening = Listening(WIDTH, last, end)
                for at_ms, host in told[:fed]:
                    listening.hear(host, at_ms)
    assert found == naive(told, 130_000)


#  0     10     20     30     40
#  a  b   a      .      .      .    b has been silent since 3 s, a since 11 s
def test_silence_is_told_though_nobody_speaks() -> None:
    listening = Listening(WIDTH)
    for host, at_ms in (("a", 1), ("b", 3_000), ("a", 11_000)):
        listening.hear(host, at_ms)
    found = {end: rows for end, rows, _ in closed(listening, 40_000)}
    assert found[10_000] == {"host:a": (9_999.0, 1.0), "host:b": (7_000.0, 1.0)}
    assert found[40_000] == {"host:a": (29_000.0, 0.0), "host:b": (37_000.0, 0.0)}
    assert listening.silent == 1


def test_what_was_silent_for_an_hour_is_told_no_more_and_so_is_an_empty_partition() -> None:
    listening = Listening(WIDTH)
    assert list(listening.due(1_790_000_000_000)) == []
    listening.hear("a", 1_000)
    listening.hear("b", 12_000)
    ends = {end: rows for end, rows, _ in closed(listening, 10 * FORGET_MS)}
    assert max(ends) == FORGET_MS + 10_000
    assert set(ends[FORGET_MS + 10_000]) == {"host:b"}
    assert listening.hear("a", 9 * FORGET_MS) is not None
    assert [end for end, _, _ in closed(listening, 9 * FORGET_MS + WIDTH)] == [9 * FORGET_MS + WIDTH]


def test_hosts_whose_names_come_to_the_same_are_one() -> None:
    listening = Listening(WIDTH)
    for at_ms, host in enumerate(("a b", "a_b", "a b")):
        listening.hear(host, at_ms)
    ((_, rows, _),) = closed(listening, WIDTH)
    assert rows == {"host:a_b": (9_998.0, 3.0)}


def test_memory_is_bounded_and_the_longest_silent_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "MOST", 2)
    listening = Listening(WIDTH)
    for at_ms, host in ((1, "c"), (2, "a"), (3, "b")):
        listening.hear(host, at_ms)
    ((_, rows, _),) = closed(listening, WIDTH)
    assert set(rows) == {"host:a", "host:b"}
