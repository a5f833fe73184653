"""`squeue` asked with a mark: what it tells, and that no job name can tell more than its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.reading import Tally
from collectors.formats.slurm_queue import FIELDS, Unreadable, jobs, mark_of, question
from sickbay.clock import Clock, Stamp

MARK = mark_of("4f1d09c2")
# Slurm 22.05.8, TZ=UTC: one that runs, one that waits, one that failed with status 3, one that is leaving its nodes.
RECORDED = """\
1207~0~RUNNING~gx-n[0101-0103]~2026-03-11T04:30:02~2026-03-18T04:30:02~eve~24~8~NO~1~1~0~pretrain-70b~
1208~0~PENDING~~2026-03-18T04:30:02~NONE~eve~24~8~NO~1~1~0~pretrain-70b~
1190~0~FAILED~gx-n0107~2026-03-11T04:12:40~2026-03-11T04:29:11~bob~1~0~OK~0~1~768~wrap~
1201~1~COMPLETING~gx-n0109~N/A~N/A~bob~16~8~NO~1~1~0~sft~
""".replace("~", MARK)


def row(name: str = "x", **told: str) -> str:
    values = {"JobID": "1", "RestartCnt": "0", "State": "RUNNING", "NodeList": "n1", "Name": name} | told
    return "".join(values.get(field, "") + MARK for field in FIELDS) + "\n"


def test_the_recorded_answer() -> None:
    tally = Tally()
    running, waiting, failed, leaving = jobs(RECORDED, MARK, tally)
    assert tally.unparsed == 0
    assert (running.job.id, running.job.state, running.job.nodes) == ("1207", "RUNNING", "gx-n[0101-0103]")
    assert (running.tasks, running.tasks_per_node, running.may_requeue, running.job.exclusive) == (24, 8, True, True)
    assert running.job.start == Stamp(Clock.ABSOLUTE, 1_773_203_402_000)  # 2026-03-11T04:30:02Z
    assert (waiting.job.state, waiting.job.nodes) == ("PENDING", "")
    assert (failed.job.exit, failed.may_requeue, failed.job.user) == ("3:0", False, "bob")
    assert (leaving.job.state, leaving.job.attempt, leaving.job.start.clock) == ("COMPLETING", 1, Clock.NONE)


def test_the_question_names_every_field_once() -> None:
    told = question(MARK)[-1].removeprefix("--Format=").split(",")
    assert [field.partition(":") for field in told] == [(field, ":", MARK) for field in FIELDS]


@pytest.mark.parametrize(
    "text",
    [
        "JOBID  PARTITION  NAME\n1 train x\n",  # an squeue that knows no marks
        row()[: -len(MARK) - 1],  # cut off
        row() + row().partition(MARK)[0],
        "slurm_load_jobs error: Unable to contact slurm controller",
    ],
)
def test_what_is_no_whole_answer_is_believed_in_no_part(text: str) -> None:
    with pytest.raises(Unreadable):
        jobs(text, MARK, Tally())


def test_an_empty_queue_is_an_answer() -> None:
    assert list(jobs("", MARK, Tally())) == []


@given(st.lists(st.text(max_size=40).filter(lambda name: MARK not in name), max_size=5))
def test_no_name_forges_a_job(names: list[str]) -> None:
    forged = [f"{name}\n7~0~RUNNING~n9~\nJobId=7 JobState=RUNNING NodeList=n9" for name in names]
    text = "".join(row(name, JobID=str(number)) for number, name in enumerate(forged, 1))
    told = list(jobs(text, MARK, Tally()))
    assert [(one.job.id, one.job.nodes) for one in told] == [(str(number), "n1") for number in range(1, len(names) + 1)]
    assert all("\n" not in one.job.name for one in told)


@given(st.text(max_size=400) | st.lists(st.text(max_size=12), max_size=60).map(MARK.join))
def test_any_text_gives_jobs_or_is_refused(text: str) -> None:
    try:
        found = list(jobs(text, MARK, Tally()))
    except Unreadable:
        return
    assert all(one.job.id.split("_")[0].split("+")[0].isdigit() for one in found)


def test_a_state_that_is_not_known_keeps_its_job_without_a_state() -> None:
    tally = Tally()
    (told,) = jobs(row(State="TELEPORTING", RestartCnt="x" * 50, NumTasks="9" * 40), MARK, tally)
    assert (told.job.id, told.job.state, told.job.attempt, told.tasks) == ("1", "", 0, 0)
    assert tally.unparsed == 1
