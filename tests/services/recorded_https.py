"""A server that gives recorded answers over HTTPS, and remembers what it was asked: Redfish, NetBox and the like."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.services.process import found

_CERTIFICATE = (
    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=site",
    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "server.key", "-out", "server.crt",
)  # fmt: skip
CUT = "cut"  # in place of an answer: half of it, then the end
HANG = "hang"  # in place of an answer: none


@dataclass(slots=True)
class Asked:
    """One request."""

    verb: str
    path: str
    headers: dict[str, str]


@dataclass(slots=True)
class Recorded:
    """What is answered, by path with its query: a JSON value, bytes, a status, CUT or HANG. Others: 404."""

    url: str
    ca_file: str
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    authorization: str = ""  # wanted of everybody, else 403
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str, authorization: str) -> tuple[int, bytes, bool]:
        """(status, body, whether only half of it is sent)."""
        if self.authorization and authorization != self.authorization:
            return 403, b'{"detail": "no"}', False
        told = self.answers.get(path, self.answers.get(path.rstrip("/"), 404))
        cut = isinstance(told, tuple) and told[0] == CUT
        told = told[1] if cut and isinstance(told, tuple) else told
        if told == HANG:
            self.released.wait(30)
        if isinstance(told, int) or told == HANG:
            return (told if isinstance(told, int) else 503), b"{}", False
        return 200, told if isinstance(told, bytes) else json.dumps(told).encode(), cut


@contextmanager
def recorded_https(folder: Path) -> Iterator[Recorded]:
    """A server on loopback with a certificate of its own (`ca_file`); stopped at the end."""
    (tool,) = found("openssl")
    subprocess.run([tool, *_CERTIFICATE], cwd=folder, check=True, capture_output=True, timeout=30)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    told = Recorded(f"https://127.0.0.1:{server.server_port}", str(folder / "server.crt"))
    server.recorded = told  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        told.released.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20
    wbufsize = 64 << 10  # head and body in one piece: no waiting for acknowledgements

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # a client that does not trust us, or has had enough
            self.close_connection = True

    def _answer(self) -> None:
        told: Recorded = self.server.recorded  # type: ignore[attr-defined]
        told.asked.append(Asked(self.command, self.path, {key.lower(): text for key, text in self.headers.items()}))
        status, body, cut = told.answer(self.path, self.headers.get("Authorization", ""))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Tests say nothing."""
