"""Polls of the queue, folded into placements: attempts, rank order, ends, and what must not end anything."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.cluster.job_slurm import (
    GONE,
    GONE_MS,
    MAX_RANKS,
    REQUEUED,
    Jobs,
    polled,
    ranks_of,
    remembered,
    standing,
)
from collectors.formats.slurm_queue import Queued
from collectors.formats.slurm_records import JOB_STATES, Job
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.messages import Placement
from sickbay.placement import Placements

T = 1_773_200_000_000
S = 1000
CUT = 999  # Slurm tells whole seconds: the last one was the job's


def queued(state: str, nodes: str = "n[1-3]", attempt: int = 0, start: int | None = T, **told: Any) -> Queued:
    end = told.pop("end", None)
    job = Job(
        id=told.pop("id", "9"),
        state=state,
        attempt=attempt,
        nodes=nodes,
        start=NO_STAMP if start is None else Stamp(Clock.ABSOLUTE, start),
        end=NO_STAMP if end is None else Stamp(Clock.ABSOLUTE, end),
        exit=told.pop("exit", "0:0"),
        name="pretrain",
        user="eve",
    )
    return Queued(job, **told)


def run(*polls: tuple[int, list[Queued]], jobs: Jobs | None = None) -> tuple[Jobs, list[Placement]]:
    jobs = jobs or Jobs()
    told: list[Placement] = []
    for read_ms, answer in polls:
        step = polled(jobs, answer, read_ms)
        jobs = step.jobs
        told += step.placements
    return jobs, told


def short(placement: Placement) -> tuple[int, str, tuple[str, ...], int | None, int | None]:
    return placement.attempt, placement.state, placement.hosts, placement.from_ms, placement.to_ms


def test_a_requeued_job_ends_where_it_was_and_begins_elsewhere() -> None:
    #  0      10          12           15         20
    #  run    completing  completing   pending    run on others; the new count shows the old, shrinking nodes
    _, told = run(
        (T + 10 * S, [queued("RUNNING")]),
        (T + 12 * S, [queued("COMPLETING", "n[1-2]", 1, T + 12 * S)]),
        (T + 14 * S, [queued("COMPLETING", "n1", 1, None)]),
        (T + 15 * S, [queued("PENDING", "", 1, T + 20 * S)]),
        (T + 21 * S, [queued("RUNNING", "n[1,3-4]", 1, T + 20 * S)]),
    )
    assert [short(one) for one in told] == [
        (0, "running", ("n1", "n2", "n3"), T, None),
        (0, REQUEUED.lower(), ("n1", "n2", "n3"), T, T + 12 * S),
        (1, "running", ("n1", "n3", "n4"), T + 20 * S, None),
    ]
    history = Placements(told)
    assert history.at(T + 11 * S).hosts_of("9") == ("n1", "n2", "n3")
    assert history.at(T + 13 * S).hosts_of("9") == ()
    assert history.at(None).hosts_of("9") == ("n1", "n3", "n4")


def test_an_attempt_that_was_missed_ends_the_one_before_at_its_start() -> None:
    _, told = run(
        (T + S, [queued("RUNNING")]), (T + 90 * S, [queued("RUNNING", "n[5-7]", 2, T + 60 * S)])
    )  # fmt: skip
    assert [short(one)[::4] for one in told] == [(0, None), (0, T + 60 * S), (2, None)]


def test_only_changes_are_told() -> None:
    answer = [queued("RUNNING"), queued("RUNNING", "n4", id="10"), queued("PENDING", "", id="11")]
    jobs, told = run((T + S, answer))
    assert [one.job for one in told] == ["9", "10"]  # what waits has no place
    again, nothing = run((T + 6 * S, answer), (T + 11 * S, list(reversed(answer))), jobs=jobs)
    assert nothing == []
    assert [one.job for one in standing(again)] == ["10", "9"]


def test_an_end_is_slurms_own_and_told_with_what_became_of_it() -> None:
    step = polled(Jobs(), [queued("RUNNING", end=T + 999 * S)], T + S)
    assert step.placements[0].to_ms is None  # of a job that runs it is the time limit
    step = polled(step.jobs, [queued("COMPLETING", "n3")], T + 30 * S)
    assert [short(one)[1:3] for one in step.placements] == [("completing", ("n1", "n2", "n3"))]
    step = polled(step.jobs, [queued("FAILED", end=T + 29 * S, exit="0:9")], T + 35 * S)
    assert [short(one)[1:] for one in step.placements] == [("failed", ("n1", "n2", "n3"), T, T + 29 * S + CUT)]
    assert [(one.kind, one.code, one.at_ms, one.seen_ms) for one in step.events] == [
        ("job.failed", "signal 9", T + 29 * S + CUT, T + 35 * S)
    ]
    assert polled(step.jobs, [queued("FAILED", end=T + 29 * S, exit="0:9")], T + 40 * S).events == ()


def test_a_job_that_had_ended_before_the_first_poll_is_placed_but_no_event() -> None:
    step = polled(Jobs(), [queued("NODE_FAIL", end=T + S)], T + 60 * S)
    assert [one.to_ms for one in step.placements] == [T + S + CUT]
    assert step.events == ()


def test_a_job_must_be_missing_for_a_minute_before_it_is_gone() -> None:
    #  0    5        10       65
    #  run  missing  missing  missing: it ended when it was first missed
    jobs, told = run((T, [queued("RUNNING")]), (T + 5 * S, []), (T + 10 * S, []))
    assert len(told) == 1
    _, back = run((T + 15 * S, [queued("RUNNING")]), (T + 70 * S, []), jobs=jobs)
    assert back == []  # the minute began anew
    gone, told = run((T + 5 * S + GONE_MS, []), jobs=jobs)
    assert [short(one)[1::3] for one in told] == [(GONE, T + 5 * S)]
    assert gone == Jobs()


def test_what_ended_while_nobody_polled_is_ended_by_the_next_run() -> None:
    _, told = run(
        (T, [queued("RUNNING"), queued("RUNNING", "n4", id="10")]), (T + 5 * S, [queued("FAILED", end=T + S)])
    )
    jobs = remembered([*told, Placement(job="other-scheduler/x", hosts=("n7",))])
    assert list(jobs.told) == ["10"]
    _, more = run((T + 900 * S, []), (T + 960 * S, []), jobs=jobs)
    assert [(one.job, one.state, one.to_ms) for one in more] == [("10", GONE, T + 900 * S)]


def test_an_ended_job_is_forgotten_with_slurm() -> None:
    jobs, _ = run((T, [queued("COMPLETED", end=T)]), (T + 300 * S, []))
    assert jobs == Jobs()


def test_a_state_that_is_not_understood_changes_nothing() -> None:
    jobs, told = run((T, [queued("RUNNING")]), (T + 5 * S, [queued("")]), (T + 100 * S, [queued("", "", 0, None)]))
    assert len(told) == 1
    assert jobs.missing == {}


def test_an_older_attempt_than_the_known_one_is_not_believed() -> None:
    _, told = run((T, [queued("RUNNING", attempt=2)]), (T + 5 * S, [queued("RUNNING", "n9", 1)]))
    assert len(told) == 1


def test_hosts_stand_in_rank_order() -> None:
    _, told = run((T, [queued("RUNNING", "gx-n[0009-0011],login2", tasks=8, tasks_per_node=2)]))
    assert told[0].hosts == ("gx-n0009", "gx-n0010", "gx-n0011", "login2")
    assert [place.host for place in told[0].ranks[:4]] == ["gx-n0009", "gx-n0009", "gx-n0010", "gx-n0010"]
    assert all(place.component == "" for place in told[0].ranks)


def test_ranks_are_told_only_where_slurms_tasks_can_be_the_ranks() -> None:
    hosts = ("a", "b")
    assert ranks_of(hosts, 2, 1) == ()  # launchers, each with ranks of its own
    assert ranks_of(hosts, 15, 8) == ()
    assert ranks_of(hosts, 16, 0) == ()
    assert ranks_of((), 0, 8) == ()
    assert [place.rank for place in ranks_of(hosts, 16, 8)] == list(range(16))
    many = tuple(map(str, range(MAX_RANKS)))
    assert ranks_of(many, 2 * MAX_RANKS, 2) == ()


ROWS = st.builds(
    queued,
    st.sampled_from([*JOB_STATES.values(), ""]),
    st.sampled_from(["n[1-3]", "n1", "", "(null)", "n[1-", "n2,n4"]),
    st.integers(0, 3),
    st.none() | st.integers(T - 50 * S, T + 50 * S),
    id=st.sampled_from(["1", "2", "3_1"]),
    end=st.none() | st.integers(T - 50 * S, T + 90 * S),
    tasks=st.integers(0, 8),
    tasks_per_node=st.integers(0, 4),
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 40), st.lists(ROWS, max_size=4)), max_size=12))
def test_laws_of_any_polls(polls: list[tuple[int, list[Queued]]]) -> None:
    jobs, now_ms, newest = Jobs(), T, dict[str, int]()
    for after_s, answer in polls:
        now_ms += after_s * S
        before = Jobs(dict(jobs.told), dict(jobs.rows), dict(jobs.missing))
        step = polled(jobs, answer, now_ms)
        assert jobs == before  # what went in is left alone
        for one in step.placements:
            assert one.to_ms is None or one.state != "running"
            known = jobs.told.get(one.job)
            assert known is None or one.attempt >= known.attempt
            newest[one.job] = one.attempt
        assert all(one.seen_ms == now_ms for one in step.events)
        missed = set(jobs.told) - {one.job.id for one in answer}
        ended = {one.job for one in step.placements if one.state == GONE}
        assert ended <= missed
        jobs = step.jobs
    again = polled(jobs, [], now_ms)
    assert again.placements == () or all(one.state == GONE for one in again.placements)
