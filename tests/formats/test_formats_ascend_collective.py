"""HCCL's lines: one event for a pair whichever side tells it, waiting ranks apart from failed devices."""

import pytest

from collectors.formats.bodies.ascend_collective import AscendCollective
from collectors.formats.reading import Line, Record
from sickbay.messages import Blame, Event, Progress

ROW = "[ERROR] HCCL(7,python):2025-05-14-09:10:11.1 [comm_base.cc:1018][8]   |  {}({})   |   {}({})   |  {}  | {} |"


def read(*lines: str) -> list[Record]:
    body = AscendCollective()
    return [record for number, line in enumerate(lines, 1) for record in body.read(Line(line, number))]


def events(*lines: str) -> list[Event]:
    return [record for record in read(*lines) if isinstance(record, Event)]


def test_both_sides_of_a_pair_are_one_event() -> None:
    one = ROW.format("192.0.2.1", 0, "192.0.2.2", 1, "server", "no connect")
    other = ROW.format("192.0.2.2", 1, "192.0.2.1", 0, "client", "no connect")
    third = ROW.format("192.0.2.3", 2, "192.0.2.1", 0, "client", "no connect")
    found = events(one, other, one, third)
    assert [event.component for event in found] == ["path:192.0.2.1~192.0.2.2", "path:192.0.2.1~192.0.2.3"]
    assert (found[0].attributes["peer_rank"], found[0].attributes["rank"]) == ("0", "1")


@pytest.mark.parametrize("status", ["connect", "connected", "success", ""])
def test_pairs_in_order_tell_nothing(status: str) -> None:
    assert read(ROW.format("192.0.2.1", 0, "192.0.2.2", 1, "server", status)) == []


def test_pairs_kept_are_bounded() -> None:
    body = AscendCollective()
    for number in range(10_000):
        row = ROW.format(f"10.0.{number // 250}.{number % 250}", 0, "192.0.2.2", 1, "server", "no connect")
        assert len(list(body.read(Line(row)))) == 1
    assert len(body._told) <= 4096


def test_a_rank_that_waits_for_itself_names_no_peer() -> None:
    (progress, event) = read(
        "[rank2]: EI0002 taskType[Notify Wait], tag[AllReduce_x], remote rank:[4294967295], rankId[2]"
    )
    assert isinstance(progress, Progress)
    assert isinstance(event, Event)
    assert (progress.rank, progress.state, progress.timeout_ms) == (2, "waiting", None)
    assert "peer_rank" not in event.attributes


def test_similar_words_are_no_memory_error() -> None:
    assert read("ALLREDUCE ERROR in my own code") == []
    (found,) = events("RuntimeError: UCE ERROR.")
    assert (found.kind, found.blame) == ("rank.device_error", Blame.HARDWARE)


def test_a_completion_error_without_addresses_names_no_end() -> None:
    (found,) = events("[Heartbeat]cqe error status[12], time:[2025-05-14 09:10:10]")
    assert found.component == "path:?~?"
