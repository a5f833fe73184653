"""What administrators of Slurm decided, and what its details of a job tell: reservations, timers, cards, layouts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster import job_details, slurm_site
from collectors.cluster.job_slurm import Jobs, polled
from collectors.cluster.poll import Poller, PollFailed
from collectors.cluster.slurm_site import Declared, Timers, declared, remembered
from collectors.formats.reading import Tally
from collectors.formats.slurm_detail import layout, places, shown
from collectors.formats.slurm_queue import Queued
from collectors.formats.slurm_records import Job
from collectors.formats.slurm_site import reservations, timers
from sickbay import settings
from sickbay.actions import Control
from sickbay.clock import Clock, Stamp
from sickbay.log.memory import MemoryLog
from sickbay.messages import Change, Event
from sickbay.selfmetrics import SelfMetrics

T = 1_773_200_000_000  # 2026-03-11T03:33:20Z
H = 3_600_000


def reservation(name: str = "new risers", nodes: str = "n[1-2]", flags: str = "MAINT,SPEC_NODES", **told: str) -> str:
    start, end = told.get("start", "2026-03-11T04:00:00"), told.get("end", "2026-03-11T06:00:00")
    return (
        f"ReservationName={name} StartTime={start} EndTime={end} Duration=02:00:00 Nodes={nodes} NodeCnt=2 CoreCnt=8 "
        f"Features=(null) PartitionName=(null) Flags={flags} TRES=cpu=8 Users=root Groups=(null) Accounts=(null) "
        "Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)\n"
    )


def told(state: Declared, text: str, read_ms: int) -> tuple[Declared, list[Control]]:
    tally = Tally()
    return declared(state, list(reservations(text, tally)), read_ms, not tally.unparsed)


def test_a_reservation_for_maintenance_is_declared_work_of_each_host() -> None:
    state, work = told(Declared(), reservation() + reservation("bench", flags="SPEC_NODES"), T)
    assert [(one.kind, one.target, one.by) for one in work] == [
        ("maintenance", "host:n1", "slurm reservation new risers"),
        ("maintenance", "host:n2", "slurm reservation new risers"),
    ]
    assert {(one.from_ms, one.until_ms) for one in work} == {(1_773_201_600_000, 1_773_208_800_000)}
    state, work = told(state, reservation(), T + 60_000)
    assert work == []
    state, work = told(state, reservation(end="2026-03-11T07:00:00"), T + 120_000)
    assert {one.until_ms for one in work} == {1_773_212_400_000}


def test_a_reservation_that_is_taken_back_ends_its_work_and_one_not_understood_ends_none() -> None:
    state, _ = told(Declared(), reservation(), T)
    state, work = told(state, "ReservationName=?", T + H)
    assert work == []
    again = remembered([*state.work.values(), Control(kind="maintenance", target="host:n9", by="li", at_ms=T)])
    assert again == state
    after, work = told(again, reservation(nodes="n1"), T + H)
    assert [(one.target, one.until_ms) for one in work] == [("host:n2", T + H)]
    _, work = told(after, "No reservations in the system\n", T + H)
    assert [(one.target, one.until_ms) for one in work] == [("host:n1", T + H)]


def test_what_is_over_or_a_year_long_declares_nothing() -> None:
    assert told(Declared(), reservation(end="2026-03-11T03:00:00"), T)[1] == []
    assert told(Declared(), reservation(end="2027-03-11T03:00:00"), T)[1] == []
    state, _ = told(Declared(), reservation(), T)
    assert told(state, "No reservations in the system\n", T + 9 * H) == (Declared(), [])  # it was over by itself


CONFIG = (
    "ClusterName             = c1\nReturnToService         = {}\nSlurmdTimeout           = 300 sec\nKillWait = 30 sec\n"
)


def timed(state: Timers, text: str) -> tuple[Timers, list[Any]]:
    after = slurm_site._timed(text, state, T)
    return after.state, [one.message for one in after.told]


def test_timers_are_told_once_then_what_differs_and_untested_returns_are_warned_of() -> None:
    state, (first,) = timed(Timers(), CONFIG.format(1))
    assert isinstance(first, Event)
    assert (first.kind, first.component, first.attributes["SlurmdTimeout"]) == (
        "scheduler.timers",
        "cluster:c1",
        "300 sec",
    )
    assert timed(state, CONFIG.format(1))[1] == []
    state, (warning, change) = timed(state, CONFIG.format(2))
    assert isinstance(warning, Event)
    assert isinstance(change, Change)
    assert warning.kind == "scheduler.returns_untested"
    assert (change.what, change.old, change.new) == ("scheduler ReturnToService", "1", "2")
    assert timed(state, CONFIG.format(2))[1] == []
    with pytest.raises(PollFailed):
        timed(state, "scontrol: error")


SHOWN = """\
JobId=9 JobName=pre
   JobState=RUNNING Reason=None Dependency=(null)
   NodeList=n[1-2]
     Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=gpu:h100:4(IDX:0-1,4-5)
     Nodes=n2 CPU_IDs=0-3 Mem=0 GRES=gpu:4(IDX:0-3),shard:0(IDX:)
   Command=/home/eve/train.sh --token hf_1 --lr 1
   WorkDir=/home/eve/run7
   Comment=img sha256:abc
"""
LAYOUT = (
    "Job step layout:\n\t8 tasks, 2 nodes (n[1-2])\n\n\tNode 0 (n1), 4 task(s): 0 2 4 6 \n"
    "\tNode 1 (n2), 4 task(s): 1 3 5 7 \n"
)


def test_cards_of_each_host_and_what_was_started() -> None:
    detail = shown(SHOWN, ("n1", "n2"), Tally())
    assert detail.cards == {"n1": (0, 1, 4, 5), "n2": (0, 1, 2, 3)}
    assert detail.recipe == {
        "arguments": "/home/eve/train.sh --token *** --lr 1", "code": "/home/eve/run7", "comment": "img sha256:abc"
    }  # fmt: skip


@pytest.mark.parametrize(
    "forged",
    [
        "     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:7)\n",  # a second word on a host
        "     Nodes=n9 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:7)\n",  # of a host that is not the job's
    ],
)
def test_cards_that_a_job_name_tells_too_are_none(forged: str) -> None:
    assert shown(forged + SHOWN, ("n1", "n2"), Tally()).cards == {}


def test_the_layout_of_a_step_places_its_tasks() -> None:
    tasks = layout(LAYOUT, ("n1", "n2"))
    assert tasks == ("n1", "n2") * 4
    ranks = places(tasks, {"n1": (0, 1, 4, 5), "n2": (0, 1, 2)})
    assert [one.component for one in ranks[:4]] == ["accelerator:n1/0", "", "accelerator:n1/1", ""]
    assert layout(LAYOUT.replace("5 7", "5 8"), ("n1", "n2")) == ()
    assert layout(LAYOUT, ("n1",)) == ()
    assert layout("error: Unable to query", ("n1",)) == ()


@given(st.text(alphabet="JobId=NodesGRES:gpu(IDX)0123-,\n\t ", max_size=400))
def test_any_text_gives_no_cards_that_nobody_told(text: str) -> None:
    assert set(shown(text, ("n1",), Tally()).cards) <= {"n1"}
    assert isinstance(layout(text, ("n1",)), tuple)
    assert list(reservations(text, Tally())) == []
    assert timers(text) == {}


class Slurm:
    """Answers questions about one job."""

    def __init__(self) -> None:
        self.layout, self.shown, self.asked = LAYOUT, SHOWN, list[str]()

    def __call__(self, program: str, *arguments: str) -> str:
        self.asked.append(program)
        if program == "sattach" and not self.layout:
            raise PollFailed("Invalid job id specified")
        return self.layout if program == "sattach" else self.shown


def running(job: str = "9", tasks: int = 8) -> Jobs:
    told = Job(id=job, state="RUNNING", nodes="n[1-2]", start=Stamp(Clock.ABSOLUTE, T), name="pre", user="eve")
    return polled(Jobs(), [Queued(told, tasks, tasks // 2)], T).jobs


def test_a_job_that_began_is_asked_about_until_its_layout_is_known() -> None:
    slurm, jobs = Slurm(), running()
    slurm.layout = ""
    first = job_details.asked(slurm, jobs, T, 5, Tally())
    (blocks,) = first.placements
    assert [one.component for one in blocks.ranks[:5]] == [f"accelerator:n1/{at}" for at in (0, 1, 4, 5)] + [
        "accelerator:n2/0"
    ]
    slurm.layout = LAYOUT
    second = job_details.asked(slurm, first.jobs, T, 5, Tally())
    assert [one.host for one in second.placements[0].ranks[:2]] == ["n1", "n2"]
    assert second.changes == ()
    slurm.asked.clear()
    third = job_details.asked(slurm, second.jobs, T, 5, Tally())
    assert (slurm.asked, third.placements) == ([], ())
    row = second.jobs.rows["9"]
    again = polled(second.jobs, [Queued(row.job, 8, 4, may_requeue=True)], T + 5_000)
    assert again.placements == ()  # what the queue tells of ranks does not replace the details


def test_a_job_that_is_run_differently_than_the_last_of_its_name_is_a_change() -> None:
    slurm = Slurm()
    first = job_details.asked(slurm, running(), T, 5, Tally())
    slurm.shown = SHOWN.replace("run7", "run8").replace("JobId=9", "JobId=10")
    other = running("10")
    jobs = Jobs(other.told, other.rows, {}, first.jobs.details, first.jobs.recipes)
    (change,) = job_details.asked(slurm, jobs, T, 5, Tally()).changes
    assert (change.target, change.what, change.old, change.new, change.who) == (
        "job:10", "code", "/home/eve/run7", "/home/eve/run8", "eve"
    )  # fmt: skip


def test_a_controller_that_does_not_answer_is_asked_no_more_in_that_poll() -> None:
    def fails(program: str, *arguments: str) -> str:
        raise PollFailed("timed out")

    jobs = running()
    for number in range(1, job_details.TRIES + 1):
        jobs = job_details.asked(fails, jobs, T, 5, Tally()).jobs
        assert jobs.details["9"].tries == number
    assert job_details.asked(fails, jobs, T, 5, Tally()).jobs == jobs


def test_who_runs_the_poller_reads_the_warning_of_untested_returns_too() -> None:
    log, said = MemoryLog(), list[str]()
    sources = [
        one for one in slurm_site.sources(lambda *command: CONFIG.format(2), settings.Slurm()) if "timers" in one.name
    ]
    poller = Poller(sources, log.appender(), SelfMetrics(), said.append)
    assert poller.step(T)
    assert said == [f"slurm_timers: {slurm_site.UNTESTED}"]
    poller.step(T + H)
    assert len(said) == 1
    poller.close()
