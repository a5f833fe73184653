"""Peers that complain of a dead part belong to its incident: one fact, one action, nobody else accused."""

import pytest

from diagnosis.engine import diagnose
from diagnosis.incidents import fold
from sickbay.messages import Action, Event, replace
from tests.diagnosis.kit import card, case, event

DEAD, PEER, OTHER, SWITCH = card("h17", 3), card("h17", 4), card("h17", 5), "fabric:h17/0000:07:00"


def complaint(component: str, at_s: float, of: str = DEAD) -> Event:
    """A fatal link error that the context rules have found to be a peer's complaint."""
    kind = "fabric.switch_fatal" if component == SWITCH else "accelerator.link_fatal"
    return event(kind, component, at_s, advice=Action.RESET_DEVICE, attributes={"victim_of": of})


def dead(at_s: float = 0.0) -> Event:
    return event("accelerator.off_bus", DEAD, at_s, advice=Action.REBOOT_HOST)


@pytest.mark.parametrize("before_s", [0.0, 3.0])
def test_a_dead_card_and_all_who_complain_of_it_are_one_incident(before_s: float) -> None:
    told = [dead(before_s), complaint(PEER, 0.2), complaint(OTHER, 0.3), complaint(SWITCH, 0.9)]
    (incident,) = diagnose(case(told))
    assert (incident.component, incident.action) == (DEAD, Action.REBOOT_HOST)
    assert {suspect.component for suspect in incident.suspects} == {DEAD}
    assert {PEER, OTHER, SWITCH} <= set(incident.dependants)


def test_a_complaint_never_asks_for_more_than_the_dead_part_does() -> None:
    root = event("accelerator.link_fatal", DEAD, 0.0, advice=Action.CHECK_LINK)
    (incident,) = diagnose(case([root, complaint(PEER, 0.2)]))
    assert (incident.component, incident.action) == (DEAD, Action.CHECK_LINK)


def test_a_complaint_of_a_part_that_says_nothing_itself_stays_with_who_said_it() -> None:
    (incident,) = diagnose(case([complaint(PEER, 0.2)]))
    assert incident.component == PEER


def test_a_peer_with_a_fault_of_its_own_has_its_own_incident() -> None:
    own = event("accelerator.memory_uncorrectable", PEER, 0.5, advice=Action.RESET_DEVICE)
    found = {one.component: one.action for one in diagnose(case([dead(), complaint(PEER, 0.2), own]))}
    assert found == {DEAD: Action.REBOOT_HOST, PEER: Action.RESET_DEVICE}


def test_who_complained_first_is_acquitted_once_the_dead_part_is_known() -> None:
    early = replace(complaint(PEER, 0.2), attributes={})
    (accused,) = diagnose(case([early]))
    assert accused.component == PEER
    folded = fold([accused], diagnose(case([dead(1.0), complaint(PEER, 0.2)])), None)
    assert [one.component for one in folded if one.state == "open"] == [DEAD]
