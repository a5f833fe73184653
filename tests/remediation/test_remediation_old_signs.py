"""What was old when it was told is no reason to touch a node; what waits for a checkpoint is not done before it."""

from typing import Any

import pytest
from msgspec.structs import replace

from sickbay.messages import Action, Affected, Evidence, PlanStep, Severity
from tests.remediation.kit import ACT, CARD, JOB, Cluster, found, writes

MINUTE_MS = 60_000


def sign(at_ms: int, **fields: Any) -> Evidence:
    told: dict[str, Any] = {"id": f"e{at_ms}", "component": CARD, "fault": "accelerator_off_bus"}
    return Evidence(
        **told | {"onset_from_ms": at_ms, "onset_to_ms": at_ms, "end_ms": at_ms} | fields,
        detector="explicit_code", version="1", llr=3.0, severity=Severity.FATAL,
    )  # fmt: skip


def told_of(cluster: Cluster, *signs: Evidence) -> None:
    """Diagnosis finds it only now, whatever its signs say of when they were."""
    onset = min(one.onset_from_ms or 0 for one in signs)
    cluster.tell(replace(found("i1", cluster.clock.now_ms, onset_ms=onset), evidence=signs))


@pytest.mark.parametrize(("age_s", "after_s"), [(0, 1), (110, 1), (130, 90), (300, 90), (900, None), (1700, None)])
def test_a_line_that_was_old_when_it_was_read_is_no_news(age_s: int, after_s: int | None) -> None:
    """At once, after a look whether the part still answers, or by a person."""
    one = Cluster()
    told_of(one, sign(one.clock.now_ms - age_s * 1000))
    began = one.clock.now_ms
    one.run(150, until=lambda: bool(one.scheduler.writes))
    assert writes(one, "drain") == (["n1"] if after_s else [])
    if after_s:
        assert after_s * 1000 <= one.clock.now_ms - began + 1000 <= (after_s + 5) * 1000
    else:
        assert one.states()["drain_host"] == "waiting"


def test_a_part_that_turns_out_to_answer_is_not_held() -> None:
    """Diagnosis thinks less of the old line once the card's own telemetry goes on."""
    one = Cluster()
    told_of(one, sign(one.clock.now_ms - 300_000))
    one.run(45)
    one.tell(replace(one.incidents["i1"], probability=0.6, action=Action.WATCH, plan=()))
    one.run(120)
    assert one.scheduler.writes == []


def test_a_new_sign_beside_an_old_one_makes_it_news() -> None:
    one = Cluster()
    told_of(one, sign(one.clock.now_ms - 20 * MINUTE_MS), sign(one.clock.now_ms))
    one.run(20)
    assert writes(one, "drain") == ["n1"]


def test_what_others_show_now_does_not_make_an_old_fault_news() -> None:
    one = Cluster()
    stall = sign(one.clock.now_ms, component=f"job:{JOB}", fault="collective_stall")
    told_of(one, sign(one.clock.now_ms - 20 * MINUTE_MS), stall)
    one.run(20)
    assert one.scheduler.writes == []


def test_a_hold_for_the_next_checkpoint_is_shown_and_not_done() -> None:
    """Night 4: a slow card in a job that makes steps."""
    one = Cluster(replace(ACT, faults=("accelerator_thermal",)))
    bare = found("i1", one.clock.now_ms, fault="accelerator_thermal", action=Action.WATCH, severity=Severity.WARNING,
                 affected=Affected(jobs=(JOB,)))  # fmt: skip
    assert steps_of(bare.plan) >= {("drain_host", "at_checkpoint"), ("stop_job", "at_checkpoint")}
    one.tell(bare)
    one.run(20)
    assert one.scheduler.writes == []
    assert one.states()["drain_host"] == "shown"


def steps_of(plan: tuple[PlanStep, ...]) -> set[tuple[str, str]]:
    return {(step.do, step.when) for step in plan}
