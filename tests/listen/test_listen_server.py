"""The sockets of a listener: who may come in, what is too slow, too large or too much, and a log that is away."""

import gzip
import http.client
import json
import socket
import ssl
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sickbay.app.listening import listen_server, sink
from sickbay.app.listening.listener import Listener
from sickbay.app.running.service import Context
from sickbay.app.running.up import listening
from sickbay.config import ConfigError
from sickbay.log.memory import MemoryLog
from sickbay.selfmetrics import SelfMetrics
from tests.listen.listen_kit import CHANGES, NOW_MS, Held, Site, card, config, site, tokens

ROWS = [(card("DCGM_FI_DEV_GPU_TEMP"), [(41.0, NOW_MS)])]


def started(folder: Path, **listen: Any) -> None:
    Listener(Context(config(folder, **listen), MemoryLog(), SelfMetrics(), print))


@pytest.mark.parametrize("key", ["address", "certificate_file", "private_key_file", "tokens_file"])
def test_nothing_listens_without_tls_and_tokens(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        started(tmp_path, **{key: ""})


def test_settings_that_contradict_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="could be signed"):
        Listener(Context(config(tmp_path, require_signed=True), MemoryLog(), SelfMetrics(), print))
    (tmp_path / "other.key").write_text("no key")
    with pytest.raises(ConfigError, match="private_key_file"):
        started(tmp_path, private_key_file=str(tmp_path / "other.key"))
    (tmp_path / "bad.toml").write_text('[a]\nsha256 = "12"\nhosts = []\nkinds = []')
    with pytest.raises(ConfigError, match="sha256"):
        started(tmp_path, tokens_file=str(tmp_path / "bad.toml"))
    (tmp_path / "bad.toml").write_text(f'[a]\nsha256 = "{"0" * 64}"\nhosts = []\nkinds = ["everything"]')
    with pytest.raises(ConfigError, match="everything"):
        started(tmp_path, tokens_file=str(tmp_path / "bad.toml"))


def test_what_is_not_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sickbay.app.listening.listener", None)
    with pytest.raises(ConfigError, match=r"sickbay\[listen\]"):
        listening(config(tmp_path))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("listen")
    with site(folder, settings=config(folder, max_bytes=1 << 20)) as one:
        yield one


@pytest.mark.parametrize(
    ("path", "method", "headers", "status", "reason"),
    [
        ("/v1/nothing", "POST", {}, 404, "path"),
        ("/v1/logs", "GET", {}, 405, "method"),
        ("/v1/logs", "POST", {"Authorization": ""}, 401, "token"),
        ("/v1/logs", "POST", {"Authorization": "Basic YTpi"}, 401, "token"),
        ("/v1/logs", "POST", {"Authorization": "Bearer " + "x" * 2000}, 401, "token"),
        ("/v1/logs", "POST", {"Authorization": "Bearer one"}, 403, "kind"),
        ("/v1/logs", "POST", {"Content_Encoding": "br"}, 415, "encoding"),
        ("/v1/logs", "POST", {"Content_Type": "text/plain"}, 415, "type"),
        ("/v1/changes", "POST", {"Content_Length": str(1 << 40)}, 413, "too_large"),
        ("/v1/changes", "POST", {"Content_Encoding": "gzip"}, 400, "encoding"),
    ],
)
def test_refusals_say_why(
    shared: Site, path: str, method: str, headers: dict[str, str], status: int, reason: str
) -> None:
    answer = shared.post(path, b"{}", method=method, **headers)
    assert (answer.status, answer.json["reason"]) == (status, reason)
    assert answer.json["error"]


@pytest.mark.parametrize("path", ["/v1/changes", "/v1/logs", "/v1/metrics", "/v1/cloudevents"])
def test_bombs_are_not_unpacked(shared: Site, path: str) -> None:
    bomb = gzip.compress(b"\x00" * (64 << 20))
    answer = shared.post(path, bomb, Content_Encoding="gzip", Content_Type="application/json")
    assert (answer.status, answer.json["reason"]) == (413, "too_large")


def test_a_body_without_a_told_length_is_bounded_too(shared: Site) -> None:
    host, _, port = shared.listener.address.rpartition(":")
    context = ssl.create_default_context(cafile=shared.ca_file)
    connection = http.client.HTTPSConnection(host, int(port), timeout=10, context=context)
    pieces = (b"x" * 65536 for _ in range(64))
    with suppress(OSError):  # it answers before it has all, and what is on its way then meets a closed connection
        connection.request("POST", "/v1/changes", pieces, {"Authorization": "Bearer all"}, encode_chunked=True)
    with suppress(OSError), connection.getresponse() as got:
        assert got.status == 413
    connection.close()
    assert shared.records(CHANGES) == []


@pytest.mark.slow
def test_whoever_is_slow_is_let_go_and_holds_up_nobody(shared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen_server, "HEAD_S", 0.5)
    monkeypatch.setattr(listen_server, "BODY_S", 0.5)
    host, _, port = shared.listener.address.rpartition(":")
    context = ssl.create_default_context(cafile=shared.ca_file)

    def opened(said: bytes) -> ssl.SSLSocket:
        made = context.wrap_socket(socket.create_connection((host, int(port)), timeout=10), server_hostname=host)
        made.sendall(said)
        return made

    body = b"POST /v1/changes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\nContent-Length: 100\r\n\r\n{"
    slow = [opened(b"POST /v1/changes HTTP/1.1\r\nHost: x\r\n") for _ in range(20)] + [opened(b""), opened(body)]
    assert shared.post("/healthz", b"", method="GET").status == 200
    answers = [one.recv(4096) for one in slow]
    assert set(answers[:-1]) == {b""}
    assert answers[-1].startswith(b"HTTP/1.1 408")
    for one in slow:
        one.close()


def test_nonsense_on_the_socket_ends_nothing(shared: Site) -> None:
    host, _, port = shared.listener.address.rpartition(":")
    context = ssl.create_default_context(cafile=shared.ca_file)
    for said in (b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000 + b"\r\n", b"POST /v1/logs HTTP/1.1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as plain:  # without TLS
            plain.sendall(said[:100])
        plain = socket.create_connection((host, int(port)), timeout=10)
        with context.wrap_socket(plain, server_hostname=host) as made, suppress(ConnectionError, ssl.SSLError):
            made.sendall(said)  # it may hang up before it has all
            assert made.recv(4096)[:10] in (b"", b"HTTP/1.1 4")
    assert shared.post("/healthz", b"", method="GET").status == 200


@pytest.mark.slow
def test_a_log_that_is_away_is_503_and_what_came_is_told_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "REST_S", 0.2)
    log = Held(MemoryLog())
    rows = [*ROWS, (card("DCGM_FI_DEV_XID_ERRORS"), [(79.0, NOW_MS)])]
    with site(tmp_path, log) as one:
        log.away = True
        answer = one.write(rows)
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0
        assert one.listener.waiting
        began = time.monotonic()
        assert one.write(rows).status == 503
        assert time.monotonic() - began < 1.0  # sent away at once: nothing piles up
        log.away = False
        time.sleep(0.3)
        assert one.write(rows).status == 204
        assert not one.listener.waiting
        assert [event.code for event in one.told("sickbay.events.v1")] == ["XID 79"]
        assert len(one.values("accelerator", "temperature_celsius")) == 1


def test_the_tokens_are_read_again_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sickbay.app.listening.tokens.LOOK_S", 0.0)
    with site(tmp_path) as one:
        assert one.write(ROWS, "new").status == 401
        tokens(tmp_path, new={"hosts": ["n1"], "kinds": ["metrics"]})
        assert one.write(ROWS, "new").status == 204
        assert one.write(ROWS, "all").status == 401
        (tmp_path / "tokens.toml").write_text("damaged [")
        assert one.write(ROWS, "new").status == 204
        assert any("stay as they were" in text for text in one.said)


@pytest.mark.slow
def test_changes_and_planned_work_are_posted(tmp_path: Path) -> None:
    with site(tmp_path) as one:
        body = json.dumps([{"target": "n1", "what": "driver", "old": "1", "new": "2", "at_ms": NOW_MS, "who": "eve"}])
        assert one.post("/v1/changes", body.encode()).status == 204
        (change,) = one.told(CHANGES)
        assert (change.target, change.what, change.new, change.at_ms) == ("host:n1", "driver", "2", NOW_MS)
        assert change.who == "eve (all)"
        assert one.post("/v1/changes", b'{"target": "elsewhere", "what": "driver"}').status == 403
        for bad in (
            b"{}", b"[", b'{"target": "n1", "what": ""}', b'{"target": "n1", "what": "x", "at": "soon"}',
            b'{"target": "n[1-9]", "what": "x"}', b'{"target": "n1", "what": "x", "more": 1}', b"[" * 100_000,
        ):  # fmt: skip
            answer = one.post("/v1/changes", bad)
            assert answer.status == 400, bad[:40]
            assert answer.json["error"]
        work = one.post("/v1/maintenance", b'{"targets": ["n[1-2]", "rack:r7"], "until": "2h", "note": "cables"}')
        assert work.status == 201
        assert {row["control"]["target"] for row in work.json["maintenance"]} == {"host:n1", "host:n2", "rack:r7"}
        assert one.post("/v1/maintenance", b'{"targets": ["rack:r8x"], "until": "9000d"}').status == 400
        assert one.post("/v1/maintenance", b'{"targets": ["switch:s1"], "until": "1h"}').status == 403
        assert len(one.records("sickbay.control.v1")) == 3
