"""Declared work stops remediation on what hangs on it, for as long as it lasts; a job's own wishes are heard."""

from typing import Any

import pytest

from sickbay import messages
from sickbay.messages import Edge, Relation
from tests.remediation.kit import CARD, JOB, Cluster, writes


def cluster(*edges: tuple[str, str, Relation]) -> Cluster:
    one = Cluster()
    for child, parent, relation in edges:
        edge = Edge(child=child, parent=parent, relation=relation, from_ms=1)
        one.append("sickbay.topology.v1", f"{child} {parent}".encode(), messages.encode(edge))
    one.append("sickbay.topology.v1", b"junk", b"{]")
    return one


ABOVE = (
    ("host:n1", "rack:r1", Relation.PART_OF),
    ("rack:r1", "pdu:p1", Relation.POWERED_BY),
    ("host:n1", "switch:s1", Relation.ATTACHED_TO),
    ("host:n2", "rack:r2", Relation.PART_OF),
)


@pytest.mark.parametrize("target", ["host:n1", CARD, "rack:r1", "pdu:p1", "switch:s1"])
def test_nothing_is_done_where_people_work_and_its_end_goes_on(target: str) -> None:
    one = cluster(*ABOVE)
    one.say("maintenance", target, from_ms=one.clock.now_ms, until_ms=one.clock.now_ms + 10_000, note="new riser")
    one.incident()
    one.run(5)
    assert one.scheduler.writes == []
    why = one.line("drain_host").why
    assert all(word in why for word in ("maintenance", target, "carol", "new riser"))
    one.run(10)
    assert writes(one, "drain") == ["n1"]


@pytest.mark.parametrize(
    ("target", "window"),
    [("rack:r2", (0, 60_000)), ("rack:r1", (60_000, 120_000)), ("rack:r1", (-60_000, -1_000)), ("pdu:p9", (0, 60_000))],
)
def test_work_elsewhere_or_at_another_time_stops_nothing(target: str, window: tuple[int, int]) -> None:
    one = cluster(*ABOVE)
    one.say("maintenance", target, from_ms=one.clock.now_ms + window[0], until_ms=one.clock.now_ms + window[1])
    one.incident()
    one.run(5)
    assert writes(one, "drain") == ["n1"]


def requeues(one: Cluster) -> list[Any]:
    return writes(one, "requeue")


def test_a_job_that_asks_not_to_be_stopped_is_requeued_later() -> None:
    one = Cluster()
    one.say("no_stop", f"job:{JOB}", until_ms=one.clock.now_ms + 10_000)
    one.incident()
    one.run(5)
    assert writes(one, "drain") == ["n1"]
    assert requeues(one) == []
    assert "not to be stopped" in one.line("requeue").why
    one.run(10)
    assert requeues(one) == [JOB]


@pytest.mark.parametrize(("owner", "done"), [("framework", []), ("scheduler", [JOB])])
def test_a_job_that_another_restarts_is_left_to_it(owner: str, done: list[str]) -> None:
    one = Cluster()
    one.say("restart_owner", f"job:{JOB}", note=owner)
    one.incident()
    one.run(8)
    assert writes(one, "drain") == ["n1"]
    assert requeues(one) == done
    if not done:
        assert owner in one.line("requeue").why
