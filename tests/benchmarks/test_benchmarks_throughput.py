"""The throughput benchmarks: their parts by known answers, and a small run of each over a real broker."""

import json
import struct
import time
from pathlib import Path
from types import ModuleType

import crc32c
import pytest
from kafka.record.memory_records import MemoryRecords

from benchmarks import latency_load, peers_processor, throughput
from benchmarks.__main__ import main
from benchmarks.accounting import Account
from benchmarks.kafka_requests import request, seal_batch, value_at
from benchmarks.throughput_load import Load, Sender
from benchmarks.throughput_site import Look
from sickbay import packs, wire
from sickbay.layouts import Schemas
from sickbay.topics import TELEMETRY, TOPICS, partition_of
from simulator.telemetry import BEGIN_S, Fleet

PARTS = {"broker", "consume", "decode", "features", "peers", "detect", "commit", "generator"}


def test_a_produce_request_holds_one_batch_with_one_record() -> None:
    value = bytes(range(256)) * 70
    whole, batch = request("telemetry", 3, b"n000001", value)
    assert struct.unpack_from(">ihh", whole) == (len(whole) - 4, 0, 7)
    assert whole[value_at(whole, value) :][: len(value)] == value
    changed = memoryview(bytearray(whole))
    seal_batch(changed, batch)
    records = MemoryRecords(bytes(changed[batch:]))
    found = records.next_batch()
    assert found.validate_crc()
    assert [(record.key, record.value) for record in found] == [(b"n000001", value)]
    assert records.next_batch() is None


class _Kept:
    """A connection that keeps what is sent."""

    def __init__(self, *_: object) -> None:
        self.whole: list[bytes] = []
        self.sent = self.acknowledged = self.refused = self.lost = self.open = 0

    def send(self, whole: memoryview) -> None:
        self.whole.append(bytes(whole))


@pytest.mark.parametrize("relayed", [0, 4])
def test_the_sender_sends_each_host_at_its_partition_interval_by_interval(
    relayed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.throughput_load.Connection", _Kept)
    sender = Sender(Load(address="127.0.0.1:1", stats="", hosts=8, relayed=relayed, connections=3))
    now_ms = (BEGIN_S + 100) * 1000
    for interval in range(3):
        sent = sum(sender.send(slot, interval, now_ms + 5000 * interval) for slot in range(sender.slots))
        assert sent == 8
    told = [_told(whole) for connection in sender.connections for whole in connection.whole]  # type: ignore[attr-defined]
    frames = [wire.decode(frame, Schemas()) for _, _, value in told for frame in _frames(value)]
    assert sorted((one.host, one.sequence) for one in frames) == [(f"n{h:06d}", n) for h in range(8) for n in (1, 2, 3)]
    assert all(partition == partition_of(key, TOPICS[TELEMETRY].partitions) for partition, key, _ in told)
    for one in frames:
        assert one.sent_ms == now_ms + 5000 * (one.sequence - 1)
        assert {int(table.at_ms.max()) for table in one.tables} == {one.sent_ms}
        assert int(one.tables[0].at_ms.min()) == one.sent_ms - 4000


def _told(whole: bytes) -> tuple[int, bytes, bytes]:
    batch = whole.index(TELEMETRY.encode()) + len(TELEMETRY) + 12
    record = next(iter(MemoryRecords(whole[batch:]).next_batch()))
    (partition,) = struct.unpack_from(">i", whole, batch - 8)
    assert struct.unpack_from(">I", whole, batch + 17) == (crc32c.crc32c(whole[batch + 21 :]),)
    return partition, record.key, record.value


def _frames(value: bytes) -> list[bytes]:
    return packs.unpack(value) if packs.is_pack(value) else [value]


def test_time_counts_for_the_innermost_wrapped_function() -> None:
    account = Account()

    def burn(seconds: float) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    inner = account.wrapped(burn, "inner")

    def around() -> None:
        burn(0.02)
        inner(0.05)
        burn(0.02)

    account.wrapped(around, "outer")()
    assert account.spent["inner"] == pytest.approx(0.05, abs=0.02)
    assert account.spent["outer"] == pytest.approx(0.04, abs=0.02)


def test_functions_are_wrapped_where_they_are_and_what_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("sickbay_benchmark_probe")
    exec("class Part:\n    def work(self): return 1\ndef lonely(): return 2", module.__dict__)
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    account = Account()
    places = {f"{module.__name__}:Part.work": "a", f"{module.__name__}:Part.gone": "b", "no.such.module": "c"}
    assert account.wrap_all(places) == [f"{module.__name__}:Part.gone", "no.such.module"]
    assert module.Part().work() == 1
    assert "a" in account.spent


@pytest.mark.parametrize("most", [0.3, 0.9, 2.0, 3.1, 9.0, 100.0])
def test_the_search_comes_near_the_greatest_sustained_ratio(most: float) -> None:
    tried: list[float] = []

    def sustained(ratio: float) -> bool:
        tried.append(ratio)
        return ratio <= most

    found = throughput.search(sustained, 2.0, trials=6)
    assert len(tried) <= 6
    assert throughput.LOWEST <= found <= min(most, throughput.HIGHEST) * 1.01
    assert found >= min(most, throughput.HIGHEST) * 0.6


def test_lag_that_grows_is_not_sustained() -> None:
    def lag(values: list[float]) -> bool:
        return bool(throughput._lag([Look(value, value, 0, 0) for value in values])["windows"]["still"])

    assert lag([1.0, 1.5] * 60)
    assert not lag([1.0 + 0.05 * second for second in range(120)])
    assert not lag([40.0] * 120)  # stands still, far behind


def test_the_peer_rule_finds_the_one_that_is_off(tmp_path: Path) -> None:
    fleet = Fleet(1, 6, sizes=(3,))
    task = peers_processor.Task(file=str(tmp_path / "frames"), hosts=6, second=BEGIN_S, seconds=20)
    peers_processor.write(fleet, task)
    found = list(peers_processor.windows(task, peers_processor.jobs_of(fleet)))
    assert len(found) == 2
    for features, peers in found:
        assert features.values.shape == (12, 48)
        assert peers.median.shape == (12, 2)
        assert (peers.told == 24).all()


def _run(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    assert main([*options, "--json"]) == 0
    numbers: dict[str, object] = json.loads(capsys.readouterr().out)
    return numbers


@pytest.mark.slow
@pytest.mark.service
def test_throughput_prints_the_agreed_keys(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--accelerators", "512", "--mode", "relayed", "--relayed-ratio", "1", "--seconds", "12", "--warm-up", "5"]
    numbers = _run(capsys, "throughput", "--log", "kafka", *small)
    keys = {"values_per_s", "realtime_ratio", "relayed_realtime_ratio", "peak_rss_mb", "cpu_s", "conditions"}
    assert keys <= set(numbers)
    assert isinstance(numbers["cpu_s"], dict)
    assert set(numbers["cpu_s"]) >= PARTS
    assert isinstance(numbers["values_per_s"], int)
    assert numbers["values_per_s"] > 0


@pytest.mark.slow
@pytest.mark.service
def test_growth_prints_the_agreed_keys(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--sizes", "512", "--seconds", "12", "--warm-up", "3", "--idle", "0", "--backlog", "0"]
    numbers = _run(capsys, "growth", *small)
    assert numbers["ratio"] == 1.0
    assert set(numbers["cost_per_value_us"]) == {"512"}  # type: ignore[call-overload]


@pytest.mark.slow
@pytest.mark.service
def test_outage_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    spans = ("--away", "2", "--behind", "2", "--warm-up", "3", "--limit", "240")
    numbers = _run(capsys, "outage", "--accelerators", "256", *spans)
    assert all(isinstance(numbers[key], float) for key in ("rebuild_s", "catch_up_s", "lag_back_s"))


@pytest.mark.slow
@pytest.mark.service
def test_the_peer_rule_is_the_same_in_prometheus(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = _run(capsys, "peers_vs_prometheus", "--accelerators", "128", "--seconds", "10", "--warm-up", "12")
    assert set(numbers["values_per_s_per_core"]) == {"prometheus", "stored_only", "sickbay"}  # type: ignore[call-overload]
    assert isinstance(numbers["agreement"], float)
    assert numbers["agreement"] > 0.99


@pytest.mark.slow
@pytest.mark.service
def test_latency_while_telemetry_comes_in() -> None:
    numbers = latency_load.numbers(256, 4)
    assert 0 < numbers["half_load_p50_ms"] <= numbers["half_load_p99_ms"]
