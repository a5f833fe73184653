"""When live windows close, and what comes too late."""

import numpy as np
import pytest

from sickbay.schema import ACCELERATOR, HOST, Samples
from streams.processor import WindowProcessor

NAME = "accelerator:h1/0000:3b:00"


def told(*at_ms: int) -> Samples:
    return Samples("accelerator", [NAME] * len(at_ms), np.array(at_ms, np.int64), {"power_watts": np.ones(len(at_ms))})


#  0        10       15 17
#  [--------)[ late  )closed
def test_a_window_closes_once_the_clock_passes_its_end_and_lateness() -> None:
    windows = WindowProcessor(ACCELERATOR)
    windows.add(told(1_000, 9_999), append_ms=10_000)
    assert windows.advance(14_999) == []
    assert [(closed.end_ms, closed.features["n"].to_list()) for closed in windows.advance(15_000)] == [(10_000, [2])]
    assert windows.advance(17_000) == []


def test_late_rows_are_counted_and_change_nothing() -> None:
    windows = WindowProcessor(ACCELERATOR)
    windows.add(told(20_000), append_ms=25_000)
    windows.add(told(9_000, 21_000), append_ms=26_000)
    assert windows.state.late_rows == 1
    assert [closed.end_ms for closed in windows.advance(35_000)] == [30_000]


def test_lateness_is_judged_by_the_prefix_not_by_when_the_process_looked() -> None:
    looked, slept = WindowProcessor(ACCELERATOR), WindowProcessor(ACCELERATOR)
    for windows in (looked, slept):
        windows.add(told(9_000), append_ms=9_500)
        windows.add(told(20_000), append_ms=20_000)
    assert [closed.end_ms for closed in looked.advance(20_000)] == [10_000]
    for windows in (looked, slept):
        windows.add(told(9_100), append_ms=20_100)
    assert looked.state.late_rows == slept.state.late_rows == 1
    assert [closed.features["n"].to_list() for closed in slept.advance(20_100)] == [[1]]


def test_stamps_far_ahead_are_clamped_so_that_no_window_stays_open() -> None:
    windows = WindowProcessor(ACCELERATOR)
    windows.add(told(1_000, 90_000_000), append_ms=1_000)
    assert windows.state.ahead_rows == 1
    assert [closed.end_ms for closed in windows.advance(15_000)] == [10_000]
    assert not windows.state.open


def test_the_clock_never_runs_back() -> None:
    windows = WindowProcessor(ACCELERATOR)
    windows.advance(50_000)
    windows.advance(10_000)
    windows.add(told(30_000), append_ms=30_000)
    assert windows.state.late_rows == 1


def test_what_was_silent_for_an_hour_is_forgotten() -> None:
    windows = WindowProcessor(ACCELERATOR)
    windows.add(told(1_000), append_ms=1_000)
    windows.advance(20_000)
    other = Samples("accelerator", ["accelerator:h2/0"], np.array([4_000_000]), {"power_watts": np.ones(1)})
    windows.add(other, append_ms=4_000_000)
    windows.advance(5_000_000)
    assert windows.state.last is not None
    assert windows.state.last["component"].to_list() == ["accelerator:h2/0"]


def test_another_tables_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="host"):
        WindowProcessor(ACCELERATOR).add(Samples(HOST.name, [], np.array([], np.int64), {}), append_ms=0)
