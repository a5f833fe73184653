"""One HTTP answer within a time and a size, whatever the other side does: hang, trickle, flood or talk nonsense.

HTTP/1.0 on a connection of its own, so that the answer ends where the connection does. The time limit is one for all
of it, not for each byte, which the standard library's client cannot be told.
"""

import re
import socket
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

MAX_BODY = 8 << 20  # bytes: an exporter of 8 accelerators says some 30 kB, one of a big switch 2 MB
MAX_HEAD = 16 << 10
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\r?\n|$)")
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,15})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


class HttpError(Exception):
    """There was no usable answer; the text says why."""


class Address(NamedTuple):
    """What to ask for and where."""

    secure: bool
    host: str
    port: int
    path: str


def address_of(url: str) -> Address:
    """The address in a URL such as http://127.0.0.1:9400/metrics. Raises ValueError that says what would be right."""
    pieces = urlsplit(url)
    if pieces.scheme not in ("http", "https") or not pieces.hostname or re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError(f"{url!r} is no address: write it like http://127.0.0.1:9400/metrics")
    secure = pieces.scheme == "https"
    path = (pieces.path or "/") + (f"?{pieces.query}" if pieces.query else "")
    return Address(secure, pieces.hostname, pieces.port or (443 if secure else 80), path)


def get(
    address: Address,
    timeout_s: float,
    max_body: int = MAX_BODY,
    *,
    headers: Mapping[str, str] | None = None,
    ca_file: str = "",
) -> bytes:
    """The body of a 200 answer. `headers`: such as Authorization. `ca_file`: whom to trust; empty: as the system does.

    Raises HttpError, and ValueError for a header that holds a line's end.
    """
    return _asked(address, _request(address, {"Accept": "text/plain", **(headers or {})}), timeout_s, max_body, ca_file)


def post(
    address: Address, body: bytes, timeout_s: float, *, headers: Mapping[str, str] | None = None, ca_file: str = ""
) -> bytes:
    """Sends JSON; the body of the 200 answer. A redirect is an error: what was to be told would not be told there.

    Raises as `get` does.
    """
    told = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    return _asked(address, _request(address, told, "POST") + body, timeout_s, MAX_BODY, ca_file)


def _asked(address: Address, request: bytes, timeout_s: float, max_body: int, ca_file: str) -> bytes:
    deadline = time.monotonic() + timeout_s
    try:
        with _connected(address, timeout_s, ca_file) as connection:
            _left(connection, deadline)
            connection.sendall(request)
            raw = _received(connection, deadline, MAX_HEAD + max_body)
    except TimeoutError:
        raise HttpError(f"no whole answer within {timeout_s:g} s") from None
    except OSError as error:
        raise HttpError(f"{error.strerror or error}") from None
    return _body(raw, max_body)


def _connected(address: Address, timeout_s: float, ca_file: str) -> socket.socket:
    connection = socket.create_connection((address.host, address.port), timeout=timeout_s)
    if not address.secure:
        return connection
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file or None).wrap_socket(connection, server_hostname=address.host)
    except BaseException:
        connection.close()
        raise


def _request(address: Address, headers: Mapping[str, str], verb: str = "GET") -> bytes:
    told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if told.count("\r") != len(headers) or told.count("\n") != len(headers):
        raise ValueError("a header holds the end of a line")
    host = f"[{address.host}]" if ":" in address.host else address.host
    return (
        f"{verb} {address.path} HTTP/1.0\r\nHost: {host}:{address.port}\r\n{told}"
        "User-Agent: sickbay\r\nConnection: close\r\n\r\n"
    ).encode("utf-8", "replace")


def _received(connection: socket.socket, deadline: float, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= most:
        _left(connection, deadline)
        piece = connection.recv(64 << 10)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    raise HttpError(f"the answer is larger than {most >> 20} MiB")


def _left(connection: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)


def _body(raw: bytes, max_body: int) -> bytes:
    status = _STATUS.match(raw)
    if status is None:
        raise HttpError("the answer is not HTTP")
    if status[1] != b"200":
        raise HttpError(f"answered {status[1].decode()}")
    head, blank, body = raw.partition(b"\r\n\r\n") if b"\r\n\r\n" in raw else raw.partition(b"\n\n")
    if not blank or len(head) > MAX_HEAD:
        raise HttpError("the answer has no end of its head")
    length = _LENGTH.search(head)
    if length is not None and len(body) < int(length[1]):
        raise HttpError(f"the answer ends after {len(body)} of {int(length[1])} bytes")
    if len(body) > max_body:
        raise HttpError(f"the answer is larger than {max_body >> 20} MiB")
    return body
