"""A live Prometheus asked for its history: a real server, and a fake one for what a real one seldom does."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from collectors.formats.reading import Record, Tally
from collectors.inputs import prometheus_api
from collectors.inputs.prometheus_api import PrometheusError, fetch
from sickbay.messages import Event, Identity
from sickbay.schema import Samples
from tests.services import prometheus

T = 1_790_000_000
CARD = '{gpu="0",UUID="GPU-77",pci_bus_id="00000000:3B:00.0",Hostname="trn-01",job="dcgm",instance="10.0.0.1:9400"}'
NAME = "accelerator:trn-01/0000:3b:00"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(prometheus_api.TOKEN_VARIABLE, raising=False)


def history() -> str:
    """Half an hour at 15 s: a card that warms by one degree a minute, its code, and the two scrapes of its host."""
    times = [T + 15 * i for i in range(121)]
    families = {
        "DCGM_FI_DEV_GPU_TEMP": [(CARD, 40 + (t - T) // 60) for t in times],
        "DCGM_FI_DEV_XID_ERRORS": [(CARD, 0 if t < T + 900 else 79) for t in times],
        "node_load1": [('{job="node",instance="10.0.0.1:9100"}', 2) for _ in times],
        "up": [('{job="dcgm",instance="10.0.0.1:9400"}', int(t < T + 900)) for t in times],
        "unheard_of": [("", 1) for _ in times],
    }
    lines = [
        line
        for name, values in families.items()
        for line in (f"# TYPE {name} gauge", *(f"{name}{v[0]} {v[1]} {t}" for t, v in zip(times, values, strict=True)))
    ]
    return "\n".join([*lines, "# EOF", ""])


def values(records: list[Record], column: str) -> dict[tuple[str, int], float]:
    """(component, seconds after T) -> value."""
    return {
        (component, int(at) // 1000 - T): float(value)
        for record in records
        if isinstance(record, Samples) and column in record.values
        for component, at, value in zip(record.component, record.at_ms, record.values[column], strict=True)
    }


def asked(url: str, to_s: int = 1800, step_s: float | None = None) -> list[Record]:
    return [reading.record for reading in fetch(url, T * 1000, (T + to_s) * 1000, step_s)]


@pytest.mark.service
def test_a_real_server_tells_its_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with prometheus.running(history(), tmp_path) as url:
        records = asked(url)
        temperatures = values(records, "temperature_celsius")
        assert temperatures == {(NAME, 15 * i): 40 + i // 4 for i in range(121)}  # the step is the scrapes' interval
        assert values(records, "load_1m")["host:trn-01", 900] == 2
        assert values(records, "accelerator_source_up") == {("host:trn-01", 15 * i): i < 60 for i in range(121)}
        events = [(event.component, event.code, event.at_ms) for event in records if isinstance(event, Event)]
        assert events == [(NAME, "XID 79", (T + 900) * 1000)]
        assert Identity(host="trn-01", index="0", pci="0000:3b:00", uuid="GPU-77") in records

        monkeypatch.setattr(prometheus_api, "MAX_POINTS", 7)
        assert values(asked(url), "temperature_celsius") == temperatures
        monkeypatch.setattr(prometheus_api, "MAX_POINTS", 20_000)  # the server itself refuses that
        assert len(values(asked(url, step_s=0.1), "load_1m")) == 1801

        tally = Tally()
        assert list(fetch(url, 1000, 2000, tally=tally)) == []
        assert any("no series" in note for note in tally.notes)


@contextmanager
def fake(answer: Callable[[str, dict[str, str], dict[str, str]], tuple[int, bytes]]) -> Iterator[str]:
    """A server that answers with `answer(path, query, headers)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {key: told[0] for key, told in parse_qs(parts.query).items()}
            code, body = answer(parts.path, query, dict(self.headers))
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def matrix(*points: tuple[float, str]) -> bytes:
    result = [{"metric": {"__name__": "node_load1", "instance": "a:9100"}, "values": points}] if points else []
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def test_a_slice_that_is_too_large_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[int] = []

    def answer(path: str, query: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
        if path.endswith("values"):
            return 200, b'{"status":"success","data":["node_load1"]}'
        start, end, step = (float(query[key]) for key in ("start", "end", "step"))
        times = [start + step * i for i in range(round((end - start) / step) + 1)]
        asked_for.append(len(times))
        if len(times) > 40:
            return 422, b'{"status":"error","error":"query processing would load too many samples into memory"}'
        return 200, matrix(*((t, "1") for t in times))

    monkeypatch.setattr(prometheus_api, "MAX_ANSWER", 500)
    with fake(answer) as address:
        assert len(values(asked(f"http://{address}", 100, 1), "load_1m")) == 101
    assert max(asked_for[-3:]) < 40


def test_credentials_are_sent_and_never_told() -> None:
    seen: set[str] = set()

    def answer(path: str, query: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
        seen.add(headers.get("Authorization", ""))
        return 401, b"Unauthorized"

    with fake(answer) as address, pytest.raises(PrometheusError) as error:
        asked(f"http://reader:s%40cret@{address}")
    assert seen == {"Basic cmVhZGVyOnNAY3JldA=="}
    assert "401" in str(error.value)
    assert "user:password@" in str(error.value)
    assert "cret" not in str(error.value)


def test_a_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()

    def answer(path: str, query: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
        seen.add(headers.get("Authorization", ""))
        return 200, b'{"data":[]}' if path.endswith("values") else matrix()

    monkeypatch.setenv(prometheus_api.TOKEN_VARIABLE, "t0ken")
    with fake(answer) as address:
        assert asked(f"http://{address}/") == []
    assert seen == {"Bearer t0ken"}


@pytest.mark.parametrize(("code", "body"), [(200, b"<html>"), (404, b"nothing"), (503, b"{}"), (200, b'{"data":5}')])
def test_what_is_no_prometheus_is_said_so(code: int, body: bytes) -> None:
    with fake(lambda path, query, headers: (code, body)) as address, pytest.raises(PrometheusError, match=address):
        asked(f"http://{address}")


def test_nobody_there() -> None:
    with pytest.raises(PrometheusError, match="does not answer"):
        asked("http://127.0.0.1:9")


@pytest.mark.parametrize("url", ["host:9090", "file:///etc/passwd", "ftp://host", ""])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        asked(url)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="range"):
        asked("http://127.0.0.1:9", to_s=0)
