"""Side inputs as of an append time, planes of cables, and where rows go by them."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay.messages import Edge, Placement, RankPlace, Relation
from sickbay.placement import Placements
from sickbay.topics import partition_of
from streams import side_inputs
from streams.repartition import by_fabric, by_job
from streams.side_inputs import KEPT_MS, Fabric, Told, Versions

AT = 1_790_000_000_000


def placed(job: int, host: int, from_ms: int, to_ms: int | None = None) -> Placement:
    return Placement(job=f"j{job}", hosts=(f"h{host}",), from_ms=AT + from_ms, to_ms=to_ms and AT + to_ms)


told = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 50), st.none() | st.integers(1, 80))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 9), told), max_size=20), st.lists(st.integers(-5, 120), max_size=8))
def test_what_is_known_at_a_cutoff_is_what_was_appended_by_then(
    words: list[tuple[int, tuple[int, int, int, int | None]]], cutoffs: list[int]
) -> None:
    """In whatever order the cutoffs are asked, and whatever was appended since."""
    versions, appended, now = Versions(), list[tuple[int, Placement]](), AT
    for gap, (job, host, from_ms, to_ms) in words:
        now += gap
        message = placed(job, host, from_ms, to_ms)
        appended.append((now, message))
        versions.add(Told(now, f"j{job}".encode(), message))
    for cutoff in cutoffs:
        known = versions.at(AT + cutoff).placements
        assert [*known] == [*Placements(one for at, one in appended if at <= AT + cutoff)]
    if cutoffs:
        assert versions.at(AT + cutoffs[-1]) is versions.at(AT + cutoffs[-1])


def test_old_versions_that_a_later_one_replaces_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_inputs, "TIDY", 10)
    versions = Versions()
    for number in range(25):
        versions.add(Told(AT + number, b"j1", placed(1, number, number)))
    versions.add(Told(AT + KEPT_MS, b"j2", placed(2, 0, 0)))
    assert len(versions) == 26
    for number in range(25):
        versions.add(Told(AT + KEPT_MS + 100 + number, b"j3", placed(3, number, number)))
    assert len(versions) == 1 + 1 + 25  # of the first job the newest, as compaction leaves it
    assert len([*versions.at(AT + KEPT_MS + 200).placements]) == 3


def test_what_is_told_again_is_no_version_and_another_log_begins_anew() -> None:
    versions = Versions()
    for at_ms in (AT, AT + 1, AT + 2):
        versions.add(Told(at_ms, b"j1", placed(1, 0, 0)))
    assert len(versions) == 1
    versions.add(Told(AT - 500, b"j9", placed(9, 0, 0)))
    assert [one.job for one in versions.at(AT + 10).placements] == ["j9"]


def cables(hosts: int = 4, rails: int = 2, to_ms: int | None = None) -> Iterator[Edge]:
    for host in range(hosts):
        for rail in range(rails):
            yield Edge(
                child=f"port:h{host}/r{rail}", parent=f"port:leaf{rail}/e{host}", relation=Relation.LINK_END,
                source="seen", from_ms=AT, to_ms=to_ms,
            )  # fmt: skip
    for rail in range(rails):
        yield Edge(child=f"port:leaf{rail}/e0", parent=f"switch:leaf{rail}", relation=Relation.PART_OF, source="seen")
        yield Edge(
            child=f"port:leaf{rail}/up", parent=f"port:spine/e{rail}", relation=Relation.LINK_END, source="seen"
        )  # fmt: skip
    yield Edge(child="port:spine/e0", parent="switch:spine", relation=Relation.PART_OF, source="seen")


def test_both_ends_of_a_link_are_of_one_plane_and_so_is_the_rest_of_a_leaf() -> None:
    planes = Fabric(cables()).planes(AT)
    for host in range(4):
        for rail in range(2):
            assert planes[f"port:h{host}/r{rail}"] == planes[f"port:leaf{rail}/e{host}"] == rail
    assert (planes["port:leaf1/up"], planes.get("port:spine/e1")) == (1, None)
    places = by_fabric(["optic:h0/r1", "port:leaf1/e3", "port:spine/e1", "port:x/y"], planes, 16)
    assert places == [1, 1, partition_of(b"spine", 16), partition_of(b"x", 16)]


def test_planes_are_those_of_the_time_asked_and_the_same_object_between_changes() -> None:
    fabric = Fabric(cables(to_ms=AT + 10))
    assert fabric.planes(AT - 1) == fabric.planes(AT + 10) == {}
    assert fabric.planes(AT) is fabric.planes(AT + 9)
    assert len(fabric.planes(AT + 5)) == 4 * 2 * 2 + 2


def test_rows_go_by_the_job_on_their_part_else_on_their_host_else_by_their_host() -> None:
    shared = [
        Placement(job=job, hosts=("h1",), ranks=(RankPlace(rank=0, host="h1", component=card),), from_ms=AT)
        for job, card in (("a", "accelerator:h1/0"), ("b", "accelerator:h1/1"))
    ]
    shared.append(Placement(job="c", hosts=("h2", "h3"), from_ms=AT))
    names = ["accelerator:h1/0", "accelerator:h1/1", "accelerator:h1/2", "accelerator:h2/0", "host:h3", "host:h4"]
    keys = [b"a", b"b", b"h1", b"c", b"c", b"h4"]
    assert by_job(names, Placements(shared).at(AT), 16) == [partition_of(key, 16) for key in keys]
    assert by_job(["pdu:r1", "switch:leaf1"], Placements(shared).at(AT), 16) == [
        partition_of(b"r1", 16), partition_of(b"leaf1", 16),
    ]  # fmt: skip
