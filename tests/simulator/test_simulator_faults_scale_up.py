"""Faults of scale-up links and their switches: the guilty end, the peers that complain, and nobody else."""

import pytest

from simulator.faults import scale_up
from tests.simulator.part_kit import says_what_it_is, seen_at, shows_in_place, sign, truth_holds

SIGNS = {
    "accelerator_link_down": sign(
        "accelerator.link_fatal", "accelerator.link_peer_error", own="accelerator.scale_up_recoveries_total"
    ),
    "accelerator_link_suspect": sign(
        "accelerator.link_nonfatal", own="accelerator.scale_up_crc_errors_total accelerator.scale_up_replays_total"
    ),
    "fabric_manager_failed": sign("fabric.manager_error", own="accelerator.fabric_state"),
    "fabric_fault": sign("fabric.switch_fatal", "accelerator.link_fatal"),
    "fabric_link_errors": sign("fabric.switch_nonfatal", own="accelerator.scale_up_replays_total"),
}


def test_every_class_of_this_file_is_looked_at() -> None:
    assert SIGNS.keys() == {*scale_up.FAULTS}


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_it_shows_where_and_when_it_should_and_nowhere_else(fault: str) -> None:
    shows_in_place(seen_at(fault), SIGNS[fault])


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_every_line_is_read_as_what_it_is(fault: str) -> None:
    says_what_it_is(seen_at(fault), SIGNS[fault])
    truth_holds(seen_at(fault))


@pytest.mark.parametrize("fault", sorted(SIGNS))
def test_one_that_is_hard_to_see_has_lost_its_word_and_is_still_there(fault: str) -> None:
    seen = seen_at(fault, 0.2)
    assert not seen.events("kernel")
    assert seen.began() is not None


def test_all_peers_complain_within_half_a_second_of_the_one_that_died() -> None:
    seen = seen_at("accelerator_link_down")
    events = seen.events("kernel")
    assert [event.component for event in events if event.kind == "accelerator.link_fatal"] == [seen.card.component]
    victims = {event.component for event in events if event.kind == "accelerator.link_peer_error"}
    assert victims == {card.component for card in seen.scenario.cluster.of(seen.host)} - {seen.card.component}
    assert victims <= seen.expectation.exonerated
    times = [line.at_ms for _, line in seen.added if line.source == "kernel"]
    assert max(times) - min(times) <= 500


def test_a_switch_of_the_board_takes_the_links_of_all_its_cards() -> None:
    seen = seen_at("fabric_fault")
    told = {event.component for event in seen.events("kernel") if event.kind == "accelerator.link_fatal"}
    assert told == {card.component for card in seen.scenario.cluster.of(seen.host)}
    assert told <= seen.expectation.exonerated
    assert f"host:{seen.host}" in seen.expectation.components
