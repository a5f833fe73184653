"""Declared work: what lies wholly inside is maintenance and ignored; what does not is a fault like any other."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from diagnosis.case import Case
from diagnosis.engine import advance, diagnose
from remediation.plan import planned
from sickbay.actions import Control
from sickbay.messages import Action, Edge, Event, Incident, Relation, Verdict
from sickbay.topology import Topology
from tests.diagnosis.kit import HOSTS, T0, card, case, event, placement

CARD = card("h17", 3)
EDGES = [
    *(Edge(child=f"host:{host}", parent="rack:r1", relation=Relation.PART_OF) for host in HOSTS),
    Edge(child="rack:r1", parent="pdu:p1", relation=Relation.POWERED_BY),
    *(Edge(child=f"host:{host}", parent="switch:leaf1", relation=Relation.ATTACHED_TO) for host in HOSTS),
]


def work(target: str, from_s: float = -60, until_s: float | None = 600, note: str = "") -> Control:
    return Control(
        kind="maintenance", target=target, by="carol", at_ms=T0 - 900_000, from_ms=T0 + round(from_s * 1000),
        until_ms=None if until_s is None else T0 + round(until_s * 1000), note=note,
    )  # fmt: skip


def during(events: Iterable[Event], *controls: Control, jobs: bool = True) -> Case:
    at = case(list(events), [placement("4471", HOSTS)] if jobs else [])
    return replace(at, maintenance=controls, topology=Topology([*at.topology, *EDGES]))


def judged(events: Iterable[Event], *controls: Control, jobs: bool = True) -> Incident:
    (incident,) = diagnose(during(events, *controls, jobs=jobs))
    return incident


LOST = event("accelerator.off_bus", CARD, 0.0)


@pytest.mark.parametrize("target", ["host:h17", CARD, "rack:r1", "pdu:p1"])
@pytest.mark.parametrize("jobs", [True, False])
def test_a_fault_inside_the_work_on_it_or_above_it_is_maintenance(target: str, jobs: bool) -> None:
    incident = judged([LOST], work(target, note="new riser"), jobs=jobs)
    assert (incident.verdict, incident.action) == (Verdict.MAINTENANCE, Action.IGNORE)
    assert incident.fault == "accelerator_off_bus"
    for word in ("carol", target, "new riser"):
        assert word in incident.summary
    (told,) = planned([incident], during([LOST]), "en")
    assert not any(step.interrupts or step.do == "drain_host" for step in told.plan)


@pytest.mark.parametrize(
    "control",
    [
        work("host:h16"),  # another host
        work("rack:r2"),
        work("host:h17", -600, -60),  # was over
        work("host:h17", 60, 600),  # began later
        work("switch:leaf1"),  # a card does not break because a switch does
    ],
)
def test_a_fault_outside_is_one_like_any_other(control: Control) -> None:
    incident = judged([LOST], control)
    assert (incident.verdict, incident.component) == (Verdict.COMPONENT, CARD)
    assert "carol" not in incident.summary


def test_a_sign_after_the_end_makes_it_a_fault() -> None:
    again = event("accelerator.off_bus", CARD, 900.0)
    assert judged([LOST, again], work("host:h17", until_s=600)).verdict is Verdict.COMPONENT
    assert judged([LOST, again], work("host:h17", until_s=None)).verdict is Verdict.MAINTENANCE


def test_what_nothing_dates_is_not_inside() -> None:
    undated = event("accelerator.off_bus", CARD, None)
    assert judged([undated], work("host:h17", until_s=None)).verdict is not Verdict.MAINTENANCE


def test_work_on_a_switch_reaches_the_ports_that_hang_on_it() -> None:
    down = event("port.down", "port:leaf1/7", 0.0)
    found = diagnose(during([down], work("switch:leaf1")))
    assert {one.verdict for one in found} <= {Verdict.MAINTENANCE}


def test_two_hosts_each_declared_are_maintenance_and_one_that_is_not_stays_a_fault() -> None:
    other = event("accelerator.off_bus", card("h18", 1), 5.0)
    found = {one.component: one.verdict for one in diagnose(during([LOST, other], work("host:h17")))}
    assert found[CARD] is Verdict.MAINTENANCE
    assert found[card("h18", 1)] is Verdict.COMPONENT


def test_an_open_incident_follows_what_people_declare_and_take_back() -> None:
    (first,) = advance((), during([LOST]))
    (second,) = advance((first,), during([LOST], work("rack:r1")))
    (third,) = advance((second,), during([LOST], work("rack:r1", -600, -60)))
    assert [one.verdict for one in (first, second, third)] == [
        Verdict.COMPONENT, Verdict.MAINTENANCE, Verdict.COMPONENT,
    ]  # fmt: skip
    assert first.id == second.id == third.id


def test_a_shutdown_that_nobody_declared_is_still_quiet_where_it_hit_nothing() -> None:
    gone = event("host.shutdown_orderly", "host:h17", 0.0)
    assert diagnose(during([gone], jobs=False)) == ()
    found = diagnose(during([gone], work("host:h17"), jobs=False))
    assert {one.verdict for one in found} <= {Verdict.MAINTENANCE}
