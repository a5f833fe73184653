"""Columnar telemetry of any size: a function of seed, component and second; and frames that are changed in place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay import packs, wire
from sickbay.frames import strange
from sickbay.layouts import Schemas
from sickbay.schema import TABLES
from simulator.telemetry import BEGIN_S, Fleet
from simulator.telemetry_frames import CYCLE, Frames, growth, patched, seal, values_in

SECOND = BEGIN_S + 86_400
FLEET = Fleet(3, 20, sizes=(8, 4))


def frame(fleet: Fleet, row: int = 0, second: int = SECOND, seconds: int = 5) -> bytes:
    ((host, tables),) = fleet.matrices(range(row, row + 1), second, seconds)
    return wire.encode(host, tables, sequence=5, incarnation=9, sent_ms=77)


@pytest.mark.parametrize("table", ["accelerator", "port", "host"])
@settings(max_examples=10, deadline=None)
@given(first=st.integers(0, 15), count=st.integers(1, 5), start=st.integers(0, 3), seconds=st.integers(1, 3))
def test_law_no_batch_of_hosts_or_seconds_changes_a_value(
    table: str, first: int, count: int, start: int, seconds: int
) -> None:
    whole = FLEET.block(table, range(20), SECOND, 6)
    part = FLEET.block(table, range(first, first + count), SECOND + start, seconds)
    rows, times = slice(first, first + count), slice(start, start + seconds)
    assert np.array_equal(part.gauges, whole.gauges[rows, times])
    assert np.array_equal(part.counters, whole.counters[rows, times])


def test_a_larger_cluster_and_another_seed() -> None:
    large, other = Fleet(3, 40, sizes=(8, 4)), Fleet(4, 20, sizes=(8, 4))
    one = FLEET.block("accelerator", range(8), SECOND).gauges
    assert np.array_equal(one, large.block("accelerator", range(8), SECOND).gauges)
    assert not np.array_equal(one, other.block("accelerator", range(8), SECOND).gauges)


@pytest.mark.parametrize("table", ["accelerator", "port", "host"])
def test_all_columns_are_measurements_and_counters_only_grow(table: str) -> None:
    block = FLEET.block(table, range(20), SECOND, 30)
    assert block.gauges.shape[-1] + block.counters.shape[-1] == len(TABLES[table].columns)
    assert np.isfinite(block.gauges).all()
    assert (np.diff(block.counters, axis=1) >= 0).all()
    for _, tables in FLEET.matrices(range(2), SECOND, 3):
        assert not any(map(strange, tables))


def test_cards_of_a_job_step_together_and_differ_a_little() -> None:
    power = FLEET.block("accelerator", range(8), SECOND, 20).gauges[..., 4].reshape(8, 20, 8)
    cards = power.transpose(0, 2, 1).reshape(64, 20)
    assert cards.std(axis=1).min() > 20  # over the step
    assert np.corrcoef(cards).min() > 0.9
    assert 0.002 < (cards.mean(axis=1).std() / cards.mean()) < 0.05


def test_samples_placements_and_links() -> None:
    rows = list(FLEET.samples(range(1), SECOND, 2))
    assert [(one.table, len(one.component)) for one in rows] == [("accelerator", 16), ("port", 16), ("host", 2)]
    jobs = list(FLEET.placements())
    assert [len(job.hosts) for job in jobs] == [8, 4, 8]
    links = list(FLEET.edges(hosts_per_leaf=8))
    assert len(links) == 160
    assert len({edge.parent for edge in links}) == 160


@settings(max_examples=20, deadline=None)
@given(shift=st.integers(0, 10**9), sequence=st.integers(0, 2**63), sent=st.integers(0, 2**40))
def test_law_a_patched_frame_is_what_the_encoder_makes(shift: int, sequence: int, sent: int) -> None:
    ((host, tables),) = FLEET.matrices(range(1), SECOND, 5)
    later = [type(m)(m.layout, m.names, m.device, m.at_ms + shift, m.gauges, m.counters) for m in tables]
    told = wire.encode(host, later, sequence=sequence, incarnation=9, sent_ms=sent)
    assert patched(frame(FLEET), sequence=sequence, sent_ms=sent, shift_ms=shift) == told


def test_a_signed_frame_is_not_changed_in_place() -> None:
    ((host, tables),) = FLEET.matrices(range(1), SECOND)
    signed = wire.encode(host, tables, sequence=5, incarnation=9, sent_ms=77, key=b"k" * 16)
    with pytest.raises(ValueError, match="signed"):
        patched(signed, sequence=6, sent_ms=78, shift_ms=5000)


def test_frames_in_a_buffer_grow_interval_by_interval() -> None:
    whole = [frame(FLEET, row) for row in range(6)]
    size = len(whole[0])
    buffer = np.frombuffer(bytearray(b"".join(b"head" + one for one in whole)), np.uint8).reshape(6, -1)
    frames, grown = Frames(buffer[:, 4:]), growth(FLEET, 5, 5.0, 3)
    before = frames.gauges.copy(), frames.counters.copy()
    for interval in range(CYCLE):
        for which in (slice(0, 3), slice(3, 6)):
            grown.apply(frames, which, interval)
        assert interval == CYCLE - 1 or not np.allclose(frames.gauges, before[0], rtol=1e-4)
    assert np.allclose(frames.gauges, before[0], rtol=1e-3, atol=1e-3)
    assert (frames.counters >= before[1]).all()
    assert (frames.counters > before[1]).any()
    for row in range(6):
        seal(buffer.data.cast("B")[row * (size + 4) + 4 : (row + 1) * (size + 4)])
    found = [wire.decode(buffer[row, 4:].tobytes(), Schemas()) for row in range(6)]
    assert [one.host for one in found] == [FLEET.host(row) for row in range(6)]
    assert sum(m.gauges.size + m.counters.size for m in found[0].tables) == values_in(5)


def test_a_pack_is_sealed_like_a_frame() -> None:
    packed = bytearray(packs.pack([frame(FLEET, 0), frame(FLEET, 1)]))
    packed[12:16] = bytes(4)
    seal(memoryview(packed))
    assert packs.unpack(bytes(packed)) == [frame(FLEET, 0), frame(FLEET, 1)]
