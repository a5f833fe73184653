"""The story and its twists on the memory log with a simulated scheduler: right every time, and nothing forbidden."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from remediation.schedulers import Refused, Unreachable
from sickbay.app.remediating.remediation_inputs import GROUP, TASK
from sickbay.app.remediating.remediator import Remediator
from sickbay.log import Bounds, LogBusy, OutcomeUnknown, Replaced, Task
from sickbay.log.memory import MemoryReader
from sickbay.messages import Action, Affected, Evidence, Verdict
from sickbay.settings import Remediation
from tests.remediation.kit import ACT, CARD, JOB, MADE, Cluster, Crash, command_of, found, writes


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close_all()


def acting(folder: Path, script: str = "exit 0", **fields: object) -> Remediation:
    command = command_of(folder, script)
    given = {"test_command": command, "test_sensitivity": 0.95, "evidence": str(folder / "bundles")}
    return replace(ACT, **(given | fields))


def test_the_story_hold_evidence_requeue_test_release(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path))
    one.incident()
    one.run_slowly(until=lambda: one.states().get("release") == "verified")
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB), ("resume", "n1")]
    assert one.history("drain_host") == ["intended", "verified", "undone"]
    assert one.history("requeue") == ["intended", "verified"]
    assert one.states()["power_cycle"] == "shown"
    one.run(5)
    assert one.scheduler.jobs([JOB])[JOB].attempt == 1
    assert one.scheduler.jobs([JOB])[JOB].nodes == ("n2", "n3", "n4")
    bundle = Path(one.line("collect_evidence").read_back)
    assert '"incident":{"type":"incident","id":"i1"' in bundle.read_text()
    assert [outcome.result for outcome in one.outcomes()] == ["refuted"]


def test_the_order_hold_before_evidence_before_requeue(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path))
    one.incident()
    one.run_slowly(until=lambda: bool(writes(one, "requeue")))
    order = [line.split()[1:3] for line in one.lines]
    held, saved = order.index(["verified", "drain_host"]), order.index(["verified", "collect_evidence"])
    assert held < order.index(["intended", "requeue"])
    assert saved < order.index(["intended", "requeue"])


def test_the_reason_carries_action_generation_and_incident(tmp_path: Path) -> None:
    one = Cluster()
    one.incident()
    one.run(2)
    reason = one.scheduler.nodes(["n1"])["n1"].reason
    assert reason.startswith(f"sickbay {one.line('drain_host').id} g1 accelerator_off_bus")
    assert reason.endswith("incident i1")


def test_observe_shows_the_plan_and_writes_nothing() -> None:
    one = Cluster(Remediation(scheduler="simulated"))
    one.incident()
    one.run(30)
    assert one.scheduler.writes == []
    assert set(one.states().values()) == {"shown"}
    assert {"drain_host", "requeue", "power_cycle", "run_test", "release"} <= set(one.states())


def test_a_site_where_nothing_is_to_be_done_commits_how_far_it_has_read() -> None:
    """Else it would look from outside as if it stood still."""
    one = Cluster()
    one.run(20)
    position = one.log.reader().positions(GROUP, [TASK])[TASK]
    assert one.log.reader().bounds(TASK).end - position.offset <= 8  # the newest heartbeats at most


def test_a_site_without_a_scheduler_shows_everything() -> None:
    one = Cluster(Remediation(mode="act", scheduler="none"))
    one.remediator = one.started()
    one.incident()
    one.run(5)
    assert one.scheduler.writes == []
    assert "no scheduler" in one.line("drain_host").why


def test_a_node_that_an_admin_drained_before_is_never_written() -> None:
    one = Cluster()
    one.scheduler.hold("n1", "PSU swap 10:00", "alice")
    one.incident()
    one.run(10)
    assert "n1" not in writes(one, "drain") + writes(one, "resume")
    line = one.line("drain_host")
    assert (line.state, line.co_hold) == ("refused", True)
    assert "alice" in line.why
    assert one.states()["requeue"] == "verified"  # the node takes no new work, so the job starts elsewhere
    assert one.scheduler.nodes(["n1"])["n1"].reason == "PSU swap 10:00"


def test_a_co_hold_becomes_a_hold_only_while_it_is_still_needed() -> None:
    for needed in (True, False):
        one = Cluster()
        one.scheduler.hold("n1", "PSU swap", "alice")
        one.incident()
        one.run(5)
        if not needed:
            one.close("i1")
            one.run(3)
        one.scheduler.release("n1")
        one.run(10)
        assert writes(one, "drain") == (["n1"] if needed else [])
        assert not one.line("drain_host").co_hold


@pytest.mark.parametrize("how", ["drain", "down", "maint"])
def test_a_node_taken_by_somebody_between_read_and_write_is_not_written(how: str) -> None:
    one = Cluster()

    def trouble(moment: str) -> None:  # alice is quicker: after the policy's read, before ours
        if moment == "nodes:after" and not one.scheduler.nodes_held():
            one.scheduler.hold("n1", "fan", "alice", how)

    one.scheduler.trouble = trouble
    one.incident()
    one.run(5)
    assert writes(one, "drain") == []
    assert one.line("drain_host").co_hold


def test_a_client_that_refuses_as_another_holds_the_node_makes_it_a_co_hold() -> None:
    one = Cluster()

    def trouble(moment: str) -> None:
        if moment == "drain:before":
            one.scheduler.hold("n1", "fan", "alice")
            raise Refused("n1 is held by somebody else")

    one.scheduler.trouble = trouble
    one.incident()
    one.run(5)
    assert writes(one, "drain") == []
    assert (one.line("drain_host").state, one.line("drain_host").co_hold) == ("refused", True)


def test_a_hold_that_somebody_takes_over_is_theirs(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path, "exit 1"))
    one.incident()
    one.run(3)
    one.scheduler.hold("n1", "RMA 123", "bob")
    one.run(20)
    assert one.states()["drain_host"] == "undone"
    assert writes(one, "resume") == []
    assert one.scheduler.nodes(["n1"])["n1"].reason == "RMA 123"
    one.scheduler.release("n1")  # and bob's word counts, though the incident is open still
    one.run(20)
    assert writes(one, "drain") == ["n1"]


def test_a_node_that_a_person_releases_is_not_held_again_for_the_same_incident() -> None:
    one = Cluster()
    one.incident()
    one.run(3)
    one.scheduler.release("n1")
    one.run(30)
    assert writes(one, "drain") == ["n1"]
    assert one.line("drain_host").state == "undone"


def test_a_code_that_a_program_causes_holds_nobody() -> None:
    one = Cluster()
    one.incident(verdict=Verdict.JOB, component=f"job:{JOB}", fault="process_exit", action=Action.RESTART_JOB)
    one.run(20)
    assert one.scheduler.writes == []
    assert set(one.states().values()) <= {"shown"}


def test_a_fault_class_that_is_not_named_is_shown_only() -> None:
    one = Cluster()
    one.incident(fault="accelerator_thermal", action=Action.DRAIN_HOST)
    one.run(10)
    assert one.scheduler.writes == []
    assert "no class" in one.line("drain_host").why


def test_a_weak_verdict_is_shown_only() -> None:
    one = Cluster()
    one.incident(probability=0.9)
    one.run(10)
    assert one.scheduler.writes == []


# --- sleepers, crashes, standbys --------------------------------------------------------------------------------------
def test_whoever_sleeps_between_read_and_write_looks_again_before_it_writes() -> None:
    one = Cluster()
    slept: list[int] = []

    def trouble(moment: str) -> None:  # stopped right before the drain, for a minute
        if moment == "nodes:after" and len(slept) < 2 and one.line_state("drain_host") == "intended":
            slept.append(one.clock.now_ms)
            one.clock.sleep(60_000)

    one.scheduler.trouble = trouble
    one.incident()
    one.judging = False
    one.judge()
    one.run(1)
    assert slept
    assert one.scheduler.writes == []  # what diagnosis knew is a minute old as well
    one.judging = True
    one.run(10)
    assert writes(one, "drain") == ["n1"]


def test_a_sleeper_never_requeues_the_attempt_after_the_one_that_was_hit() -> None:
    one = Cluster()
    woke: list[bool] = []

    def trouble(moment: str) -> None:  # stopped after the drain; meanwhile somebody gives the job back
        if moment == "drain:after" and not woke:
            woke.append(True)
            one.scheduler._requeue(JOB)
            one.clock.sleep(60_000)
            one.place()

    one.scheduler.trouble = trouble
    one.incident()
    one.run(30)
    assert one.scheduler.jobs([JOB])[JOB].attempt == 1
    assert writes(one, "requeue") == []
    assert one.states()["requeue"] == "expired"
    assert one.states()["drain_host"] == "verified"


@pytest.mark.parametrize(
    "moment",
    ["commit:before", "commit:after", "nodes:after", "drain:before", "drain:after", "requeue:before", "requeue:after"],
)
@pytest.mark.parametrize("count", range(1, 6))
def test_a_crash_anywhere_is_settled_by_reading_back(moment: str, count: int) -> None:
    one = Cluster(seed=count)
    seen = 0

    def trouble(here: str) -> None:
        nonlocal seen
        seen += here == moment
        if here == moment and seen == count:
            raise Crash

    one.scheduler.trouble = one.log.hook = trouble
    one.incident()
    crashes = 0
    for _ in range(20):
        try:
            one.run(1)
        except Crash:
            crashes += 1
            one.restart()
    assert crashes <= 1
    assert writes(one, "drain") == ["n1"]
    assert writes(one, "requeue") == [JOB]
    assert one.scheduler.jobs([JOB])[JOB].attempt == 1
    assert one.states()["drain_host"] == one.states()["requeue"] == "verified"


def test_a_hold_of_which_the_outcome_is_long_unknown_is_asked_about() -> None:
    one = Cluster()

    def trouble(moment: str) -> None:
        if moment == "drain:before":
            raise Crash

    one.scheduler.trouble = trouble
    one.incident()
    with pytest.raises(Crash):
        one.run(2)
    one.scheduler.trouble = lambda moment: None
    one.clock.sleep(120_000)
    one.restart()
    one.run(5)
    assert one.states()["drain_host"] == "waiting"
    assert writes(one, "drain") == []
    one.say("approval", one.line("drain_host").id)
    one.run(3)
    assert writes(one, "drain") == ["n1"]


def test_one_that_is_replaced_stops_and_does_nothing_more() -> None:
    one = Cluster()
    old = one.remediator
    one.run(1)
    one.restart()
    one.incident()
    one.judge()
    with pytest.raises(Replaced):
        old.step(one.clock.now_ms)
    one.run(5)
    assert writes(one, "drain") == ["n1"]


def test_a_standby_takes_over_and_repeats_nothing() -> None:
    one = Cluster()
    one.incident()
    one.run(5)
    one.remediator.close()
    one.remediator = one.started(member="remediation-2")
    one.run(20)
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]


# --- stale, merged, closed --------------------------------------------------------------------------------------------
def test_a_silent_diagnosis_stops_everything_and_its_return_goes_on() -> None:
    one = Cluster(judging=False)
    one.incident()
    one.judge()
    one.clock.sleep(60_000)
    one.run(10)
    assert one.scheduler.writes == []
    assert one.states()["drain_host"] == "expired"
    one.judging = True
    one.run(5)
    assert writes(one, "drain") == ["n1"]


def test_a_diagnosis_that_is_behind_is_not_followed() -> None:
    one = Cluster(judging=False)
    one.incident()
    for _ in range(10):
        one.judge(as_of_ms=one.clock.now_ms - 16_000)
        one.run(1)
    assert one.scheduler.writes == []


def test_late_news_of_a_stall_leave_the_job_to_a_person() -> None:
    one = Cluster()
    one.clock.sleep(540_000)
    one.incident(onset_ms=one.clock.now_ms - 540_000, detected_ms=one.clock.now_ms - 540_000)
    one.run(10)
    assert writes(one, "drain") == ["n1"]
    assert writes(one, "requeue") == []
    assert one.states()["requeue"] == "waiting"


def test_a_hold_stays_until_its_test_though_the_incident_is_closed(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path, "sleep 0.2; exit 0"))
    one.incident()
    one.run_slowly(until=lambda: one.states().get("requeue") == "verified")
    one.close("i1")
    one.run_slowly(until=lambda: one.states().get("release") == "verified")
    assert writes(one, "resume") == ["n1"]


def test_waiting_actions_of_a_merged_incident_expire() -> None:
    one = Cluster(replace(ACT, mode="advise"))
    first = one.incident()
    one.run(2)
    assert one.states()["drain_host"] == "waiting"
    one.tell(replace(first, state="merged", merged_into="i0"))
    one.run(3)
    assert one.states()["drain_host"] == "expired"
    assert "merged into i0" in one.line("drain_host").why


def test_two_incidents_on_one_host_hold_it_once() -> None:
    one = Cluster()
    one.incident("i1")
    one.incident("i2", component="accelerator:n1/0000:03:00")
    one.run(10)
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]


# --- people -----------------------------------------------------------------------------------------------------------
def test_advise_waits_and_does_what_is_approved() -> None:
    one = Cluster(replace(ACT, mode="advise"))
    one.incident()
    one.run(5)
    assert one.scheduler.writes == []
    assert (one.states()["drain_host"], one.states()["requeue"]) == ("waiting", "waiting")
    one.say("approval", one.line("requeue").id)
    one.run(3)
    assert one.scheduler.writes == []  # the node comes first
    one.say("approval", one.line("drain_host").id)
    one.run(5)
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]
    assert one.line("drain_host").by == "carol"


def test_a_no_is_final() -> None:
    one = Cluster(replace(ACT, mode="advise"))
    one.incident()
    one.run(2)
    one.say("rejection", one.line("drain_host").id, note="known, RMA on its way")
    one.run(2)
    one.say("approval", one.line("drain_host").id)
    one.run(5)
    assert one.scheduler.writes == []
    assert one.line("drain_host").state == "refused"
    assert "RMA" in one.line("drain_host").why


def test_no_answer_in_time_does_nothing_and_a_late_one_neither() -> None:
    one = Cluster(replace(ACT, mode="advise", approval_s=10.0))
    one.incident()
    one.run(12)
    assert one.states()["drain_host"] == "expired"
    one.say("approval", one.line("drain_host").id)
    one.run(10)
    assert one.scheduler.writes == []
    assert one.states()["drain_host"] == "expired"


def test_a_pause_mutes_and_its_end_goes_on() -> None:
    one = Cluster()
    one.say("pause", "all", until_ms=one.clock.now_ms + 10_000, note="game day")
    one.incident()
    one.run(5)
    assert one.scheduler.writes == []
    assert "carol" in one.line("drain_host").why
    one.run(10)
    assert writes(one, "drain") == ["n1"]


def test_the_kill_switch_stops_it_before_the_next_write(tmp_path: Path) -> None:
    switch = tmp_path / "stop"
    one = Cluster(replace(ACT, kill_switch=str(switch)))

    def trouble(moment: str) -> None:  # set between the decision and the write
        if moment == "nodes:after" and one.line_state("drain_host") == "intended":
            switch.touch()

    one.scheduler.trouble = trouble
    one.incident()
    one.run(5)
    assert one.scheduler.writes == []
    one.scheduler.trouble = lambda moment: None
    switch.unlink()
    one.run(5)
    assert writes(one, "drain") == ["n1"]


def test_a_kill_switch_that_cannot_be_looked_at_is_set(tmp_path: Path) -> None:
    one = Cluster(replace(ACT, kill_switch=str(tmp_path / "missing" / "stop")))
    one.incident()
    one.run(5)
    assert one.scheduler.writes == []
    assert one.states()["drain_host"] == "shown"


# --- budget, spares, owners -------------------------------------------------------------------------------------------
def test_the_budget_of_an_hour_is_kept_and_comes_back() -> None:
    one = Cluster(replace(ACT, holds_per_hour=2), job_size=1)
    for number in (2, 3, 4):
        one.incident(f"i{number}", component=f"accelerator:n{number}/0000:03:00", affected=Affected())
    one.run(10)
    assert sorted(writes(one, "drain")) == ["n2", "n3"]
    assert "budget" in one.line("drain_host", "i4").why
    one.clock.sleep(3_600_000)
    one.run(5)
    assert one.line("drain_host", "i4").state == "waiting"  # an hour later somebody may have repaired it
    one.say("approval", one.line("drain_host", "i4").id)
    one.run(5)
    assert sorted(writes(one, "drain")) == ["n2", "n3", "n4"]


def test_no_more_nodes_are_held_at_once_than_allowed() -> None:
    one = Cluster(replace(ACT, held_at_once=1), job_size=1)
    for number in (2, 3):
        one.incident(f"i{number}", component=f"accelerator:n{number}/0000:03:00", affected=Affected())
    one.run(10)
    assert writes(one, "drain") == ["n2"]


def test_without_an_idle_node_a_person_says_whether_the_job_is_given_back() -> None:
    one = Cluster(job_size=4)
    one.incident()
    one.run(10)
    assert writes(one, "drain") == ["n1"]
    assert one.states()["requeue"] == "waiting"
    assert "no idle node" in one.line("requeue").why


def test_a_job_that_may_not_be_requeued_is_shown_to_a_person() -> None:
    one = Cluster()
    one.scheduler.submit(JOB, 3, may_requeue=False)
    one.incident()
    one.run(10)
    assert one.states()["requeue"] == "shown"
    assert writes(one, "requeue") == []


def test_a_job_whose_attempt_nobody_told_is_left_alone() -> None:
    one = Cluster()
    one.append("sickbay.placement.v1", JOB.encode(), None)
    one.incident(onset_ms=one.clock.now_ms - 50_000)  # before the placement began
    one.run(10)
    assert writes(one, "requeue") == []


# --- the scheduler in trouble -----------------------------------------------------------------------------------------
def test_an_unreadable_scheduler_is_no_permission_and_is_seen_in_the_ledger() -> None:
    one = Cluster()

    def away(moment: str) -> None:
        if moment == "nodes:before":
            raise Unreachable("no answer")

    one.scheduler.trouble = away
    one.incident()
    one.run(10)
    assert "cannot be read" in one.line("drain_host").why
    one.scheduler.trouble = lambda moment: None
    one.run(20)
    assert writes(one, "drain") == ["n1"]


def test_writes_in_vain_are_tried_again_a_few_times_only() -> None:
    one = Cluster()
    asked = 0

    def away(moment: str) -> None:
        nonlocal asked
        asked += moment == "drain:before"
        if moment == "drain:before":
            raise Unreachable("no answer")

    one.scheduler.trouble = away
    one.incident()
    one.run(60)
    assert asked == 5
    assert one.states()["drain_host"] == "failed"
    assert "5 tries" in one.line("drain_host").why


def test_a_write_whose_answer_was_lost_is_found_by_reading_back() -> None:
    one = Cluster()

    def lost(moment: str) -> None:
        if moment in ("drain:after", "requeue:after"):
            raise Unreachable("no answer")

    one.scheduler.trouble = lost
    one.incident()
    one.run(10)
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]
    assert one.states()["drain_host"] == one.states()["requeue"] == "verified"


def test_a_refused_write_is_final_and_told() -> None:
    one = Cluster()

    def no(moment: str) -> None:
        if moment == "drain:before":
            raise Refused("access denied: run as an operator")

    one.scheduler.trouble = no
    one.incident()
    one.run(10)
    assert one.states()["drain_host"] == "failed"
    assert "access denied" in one.line("drain_host").why
    assert writes(one, "requeue") == []


# --- test and release -------------------------------------------------------------------------------------------------
def test_a_failing_test_is_repeated_and_confirms_until_the_part_is_repaired(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path, f"test -e {tmp_path}/repaired", test_again_s=1.0))
    one.incident()
    one.run_slowly(until=lambda: one.line_of("run_test") is not None and one.line("run_test").tries >= 4)
    assert [outcome.result for outcome in one.outcomes()[:1]] == ["confirmed"]
    assert one.states()["release"] == "waiting"
    assert writes(one, "resume") == []
    (tmp_path / "repaired").touch()
    one.run_slowly(until=lambda: one.states()["release"] == "verified")
    assert any("passed 1 of 2 times" in line for line in one.lines)  # by luck a bad part passes one of many
    assert {outcome.result for outcome in one.outcomes()} == {"confirmed"}


@pytest.mark.slow
def test_a_node_is_not_given_back_to_the_job_that_it_killed(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path))
    one.scheduler.requeue_ms = 60_000
    one.incident()
    one.run_slowly(30)
    assert one.states()["run_test"] == "verified"
    assert writes(one, "resume") == []
    one.run_slowly(until=lambda: one.states().get("release") == "verified")
    assert one.scheduler.jobs([JOB])[JOB].nodes == ("n2", "n3", "n4")


def test_a_pass_of_an_insensitive_test_settles_nothing(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path, test_sensitivity=0.5))
    one.incident()
    one.run_slowly(until=lambda: one.states().get("release") == "waiting")
    one.run(5)
    assert [outcome.result for outcome in one.outcomes()] == ["inconclusive"]
    assert writes(one, "resume") == []
    one.say("approval", one.line("release").id)
    one.run(3)
    assert writes(one, "resume") == ["n1"]


def test_a_test_that_hangs_is_ended_and_settles_nothing(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path, "echo working; sleep 60", test_timeout_s=2.0))
    one.incident()
    one.run_slowly(until=lambda: bool(one.outcomes()))
    assert one.outcomes()[0].result == "inconclusive"
    assert "working" in one.outcomes()[0].detail
    assert writes(one, "resume") == []


def test_the_second_hold_of_a_node_within_two_weeks_is_released_by_a_person(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path))
    one.incident("i1")
    one.run_slowly(until=lambda: one.states("i1").get("release") == "verified")
    one.close("i1")
    one.incident("i2", affected=Affected())
    one.run_slowly(until=lambda: one.states("i2").get("release") == "waiting")
    assert writes(one, "drain") == ["n1", "n1"]
    assert writes(one, "resume") == ["n1"]
    assert "second hold" in one.line("release", "i2").why
    assert one.line("drain_host", "i2").generation == 2


def test_a_part_that_fails_again_after_its_release_is_held_again_though_the_incident_is_the_same(
    tmp_path: Path,
) -> None:
    one = Cluster(acting(tmp_path))
    first = one.tell(replace(found("i1", one.clock.now_ms), evidence=(sign(one.clock.now_ms),)))
    one.run_slowly(until=lambda: one.states().get("release") == "verified")
    one.scheduler.requeue(JOB)  # by its owner: it runs on n1 again
    one.run(60)
    one.place()
    assert writes(one, "drain") == ["n1"]
    one.tell(replace(first, evidence=(*first.evidence, sign(one.clock.now_ms))))
    one.run_slowly(until=lambda: len(writes(one, "drain")) == 2)
    assert writes(one, "drain") == ["n1", "n1"]
    holds = [line for line in one.ledger.values() if line.do == "drain_host"]
    assert {line.generation: str(line.state) for line in holds} == {1: "undone", 2: "verified"}
    one.run_slowly(20)
    assert writes(one, "drain") == ["n1", "n1"]
    assert writes(one, "resume") == ["n1"]  # the second release is a person's to say
    asked = [line for line in one.ledger.values() if line.do == "requeue" and line.attempt == f"{JOB}/2"]
    assert [str(line.state) for line in asked] == ["waiting"]  # we stopped it once already: a person says


def sign(at_ms: int) -> Evidence:
    return Evidence(id=f"e{at_ms}", detector="explicit_code", version="1", component=CARD, fault="accelerator_off_bus",
                    llr=3.0, onset_from_ms=at_ms, onset_to_ms=at_ms)  # fmt: skip


def test_nothing_is_tested_while_something_runs_there(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path), job_size=4)  # no spare: the job stays
    one.incident()
    one.run_slowly(20)
    assert one.states()["run_test"] == "shown"
    assert "nothing runs there" in one.line("run_test").why  # what a person sees who asks why it is held still


def test_a_node_is_not_released_once_somebody_changed_its_reason(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path, test_sensitivity=0.5))
    one.incident()
    one.run_slowly(until=lambda: one.states().get("release") == "waiting")
    one.scheduler.hold("n1", one.scheduler.nodes(["n1"])["n1"].reason, "bob")  # same words, another user
    one.say("approval", one.line("release").id)
    one.run(5)
    assert writes(one, "resume") == []


# --- the log in trouble -----------------------------------------------------------------------------------------------
def test_a_log_that_is_away_is_waited_for_also_while_all_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Cluster()
    left = 3

    def bounds(reader: MemoryReader, task: Task) -> Bounds:
        nonlocal left
        left -= 1
        if left >= 0:
            raise LogBusy("the broker restarts")
        return one.log.bounds(task)

    monkeypatch.setattr(MemoryReader, "bounds", bounds)
    one.incident()
    one.run(5)
    assert writes(one, "drain") == ["n1"]
    assert sum("the broker restarts" in line for line in one.lines) == 1


def test_a_commit_of_unknown_outcome_is_read_back_before_anything_is_done() -> None:
    for happened in (True, False):
        one = Cluster()
        raised: list[str] = []

        def hook(moment: str, raised: list[str] = raised, happened: bool = happened) -> None:
            if moment == ("commit:after" if happened else "commit:before") and not raised:
                raised.append(moment)
                raise OutcomeUnknown("the broker restarts")

        one.log.hook = hook
        one.incident()
        one.run(5)
        assert raised
        assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]


@pytest.mark.parametrize("clock", ["now_ms", "mono_ms"])
def test_either_clock_tells_of_a_sleep(clock: str) -> None:
    one = Cluster()
    slept: list[str] = []

    def trouble(moment: str) -> None:
        if moment == "nodes:after" and not slept and one.line_state("drain_host") == "intended":
            slept.append(moment)
            setattr(one.clock, clock, getattr(one.clock, clock) + 6_000)
            one.scheduler.hold("n1", "fan", "alice")  # while we slept

    one.scheduler.trouble = trouble
    one.incident()
    one.run(5)
    assert slept
    assert writes(one, "drain") == []
    assert one.scheduler.nodes(["n1"])["n1"].reason == "fan"


def test_a_standby_that_took_over_a_sleeper_is_the_only_one_to_act() -> None:
    one = Cluster()
    sleeper = one.remediator
    others: list[Remediator] = []

    def trouble(moment: str) -> None:  # stopped in the middle of the drain; the standby does all of it
        if moment == "nodes:after" and not others and one.line_state("drain_host") == "intended":
            one.remediator = one.started(member="remediation-2")
            others.append(one.remediator)
            one.clock.sleep(40_000)
            one.run(10)

    one.scheduler.trouble = trouble
    one.incident()
    one.run(1)
    assert others == [one.remediator]
    for _ in range(5):
        sleeper.step(one.clock.now_ms)
    one.run(10)
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]
    assert one.history("drain_host") == ["intended", "verified"]


def test_a_hold_that_lands_after_it_was_given_up_is_found_and_is_ours(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path))

    def away(moment: str) -> None:
        if moment == "drain:before":
            raise Unreachable("no answer")

    one.scheduler.trouble = away
    one.incident()
    one.run(60)
    line = one.line("drain_host")
    assert line.state == "failed"
    one.scheduler.hold("n1", line.reason, "sickbay")  # the question was on its way all the time
    one.run(10)
    assert one.history("drain_host")[:3] == ["intended", "failed", "verified"]


def test_observe_tells_of_a_node_that_somebody_else_holds() -> None:
    one = Cluster(Remediation(scheduler="simulated"))
    one.scheduler.hold("n1", "PSU swap", "alice")
    one.incident()
    one.run(5)
    assert (one.line("drain_host").state, one.line("drain_host").co_hold) == ("refused", True)
