"""Faults of an accelerator's memory and of main memory: where and when they show, what is printed, nowhere else."""

import pytest

from simulator.faults import card_memory, cpu
from tests.simulator.part_kit import AT, UNTIL, says_what_it_is, seen_at, shows_in_place, sign, truth_holds

SIGNS = {
    "accelerator_memory_uncorrectable": sign(
        "accelerator.memory_uncorrectable", "accelerator.channel_closed",
        own="accelerator.memory_uncorrected_total accelerator.last_error_code",
    ),
    "accelerator_memory_contained": sign(
        "accelerator.memory_contained", "accelerator.memory_repair_pending", "accelerator.channel_closed",
        own="accelerator.memory_uncorrected_total accelerator.memory_rows_uncorrected_total "
        "accelerator.memory_repair_pending",
    ),
    "accelerator_memory_repair_pending": sign(
        "accelerator.memory_repair_pending",
        own="accelerator.memory_corrected_total accelerator.memory_rows_corrected_total "
        "accelerator.memory_repair_pending",
    ),
    "accelerator_memory_repair_failed": sign(
        "accelerator.memory_repair_failed", own="accelerator.memory_uncorrected_total accelerator.memory_repair_failed"
    ),
    "accelerator_memory_degrading": sign(
        "accelerator.memory_corrected_rate", own="accelerator.memory_corrected_total", until_s=AT + 62
    ),
    "dimm_uncorrectable": sign(
        "dimm.uncorrected", "dimm.page_recovered", own="host.uncorrected_memory_errors_total"
    ),
    "dimm_degrading": sign(
        "dimm.corrected", "dimm.corrected_rate", own="host.corrected_memory_errors_total", late_s=3, until_s=AT + 62
    ),
    "cpu_fault": sign("cpu.uncorrected"),
}  # fmt: skip
QUIET = ("accelerator_memory_repair_pending", "accelerator_memory_repair_failed", "accelerator_memory_degrading")


def test_every_class_of_these_files_is_looked_at() -> None:
    assert SIGNS.keys() == {*card_memory.FAULTS, *cpu.FAULTS}


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_it_shows_where_and_when_it_should_and_nowhere_else(fault: str) -> None:
    shows_in_place(seen_at(fault, 1.0, SIGNS[fault].until_s), SIGNS[fault])


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_every_line_is_read_as_what_it_is(fault: str) -> None:
    says_what_it_is(seen_at(fault, 1.0, SIGNS[fault].until_s), SIGNS[fault])
    truth_holds(seen_at(fault, 1.0, SIGNS[fault].until_s))


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_one_that_is_hard_to_see_has_lost_its_word_and_is_still_there(fault: str) -> None:
    seen = seen_at(fault, 0.2, UNTIL)
    assert not [event for event in seen.events("kernel") if event.kind != "cpu.corrected"]
    assert seen.began() is not None
    assert seen.expectation.severity == 0.2


@pytest.mark.parametrize("fault", [*QUIET, "dimm_degrading"])
def test_memory_that_corrects_itself_leaves_the_job_alone(fault: str) -> None:
    seen = seen_at(fault, 1.0, SIGNS[fault].until_s)
    assert not seen.lost
    assert not seen.texts("job")


def test_a_storm_of_closed_channels_is_one_event_with_its_cause() -> None:
    seen = seen_at("accelerator_memory_contained")
    closed = [event for event in seen.events("kernel") if event.kind == "accelerator.channel_closed"]
    assert sum(event.count for event in closed) == 200
    assert min(line.at_ms for _, line in seen.added) == seen.scenario.start_ms + AT * 1000 + 40
    assert seen.first("accelerator", seen.card.component, "memory_repair_pending") == AT + 2


def test_the_job_dies_within_seconds_of_an_error_that_it_was_told_of() -> None:
    for fault in ("accelerator_memory_uncorrectable", "dimm_uncorrectable", "cpu_fault"):
        ends = [event for event in seen_at(fault).events("job") if event.kind == "rank.exited"]
        assert len(ends) == 3
        assert [event.code.split()[1] for event in ends][1:] == ["-15", "-15"]


def test_another_vendor_says_it_in_its_own_words() -> None:
    from tests.simulator.signature_kit import signature

    seen = signature("accelerator_memory_uncorrectable", at_s=AT, until_s=AT + 5, vendor="amd")
    kinds = {event.kind for event in seen.events("kernel")}
    assert kinds == {"accelerator.memory_uncorrectable", "accelerator.reset_begun", "accelerator.reset_done"}
