"""The odd one out in a stalled job: blind, frozen, idle or dark; and what looks like it and is nothing."""

from collections.abc import Iterable
from typing import Any

import pytest

from diagnosis.case import Case
from diagnosis.engine import diagnose
from remediation.plan import plan
from sickbay.messages import Action, Incident, Verdict
from tests.diagnosis.kit import HOSTS, Change, Row, accelerators, card, case, event, hosts_up, placement, stalled_after

ODD = card("h17", 3)
ENDS = {"to_s": 240}


def night(change: Change, up: Iterable[str] = HOSTS, events: Iterable[Any] = (), placed: bool = True) -> Case:
    features = {"accelerator": accelerators(HOSTS, change, **ENDS)}
    if list(up):
        features["host"] = hosts_up(up, **ENDS)
    return case(events, [placement("4471", HOSTS)] if placed else [], [], features)


def only(at: Case) -> Incident:
    (incident,) = diagnose(at)
    return incident


def steps(at: Case) -> list[str]:
    return [step.do for step in plan(only(at), at)]


def card_goes_blind(component: str, end_s: int, row: Row) -> Row | None:
    return None if component == ODD and end_s > 0 else stalled_after(0, row, end_s)


def card_idles(component: str, end_s: int, row: Row) -> Row | None:
    if component == ODD and end_s > 0:
        return row | {
            "utilisation_ratio": 0.0,
            "matrix_active_ratio": 0.0,
            "power_watts": 90.0,
            "clock_megahertz": 345.0,
        }
    return stalled_after(0, row, end_s)


def host_vanishes(component: str, end_s: int, row: Row) -> Row | None:
    return None if component.startswith("accelerator:h17/") and end_s > 0 else stalled_after(0, row, end_s)


def numbers_stick(component: str, end_s: int, row: Row) -> Row | None:
    if component.startswith("accelerator:h17/") and end_s > 0:
        return row | {"power_watts": 604.25, "temperature_celsius": 61.0, "matrix_active_ratio": 0.503}
    stalled = stalled_after(0, row, end_s)
    return stalled | {"power_watts": stalled["power_watts"] + end_s % 50 / 10}


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("up", [HOSTS, []])
def test_one_blind_card_among_siblings_that_are_seen_is_that_card(placed: bool, up: list[str]) -> None:
    at = night(card_goes_blind, up, placed=placed)
    incident = only(at)
    assert (incident.verdict, incident.component, incident.fault) == (Verdict.COMPONENT, ODD, "accelerator_blind")
    assert steps(at)[0] == "exclude_for_job"
    assert {step.target for step in plan(incident, at) if step.phase == "contain"} == {"host:h17"}


def test_the_code_of_a_blind_card_makes_no_second_incident() -> None:
    incident = only(night(card_goes_blind, events=[event("accelerator.off_bus", ODD, 0, code="XID 79")]))
    assert (incident.component, incident.fault) == (ODD, "accelerator_off_bus")


def test_three_blind_cards_of_a_host_are_the_host() -> None:
    def three(component: str, end_s: int, row: Row) -> Row | None:
        gone = component in [card("h17", index) for index in range(3)] and end_s > 0
        return None if gone else stalled_after(0, row, end_s)

    assert only(night(three)).component == "host:h17"


def test_numbers_that_repeat_to_the_last_digit_are_blindness() -> None:
    incident = only(night(numbers_stick))
    assert (incident.component, incident.fault) == ("host:h17", "host_blind")
    assert any(one.says == "frozen_as_job_stalls" for one in incident.evidence)


def test_numbers_that_all_stand_still_prove_nothing() -> None:
    def coarse(component: str, end_s: int, row: Row) -> Row | None:
        if component.startswith("accelerator:h17/") and end_s > 0:
            return row | {"power_watts": 600.0, "temperature_celsius": 61.0, "matrix_active_ratio": 0.5}
        return stalled_after(0, row, end_s)

    assert not [one for one in diagnose(night(coarse)) if one.fault == "host_blind"]


def test_a_card_without_work_among_spinning_peers_is_excluded_and_nobody_is_blamed() -> None:
    at = night(card_idles)
    incident = only(at)
    assert (incident.verdict, incident.component) == (Verdict.UNKNOWN, "rank:4471/19")
    assert "exclude_for_job" in steps(at)
    assert "drain_host" not in steps(at)
    assert only(night(card_idles, placed=False)).component == ODD


def test_a_host_that_is_dark_altogether_is_lost_and_not_held() -> None:
    for up in ([host for host in HOSTS if host != "h17"], []):
        at = night(host_vanishes, up)
        incident = only(at)
        assert (incident.verdict, incident.component, incident.fault) == (Verdict.COMPONENT, "host:h17", "host_down")
        assert incident.action is Action.WATCH
        assert "exclude_for_job" in steps(at)
        assert "drain_host" not in steps(at)


def test_many_hosts_that_go_dark_together_are_not_each_to_blame() -> None:
    def half(component: str, end_s: int, row: Row) -> Row | None:
        gone = component.split("/")[0][-3:] in ("h15", "h16", "h17") and end_s > 0
        return None if gone else stalled_after(0, row, end_s)

    assert not [one for one in diagnose(night(half, [])) if one.verdict is Verdict.COMPONENT]


@pytest.mark.parametrize("change", [card_goes_blind, card_idles, host_vanishes, numbers_stick])
def test_a_job_that_moves_on_afterwards_acquits(change: Change) -> None:
    def moves_on(component: str, end_s: int, row: Row) -> Row | None:
        return change(component, end_s, dict(row)) if end_s <= 150 or ODD in component else row

    assert not [one for one in diagnose(night(moves_on, [])) if one.verdict is Verdict.COMPONENT]


def test_blindness_long_before_the_stall_is_a_gap() -> None:
    def early(component: str, end_s: int, row: Row) -> Row | None:
        return None if component == ODD and end_s > -60 else stalled_after(0, row, end_s)

    assert not [one for one in diagnose(night(early)) if one.verdict is Verdict.COMPONENT]


def test_an_idle_card_in_a_short_pause_is_a_rank_that_writes() -> None:
    features = {"accelerator": accelerators(HOSTS, card_idles, to_s=70), "host": hosts_up(HOSTS, to_s=70)}
    assert diagnose(case([], [placement("4471", HOSTS)], [], features)) == ()


def test_a_job_that_ended_meanwhile_is_judged_by_where_it_ran() -> None:
    features = {"accelerator": accelerators(HOSTS, card_goes_blind, **ENDS), "host": hosts_up(HOSTS, **ENDS)}
    ended = placement("4471", HOSTS, to_ms=1_760_000_000_000 + 200_000)
    assert [one.component for one in diagnose(case([], [ended], [], features))] == [ODD]
