"""Prometheus remote_write into a listener: the values that come out of the log, and what is refused."""

import struct
from contextlib import suppress
from pathlib import Path

import cramjam
import pytest

from collectors.listen import Request, Unfit
from collectors.listen.memory import SeenSeries, SeriesMemory
from collectors.listen.remote_write import read
from collectors.listen.unpack import unpacked
from sickbay.selfmetrics import LISTEN_REFUSED
from tests.listen.listen_kit import EVENTS, NOW_MS, Row, Site, card, config, site, tokens, values, written, written_v2

STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
TEMPERATURE, UTILISATION, CODE = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_XID_ERRORS"
EDAC = "node_edac_uncorrectable_errors_total"
CARD = "accelerator:n1/0000:cb:00"
TYPE = {"content-type": "application/x-protobuf"}
TYPE_V2 = {"content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}


def told(series: list[Row], memory: SeriesMemory | None = None, version: int = 1, now_ms: int = NOW_MS):  # type: ignore[no-untyped-def]
    body = unpacked(written(series) if version == 1 else written_v2(series), "snappy", 1 << 24)
    request = Request(body, TYPE if version == 1 else TYPE_V2, {}, now_ms, "test")
    return read(request, memory or SeriesMemory(), lambda component: True)


@pytest.mark.parametrize("version", [1, 2])
def test_series_come_out_of_the_log_as_columns(tmp_path: Path, version: int) -> None:
    rows = [
        (card(TEMPERATURE), [(41.0, NOW_MS), (42.0, NOW_MS + 1000)]),
        (card(UTILISATION), [(50.0, NOW_MS)]),
        ({"__name__": "node_load1", "instance": "n2:9100"}, [(3.5, NOW_MS)]),
        ({"__name__": "of_nobody", "instance": "n2:9100"}, [(1.0, NOW_MS)]),
    ]
    with site(tmp_path) as one:
        answer = one.write(rows, version=version)
        assert answer.status == 204
        assert answer.headers["x-prometheus-remote-write-samples-written"] == "5"
        assert answer.headers["x-prometheus-remote-write-histograms-written"] == "0"
        assert one.values("accelerator", "temperature_celsius") == {
            (CARD, NOW_MS): 41.0,
            (CARD, NOW_MS + 1000): 42.0,
        }
        assert one.values("accelerator", "utilisation_ratio") == {(CARD, NOW_MS): 0.5}
        assert one.values("host", "load_1m") == {("host:n2", NOW_MS): 3.5}
        assert {frame.host for frame in one.frames()} == {"n1", "n2"}
        assert len(one.frames()) == 2  # one a host, all columns of a moment in one row
        identities = {message.pci for message in one.told("sickbay.topology.v1")}
        assert "0000:cb:00" in identities


def test_stale_markers_end_a_series_and_are_no_values() -> None:
    found = told([(card(TEMPERATURE), [(41.0, NOW_MS), (STALE, NOW_MS + 1000)])])
    assert [batch.at_ms.tolist() for batch in found.samples] == [[NOW_MS]]
    assert found.written == 2


def test_samples_out_of_order_and_twice_stand_at_their_own_times() -> None:
    found = told([(card(TEMPERATURE), [(42.0, NOW_MS + 1000), (41.0, NOW_MS), (41.0, NOW_MS)])])
    (batch,) = found.samples
    assert sorted(zip(batch.at_ms.tolist(), batch.values["temperature_celsius"].tolist(), strict=True)) == [
        (NOW_MS, 41.0),
        (NOW_MS + 1000, 42.0),
    ]


def test_a_code_is_told_once_and_again_where_the_log_did_not_take_it() -> None:
    memory = SeriesMemory()
    rows = [(card(CODE), [(79.0, NOW_MS)])]
    before = memory.copy()
    first = told(rows, memory)
    assert [one.message.code for one in first.records if one.topic == EVENTS] == ["XID 79"]
    assert [one for one in told(rows, memory).records if one.topic == EVENTS] == []
    again = told(rows, before)  # what had been taught was put back
    assert [one.message.code for one in again.records if one.topic == EVENTS] == ["XID 79"]


def edac(controller: int, value: float, at_ms: int) -> Row:
    return {"__name__": EDAC, "instance": "n1:9100", "controller": str(controller)}, [(value, at_ms)]


def test_parts_of_a_number_that_come_in_several_requests_are_summed_when_all_are_there() -> None:
    memory, sums = SeriesMemory(), list[tuple[int, float]]()
    for at_ms in range(NOW_MS, NOW_MS + 180_000, 15_000):
        for controller, value in ((0, 3.0), (1, 4.0)):
            for batch in told([edac(controller, value, at_ms)], memory, now_ms=at_ms).samples:
                sums += zip(batch.at_ms.tolist(), batch.values["uncorrected_memory_errors_total"].tolist(), strict=True)
    assert {value for _, value in sums} == {7.0}  # never 3: it would look like errors that were counted since
    assert len(sums) >= 5


def test_more_series_than_the_share_are_left_out_and_counted() -> None:
    memory = SeriesMemory(seen=SeenSeries(2))
    rows = [(card(TEMPERATURE, pci=f"00000000:{place:02X}:00.0"), [(40.0, NOW_MS)]) for place in range(4)]
    found = told(rows, memory)
    assert found.left_out["cardinality"] == 2
    assert found.status == 400
    assert told(rows[:2], memory).left_out["cardinality"] == 0  # those that were let in stay in


def test_a_token_tells_of_its_own_hosts_only(tmp_path: Path) -> None:
    rows = [(card(TEMPERATURE, "n1"), [(41.0, NOW_MS)]), (card(TEMPERATURE, "n2"), [(99.0, NOW_MS)])]
    with site(tmp_path) as one:
        answer = one.write(rows, "one")
        assert answer.status == 403
        assert answer.json["left_out"] == {"host": 1}
        assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"
        assert {name for name, _ in one.values("accelerator", "temperature_celsius")} == {CARD}
        assert one.write(rows, "of nobody").status == 401
        named_by_hand = {**card(TEMPERATURE, "n1/../n2"), "Hostname": "n2 "}
        assert one.write([(named_by_hand, [(99.0, NOW_MS)])], "one").status in (400, 403)
        assert len(one.frames()) == 1


def test_series_without_a_host_are_counted_and_said(tmp_path: Path) -> None:
    here = {"instance": "localhost:9100"}
    with site(tmp_path) as one:
        answer = one.write(
            [({"__name__": "node_load1", **here}, [(1.0, NOW_MS)]), ({"__name__": "up", **here}, [(1.0, NOW_MS)])]
        )
        assert answer.status == 204  # a site's own servers are scraped at localhost everywhere
        assert answer.headers["x-prometheus-remote-write-samples-written"] == "1"
        assert one.metrics.value(LISTEN_REFUSED, kind="metrics", reason="no_host") == 1
        assert any("no label tells the host" in text for text in one.said)
        assert one.frames() == []


def test_what_is_remembered_of_a_series_changes_nothing_that_it_tells() -> None:
    names = (TEMPERATURE, UTILISATION, "DCGM_FI_DEV_POWER_USAGE", "node_load1")
    warm = SeriesMemory()
    for turn in range(6):
        at_ms = NOW_MS + 1000 * turn
        rows = [
            (
                card(name, f"n{host}", "" if turn < 3 and host == 1 else "00000000:CB:00.0"),
                [(40.0 + turn + host, at_ms)],
            )
            for name in names
            for host in range(3)
        ]
        cold = told(rows, SeriesMemory(), now_ms=at_ms)
        again = told(rows, warm, now_ms=at_ms)
        assert again.written == cold.written == len(rows)
        for table, column in (
            ("accelerator", "temperature_celsius"),
            ("accelerator", "power_watts"),
            ("host", "load_1m"),
        ):
            assert values(again.samples, table, column) == values(cold.samples, table, column)
    assert any(warm.seen.seen.values())


HOSTILE = [
    (b"", 400),
    (b"\x00", 204),  # an empty message
    (b"\xff" * 100, 400),
    (b"\xff\xff\xff\xff\x0f" + b"\x00" * 50, 413),  # says that it is 4 GiB
    (bytes(cramjam.snappy.compress_raw(b"\x00" * (20 << 20))), 413),
    (bytes(cramjam.snappy.compress_raw(b"no message" * 100)), 400),
    (written([(card(TEMPERATURE), [(41.0, NOW_MS)])])[:-7], 400),
    (written([({**card(TEMPERATURE), "long": "x" * (3 << 20)}, [(41.0, NOW_MS)])]), 400),
    (written([({f"l{place}": "x" for place in range(500)} | card(TEMPERATURE), [(41.0, NOW_MS)])]), 400),
    (written([(card(TEMPERATURE), [])] * 60_000), 413),
    (written([(card(TEMPERATURE), [(41.0, NOW_MS)] * 210_000)]), 413),
    (written([({"__name__": TEMPERATURE, "long": "x" * (10 << 20)}, [(41.0, NOW_MS)])]), 413),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with site(tmp_path_factory.mktemp("listen")) as one:
        yield one


@pytest.mark.parametrize(("body", "status"), HOSTILE)
def test_hostile_bodies_get_a_reason(shared: Site, body: bytes, status: int) -> None:
    answer = shared.post("/api/v1/write", body, Content_Type="application/x-protobuf", Content_Encoding="snappy")
    assert answer.status == status
    assert status == 204 or answer.json["error"]
    assert shared.frames() == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Type": "application/json", "Content_Encoding": "snappy"}, 415),
        ({"Content_Type": "application/x-protobuf;proto=of.nobody", "Content_Encoding": "snappy"}, 415),
        ({"Content_Type": "application/x-protobuf", "Content_Encoding": "zstd"}, 415),
        ({"Content_Type": "application/x-protobuf"}, 415),
    ],
)
def test_other_content_is_415(shared: Site, headers: dict[str, str], status: int) -> None:
    assert shared.post("/api/v1/write", written([]), **headers).status == status


def test_every_byte_damaged_is_read_or_refused() -> None:
    body = unpacked(written_v2([(card(TEMPERATURE), [(41.0, NOW_MS)])]), "snappy", 1 << 20)
    for place in range(len(body)):
        for change in (0x00, 0x7F, 0xFF):
            damaged = body[:place] + bytes([change]) + body[place + 1 :]
            for headers in (TYPE, TYPE_V2):
                with suppress(Unfit):
                    read(Request(damaged, headers, {}, NOW_MS, "t"), SeriesMemory(), lambda component: True)


def test_too_many_requests_are_sent_away(tmp_path: Path) -> None:
    settings = config(tmp_path)
    tokens(tmp_path, slow={"hosts": ["*"], "kinds": ["metrics"], "requests_per_s": 0.5})
    with site(tmp_path, settings=settings) as one:
        statuses = [one.write([], "slow").status for _ in range(3)]
        assert statuses[0] == 204
        assert statuses[-1] == 429
        assert one.metrics.value(LISTEN_REFUSED, kind="metrics", reason="rate") == statuses.count(429)
