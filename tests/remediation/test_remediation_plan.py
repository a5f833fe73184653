"""Plans: verbs are whole rows of data, every verdict has a lawful plan, forbidden acts do not occur."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from remediation.plan import BLIND, HARD, KILLS, STANDS, job_state, plan, recipes
from remediation.verbs import IRREVERSIBLE, Verb, fits, verbs
from sickbay.components import Kind
from sickbay.messages import ALLOWED_ACTIONS, Action, Affected, Evidence, Incident, Severity, Step, Suspect, Verdict
from sickbay.vocabulary import faults
from tests.diagnosis.kit import T0, card, case, placement

DESIGN = """ignore watch collect_evidence run_test soft_avoid exclude_for_job drain_host dependency_hold isolate_device
isolate_port cost_out_link derate request_checkpoint hold_job stop_job relaunch_in_allocation requeue restart_service
reset_device reset_board reboot_host power_cycle check_link replace_part fix_software page_owner escalate release"""
WIPES = {"reset_device", "reset_board", "reboot_host", "power_cycle", "stop_job"}


def component_for(fault: str) -> str:
    kind = faults()[fault].component
    return {
        Kind.JOB: "job:4471", Kind.RANK: "rank:4471/3", Kind.SWITCH: "switch:leaf-07", Kind.STORAGE: "storage:MDT0",
        Kind.PATH: "path:192.0.2.1~192.0.2.2", Kind.HOST: "host:h17", Kind.PDU: "pdu:p1", Kind.CDU: "cdu:c1",
        Kind.COHORT: "cohort:driver=9",
    }.get(kind, f"{kind}:h17/0000:03:00")  # fmt: skip


def incident(fault: str, verdict: Verdict, action: Action, **fields: object) -> Incident:
    component = component_for(fault)
    given: dict[str, object] = {
        "severity": Severity.ERROR, "probability": 0.96, "onset_ms": T0,
        "suspects": (Suspect(component=component, probability=0.96),),
        "affected": Affected(jobs=("4471",)),
    }  # fmt: skip
    return Incident(id="a", verdict=verdict, component=component, fault=fault, action=action, **(given | fields))  # type: ignore[arg-type]


def evidence(fault: str) -> Evidence:
    return Evidence(id=fault, detector="t", version="1", component="job:4471", fault=fault, llr=1.0)


AT = case([], [placement("4471", ["h17", "h18"], from_ms=T0 - 1)])
EVERY = [
    (fault, verdict, action)
    for fault in sorted(faults())
    for verdict in Verdict
    for action in sorted(ALLOWED_ACTIONS[verdict])
]


def test_the_verbs_are_those_of_the_design() -> None:
    assert set(verbs()) == set(DESIGN.split())


@pytest.mark.parametrize("verb", verbs().values(), ids=lambda verb: verb.name)
def test_each_verb_has_an_undo_or_is_marked_irreversible(verb: Verb) -> None:
    assert verb.undo
    assert verb.reversible == (verb.undo != IRREVERSIBLE)
    assert 0 <= verb.least_p <= 1
    assert verb.read_back
    assert verb.en
    assert verb.zh
    assert set(verb.target) <= {*Kind, "owner", "*"}


@pytest.mark.parametrize("key", sorted(recipes()))
def test_each_recipe_uses_known_verbs_for_known_faults_or_actions(key: str) -> None:
    group, _, name = key.partition(".")
    assert name in (faults() if group == "fault" else set(Action))
    assert {step.do for step in recipes()[key]} <= set(verbs())


def test_each_headline_has_a_recipe() -> None:
    assert {f"action.{action}" for action in Action} <= set(recipes())


def test_every_lawful_incident_gets_a_lawful_plan() -> None:
    for fault, verdict, action in EVERY:
        told = plan(incident(fault, verdict, action), AT)
        assert told or action is Action.IGNORE or verdict is Verdict.MAINTENANCE
        for step in told:
            assert fits(verbs()[step.do], step.target)
            assert step.phase == verbs()[step.do].phase
            assert step.why


def test_evidence_is_saved_before_anything_is_wiped() -> None:
    for key, steps in recipes().items():
        done = [step.do for step in steps]
        wipes = [place for place, verb in enumerate(done) if verb in WIPES]
        assert not wipes or "collect_evidence" in done[: wipes[0]], key


def test_no_plan_touches_a_host_where_no_host_is_blamed() -> None:
    hard = {"drain_host", "reset_device", "reboot_host", "power_cycle", "replace_part", "dependency_hold"}
    for fault, verdict, action in EVERY:
        if verdict in (Verdict.JOB, Verdict.MAINTENANCE, Verdict.UNKNOWN):
            assert not hard & {step.do for step in plan(incident(fault, verdict, action), AT)}, (fault, verdict)


def test_a_watched_part_is_not_drained_though_its_fault_usually_is() -> None:
    for fault in sorted(faults()):
        if faults()[fault].action not in (Action.WATCH, Action.IGNORE):
            told = plan(incident(fault, Verdict.COMPONENT, Action.WATCH), AT)
            if fault in BLIND:  # night 8: out of the job at once, not out of service
                assert told[0].do == "exclude_for_job", fault
                assert not HARD & {step.do for step in told}, fault
            else:
                assert {step.do for step in told} <= {"watch"}, fault


def test_a_job_that_somebody_restarted_is_left_alone() -> None:
    again = placement("4471", ["h18"], attempt=1, from_ms=T0 + 40_000)
    at = case([], [placement("4471", ["h17"], from_ms=T0 - 1), again])
    hit = incident("accelerator_memory_contained", Verdict.COMPONENT, Action.RESET_DEVICE)
    assert job_state(hit, at) == "restarted"
    told = plan(hit, at)
    assert not {"stop_job", "requeue", "relaunch_in_allocation"} & {step.do for step in told}
    assert [step.when for step in told if step.do == "reset_device"] == ["when_idle"]


def test_an_idle_node_is_held_and_tested_at_once() -> None:
    hit = incident("accelerator_memory_repair_failed", Verdict.COMPONENT, Action.DRAIN_HOST, affected=Affected())
    told = plan(hit, case())
    assert [step.do for step in told] == ["drain_host", "collect_evidence", "run_test", "replace_part"]


def test_the_state_of_the_job_is_told_by_signs_or_by_the_fault() -> None:
    slow = incident("accelerator_thermal", Verdict.COMPONENT, Action.WATCH)
    assert job_state(slow, AT) == "alive"
    stands = incident("accelerator_thermal", Verdict.COMPONENT, Action.WATCH, evidence=(evidence("peers_idle"),))
    assert job_state(stands, AT) == "dead"
    assert job_state(incident("host_panic", Verdict.COMPONENT, Action.REBOOT_HOST), AT) == "dead"
    assert set(faults()) >= STANDS | KILLS


def test_an_exclusion_without_blame_names_the_host_of_the_rank() -> None:
    hit = incident("rank_absent", Verdict.UNKNOWN, Action.RESTART_JOB, evidence=(evidence("rank_absent"),))
    told = plan(hit, AT)
    assert [step.target for step in told if step.do == "exclude_for_job"] == ["host:h17"]
    assert card("h17", 3) == AT.placements.at(T0).component_of("rank:4471/3")


def test_a_port_of_a_switch_is_no_host_to_drain() -> None:
    from tests.diagnosis.kit import leaf

    at = case([], [placement("4471", ["h17"])], leaf("leaf-07", ["h17"]))
    hit = incident("optic_fault", Verdict.SHARED, Action.CHECK_LINK)
    from sickbay.messages import replace

    moved = replace(hit, component="optic:leaf-07/Ethernet0")
    assert "host:leaf-07" not in {step.target for step in plan(moved, at)}


@pytest.mark.parametrize(
    ("steps", "now_s", "state"),
    [
        ([], 5, "dead"),
        (range(-100, 1, 10), 5, "dead"),
        (range(-100, 41, 10), 45, "restarted"),  # it makes steps 40 s after the card was told to be lost
        (range(-100, 41, 10), 120, "dead"),  # it did, until it stopped: the host's clock is behind, or it was hit later
        ([-20, -10, 90, 100, 110], 115, "restarted"),  # by its framework, inside the allocation
    ],
)
def test_a_job_that_makes_steps_after_the_fault_is_not_stopped(steps: Sequence[int], now_s: int, state: str) -> None:
    made = [Step(step=place, job="4471", at_ms=T0 + second * 1000) for place, second in enumerate(steps)]
    at = replace(AT, steps=tuple(made), now_ms=T0 + now_s * 1000)
    hit = incident("accelerator_off_bus", Verdict.COMPONENT, Action.REBOOT_HOST)
    assert job_state(hit, at) == state
    told = {step.do for step in plan(hit, at)}
    assert "drain_host" in told
    assert ("stop_job" in told) == (state == "dead")


@pytest.mark.parametrize(("probability", "acts"), [(0.98, True), (0.89, False)])
def test_one_family_of_coolant_readings_neither_derates_nor_holds(probability: float, acts: bool) -> None:
    told = incident("cooling_lost", Verdict.SHARED, Action.ESCALATE, probability=probability)
    done = {step.do for step in plan(told, case(placements=[placement("4471", ["h17"])]))}
    assert "page_owner" in done
    assert ({"derate", "hold_job"} <= done, done.isdisjoint({"derate", "hold_job"})) == (acts, not acts)
