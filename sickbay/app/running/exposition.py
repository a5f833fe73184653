"""What a process tells over HTTP: `/metrics` for Prometheus, `/ready` (503 with the reasons while anything is not),
`/healthz`. Few connections, short ones, GET only: whoever scrapes it cannot hold it up."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from sickbay.config import ConfigError
from sickbay.selfmetrics import SelfMetrics

THREADS, WAITING = 4, 16  # answers at the same time, connections that wait for one: beyond they are closed
TIMEOUT_S = 5.0  # for a whole request
TEXT = "text/plain; version=0.0.4; charset=utf-8"

Troubles = Callable[[], Mapping[str, str]]  # what is not ready, and why; empty: all is


class _Server(HTTPServer):
    allow_reuse_address = True
    request_queue_size = WAITING

    def __init__(self, address: tuple[str, int], metrics: SelfMetrics, troubles: Troubles) -> None:
        self.metrics, self.troubles = metrics, troubles
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="exposition")
        self._room = threading.BoundedSemaphore(THREADS + WAITING)
        self._due: dict[Any, float] = {}  # requests at work or waiting: when their time is over
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """As a socket does it: HTTPServer would ask the name service for our name, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in one of few threads; without room the connection is closed."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._due[request] = time.monotonic() + TIMEOUT_S
        self._pool.submit(self._answer, request, client_address)

    def service_actions(self) -> None:
        """Ends requests that take too long: whoever sends or reads a byte now and then meets no other limit."""
        now = time.monotonic()
        for request, due in list(self._due.items()):
            if now > due:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(TIMEOUT_S)
            self.finish_request(request, client_address)
        except (OSError, ValueError):  # went away, or was too slow; what it sent is not HTTP
            pass
        finally:
            self._due.pop(request, None)
            self.shutdown_request(request)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nobody is told of a broken connection."""

    def server_close(self) -> None:
        """Lets go of everything, without waiting for slow readers."""
        super().server_close()
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = TIMEOUT_S
    server_version, sys_version = "sickbay", ""

    def do_GET(self) -> None:
        """Answers one of three paths."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._send(200, self.server.metrics.text())
        elif path == "/healthz":
            self._send(200, b"ok\n")
        elif path == "/ready":
            troubles = self.server.troubles()
            lines = [f"{name}: {why}" for name, why in troubles.items()] or ["ready"]
            self._send(503 if troubles else 200, ("\n".join(lines) + "\n").encode("utf-8", "replace"))
        else:
            self._send(404, b"/metrics, /ready or /healthz\n")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


class Exposition:
    """The server at work in a thread of its own. Raises ConfigError where it cannot listen."""

    def __init__(self, listen: str, metrics: SelfMetrics, troubles: Troubles = dict) -> None:
        host, _, port = listen.rpartition(":")
        try:
            self._server = _Server((host.strip("[]") or "127.0.0.1", int(port)), metrics, troubles)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"[metrics] listen = {listen!r}: {getattr(error, 'strerror', None) or error}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="exposition", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """host:port as it listens, also where the settings left the port to the system (0)."""
        return f"{self._server.server_name}:{self._server.server_port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
