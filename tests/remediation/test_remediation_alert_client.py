"""The client of Alertmanager: what it is told when all is well, and that nothing holds it up or fools it."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from remediation.notify.client import AlertError, Alertmanager


class Server(ThreadingHTTPServer):
    """Answers each request with `status` and `body`, after `wait_s`; keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body, self.headers, self.wait_s = 200, b"[]", {"Content-Type": "application/json"}, 0.0
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what a test wants."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        time.sleep(self.server.wait_s)
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def test_alerts_are_posted_and_read_below_a_prefix_with_credentials(server: Server) -> None:
    client = Alertmanager(server.url.replace("http://", "http://me:p%40ss@") + "/am/")
    client.send([{"labels": {"alertname": "x"}}])
    server.body = b'[{"labels": {"alertname": "SickbayIncident", "cluster": "c1"}}]'
    assert client.ours("c1") == [{"labels": {"alertname": "SickbayIncident", "cluster": "c1"}}]
    (post, get) = server.asked
    assert post[:2] == ("POST", "/am/api/v2/alerts")
    assert json.loads(post[3]) == [{"labels": {"alertname": "x"}}]
    assert post[2]["Authorization"] == "Basic bWU6cEBzcw=="
    assert get[0] == "GET"
    assert get[1].startswith("/am/api/v2/alerts?filter=alertname%3D~")
    assert "ss" not in client.address


def test_a_proxy_of_the_environment_is_not_used_on_loopback(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    Alertmanager(server.url).send([])
    assert len(server.asked) == 1


@pytest.mark.parametrize(("status", "reason"), [(400, "refused"), (401, "refused"), (500, "away"), (302, "refused")])
def test_what_the_server_says_is_an_error_with_a_reason(server: Server, status: int, reason: str) -> None:
    server.status, server.body = status, b"start time must be before end time" * 1000
    server.headers["Location"] = server.url
    with pytest.raises(AlertError, match=f"{status}: start time") as caught:
        Alertmanager(server.url).send([])
    assert caught.value.reason == reason
    assert len(str(caught.value)) < 500
    assert len(server.asked) == 1  # a redirect is not followed: it would lose the alerts


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[1]", b"[{}]", b"\xff", b"[" * 100_000])
def test_what_is_no_alertmanager_is_told(server: Server, body: bytes) -> None:
    server.body = body
    with pytest.raises(AlertError) as caught:
        Alertmanager(server.url).ours("c1")
    assert caught.value.reason == "answer"


def test_nobody_there_and_nobody_answering_end_in_time(server: Server) -> None:
    with pytest.raises(AlertError) as caught:
        Alertmanager("http://127.0.0.1:9").send([])
    assert caught.value.reason == "away"
    server.wait_s = 1.0
    started = time.monotonic()
    with pytest.raises(AlertError, match="timed out"):
        Alertmanager(server.url, timeout_s=0.1).send([])
    assert time.monotonic() - started < 0.9


@pytest.mark.parametrize("url", ["", "127.0.0.1:9093", "ftp://h", "http://", "file:///etc/passwd", "http://h/?q=1"])
def test_what_is_no_address_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="no address such as"):
        Alertmanager(url)
