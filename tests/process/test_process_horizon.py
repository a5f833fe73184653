"""What diagnosis remembers, and that it has an end."""

import polars as pl

from sickbay.app.diagnosing import horizon
from sickbay.app.diagnosing.horizon import HORIZON_MS, ORDER_MS, Horizon
from sickbay.log import Record
from sickbay.messages import Edge, Event, Identity, Placement, Relation, Severity, Step, encode
from sickbay.topics import FEATURES
from streams.feature_record import encode_frame as encode_features
from tests.process.kit import EVENTS, lost_card

NOW = 1_796_000_000_000


def _record(value: bytes | None, topic: str = EVENTS, key: bytes = b"k", append_ms: int = NOW) -> Record:
    return Record(topic, 0, 0, append_ms, key, value)


def test_a_storm_of_events_leaves_the_severe_ones(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(horizon, "MAX_EVENTS", 10)
    found = Horizon()
    found.take(_record(encode(lost_card("n1", NOW - 1000))))
    for number in range(50):
        found.take(_record(encode(Event(component="host:n2", kind="host.boot", at_ms=NOW + number))))
    assert [event.severity for event in found.case(NOW).events].count(Severity.FATAL) == 1
    assert len(found.events) == 10
    assert found.dropped == 40


def test_windows_that_are_not_whole_are_not_told() -> None:
    frame = pl.DataFrame({"component": ["host:a"], "end_ms": [NOW], "n": [1]})
    found = Horizon()
    for end in (NOW, NOW + 10_000):
        found.take(_record(encode_features("host", end, frame.with_columns(end_ms=pl.lit(end))), FEATURES))
    assert found.case(NOW, frontier_ms=NOW).features["host"]["end_ms"].to_list() == [NOW]
    assert found.case(NOW, frontier_ms=0).features == {}
    assert len(found.case(NOW).features["host"]) == 2
    found.bound(NOW + 1)
    assert len(found.case(NOW).features["host"]) == 1


def test_facts_told_again_and_again_are_held_once_and_old_placements_go() -> None:
    found = Horizon()
    edge = Edge(child="port:n1/a", parent="host:n1", relation=Relation.PART_OF)
    for number in range(100):
        found.take(_record(encode(edge), key=b"edge"))
        found.take(_record(encode(Identity(host="n1", index="0", pci=f"0000:{number % 3:02x}:00")), key=b"identity"))
        found.take(_record(encode(Placement(job=str(number), hosts=("n1",), from_ms=NOW, to_ms=NOW + 1))))
    assert len(found._fresh_edges) == len(found.identities) == 1
    found.case(NOW)
    assert len(found.placements) == 100
    found.case(NOW + HORIZON_MS + 10)
    assert len(found.placements) == 0
    found.take(_record(None, key=b"identity"))
    assert not found.identities


def test_undated_steps_are_kept_by_when_they_came() -> None:
    found = Horizon()
    found.take(_record(encode(Step(step=1, job="1"))))
    assert len(found.case(NOW + HORIZON_MS).steps) == 1
    assert len(found.case(NOW + HORIZON_MS + 1).steps) == 0


def test_a_stamp_far_ahead_or_before_1970_is_clamped_and_forgotten_in_time() -> None:
    found = Horizon()
    for at_ms in (2**63 - 1, -(2**63) + 1, NOW + 3_600_000):
        found.take(_record(encode(lost_card("n1", at_ms))))
        found.take(_record(encode(Step(rank=0, job="j", step=1, at_ms=at_ms))))
    assert [event.at_ms for event in found.case(NOW).events] == [NOW + 2000, NOW + 2000]
    assert {step.at_ms for step in found.case(NOW).steps} == {NOW + 2000}
    after = found.case(NOW + HORIZON_MS + 3000)
    assert not after.events
    assert not after.steps


def test_a_lost_carrier_waits_for_the_word_of_who_closed_its_port() -> None:
    found, now = Horizon(), NOW
    down = Event(component="port:h1/eth2", kind="port.down", at_ms=now, severity=Severity.ERROR)
    other = Event(component="accelerator:h1/0000:01:00", kind="accelerator.off_bus", at_ms=now, severity=Severity.FATAL)
    for event in (down, other):
        found.take(_record(encode(event)))
    assert [one.kind for one in found.case(now + 1_000).events] == ["accelerator.off_bus"]
    assert not found.due(now + 1_000)
    assert found.due(now + ORDER_MS)
    assert {one.kind for one in found.case(now + ORDER_MS).events} == {"accelerator.off_bus", "port.down"}
    assert not found.due(now + 60_000)
