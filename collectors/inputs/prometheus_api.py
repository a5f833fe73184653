"""Asks a live Prometheus for the series we know: the thin shell round `formats.series_matrix`.

Answers stay bounded: a slice of the range that the server or our own limit finds too large is asked for in quarters.
"""

import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from collectors.formats.metric_names import HOST_INFO, NIC_INFO, UP, is_known, targets
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_events import CodeEvents
from collectors.formats.series_matrix import Series, points, readings
from collectors.formats.series_names import Names
from sickbay import addresses

MAX_POINTS = 10_000  # of one series and answer; a Prometheus refuses more than 11,000
MAX_ANSWER = 64 << 20  # bytes
TIMEOUT_S = 30.0  # without a byte
DEADLINE_S = 120.0  # for a whole answer
DEFAULT_STEP_S = 15.0  # where the interval of scrapes cannot be seen
TOKEN_VARIABLE = "SICKBAY_PROMETHEUS_TOKEN"

_T = TypeVar("_T")


class PrometheusError(OSError):
    """The server could not be asked; the text says why and what to do, and holds no password."""


class _TooLarge(Exception):
    """The answer is larger than the server or we allow: ask for less."""


class _Series(Struct):
    metric: dict[str, str]
    values: Raw = Raw(b"[]")


class _Data(Struct):
    result: list[_Series] = []


class _Matrix(Struct):
    data: _Data


class _Names(Struct):
    data: list[str]


class _Failure(Struct):
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Server:
    base: str
    authorization: str
    opener: urllib.request.OpenerDirector

    def get(self, path: str, **query: str) -> bytes:
        """The body of an answer. Raises PrometheusError, and _TooLarge where less should be asked for."""
        url = f"{self.base}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"Accept": "application/json"})
        if self.authorization:  # unredirected: another host must not learn it
            request.add_unredirected_header("Authorization", self.authorization)
        try:
            with self.opener.open(request, timeout=TIMEOUT_S) as answer:
                body = _body(answer)
        except urllib.error.HTTPError as error:
            raise _refused(self.base, error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise PrometheusError(
                f"{self.base} does not answer ({reason}): is the address right and reachable?"
            ) from None
        if len(body) > MAX_ANSWER:
            raise _TooLarge
        return body

    def series(self, path: str, **query: str) -> list[Series]:
        """The series of a query's answer."""
        answer = _decoded(self.base, self.get(path, **query), _Matrix)
        return [Series(one.metric, bytes(one.values)) for one in answer.data.result]


def fetch(
    url: str, from_ms: int, to_ms: int, step_s: float | None = None, tally: Tally | None = None
) -> Iterator[Reading]:
    """Samples, code events and identities of every known series between two times (UTC ms), both included.

    `url` is the server's base address and may hold `user:password@`; a bearer token comes from the environment
    variable SICKBAY_PROMETHEUS_TOKEN. `step_s`: between two points, by default the interval of the scrapes. Raises
    ValueError for an address or range that is none, PrometheusError (an OSError) where the server cannot be asked.
    """
    if to_ms <= from_ms:
        raise ValueError("the range ends before it begins")
    server, tally, names, codes = _server(url), tally or Tally(), Names(), CodeEvents()
    known = _known_names(server, from_ms, to_ms)
    if not known:
        tally.note(f"{server.base} holds no series of a name known here in that range")
    step_ms = round(1000 * (step_s or _interval_s(server, to_ms))) or 1
    for name, series in _slices(server, known, from_ms, to_ms, max(step_ms, 1)):
        yield from readings(series, tally, name, names, codes)


def _server(url: str) -> _Server:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the address of a Prometheus looks like https://host:9090")
    base = addresses.base_of(parts._replace(path=re.sub(r"/(api/v1.*|graph|query)?/*$", "", parts.path)))
    return _Server(base, authorization(parts), addresses.opener(parts))


def authorization(parts: urllib.parse.SplitResult) -> str:
    """The Authorization header for a Prometheus: the user in its address, else the bearer token of TOKEN_VARIABLE.

    Raises ValueError where it would go unencrypted to another machine.
    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    return addresses.basic(parts) or addresses.guarded(addresses.base_of(parts), f"Bearer {token}" if token else "")


def _known_names(server: _Server, from_ms: int, to_ms: int) -> list[str]:
    """Series to ask for, in the order in which they teach: who is who, devices, hosts, and last what was up."""
    try:
        body = server.get("label/__name__/values", start=_seconds(from_ms), end=_seconds(to_ms))
    except _TooLarge:
        raise PrometheusError(f"{server.base} has too long a list of names: ask for a shorter range") from None
    names = {name for name in _decoded(server.base, body, _Names).data if is_known(name)}

    def order(name: str) -> tuple[int, str]:
        if name in (HOST_INFO, NIC_INFO):
            return 0, name
        return 3 if name == UP else 1 if targets()[name].source.table == "accelerator" else 2, name

    return sorted(names, key=order)


def _interval_s(server: _Server, to_ms: int) -> float:
    """The usual time between two scrapes, from the stamps of `up` just before the end of the range."""
    try:
        found = server.series("query", query="up[10m]", time=_seconds(to_ms))
    except _TooLarge:
        return DEFAULT_STEP_S
    gaps: list[int] = []
    for series in found[:200]:
        at_ms, _ = points(series.points, Tally())
        gaps += (at_ms[1:] - at_ms[:-1]).tolist()
    return max(1.0, round(median(gaps) / 1000)) if gaps else DEFAULT_STEP_S


def _slices(
    server: _Server, names: list[str], from_ms: int, to_ms: int, step_ms: int
) -> Iterator[tuple[str, list[Series]]]:
    count = MAX_POINTS  # points of a slice: what was too much for one series name is too much for the next
    for name in names:
        start = from_ms
        while start <= to_ms:
            end = min(to_ms, start + (count - 1) * step_ms)
            window = {"start": _seconds(start), "end": _seconds(end), "step": f"{step_ms / 1000:.3f}"}
            try:
                found = server.series("query_range", query=name, **window)
            except _TooLarge:
                if count == 1:
                    raise PrometheusError(f"{server.base}: one point of all {name} is too large an answer") from None
                count = max(1, count // 4)
                continue
            yield name, found
            start += count * step_ms


def _body(answer: http.client.HTTPResponse) -> bytes:
    """All of an answer, at most one byte more than allowed; a server that drips is given up."""
    until, parts, size = time.monotonic() + DEADLINE_S, list[bytes](), 0
    while size <= MAX_ANSWER and (part := answer.read1(1 << 20)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > until:
            raise OSError(f"no whole answer within {DEADLINE_S:.0f} s")
    return b"".join(parts)


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"


def _decoded(base: str, body: bytes, shape: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, RecursionError):
        raise PrometheusError(f"{base} does not answer like a Prometheus: is it the base address of one?") from None


def _refused(base: str, error: urllib.error.HTTPError) -> Exception:
    try:
        with error:
            told = msgspec.json.decode(error.read(4096), type=_Failure).error[:300]
    except (msgspec.DecodeError, OSError, http.client.HTTPException):
        told = ""
    if re.search(r"too many samples|exceeded maximum resolution|response.*too large", told):
        return _TooLarge()
    hint = {
        401: f"put user:password@ into the address, or a token into {TOKEN_VARIABLE}",
        403: "these credentials may not read; ask for the right to query",
        404: "is this the base address, without /api/v1?",
        503: "the server is starting or overloaded; try again, or a shorter range",
    }.get(error.code, "a shorter range or a larger step may help")
    return PrometheusError(f"{base} refuses ({error.code} {told or error.reason}): {hint}")
