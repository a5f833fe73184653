"""Who waits for whom: the end of the waiting is named, silence in a truncated excerpt is not."""

from hypothesis import given
from hypothesis import strategies as st

from diagnosis.engine import diagnose
from diagnosis.waiting import absent_ranks, groups_of, mismatch
from remediation.plan import plan
from sickbay.messages import Action, Progress, Verdict, replace
from tests.diagnosis.kit import T0, case, placement, progress


def absent(*said: Progress) -> set[int]:
    return set(absent_ranks(groups_of(said))[0])


ALL = tuple(range(8))


def test_all_reporting_ranks_alike_and_no_known_group_names_nobody() -> None:
    at = case(progress=tuple(progress(rank, 1580, at_s=None, job="?") for rank in (0, 2, 3, 4)))
    (incident,) = diagnose(at)
    assert (incident.verdict, incident.action) == (Verdict.UNKNOWN, Action.WATCH)
    assert incident.component == "job:?"
    assert not any("rank" in suspect.component for suspect in incident.suspects)


def test_half_of_a_known_group_in_an_excerpt_names_nobody() -> None:
    assert absent(*(progress(rank, group_ranks=ALL) for rank in (0, 2, 3, 4))) == set()


def test_the_only_silent_rank_of_a_known_group_is_named() -> None:
    assert absent(*(progress(rank, group_ranks=ALL) for rank in ALL if rank != 6)) == {6}


def test_the_rank_that_is_behind_by_its_own_word_is_named() -> None:
    behind = progress(2, 98, state="completed")
    assert absent(*(progress(rank) for rank in (0, 1, 3)), behind) == {2}


def test_a_rank_that_is_behind_because_it_waits_elsewhere_is_not() -> None:
    said = [
        progress(0, 50, group="a"), progress(1, 48, group="a", state="completed"),  # 0 waits for 1
        progress(1, 20, group="b"), progress(2, 18, group="b", state="completed"),  # and 1 waits for 2
    ]  # fmt: skip
    assert absent(*said) == {2}


def test_who_has_the_shortest_dump_is_not_who_is_missing() -> None:
    said = [progress(rank, 10, group="x", state="completed") for rank in (4, 5)]
    said += [progress(rank, 100, group="y") for rank in (0, 1)] + [progress(2, 99, group="y", state="completed")]
    assert absent(*said) == {2}


def test_waiting_in_a_circle_is_the_program() -> None:
    said = [
        progress(0, 5, group="a"), progress(1, 4, group="a", state="completed"),
        progress(1, 9, group="b"), progress(0, 8, group="b", state="completed"),
    ]  # fmt: skip
    (incident,) = diagnose(case(progress=tuple(said)))
    assert (incident.verdict, incident.fault) == (Verdict.JOB, "collective_mismatch")


def test_different_sizes_of_one_all_reduce_differ_and_those_of_a_scatter_do_not() -> None:
    assert mismatch([progress(0, size="10"), progress(1, size="20")])
    assert not mismatch([progress(0, op="ALLTOALL", size="10"), progress(1, op="ALLTOALL", size="20")])
    assert not mismatch([progress(0, op="nccl:all_reduce"), progress(1, op="ALLREDUCE")])
    assert not mismatch([progress(0, op="nccl:send 0->1"), progress(1, op="nccl:recv 0->1")])


def test_the_stall_is_dated_one_time_out_before_the_line() -> None:
    (incident,) = diagnose(case(progress=tuple(progress(rank, at_s=600.0) for rank in range(3))))
    assert incident.onset_ms == T0


def test_placement_tells_who_belongs_to_the_group_of_all_ranks() -> None:
    waiting = tuple(progress(rank, group="") for rank in range(48) if rank != 19)
    whole = placement("4471", [f"h{n}" for n in range(15, 21)])
    (incident,) = diagnose(case(placements=[whole], progress=waiting))
    assert (incident.verdict, incident.component, incident.fault) == (Verdict.UNKNOWN, "rank:4471/19", "rank_absent")
    assert "accelerator:h17/0000:03:00" in incident.affected.components
    assert {step.target for step in plan(incident, case(placements=[whole])) if step.do == "exclude_for_job"} == {
        "host:h17"
    }


def test_who_is_missing_from_a_group_of_some_ranks_or_from_a_part_of_the_words_is_not_named() -> None:
    whole = placement("4471", ["h15", "h16"], cards=8)
    in_part = tuple(progress(rank) for rank in range(16) if rank not in (3, 12))  # on two hosts: words are missing
    of_some = tuple(progress(rank, group="7", group_name="tp") for rank in range(15))
    holes = replace(whole, ranks=whole.ranks[:5] + whole.ranks[6:])
    assert absent_ranks(groups_of(in_part, whole))[0] == {}
    assert absent_ranks(groups_of(of_some, whole))[0] == {}
    assert absent_ranks(groups_of([progress(rank) for rank in range(15)], holes))[0] == {}
    assert set(absent_ranks(groups_of([progress(rank) for rank in range(15)], whole))[0]) == {15}


def test_an_absent_rank_alone_restarts_the_job_and_blames_nobody() -> None:
    said = [progress(rank) for rank in (0, 1, 3)] + [progress(2, 98, state="completed")]
    (incident,) = diagnose(case(progress=tuple(said)))
    assert (incident.verdict, incident.component, incident.action) == (
        Verdict.UNKNOWN,
        "rank:4471/2",
        Action.RESTART_JOB,
    )


@given(st.lists(st.builds(
    progress, st.integers(0, 5), st.integers(-1, 6), st.none(), group=st.sampled_from("ab"),
    state=st.sampled_from(["waiting", "entered", "started", "completed", "absent", ""]),
    group_ranks=st.sampled_from([(), (0, 1, 2, 3, 4, 5)]), last_enqueued=st.integers(-1, 6),
    last_completed=st.integers(-1, 6), op=st.sampled_from(["ALLREDUCE", ""]),
)))  # fmt: skip
def test_who_waits_is_never_named(said: list[Progress]) -> None:
    from diagnosis.waiting import blockers

    states = groups_of(said)
    waiting = {rank for state in states for rank in blockers(state)}
    assert not absent(*said) & waiting
