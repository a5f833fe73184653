"""Faults of the link between a host and one of its cards: fatal ones, corrected ones, and links that are narrow."""

import pytest

from simulator.faults import pcie
from tests.simulator.part_kit import AT, says_what_it_is, seen_at, shows_in_place, sign, truth_holds
from tests.simulator.signature_kit import signature

SIGNS = {
    "pcie_fatal": sign("pcie.fatal", "pcie.recovery_failed", "accelerator.off_bus", own="accelerator.(told)"),
    "pcie_errors": sign("pcie.corrected", "pcie.corrected_rate", own="accelerator.bus_replays_total"),
}


def test_every_class_of_this_file_is_looked_at() -> None:
    assert {*SIGNS, "pcie_degraded"} == {*pcie.FAULTS}


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_it_shows_where_and_when_it_should_and_nowhere_else(fault: str) -> None:
    shows_in_place(seen_at(fault), SIGNS[fault])


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_every_line_is_read_as_what_it_is(fault: str) -> None:
    says_what_it_is(seen_at(fault), SIGNS[fault])
    truth_holds(seen_at(fault))


def test_corrected_errors_that_are_hard_to_see_are_counted_and_not_told() -> None:
    seen = seen_at("pcie_errors", 0.2)
    assert not seen.events("kernel")
    assert "bus_replays_total" in seen.changed("accelerator")[seen.card.component]


def test_a_port_that_contains_an_error_cuts_its_card_off() -> None:
    seen = signature("pcie_fatal", at_s=AT, until_s=AT + 5, contained=True)
    kinds = {event.kind for event in seen.events("kernel")}
    assert kinds == {"pcie.containment", "pcie.slot_down", "accelerator.off_bus"}
    assert seen.first("accelerator", seen.card.component, "(told)") == AT + 1


def test_a_link_that_is_narrow_since_boot_says_nothing_and_never_changes() -> None:
    seen = signature("pcie_degraded", at_s=AT, until_s=40)
    assert not seen.events("kernel")
    changed = {part for part, row in seen.changed("accelerator").items() if "bus_width_lanes" in row}
    assert changed == {seen.card.component}
    assert seen.changed("accelerator")[seen.card.component]["bus_width_lanes"] == (0, 39)
    assert seen.hosts() <= seen.job_hosts()
