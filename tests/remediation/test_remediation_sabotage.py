"""What people, clocks and schedulers do to a hold at the worst moment, and what is right then."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from remediation.schedulers import NodeState, Unreachable
from remediation.schedulers.simulated import OUR_USER, SimulatedScheduler
from sickbay import actions
from sickbay.actions import Action, ActionState, Control
from sickbay.app.asking.desk import NotAsked, answer, desk, rows
from sickbay.app.asking.ledger_lines import ACTIONS, ledger_of
from sickbay.app.diagnosing.judge import _record
from sickbay.messages import Action as Headline
from sickbay.messages import Affected
from sickbay.settings import Remediation
from tests.remediation.kit import ACT, JOB, MADE, START, Cluster, command_of, found, writes

SECOND: dict[str, Any] = {"component": "accelerator:n2/0000:cb:00"}
IDLE: dict[str, Any] = {"component": "accelerator:n4/0000:cb:00", "affected": Affected()}  # nothing runs there


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close_all()


def acting(folder: Path, script: str = "exit 0", **fields: object) -> Remediation:
    given = {"test_command": command_of(folder, script), "test_sensitivity": 0.95}
    return replace(ACT, **(given | fields))


# --- people at the node -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("words", [" RMA 123", " incident i1", "x"])
def test_a_reason_that_somebody_adds_to_ends_our_hold_also_under_our_own_user(tmp_path: Path, words: str) -> None:
    one = Cluster(acting(tmp_path, "exit 1"))
    one.incident()
    one.run(3)
    node = one.scheduler.nodes(["n1"])["n1"]
    one.scheduler.hold("n1", node.reason + words, node.reason_by)
    one.run(5)
    assert (one.line("drain_host").state, one.line("drain_host").co_hold) == ("undone", True)
    assert words.strip() in one.line("drain_host").read_back
    assert writes(one, "resume") == []


def test_a_test_ends_with_its_hold_as_others_work_there_now(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    one = Cluster(acting(tmp_path, f"echo $$ > {pid}.part; mv {pid}.part {pid}; sleep 60"))
    one.incident(**IDLE)
    one.run_slowly(until=pid.exists)
    one.scheduler.release("n4")
    one.run(3)
    assert one.line_state("run_test") == "expired"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_node_that_is_down_is_neither_tested_nor_released_before_it_is_up(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path))

    def dies(moment: str) -> None:
        if moment == "drain:after":
            one.scheduler.hold("n4", one.line("drain_host").reason, OUR_USER, "down")

    one.scheduler.trouble = dies
    one.incident(**IDLE)
    one.run(20)
    assert (one.line_state("drain_host"), one.line_state("run_test")) == ("verified", "shown")
    assert "up again" in one.line("run_test").why
    one.scheduler.hold("n4", one.line("drain_host").reason, OUR_USER)
    one.run_slowly(until=lambda: one.line_state("release") == "verified")
    assert writes(one, "resume") == ["n4"]


# --- two things at once -----------------------------------------------------------------------------------------------
def test_a_job_is_not_given_back_while_its_second_broken_node_is_not_held() -> None:
    one = Cluster(replace(ACT, held_at_once=1))
    one.incident("i1")
    one.incident("i2", **SECOND, affected=Affected(jobs=(JOB,)))
    one.run(10)
    assert one.scheduler.writes == [("drain", "n1")]
    assert "host:n2" in one.line("requeue").why
    one.say("approval", one.line("requeue").id)
    one.run(3)
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]


def test_a_broken_node_that_another_job_keeps_busy_is_no_reason_to_wait() -> None:
    one = Cluster(replace(ACT, held_at_once=1), job_size=2)
    one.scheduler.submit("other", 1)
    one.incident("i1")
    one.incident("i2", component="accelerator:n3/0000:cb:00", affected=Affected())
    one.run(10)
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]


def test_a_node_at_which_another_incident_stands_is_released_by_a_person(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path))
    one.incident("i1", **IDLE)
    one.incident("i2", **IDLE | {"component": "accelerator:n4/0000:03:00"})
    one.run_slowly(until=lambda: one.line_state("release") == "waiting")
    assert "i2" in one.line("release").why
    one.close("i2")
    one.run_slowly(until=lambda: one.line_state("release") == "verified")
    assert writes(one, "resume") == ["n4"]
    one.run(10)
    assert writes(one, "drain") == ["n4"]


def test_what_only_waits_for_a_yes_takes_nobodys_place_in_the_budget() -> None:
    one = Cluster(replace(ACT, held_at_once=1))
    one.incident("i0", detected_ms=START - 900_000, onset_ms=START - 900_000, affected=Affected())
    one.incident("i2", **SECOND, affected=Affected())
    one.run(5)
    assert writes(one, "drain") == ["n2"]


def test_to_act_on_what_stood_before_is_asked_about() -> None:
    one = Cluster(Remediation(scheduler="simulated"))
    one.incident()
    one.run(5)
    one.clock.sleep(1_200_000)
    one.restart(ACT)
    one.run(5)
    assert one.scheduler.writes == []
    assert "long ago" in one.line("drain_host").why


def test_a_placement_that_comes_after_its_incident_counts() -> None:
    one = Cluster(placed=False)
    one.incident()
    one.run(3)
    assert "not known" in one.line("requeue").why
    one.place()
    one.run(3)
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]


# --- answers ----------------------------------------------------------------------------------------------------------
def test_a_yes_to_an_incident_is_none_to_the_release_of_its_node() -> None:
    one = Cluster(job_size=4)  # no spare node: the requeue waits; no test: so does the release
    one.incident()
    one.run(5)
    assert (one.line_state("requeue"), one.line_state("release")) == ("waiting", "waiting")
    here = desk(one.log)
    assert [line.do for line in here.waiting("i1")] == ["requeue"]
    one.say("rejection", one.line("requeue").id)
    one.run(3)
    with pytest.raises(NotAsked, match=one.line("release").id):
        desk(one.log).waiting("i1")
    assert [line.do for line in desk(one.log).waiting(one.line("release").id)] == ["release"]


def test_a_closed_incident_is_listed_while_a_node_is_held_for_it(tmp_path: Path) -> None:
    one = Cluster()
    one.incident(**IDLE)
    one.run(3)
    one.close("i1")
    one.run(3)
    shown = "\n".join(rows(desk(one.log)))
    assert f"sickbay incidents approve {one.line('release').id}" in shown
    one.say("approval", one.line("release").id)
    one.run(3)
    assert rows(desk(one.log)) == []
    assert any("released: approved by carol" in row for row in rows(desk(one.log), closed=True))


@pytest.mark.parametrize("ahead_ms", [-3_600_000, -5_000, 5_000])
def test_a_yes_counts_whatever_clock_its_writer_has(ahead_ms: int) -> None:
    one = Cluster(replace(ACT, mode="advise"))
    one.incident()
    one.run(3)
    waits = [line for line in desk(one.log).waiting("i1") if line.do == "drain_host"]
    answer(one.log, waits, "approve", "carol", one.clock.now_ms + ahead_ms)
    one.run(3)
    assert writes(one, "drain") == ["n1"]


def test_a_yes_to_an_earlier_question_is_none_to_this_one() -> None:
    one = Cluster(replace(ACT, mode="advise"))
    one.incident()
    one.run(3)
    waits = one.line("drain_host")
    early = Control(kind="approval", target=waits.id, by="carol", at_ms=one.clock.now_ms, asked_ms=START - 1)
    one.append("sickbay.control.v1", b"x", actions.encode(early))
    one.run(3)
    assert one.scheduler.writes == []


@pytest.mark.parametrize("text", ["x" * 100_000, "\x00\x1b[31m", "\N{SNOWMAN}" * 4000])
@pytest.mark.parametrize("kind", ["approval", "rejection", "pause"])
def test_whatever_a_control_says_the_ledger_can_be_read_again(kind: str, text: str) -> None:
    one = Cluster(replace(ACT, mode="advise"))
    one.incident()
    one.run(3)
    target = "all" if kind == "pause" else one.line("drain_host").id
    forged = Control(kind=kind, target=target, by=text, at_ms=one.clock.now_ms, note=text[:4000])
    one.append("sickbay.control.v1", b"forged", actions.encode(forged))
    one.append("sickbay.control.v1", b"odd", actions.encode(replace(forged, kind="odd", target="\x00")))
    one.run(3)
    read = one.log.reader().read(ACTIONS, 0, 10_000)
    assert all(actions.decode(record.value) for record in read if record.value)
    assert one.line_state("drain_host") == ("verified" if kind == "approval" else "refused")


# --- clocks, the scheduler, the log -----------------------------------------------------------------------------------
def test_a_clock_that_is_set_back_does_not_keep_it_from_trying_again() -> None:
    one = Cluster()

    def away(moment: str) -> None:
        if moment == "drain:before":
            raise Unreachable("no answer")

    one.scheduler.trouble = away
    one.incident()
    one.run(1)
    one.scheduler.trouble = lambda moment: None
    one.clock.now_ms -= 600_000
    one.incidents["i1"] = replace(one.incidents["i1"], onset_ms=one.clock.now_ms, detected_ms=one.clock.now_ms)
    one.run(5)
    assert writes(one, "drain") == ["n1"]


@pytest.mark.parametrize("ahead_ms", [-600_000, 3_600_000])
def test_a_clock_that_jumps_in_the_story_breaks_nothing(tmp_path: Path, ahead_ms: int) -> None:
    one = Cluster(acting(tmp_path))
    one.incident(**IDLE)
    one.run(2)
    one.clock.now_ms += ahead_ms
    one.run_slowly(until=lambda: one.line_state("release") in ("verified", "waiting"))
    assert writes(one, "drain") == ["n4"]
    assert one.line_state("release") == "verified"


@pytest.mark.parametrize("answer_ms", [300, 1_000, 1_400])
def test_a_slow_scheduler_is_acted_upon_all_the_same(answer_ms: int) -> None:
    one = Cluster()

    def slow(moment: str) -> None:
        if moment.endswith(":before"):
            one.clock.sleep(answer_ms)

    one.scheduler.trouble = slow
    one.incident()
    one.run(60, until=lambda: one.line_state("requeue") == "verified")
    assert one.scheduler.writes == [("drain", "n1"), ("requeue", JOB)]


def test_a_scheduler_that_forgets_a_node_for_a_while_ends_no_test(tmp_path: Path) -> None:
    one = Cluster(acting(tmp_path, "sleep 0.3; exit 0"))
    one.incident(**IDLE)
    one.run(3, until=lambda: one.line_state("run_test") == "intended")
    node = one.scheduler._nodes.pop("n4")
    one.run(5)
    assert one.line_state("run_test") == "intended"
    one.scheduler._nodes["n4"] = node
    one.run_slowly(until=lambda: one.line_state("release") == "verified")
    assert writes(one, "resume") == ["n4"]


def test_only_nodes_that_matter_are_asked_for_while_a_hold_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Cluster()
    one.incident(affected=Affected())
    one.run(5)
    one.close("i1")
    one.run(2)
    asked: list[set[str]] = []
    real = SimulatedScheduler.nodes

    def nodes(scheduler: SimulatedScheduler, names: Iterable[str] = ()) -> Mapping[str, NodeState]:
        asked.append(set(names))
        return real(scheduler, names)

    monkeypatch.setattr(SimulatedScheduler, "nodes", nodes)
    one.run(5)
    assert asked
    assert all(names == {"n1"} for names in asked)


def test_records_that_cannot_be_read_are_told_and_the_word_before_counts() -> None:
    one = Cluster()
    one.incident()
    one.run(3)
    line = one.line("drain_host")
    newer = actions.encode(line).replace(b'"verified"', b'"state_of_a_newer_version"')
    for value in (newer, b"\xff\x00", b"{}", b'{"type":"action"}', b"[" * 5000):
        one.append(ACTIONS.topic, line.id.encode(), value)
    one.restart()
    one.run(5)
    assert one.line("drain_host").state == "verified"
    assert writes(one, "drain") == ["n1"]
    assert any("5 records" in text for text in one.lines)


def test_a_line_that_compaction_took_is_gone() -> None:
    one = Cluster()
    one.append(ACTIONS.topic, b"a", actions.encode(Action(
        id="a", incident="i", do="drain_host", target="host:n9", state=ActionState.VERIFIED)))  # fmt: skip
    one.append(ACTIONS.topic, b"a", None)
    assert ledger_of(one.log.reader()) == {}


def test_a_verdict_that_changes_after_the_hold_stops_what_is_not_done_yet() -> None:
    one = Cluster(job_size=4)
    one.incident()
    one.run(5)
    assert one.line_state("requeue") == "waiting"
    weak = found("i1", START, probability=0.4, action=Headline.WATCH, affected=Affected(jobs=(JOB,)))
    one.tell(replace(weak, plan=one.incidents["i1"].plan))
    one.say("approval", one.line("requeue").id)
    one.run(5)
    assert one.scheduler.writes == [("drain", "n1")]
    assert one.line_state("drain_host") == "verified"  # until it is tested, or a person lets it go


def test_a_probability_that_falls_below_what_a_step_needs_is_written() -> None:
    sure, unsure = found("i1", START, probability=0.95), found("i1", START, probability=0.949)
    assert _record(replace(unsure, plan=sure.plan)) != _record(sure)
    assert _record(replace(sure, probability=0.96)) == _record(sure)


@pytest.mark.parametrize(("probability", "held"), [(0.95, True), (0.949, False)])
def test_the_least_probability_is_enough(probability: float, held: bool) -> None:
    one = Cluster()
    one.incident(probability=probability, **IDLE)
    one.run(5)
    assert bool(writes(one, "drain")) is held
