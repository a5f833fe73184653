"""A second look at the source: it makes an event hard evidence, or speaks against it."""

import pytest

from diagnosis.engine import diagnose, evidence_of
from sickbay.messages import Action, Event, Incident, strength
from tests.diagnosis.kit import card, case, event

CARD = card("h17", 3)


def look(confirmed: str, *, host: str = "h17", of: str = "accelerator.off_bus", about: str = CARD) -> Event:
    facts = {"about": about, "of": of, "code": "Xid 79", "confirmed": confirmed}
    return event(
        "monitor.reread", f"monitor:{host}/second_look", 2.0, code=confirmed, attributes=facts,
        message=f"{about}: its driver reads its sensors",
    )  # fmt: skip


def judged(*looks: Event) -> Incident:
    (incident,) = diagnose(case([event("accelerator.off_bus", CARD, code="Xid 79"), *looks]))
    assert incident.component == CARD
    return incident


def test_a_look_that_finds_it_standing_makes_it_surer() -> None:
    alone, sure = judged(), judged(look("yes"))
    assert sure.probability > alone.probability
    assert sure.action is alone.action
    assert any(one.detector == "looked_again" for one in sure.evidence)


def test_a_look_that_finds_the_card_well_takes_no_healthy_node_out() -> None:
    well = judged(look("no"))
    assert well.probability < 0.95  # the least probability of a hold
    assert any(one.detector == "looked_again" for one in well.against)


@pytest.mark.parametrize(
    "wrong", [look("unknown"), look("yes", host="h18"), look("yes", of="nonsense"), look("yes", about="x")]
)
def test_what_cannot_tell_says_nothing(wrong: Event) -> None:
    assert [one for one in evidence_of(case([wrong])) if one.detector == "looked_again"] == []


def test_a_look_alone_is_no_reason_to_hold() -> None:
    for incident in diagnose(case([look("yes")])):
        assert incident.probability < 0.95
        assert strength(incident.action) <= strength(Action.REPLACE_PART)


def test_a_link_that_is_up_again_has_flapped() -> None:
    port = "port:h17/mlx5_0/1"
    assert [one for one in evidence_of(case([look("no", of="port.down", about=port)])) if one.llr < 0] == []
