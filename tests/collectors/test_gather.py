"""Folding: one burst is one event, memory is bounded, the worst stays."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.reading import Reading
from collectors.inputs.gather import FOLD_MS, Folder
from sickbay.clock import Clock, Stamp
from sickbay.messages import Event, Severity


def reading(ms: int, what: str = "a", severity: Severity = Severity.ERROR, clock: Clock = Clock.ABSOLUTE) -> Reading:
    event = Event(component=f"accelerator:?/{what}", kind="accelerator.engine_hang", severity=severity)
    return Reading(event, stamp=Stamp(clock, ms))


def fold(*readings: Reading, limit: int = 100) -> tuple[list[Reading], int]:
    folder = Folder(limit)
    for one in readings:
        folder.add(one)
    return folder.close(), folder.omitted


def counts(readings: list[Reading]) -> list[int]:
    return [one.record.count for one in readings if isinstance(one.record, Event)]


#  0        15 s       30 s       45.001 s
#  a---------a----------a          a          the last is more than 15 s after the one before
def test_a_burst_is_one_event_as_long_as_its_gaps_are_short() -> None:
    folded, _ = fold(reading(0), reading(FOLD_MS), reading(2 * FOLD_MS), reading(3 * FOLD_MS + 1))
    assert counts(folded) == [3, 1]
    assert folded[0].until.ms == 2 * FOLD_MS


def test_units_do_not_fold_into_each_other() -> None:
    folded, _ = fold(reading(0, "a"), reading(1, "b"), reading(2, "a"))
    assert counts(folded) == [2, 1]


def test_the_worst_stay_where_there_is_no_room() -> None:
    mild = [reading(0, f"m{n}", Severity.INFO) for n in range(5)]
    bad = [reading(0, f"b{n}", Severity.FATAL) for n in range(3)]
    kept, omitted = fold(*mild, *bad, limit=4)
    assert sorted(one.record.severity for one in kept if isinstance(one.record, Event)) == ["fatal"] * 3 + ["info"]
    assert omitted == 4


@given(st.lists(st.tuples(st.integers(0, 100_000), st.sampled_from("abc")), max_size=60))
def test_law_nothing_is_lost_in_folding(rows: list[tuple[int, str]]) -> None:
    folded, omitted = fold(*(reading(ms, what) for ms, what in sorted(rows)), limit=1_000)
    assert sum(counts(folded)) == len(rows)
    assert omitted == 0
