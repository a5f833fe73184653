"""Faults that an accelerator's driver, program or exporter tells, and slow cards: where, when, and nowhere else."""

import math

import pytest

from simulator.faults import card_codes, card_slow, card_start, card_told
from tests.simulator.part_kit import AT, says_what_it_is, seen_at, shows_in_place, sign, truth_holds
from tests.simulator.signature_kit import signature

SIGNS = {
    "accelerator_engine_hang": sign("accelerator.unresponsive", "accelerator.engine_hang"),
    "accelerator_context_timeout": sign("accelerator.context_timeout", "accelerator.channel_closed"),
    "accelerator_internal": sign("accelerator.internal_fault"),
    "accelerator_recovery_needed": sign("accelerator.recovery_action", own="accelerator.recovery_action"),
    "accelerator_attention": sign("accelerator.storage_rom_error"),
    "accelerator_unresponsive": sign("accelerator.unresponsive", own="accelerator.(told)"),
    "accelerator_error_told": sign(),
    "accelerator_fault_reported": sign(
        "accelerator.fault_reported", own="accelerator.health accelerator.last_error_code"
    ),
    "accelerator_code_repeats": sign("accelerator.program_error", until_s=AT + 110),
    "accelerator_slow": sign(),
    "accelerator_slow_silent": sign(),
    "accelerator_power_limited": sign(
        own="accelerator.power_limit_watts accelerator.power_violation_nanoseconds_total"
    ),
    "accelerator_init_failed": sign("accelerator.init_failed", own="accelerator.(told)"),
    "accelerator_missing": sign("scheduler.accelerators_fewer", own="accelerator.(told)"),
    "accelerators_none": sign(
        "host.accelerators_none", "scheduler.accelerators_none", own="accelerator.(told) host.accelerator_source_up"
    ),
    "driver_mismatch": sign("host.driver_mismatch", own="accelerator.(told) host.accelerator_source_up"),
}
CODED = {  # their word is lost where they are hard to see
    "accelerator_engine_hang", "accelerator_context_timeout", "accelerator_internal", "accelerator_recovery_needed",
    "accelerator_fault_reported", "accelerator_init_failed", "accelerator_missing", "accelerator_unresponsive",
}  # fmt: skip


def test_every_class_of_these_files_is_looked_at() -> None:
    assert SIGNS.keys() == {*card_codes.FAULTS, *card_slow.FAULTS, *card_start.FAULTS, *card_told.FAULTS}


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_it_shows_where_and_when_it_should_and_nowhere_else(fault: str) -> None:
    shows_in_place(seen_at(fault, 1.0, SIGNS[fault].until_s), SIGNS[fault])


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_every_line_is_read_as_what_it_is(fault: str) -> None:
    says_what_it_is(seen_at(fault, 1.0, SIGNS[fault].until_s), SIGNS[fault])
    truth_holds(seen_at(fault, 1.0, SIGNS[fault].until_s))


@pytest.mark.parametrize("fault", sorted(CODED))
def test_one_that_is_hard_to_see_has_lost_its_word_and_is_still_there(fault: str) -> None:
    seen = seen_at(fault, 0.2)
    assert not seen.events("kernel", "scheduler")
    assert seen.began() is not None


def test_a_hung_engine_shows_work_and_does_none_while_its_peers_spin() -> None:
    seen = seen_at("accelerator_engine_hang")
    last = list(seen.scenario.seconds(AT + 5))[-1]
    (samples,) = [one for one in last.samples[seen.host] if one.table == "accelerator"]
    mine = samples.component.index(seen.card.component)
    busy, power = samples.values["compute_active_ratio"], samples.values["power_watts"]
    assert samples.values["utilisation_ratio"].min() == 1.0
    assert busy[mine] == 0.0
    assert sorted(busy)[1] > 0.9
    assert power.argmin() == mine


def test_the_code_of_a_hung_engine_comes_when_the_watchdog_has_waited() -> None:
    kernel = [at_s for at_s, line in seen_at("accelerator_engine_hang").added if line.source == "kernel"]
    assert set(kernel) == {AT + 7}


def test_a_card_that_answers_again_lets_its_job_go_on() -> None:
    seen = seen_at("accelerator_unresponsive")
    assert seen.changed("accelerator")[seen.card.component]["(told)"] == (AT, AT + 11)
    assert "rank.exited" not in {event.kind for event in seen.events("job")}


@pytest.mark.parametrize(("severity", "least"), [(1.0, 0.05), (0.2, 0.005)])
def test_a_slow_card_has_a_low_clock_and_a_silent_one_has_not(severity: float, least: float) -> None:
    for fault, low in (("accelerator_slow", True), ("accelerator_slow_silent", False)):
        seen = seen_at(fault, severity)
        last = list(seen.scenario.seconds(AT + 8))[-1]
        (samples,) = [one for one in last.samples[seen.host] if one.table == "accelerator"]
        mine = samples.component.index(seen.card.component)
        clock = samples.values["clock_megahertz"]
        peers = sorted(value for row, value in enumerate(clock) if row != mine)
        assert bool(clock[mine] < peers[0] * (1 - least)) is low
        assert math.isclose(peers[3], 1755, rel_tol=0.02)
        assert samples.values["throttle_mask"].max() == 4.0


def test_a_power_brake_halves_the_clock_and_is_told() -> None:
    seen = signature("accelerator_power_limited", at_s=AT, until_s=AT + 10, brake=True)
    assert {event.kind for event in seen.events("kernel")} == {"accelerator.power_limited"}
    assert "power_limit_watts" not in seen.changed("accelerator")[seen.card.component]
    last = list(seen.scenario.seconds(AT + 8))[-1]
    (samples,) = [one for one in last.samples[seen.host] if one.table == "accelerator"]
    assert samples.values["throttle_mask"].max() == 128.0
    assert samples.values["clock_megahertz"].min() < 1000


def test_an_error_that_only_the_program_tells_names_its_rank() -> None:
    seen = seen_at("accelerator_error_told")
    (told,) = [event for event in seen.events("job") if event.kind == "rank.device_error"]
    job = next(job for job in seen.scenario.jobs if seen.host in job.hosts)
    rank = job.hosts.index(seen.host) * 8 + seen.card.index
    assert told.component == f"rank:{job.id}/{rank}"


def test_a_code_that_repeats_is_of_three_jobs_on_one_unit_of_one_card() -> None:
    seen = seen_at("accelerator_code_repeats", 1.0, AT + 110)
    told = [event for event in seen.events("kernel") if event.code == "Xid 13"]
    assert len({event.process for event in told}) == 3
    assert {event.component for event in told} == {seen.card.component}
    assert len({line.job for _, line in seen.added if line.source == "job" and line.job}) == 3


def test_the_next_attempt_fails_where_a_card_is_not_there() -> None:
    for fault in ("accelerator_init_failed", "accelerator_missing", "accelerators_none", "driver_mismatch"):
        kinds = [event.kind for event in seen_at(fault).events("job")]
        assert kinds[0] == "job.cancelled"
        assert {"rank.device_error", "rank.exited"} <= set(kinds)
