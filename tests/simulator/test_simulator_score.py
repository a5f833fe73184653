"""Scoring: a real fault needs its one right incident, a decoy needs peace, and nothing may be left over."""

from collections.abc import Iterable

import pytest

from sickbay.messages import Action, Incident, Severity, Verdict
from simulator.expectation import Expectation, score
from simulator.faults import FAULTS
from simulator.scenario import scenario

LOST = Expectation(
    name="accelerator_off_bus", title="", at_ms=0, touched=frozenset({"host:a", "accelerator:a/1"}),
    verdicts=frozenset({Verdict.COMPONENT}), components=frozenset({"accelerator:a/1", "host:a"}),
    faults=frozenset({"accelerator_off_bus"}), actions=frozenset({Action.REBOOT_HOST}),
)  # fmt: skip
CALM = Expectation(name="glitch", title="", at_ms=0, touched=frozenset({"accelerator:b/1"}))


def incident(component: str, action: Action = Action.REBOOT_HOST, **fields: object) -> Incident:
    defaults = {
        "id": component,
        "verdict": Verdict.COMPONENT,
        "fault": "accelerator_off_bus",
        "severity": Severity.FATAL,
    }
    return Incident(component=component, probability=0.9, action=action, **defaults | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "right"),
    [
        ([incident("accelerator:a/1")], [True, True]),
        ([incident("host:a")], [True, True]),
        ([incident("accelerator:a/1", Action.RESET_DEVICE)], [False, True]),  # a device that is gone cannot be reset
        ([incident("accelerator:a/1", verdict=Verdict.SHARED)], [False, True]),
        ([incident("accelerator:a/1", fault="pcie_fatal")], [False, True]),
        ([], [False, True]),
        ([incident("accelerator:a/1"), incident("accelerator:b/1", Action.DRAIN_HOST)], [True, False]),
        ([incident("accelerator:a/1"), incident("accelerator:b/1", Action.WATCH)], [True, True]),
    ],
)
def test_score_tells_right_from_wrong(found: Iterable[Incident], right: list[bool]) -> None:
    scores, _ = score([CALM, LOST], list(found))
    assert [one.right for one in scores] == right
    assert all(one.why for one in scores if not one.right)


def test_what_belongs_to_nothing_is_left_over() -> None:
    stray = incident("accelerator:c/9")
    _, left = score([LOST, CALM], [incident("accelerator:a/1"), stray])
    assert left == [stray]


def test_a_second_incident_for_one_fault_is_left_over() -> None:
    twice = [incident("accelerator:a/1"), incident("host:a", id="2")]
    scores, left = score([LOST], twice)
    assert scores[0].right
    assert left == [twice[1]]


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_fault_knows_its_right_answer(fault: str) -> None:
    made = scenario(seed=2)
    made.at(60).fault(fault)
    (expected,) = made.expectations()
    assert expected.name == fault
    assert expected.verdicts
    assert expected.components
    assert expected.actions
