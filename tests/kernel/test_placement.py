"""Placement: merging of parts, attempts that follow each other, look-ups against a naive twin."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.messages import Placement, RankPlace
from sickbay.placement import OVER, WAITING, Placements


def rank(number: int, host: str, card: str = "", role: str = "") -> RankPlace:
    return RankPlace(rank=number, host=host, component=f"accelerator:{host}/{card}" if card else "", role=role)


TWO_HOSTS = Placement(
    job="42",
    from_ms=100,
    hosts=("h1", "h2"),
    ranks=(rank(0, "h1", "0", "s0"), rank(1, "h1", "1", "s1"), rank(2, "h2", "0", "s0"), rank(3, "h2", "1", "s1")),
)


def test_look_ups_of_one_job() -> None:
    view = Placements([TWO_HOSTS]).at(150)
    assert [p.job for p in view.jobs()] == ["42"]
    found = view.job_of("accelerator:h1/0")
    assert found is not None
    assert found.job == "42"
    assert view.ranks_of("accelerator:h2/1") == ("rank:42/3",)
    assert view.ranks_of("host:h1") == ("rank:42/0", "rank:42/1")
    assert view.ranks_of("port:h1/eth0") == ("rank:42/0", "rank:42/1")
    assert view.ranks_of("accelerator:h1/9") == ()
    assert view.ranks_of("job:42") == ("rank:42/0", "rank:42/1", "rank:42/2", "rank:42/3")
    assert view.ranks_of("rank:42/1") == ("rank:42/1",)
    assert view.component_of("rank:42/2") == "accelerator:h2/0"
    assert view.component_of("rank:42/9") is None
    assert view.component_of("rank:42/" + "9" * 5000) is None
    assert view.hosts_of("42") == ("h1", "h2")
    assert view.hosts_of("job:42") == ("h1", "h2")
    assert view.peers_of("accelerator:h1/0") == ("accelerator:h2/0",)
    assert view.peers_of("rank:42/1") == ("rank:42/3",)
    assert view.peers_of("host:h1") == ("host:h2",)
    assert Placements([TWO_HOSTS]).at(99).jobs() == ()
    for odd in ("", "?", "nonsense", "host:?", "rank:?/1", "switch:s1", "job:", "rank:"):
        assert view.jobs_of(odd) == ()
        assert view.ranks_of(odd) == view.peers_of(odd) == ()


def test_without_roles_the_whole_attempt_are_peers() -> None:
    told = Placement(job="7", ranks=(rank(0, "a", "0"), rank(1, "a", "1"), rank(2, "b")))
    view = Placements([told]).at()
    assert view.peers_of("accelerator:a/0") == ("accelerator:a/1",)
    assert view.peers_of("rank:7/0") == ("rank:7/1", "rank:7/2")
    assert Placements([Placement(job="8", hosts=("a", "b", "c"))]).at().peers_of("host:b") == ("host:a", "host:c")
    assert view.component_of("rank:7/2") == "host:b"


def test_two_jobs_on_one_host_are_told_apart_by_their_cards_only() -> None:
    one = Placement(job="A", ranks=(rank(0, "h", "0"),))
    two = Placement(job="B", ranks=(rank(0, "h", "4"),))
    view = Placements([one, two]).at()
    found = view.job_of("accelerator:h/4")
    assert found is not None
    assert found.job == "B"
    assert view.job_of("host:h") is None
    assert [p.job for p in view.jobs_of("host:h")] == ["A", "B"]
    assert [p.job for p in view.jobs_of("accelerator:h/0000:cb:00")] == ["A", "B"]  # not joined yet: both stay possible


def test_parts_of_an_attempt_become_one() -> None:
    parts = [
        Placement(job="9", ranks=(RankPlace(rank=1, host="b"),), from_ms=20),
        Placement(job="9", ranks=(rank(0, "a", "0"),), from_ms=10, name="train"),
        Placement(job="9", ranks=(rank(1, "b", "7"),), hosts=("a", "b"), state="running"),
        Placement(job="9", ranks=(RankPlace(rank=1, host="b", role="s1"),), user="eve"),
    ]
    (merged,) = Placements(parts)
    assert merged == Placement(
        job="9",
        hosts=("a", "b"),
        ranks=(rank(0, "a", "0"), RankPlace(rank=1, host="b", component="accelerator:b/7", role="s1")),
        from_ms=10,
        state="running",
        user="eve",
        name="train",
    )
    assert len(Placements(parts)) == 1


def test_a_later_attempt_ends_the_earlier_one() -> None:
    #  attempt 0 [0 ......... 100) attempt 1 [100 ...
    told = Placements([Placement(job="5", hosts=("a",), from_ms=0)]).add(
        [Placement(job="5", attempt=1, hosts=("b",), from_ms=100)]
    )
    assert told.at(99).hosts_of("5") == ("a",)
    assert told.at(100).hosts_of("5") == ("b",)
    assert told.at().hosts_of("5") == ("b",)
    assert told.at(100).jobs_of("host:a") == ()


def test_what_waits_or_is_over_does_not_run_now() -> None:
    waits = Placement(job="1", hosts=("a",), state="pending")
    done = Placement(job="2", hosts=("a",), state="completed", from_ms=5)
    told = Placements([waits, done])
    assert told.at().jobs() == ()
    assert [p.job for p in told.at(6).jobs()] == ["2"]  # when it ended is not told
    requeued = told.add([Placement(job="3", hosts=("a",)), Placement(job="3", attempt=1, state="pending")])
    assert requeued.at().jobs() == ()


def test_a_horizon_drops_what_ended_before_it() -> None:
    told = Placements(
        [Placement(job="1", hosts=("a",), from_ms=0, to_ms=5), Placement(job="2", hosts=("a",), from_ms=5)]
    )
    assert [p.job for p in told.after(5)] == ["2"]
    assert [p.job for p in told.after(4)] == ["1", "2"]


JOBS = ["1", "2"]
HOSTS = ["a", "b", "?"]
places = st.builds(
    rank, st.integers(0, 3), st.sampled_from(HOSTS), st.sampled_from(["", "0", "1"]), st.sampled_from(["", "x", "y"])
)
times = st.none() | st.integers(0, 5)
parts = st.lists(
    st.builds(
        lambda job, attempt, hosts, ranks, start, end, state: Placement(
            job=job,
            attempt=attempt,
            hosts=tuple(hosts),
            ranks=tuple({p.rank: p for p in ranks}.values()),
            from_ms=start,
            to_ms=end,
            state=state,
        ),
        st.sampled_from(JOBS),
        st.integers(0, 2),
        st.lists(st.sampled_from(HOSTS), max_size=2),
        st.lists(places, max_size=3),
        times,
        times,
        st.sampled_from(["", "running", "failed", "pending"]),
    ),
    max_size=6,
)


def naive_running(merged: list[Placement], at_ms: int | None) -> list[Placement]:
    found = []
    for placement in merged:
        later = [p for p in merged if p.job == placement.job and p.attempt > placement.attempt]
        waits = placement.state in WAITING and placement.from_ms is None
        if at_ms is None:
            if not later and placement.to_ms is None and placement.state not in OVER | WAITING:
                found.append(placement)
            continue
        starts = [p.from_ms for p in later if not (p.state in WAITING and p.from_ms is None)]
        ends: list[float]
        if placement.to_ms is not None:
            ends = [placement.to_ms]
        else:
            ends = [float("-inf") if start is None else start for start in starts]
        begun = placement.from_ms is None or placement.from_ms <= at_ms
        if begun and not waits and all(at_ms < end for end in ends):
            found.append(placement)
    return found


@pytest.mark.slow
@given(parts, times)
@settings(max_examples=300, deadline=None)
def test_it_agrees_with_its_naive_twin(told: list[Placement], at_ms: int | None) -> None:
    placements = Placements(told)
    view = placements.at(at_ms)
    running = naive_running(list(placements), at_ms)
    assert list(view.jobs()) == running
    for host in ("a", "b"):
        here = [p for p in running if host in p.hosts or any(r.host == host for r in p.ranks)]
        assert list(view.jobs_of(f"host:{host}")) == here
        expected = [f"rank:{p.job}/{r.rank}" for p in here for r in p.ranks if r.host == host]
        assert sorted(view.ranks_of(f"host:{host}")) == sorted(expected)
        for card in ("0", "1"):
            component = f"accelerator:{host}/{card}"
            named = [p for p in running if any(r.component == component for r in p.ranks)]
            assert list(view.jobs_of(component)) == (named or here)
            assert component not in view.peers_of(component)


@given(parts, times)
@settings(max_examples=100, deadline=None)
def test_adding_one_by_one_is_the_same(told: list[Placement], at_ms: int | None) -> None:
    grown = Placements()
    for placement in told:
        grown = grown.add([placement])
    assert list(grown) == list(Placements(told))
    assert grown.at(at_ms).jobs() == Placements(told).at(at_ms).jobs()
