"""Alertmanager over HTTP: two calls, each with a time limit, none repeated here. Whoever calls decides when to retry.

A redirect is refused: it would turn the POST into a GET that looks like success. On loopback no proxy of the
environment is used.
"""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException, HTTPMessage
from typing import IO, Any

from remediation.notify.alertmanager import ALERTNAMES, Alert
from sickbay import addresses

TIMEOUT_S = 2.0  # of connecting and of each read; a stage's step must return within a few seconds
DEADLINE_S = 4.0  # of one whole answer
MAX_ANSWER = 16 << 20  # bytes
MAX_TOLD = 300  # characters of an error that the server tells


class AlertError(Exception):
    """Alertmanager could not be told. `reason`: away, refused, or answer (it was no Alertmanager's)."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Alertmanager:
    """One Alertmanager. `url` may hold a path prefix and a user. Raises ValueError for what is no such address."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"[alerts] url {url!r} is no address such as http://127.0.0.1:9093")
        self.address = addresses.base_of(parts)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            authorization = addresses.basic(parts)
        except ValueError as error:
            raise ValueError(f"[alerts] url: {error}") from None
        if authorization:
            self._headers["Authorization"] = authorization
        self._opener = addresses.opener(parts, _NoRedirect())
        self._timeout_s = timeout_s

    def send(self, alerts: Sequence[Alert]) -> None:
        """Post alerts. Raises AlertError."""
        self._asked("/api/v2/alerts", json.dumps(list(alerts)).encode())

    def ours(self, cluster: str) -> list[dict[str, Any]]:
        """The alerts of this cluster that stand there under our names. Raises AlertError."""
        filters = [("filter", f'alertname=~"{"|".join(ALERTNAMES)}"'), ("filter", f'cluster="{cluster}"')]
        answer = self._asked(f"/api/v2/alerts?{urllib.parse.urlencode(filters)}")
        try:
            told = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise AlertError("answer", f"{self.address}: no JSON: {str(error)[:MAX_TOLD]}") from None
        if not isinstance(told, list) or not all(isinstance(one, dict) and "labels" in one for one in told):
            raise AlertError("answer", f"{self.address}: no list of alerts")
        return told

    def _asked(self, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.address + path, data=body, headers=self._headers)
        deadline = time.monotonic() + DEADLINE_S
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return _read(answer, deadline)
        except urllib.error.HTTPError as error:
            with error:
                told = _read_some(error)
            reason = "refused" if error.code < 500 else "away"
            raise AlertError(reason, f"{self.address} says {error.code}: {told}") from None
        except (OSError, HTTPException) as error:
            raise AlertError("away", f"{self.address}: {str(error)[:MAX_TOLD]}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _read(answer: Any, deadline: float) -> bytes:
    parts, size = [], 0
    while part := answer.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER or time.monotonic() > deadline:
            raise TimeoutError("the answer is too long or too slow")
    return b"".join(parts)


def _read_some(answer: Any) -> str:
    try:
        return str(answer.read(4096).decode(errors="replace"))[:MAX_TOLD].strip()
    except (OSError, HTTPException):
        return ""
