"""Versions that hosts run, out of the changes that they tell."""

from sickbay.cohorts import runs
from sickbay.messages import Change, Edge, Relation
from sickbay.topology import Topology


def change(host: str, at_ms: int | None, old: str, new: str, what: str = "driver x") -> Change:
    return Change(target=host, what=what, at_ms=at_ms, old=old, new=new)


def test_a_host_is_in_one_cohort_at_a_time() -> None:
    told = [change("host:h1", 200, "2", "3"), change("host:h1", 100, "1", "2"), change("host:h2", 150, "1", "3")]
    for topology in (Topology(runs(told)), Topology([edge for one in told for edge in runs([one])])):
        holds(topology)


def holds(topology: Topology) -> None:
    assert topology.conflicts == ()

    def of(host: str, at_ms: int) -> tuple[str, ...]:
        return topology.at(at_ms).parents(host, Relation.RUNS)

    assert "cohort:driver_x/1" in of("host:h1", 0)  # before its first change one told alone knows no begin
    assert [of("host:h1", at) for at in (100, 199, 200)] == [
        ("cohort:driver_x/2",), ("cohort:driver_x/2",), ("cohort:driver_x/3",),
    ]  # fmt: skip
    assert topology.at(200).children("cohort:driver_x/3", Relation.RUNS) == ("host:h1", "host:h2")
    assert topology.at(200).parents("host:h1") == ()  # a version holds nobody up
    assert topology.at(200).hosts_under("cohort:driver_x/3") == ()


def test_what_tells_no_version_or_time_makes_no_cohort() -> None:
    told = [
        change("host:h1", None, "1", "2"),
        change("host:h1", 100, "a", "b", what="boot"),
        change("host:h1", 100, "", "", what="driver x"),
        change("job:7", 100, "1", "2"),
        change("nonsense", 100, "1", "2"),
    ]
    assert list(runs(told)) == []


def test_a_package_that_is_gone_is_run_no_more() -> None:
    (edge,) = runs([change("host:h1", 100, "1", "", what="package x")])
    assert edge == Edge(
        child="host:h1", parent="cohort:package_x/1", relation=Relation.RUNS, to_ms=100, seen_ms=100, source="changes"
    )  # fmt: skip
