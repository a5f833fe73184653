"""Comparisons with peers: only like with like, at work, for long enough; what is built that way is no fault."""

from collections.abc import Callable
from dataclasses import replace as changed
from typing import Any

import polars as pl
import pytest

from diagnosis.case import Case
from diagnosis.engine import diagnose
from diagnosis.frames import with_jobs
from sickbay.messages import Action, Event, Identity, Incident, Step, replace
from tests.diagnosis.kit import T0, WINDOW, Row, accelerators, card, case, event, placement, stalled_after

HOSTS = [f"h{number}" for number in range(15, 21)]
MODELS = tuple(
    Identity(host=host, index=str(index), pci=f"0000:{index:02x}:00", model="one")
    for host in HOSTS
    for index in range(8)
)


def only(at: Case) -> Incident:
    (incident,) = diagnose(at)
    return incident


def at_work(change: Callable[[str, int, Row], Row | None] | None, *, models: bool = True, **given: Any) -> Case:
    frame = accelerators(HOSTS, change, to_s=given.pop("to_s", 130))
    placed = given.pop("placed", [placement("4471", HOSTS)])
    return case([], placed, [], {"accelerator": frame}, identities=MODELS if models else (), **given)


def slow(row: Row, clock: float = 1620.0) -> Row:
    return row | {"clock_megahertz": clock, "temperature_celsius": 84.0}


# --- the width of host links ------------------------------------------------------------------------------------------


def boot_line(host: str, index: int = 2, width: int = 8, device: str = "accelerator") -> Event:
    told = {"width": str(width), "full_width": "16", "speed_gts": "16.0", "full_speed_gts": "32.0", "device": device}
    return event("pcie.degraded", f"pcie:{host}/0000:{index:02x}:00.0", -900, host=host, attributes=told)


def widths(change: Callable[[str, int, Row], Row | None]) -> pl.DataFrame:
    return accelerators(HOSTS, change)


@pytest.mark.parametrize(
    "lines",
    [
        [boot_line(host) for host in HOSTS],  # a slot that is wired so
        [boot_line("h15", index) for index in range(8)],  # a host that is wired so
        [boot_line(host, width=16) for host in HOSTS],  # a slower slot
        [boot_line("h15", width=16)],
        [boot_line("h15", device="nic")],
        [boot_line("h15", device="disk")],
        [boot_line("h15", device="")],  # who knows of what
    ],
)
def test_a_boot_line_that_peers_share_or_that_tells_of_speed_or_of_no_card_is_an_event(lines: list[Event]) -> None:
    assert diagnose(case(lines)) == ()


def test_a_boot_line_alone_is_weak() -> None:
    incident = only(case([boot_line("h15")]))
    assert (incident.component, incident.action) == (card("h15", 2), Action.WATCH)
    assert incident.probability == pytest.approx(0.6, abs=0.01)


def test_a_boot_line_is_strong_where_the_slot_is_wider_on_other_hosts() -> None:
    def others_only(component: str, end_s: int, row: Row) -> Row | None:
        return None if component.startswith("accelerator:h15/") else row

    incident = only(case([boot_line("h15")], [], [], {"accelerator": widths(others_only)}))
    assert (incident.component, incident.action) == (card("h15", 2), Action.DRAIN_HOST)
    assert incident.probability >= 0.9


def test_a_boot_line_and_a_narrow_reading_of_one_card_are_one_incident() -> None:
    def narrow(component: str, end_s: int, row: Row) -> Row:
        return row | {"bus_width_lanes": 8.0} if component == card("h15", 2) else row

    incident = only(case([boot_line("h15")], [], [], {"accelerator": widths(narrow)}))
    assert incident.component == card("h15", 2)
    assert {one.source_group for one in incident.evidence} == {f"{card('h15', 2)}|bus_width"}


def test_an_exporter_without_addresses_joins_the_boot_line_of_its_host() -> None:
    def narrow(component: str, end_s: int, row: Row) -> Row:
        named = component.replace("/0000:", "/UNIT-").replace(":00", "")
        lanes = 8.0 if component == card("h15", 2) else 16.0
        return row | {"component": named, "bus_width_lanes": lanes}

    at = case([boot_line("h15")], [placement("4471", HOSTS)], [], {"accelerator": widths(narrow)})
    incident = only(at)
    assert incident.component == "accelerator:h15/UNIT-02"
    assert incident.affected.jobs == ("4471",)


def test_a_slot_that_is_narrow_on_every_host_is_built_that_way() -> None:
    def narrow(component: str, end_s: int, row: Row) -> Row:
        return row | {"bus_width_lanes": 8.0} if component.endswith("0000:02:00") else row

    assert diagnose(case([], [], [], {"accelerator": widths(narrow)})) == ()


def test_a_later_reading_of_full_width_leaves_little_of_a_boot_line() -> None:
    incident = only(case([boot_line("h15")], [], [], {"accelerator": accelerators(HOSTS)}))
    assert incident.action is Action.WATCH
    assert incident.probability == pytest.approx(0.6, abs=0.01)


# --- slow cards -------------------------------------------------------------------------------------------------------


def test_one_window_is_never_enough_however_long() -> None:
    def hot(component: str, end_s: int, row: Row) -> Row:
        return slow(row) if component == card("h18", 2) and end_s > 0 else row

    frame = accelerators(HOSTS, hot, from_s=-120, to_s=30).filter(pl.col("end_ms") % 30_000 == T0 % 30_000)
    one = case([], [placement("4471", HOSTS)], [], {"accelerator": frame}, identities=MODELS)
    assert diagnose(changed(one, window_ms=30_000)) == ()


def test_two_families_need_five_steps() -> None:
    def hot(component: str, end_s: int, row: Row) -> Row:
        return slow(row) if component == card("h18", 2) and end_s > 0 else row

    steps = tuple(Step(step=n, job="4471", at_ms=T0 - 60_000 + 20_000 * n, duration_ms=20_000.0) for n in range(8))
    assert diagnose(at_work(hot, to_s=90, steps=steps)) == ()
    assert only(at_work(hot, to_s=100, steps=steps)).component == card("h18", 2)


@pytest.mark.parametrize("frozen_at", [1755.0, 1749.0])
def test_a_host_with_frozen_values_is_not_slow_beside_cards_that_spin(frozen_at: float) -> None:
    def frozen(component: str, end_s: int, row: Row) -> Row:
        if component.startswith("accelerator:h17/"):
            return row | {"clock_megahertz": frozen_at} if end_s > 0 else row
        return stalled_after(0, row, end_s)

    faults = {incident.fault for incident in diagnose(at_work(frozen))}
    assert not faults & {"accelerator_thermal", "accelerator_slow", "accelerator_power_limited"}


def test_a_card_that_crawls_while_all_wait_for_it_is_named() -> None:
    def crawl(component: str, end_s: int, row: Row) -> Row:
        if component == card("h18", 2) and end_s > 0:
            return slow(row, 345.0) | {"throttle_mask": 32.0}
        return stalled_after(0, row, end_s)

    assert card("h18", 2) in {
        incident.component for incident in diagnose(at_work(crawl)) if "thermal" in incident.fault
    }


def test_a_card_sampled_for_a_part_of_each_window_is_not_compared() -> None:
    def half(component: str, end_s: int, row: Row) -> Row:
        return slow(row) | {"n": 5} if component == card("h18", 2) and end_s > 0 else row

    assert diagnose(at_work(half)) == ()


def test_an_idle_card_is_not_slow() -> None:
    def idle(component: str, end_s: int, row: Row) -> Row:
        if component != card("h18", 2):
            return row
        return slow(row, 345.0) | {"matrix_active_ratio": 0.0, "utilisation_ratio": 0.6, "power_watts": 95.0}

    assert diagnose(at_work(idle)) == ()


def other_model(component: str, end_s: int, row: Row) -> Row:
    if component.startswith("accelerator:h18/") and component[-4] in "01":
        return slow(row, 1380.0) | {"power_watts": 365.0}
    return row


def test_another_model_in_the_job_is_not_slow() -> None:
    mixed = tuple(replace(one, model="two") if one.host == "h18" and one.index in "01" else one for one in MODELS)
    frame = accelerators(HOSTS, other_model, to_s=130)
    for identities in (mixed, ()):  # told, and not told: nothing changed of itself
        at = case([], [placement("4471", HOSTS)], [], {"accelerator": frame}, identities=identities)
        assert diagnose(at) == ()


def test_a_card_that_was_hot_before_anybody_watched_is_seen_where_the_model_is_told() -> None:
    def hot(component: str, end_s: int, row: Row) -> Row:
        return slow(row) if component == card("h18", 2) else row

    assert only(at_work(hot)).component == card("h18", 2)
    assert diagnose(at_work(hot, models=False)) == ()


def test_a_job_that_has_ended_keeps_its_telemetry() -> None:
    ended = placement("4471", HOSTS, from_ms=T0 - 3_600_000, to_ms=T0)
    later = placement("4502", HOSTS, from_ms=T0 + WINDOW)
    frame = accelerators(HOSTS[:1], cards=1, from_s=-20, to_s=30).select("component", "end_ms")
    joined = with_jobs(frame, case([], [ended, later]))
    assert joined["job"].to_list() == ["4471", "4471", "4471", None, "4502", "4502"]


# --- programs that fail and jobs that go on ---------------------------------------------------------------------------


def program_error() -> Event:
    return event("accelerator.page_fault", card("h18", 2), 0, code="code 31")


def trained(*numbers_at: tuple[int, int]) -> tuple[Step, ...]:
    return tuple(Step(step=n, job="4471", at_ms=T0 + 1000 * at, duration_ms=10_000.0) for n, at in numbers_at)


GOES_ON = trained(*((100 + n, -50 + 10 * n) for n in range(15)))
ENDS = trained(*((100 + n, -50 + 10 * n) for n in range(6)))
STARTS_AGAIN = (*ENDS, *trained(*((90 + n, 60 + 10 * n) for n in range(15))))
RESUMES_LATE = (*ENDS, *trained(*((106 + n, 600 + 10 * n) for n in range(15))))


@pytest.mark.parametrize(
    ("steps", "asks"), [(GOES_ON, False), (ENDS, True), (STARTS_AGAIN, True), (RESUMES_LATE, True)]
)
def test_a_program_error_is_an_incident_only_where_the_job_did_not_train_on(
    steps: tuple[Step, ...], asks: bool
) -> None:
    found = diagnose(case([program_error()], [placement("4471", HOSTS)], steps=steps))
    assert [incident.action for incident in found] == [Action.RESTART_JOB] * asks


def test_a_card_that_works_on_shows_it_too() -> None:
    def stops(component: str, end_s: int, row: Row) -> Row:
        return row | {"matrix_active_ratio": 0.0, "utilisation_ratio": 0.0} if end_s > 10 else row

    frames = accelerators(HOSTS, to_s=100), accelerators(HOSTS, stops, to_s=100)
    cases = [case([program_error()], [placement("4471", HOSTS)], [], {"accelerator": frame}) for frame in frames]
    assert [len(diagnose(at)) for at in cases] == [0, 1]
