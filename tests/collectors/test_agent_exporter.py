"""Exporters that hang, trickle, flood or talk nonsense are readings; what they say is under the host's own name."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_tests
from hypothesis import strategies as st

from collectors.agent.hosting import host_of
from collectors.agent.source import Collected
from collectors.formats import prometheus_text
from collectors.formats.reading import Tally
from collectors.host import accelerator_exporter
from collectors.host.accelerator_exporter import AcceleratorExporter
from collectors.http_get import HttpError, address_of, get
from sickbay.messages import Event, Identity
from sickbay.schema import Samples
from tests.collectors.agent_kit import Answer, exporter_page, page, serving, settings

NOW = 1_790_000_000_000


def exporter(folder: Path, url: str, host: str = "n1") -> AcceleratorExporter:
    config = settings(folder, host, exporters=(url,), timeout_s=0.5)
    return AcceleratorExporter(host_of(config, lambda source: None), url, 0)


def tables(collected: Collected) -> dict[str, Samples]:
    return {one.record.table: one.record for one in collected.seen if isinstance(one.record, Samples)}


def test_one_scrape_gives_samples_identities_and_that_it_answered(tmp_path: Path) -> None:
    with serving(page(exporter_page(host="some-pod"))) as url:
        found = exporter(tmp_path, url).collect(NOW)
    assert found.problem == ""
    cards = tables(found)["accelerator"]
    assert sorted(cards.component) == ["accelerator:n1/0000:cb:00", "accelerator:n1/0000:cc:00"]
    assert set(cards.at_ms.tolist()) == {NOW}
    assert cards.values["power_watts"].tolist() == [300.0, 300.0]
    assert tables(found)["host"].component == ["host:n1"]
    assert tables(found)["host"].values["accelerator_source_up"].tolist() == [1.0]
    told = [one.record for one in found.seen if isinstance(one.record, Identity)]
    assert {(one.host, one.index, one.pci) for one in told} == {("n1", "0", "0000:cb:00"), ("n1", "1", "0000:cc:00")}


def test_a_code_that_stands_in_a_gauge_is_told_once(tmp_path: Path) -> None:
    body = exporter_page(cards=1).replace("} 0\n", "} 79\n")
    with serving(page(body)) as url:
        source = exporter(tmp_path, url)
        codes = [
            [one.record for one in source.collect(NOW + at).seen if isinstance(one.record, Event)] for at in (0, 9)
        ]
    assert [[event.component for event in some] for some in codes] == [["accelerator:n1/0000:cb:00"], []]


def _trickle(connection: socket.socket) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def _flood(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(100):
        connection.sendall(b"x" * (1 << 20))


BAD: dict[str, tuple[Answer, str]] = {
    "hangs": (lambda connection: time.sleep(3), "no whole answer within 0.5 s"),
    "trickles": (_trickle, "no whole answer within 0.5 s"),
    "floods": (_flood, "larger than 8 MiB"),
    "says nothing": (lambda connection: None, "not HTTP"),
    "no HTTP": (lambda connection: connection.sendall(b"\x00\xff" * 500), "not HTTP"),
    "an error": (lambda connection: connection.sendall(b"HTTP/1.1 503 Busy\r\n\r\n"), "answered 503"),
    "half": (lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx"), "1 of 99 bytes"),
    "empty": (page(""), "without any series"),
    "a web page": (page("<html><body>Login</body></html>" * 100), "without any series"),
    "binary": (page(bytes(range(256)) * 1000), "without any series"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_a_reading_in_time(tmp_path: Path, name: str) -> None:
    answer, why = BAD[name]
    bad = [False]
    good = page(exporter_page())
    with serving(lambda connection: (answer if bad[0] else good)(connection)) as url:
        source = exporter(tmp_path, url)
        assert source.collect(NOW).problem == ""
        bad[0] = True
        began = time.monotonic()
        found = source.collect(NOW + 1000)
        assert time.monotonic() - began < 3
        assert why in found.problem
        assert tables(found)["host"].values["accelerator_source_up"].tolist() == [0.0]
        assert "accelerator" not in tables(found)
        bad[0] = False
        assert source.collect(NOW + 2000).problem == ""


def test_nobody_listens(tmp_path: Path) -> None:
    found = exporter(tmp_path, "http://127.0.0.1:9/metrics").collect(NOW)
    assert "refused" in found.problem
    assert found.seen == []  # nothing says that it is an exporter of accelerators


def test_another_address_that_tells_of_another_host_is_not_ours_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"host": "n2"}
    monkeypatch.setattr(accelerator_exporter, "get", lambda *_: exporter_page(said["host"]).encode())
    source = exporter(tmp_path, "http://10.0.0.7:9400/metrics")
    for _ in range(2):
        found = source.collect(NOW)
        assert found.seen == ()
        assert "speaks of host n2" in found.problem
    said["host"] = "n1.example.org"
    found = source.collect(NOW)
    assert found.problem == ""
    assert set(tables(found)["accelerator"].component) == {"accelerator:n1/0000:cb:00", "accelerator:n1/0000:cc:00"}


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:9400", "file:///etc/passwd", "http://", "http://x/\r\nEvil: 1", "http://x:99999/"]
)
def test_an_address_that_is_none_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match=r"no address|[Pp]ort"):
        address_of(url)


def test_values_that_name_no_device_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator_exporter, "get", lambda *_: b'mtgpu_gpu_temp{unheard_of="0"} 61\n')
    found = exporter(tmp_path, "http://127.0.0.1:1/").collect(NOW)
    assert "values that name no device" in found.problem
    assert not tables(found)


def dated(*times: int) -> bytes:
    return "".join(
        f'npu_chip_info_power{{id="{index}",pcie_bus_info="0000:C{index}:00.0",vdie_id="v{index}"}} 300 {at}\n'
        for index, at in enumerate(times)
    ).encode()


def test_a_value_of_long_ago_is_none_of_now_and_one_dated_ahead_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator_exporter, "get", lambda *_: dated(NOW - 3_600_000, NOW + 3_600_000, NOW - 1000))
    found = exporter(tmp_path, "http://127.0.0.1:1/").collect(NOW)
    cards = tables(found)["accelerator"]
    assert dict(zip(cards.component, cards.at_ms.tolist(), strict=True)) == {
        "accelerator:n1/0000:c1:00": NOW,
        "accelerator:n1/0000:c2:00": NOW - 1000,
    }
    assert found.problem == ""


def test_an_exporter_that_answers_from_an_old_cache_is_as_good_as_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator_exporter, "get", lambda *_: dated(NOW - 412_000, NOW - 412_000))
    found = exporter(tmp_path, "http://127.0.0.1:1/").collect(NOW)
    assert "values of 412 s ago" in found.problem
    assert set(tables(found)) == {"host"}
    assert tables(found)["host"].values["accelerator_source_up"].tolist() == [0.0]


@pytest.mark.slow
@settings_of_tests(max_examples=15)
@given(st.binary(max_size=400))
def test_any_answer_is_read_or_refused(raw: bytes) -> None:
    with serving(lambda connection: connection.sendall(raw)) as url:
        try:
            body = get(address_of(url), 2.0)
        except HttpError:
            return
        list(prometheus_text.Exporter(Tally()).scrape(body, NOW))


def test_scrape_after_scrape_says_what_each_alone_says() -> None:
    together, pages = prometheus_text.Exporter(Tally()), [exporter_page(power=300.0 + at) for at in range(3)]
    for at, text in enumerate(pages):
        apart = _rows(prometheus_text.Exporter(Tally()).scrape, text, NOW + at)
        assert _rows(together.scrape, text, NOW + at) == apart


def _rows(scrape: Callable[..., object], text: str, at_ms: int) -> list[object]:
    found = [one.record for one in scrape(text.encode(), at_ms)]  # type: ignore[attr-defined]
    return [
        (one.table, list(one.component), one.at_ms.tolist(), {name: of.tolist() for name, of in one.values.items()})
        for one in found
        if isinstance(one, Samples)
    ]


def test_a_counter_that_two_exporters_tell_is_told_by_one_of_them(tmp_path: Path) -> None:
    labels = '{gpu="0",UUID="GPU-a",pci_bus_id="00000000:1B:00.0",Hostname="n1"}'
    body = f"DCGM_FI_DEV_POWER_USAGE{labels} 600\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels} %d\n"
    with serving(page(body % 105)) as first, serving(page(body % 100)) as second:
        host = host_of(settings(tmp_path, "n1", exporters=(first, second)), lambda source: None)
        one, other = (AcceleratorExporter(host, url, place) for place, url in enumerate((first, second)))
        cards = [tables(source.collect(NOW))["accelerator"].values for source in (one, other)]
        later = tables(other.collect(NOW + accelerator_exporter.LATE_MS + 1))["accelerator"].values
    assert [values["power_watts"].tolist() for values in cards] == [[600.0], [600.0]]
    assert cards[0]["energy_millijoules_total"].tolist() == [105.0]
    assert np.isnan(cards[1]["energy_millijoules_total"]).all()
    assert later["energy_millijoules_total"].tolist() == [100.0]  # the first fell silent
