"""Scoring: a real fault needs its one right incident, a decoy needs peace, and nothing may be left over."""

from collections.abc import Iterable

import pytest

from sickbay.messages import Action, Incident, PlanStep, Severity, Verdict
from sickbay.vocabulary import faults
from simulator.faults import FAULTS
from simulator.scenario import scenario
from simulator.truth.demand import unmet
from simulator.truth.expectation import Expectation, score

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


@pytest.mark.parametrize(
    ("do", "target", "right"),
    [("drain_host", "host:a", True), ("drain_host", "host:b", False), ("hold_job", "job:1", True),
     ("reset_device", "accelerator:b/1", False), ("watch", "host:b", True)],
)  # fmt: skip
def test_a_plan_that_touches_an_innocent_is_wrong(do: str, target: str, right: bool) -> None:
    step = PlanStep(do=do, target=target, phase="contain")
    (one,), _ = score([LOST], [incident("accelerator:a/1", plan=(step,))])
    assert one.right is right
    (calm,), _ = score([CALM], [incident("accelerator:b/1", Action.WATCH, plan=(step,))])
    assert calm.right is (do not in {"drain_host", "reset_device"})


def test_demands_are_met_in_time_or_told() -> None:
    made = scenario(seed=2)
    made.expect(by=30).incident(component="accelerator:a/1", verdict="component", action="reboot_host")
    made.expect().nothing_done_to("accelerator:b/1")
    found = [incident("accelerator:a/1")]
    assert unmet(made.demands, found, {"accelerator:a/1": 12}) == []
    assert "not by 30 s" in unmet(made.demands, found, {"accelerator:a/1": 31})[0]
    assert "no incident" in unmet(made.demands, [], {})[0]
    drain = PlanStep(do="drain_host", target="host:b", phase="contain")
    harm = [*found, incident("host:z", Action.WATCH, plan=(drain,))]
    assert unmet(made.demands, harm, {}) == ["plan: drain_host of host:b"]
    assert unmet(made.demands, [*found, incident("host:b", Action.DRAIN_HOST)], {}) == ["drain_host of host:b"]


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
    assert expected.name == fault or expected.name in faults()  # a variant goes by its class
    assert expected.components
    if expected.decoy:  # only the sensors are wrong: nobody is held
        assert expected.family == "telemetry"
        assert expected.exonerated
        return
    assert expected.verdicts
    assert expected.actions
