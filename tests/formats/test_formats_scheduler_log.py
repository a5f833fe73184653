"""Scheduler lines: job endings by their reason, hosts by name, people's acts as changes."""

import pytest

from collectors.formats.bodies.scheduler import Scheduler
from collectors.formats.reading import Line, Record
from sickbay.messages import Change, Event


def read(text: str) -> list[Record]:
    body = Scheduler()
    return [record for number, line in enumerate(text.split("\n"), 1) for record in body.read(Line(line, number))]


def kinds(text: str) -> list[tuple[str, str]]:
    return [(record.kind, record.component) for record in read(text) if isinstance(record, Event)]


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [
        ("", "job.cancelled"),
        (" DUE TO TIME LIMIT", "job.time_limit"),
        (" DUE TO PREEMPTION", "job.preempted"),
        (" DUE TO JOB REQUEUE", "job.requeued"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "job.node_failed"),
    ],
)
def test_why_a_job_was_cancelled(suffix: str, kind: str) -> None:
    line = f"slurmstepd: error: *** JOB 4471_3 ON n-03 CANCELLED AT 2025-03-11T04:31:02{suffix} ***"
    assert kinds(line) == [(kind, "job:4471")]  # the batch host is not blamed


def test_host_lists_are_spelled_out_and_bounded() -> None:
    assert len(kinds("srun: error: Node failure on n[01-16],m2")) == 17
    assert kinds("srun: error: Node failure on n[1-99999999]") == []
    assert kinds("srun: error: Node failure on n[1-") == []


def test_an_abort_of_a_task_is_no_crash_of_the_host() -> None:
    assert kinds("srun: error: n-05: task 37: Aborted (core dumped)") == [("process.exited", "process:n-05/task_37")]
    assert kinds("srun: error: n-05: task 37: Segmentation fault (core dumped)")[0][0] == "process.crashed"


def test_what_people_set_is_a_change() -> None:
    down, resumed = read("update_node: node n-05 state set to DOWN\nupdate_node: node n-05 state set to IDLE")
    assert isinstance(down, Change)
    assert isinstance(resumed, Change)
    assert (down.target, down.new, resumed.new) == ("host:n-05", "DOWN", "IDLE")


def test_no_cards_is_told_apart_from_fewer_cards() -> None:
    line = "error: Setting node n-08 state to INVAL with reason:gres/gpu count reported lower than configured ({} < 8)"
    assert kinds(line.format(7)) == [("scheduler.accelerators_fewer", "host:n-08")]
    assert kinds(line.format(0)) == [("scheduler.accelerators_none", "host:n-08")]
    assert kinds(line.format(8)) == []


def test_a_silent_node_is_down_only_when_the_controller_says_so() -> None:
    (silent,) = read("error: Nodes n-[05-05] not responding")
    (down,) = read("error: Nodes n-05 not responding, setting DOWN")
    assert isinstance(silent, Event)
    assert isinstance(down, Event)
    assert (silent.kind, down.kind) == ("scheduler.host_silent", "scheduler.host_down")


@pytest.mark.parametrize(
    "line", ["srun: Job step aborted: Waiting up to 62 seconds for job step to finish.", "exit code 0"]
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert read(line) == []
