"""Saved answers of a Prometheus: `query_range` and `query` as JSON, whole, only their data part, or cut;
exports of VictoriaMetrics."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import PurePosixPath
from typing import Any

import msgspec
from msgspec import Raw, Struct

from collectors.formats.metric_names import is_known
from collectors.formats.pasted import behind_chatter
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_matrix import Series, readings

MAX_BYTES = 256 << 20  # of one answer; what comes after is salvaged like a cut file
MAX_PIECES = 500_000  # series looked for in a damaged answer
MAX_FAILURES = 1_000  # damaged series in a row after which the rest is given up
_SERIES_START = re.compile(rb'\{\s*"metric"\s*:')
_POINT = re.compile(r'\[\s*([0-9][0-9.eE+]{0,30})\s*,\s*"([^"\\]{1,32})"\s*\]')


class _Series(Struct):
    metric: dict[str, str]
    values: Raw = Raw(b"")
    value: Raw = Raw(b"")


class _Part(Struct):
    result: Raw
    resultType: str = ""


class _Answer(Struct):
    status: str
    data: Raw = Raw(b"")
    error: str = ""
    errorType: str = ""


_answers = msgspec.json.Decoder(_Answer)
_parts = msgspec.json.Decoder(_Part)
_series = msgspec.json.Decoder(list[_Series])


def confidence(head: bytes, name: str) -> float:
    """How sure it is that this is an answer: its envelope, or the shape of its series."""
    start = behind_chatter(head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").decode("utf-8", "replace")).encode()
    if not start.startswith((b"{", b"[")):
        return 0.0
    if b'"resultType"' in start or (b'"status"' in start and b'"errorType"' in start):
        return 0.95
    return 0.85 if _SERIES_START.search(start) and (b'"values"' in head or b'"value"' in head) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Samples of every known series, dated by the answer; events of codes; identities that labels tell.

    A series without `__name__` (the saver took it off) is the metric that the file `name` is called after.
    """
    data = _bounded(chunks, tally).removeprefix(b"\xef\xbb\xbf")
    if data.lstrip()[:1] not in (b"{", b"["):
        data = data[max(0, data.find(b"{")) :]  # a prompt, or what curl said before
    yield from readings(list(_found(data, tally)), tally, named_after(name))


def named_after(path: str) -> str:
    """The known series that a file is called after, "" where there is none."""
    name = PurePosixPath(path.replace("!", "/")).name
    pieces = (name.rsplit(".", dots)[0] for dots in range(3))
    candidates = [candidate for piece in pieces for candidate in (piece, *re.split(r"[-.@ ]", piece))]
    return next((candidate for candidate in candidates if is_known(candidate)), "")


def _bounded(chunks: Iterable[bytes], tally: Tally) -> bytes:
    held, size = [], 0
    for chunk in chunks:
        held.append(chunk[: MAX_BYTES - size])
        size += len(held[-1])
        if size >= MAX_BYTES:
            tally.cut += 1
            tally.note(f"only the first {MAX_BYTES >> 20} MiB of the answer were read")
            break
    return b"".join(held)


def _found(data: bytes, tally: Tally) -> Iterator[Series]:
    try:
        yield from _whole(data, tally)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        yield from _salvaged(data, tally)


def _whole(data: bytes, tally: Tally) -> list[Series]:
    """The series of an undamaged answer. Raises msgspec.DecodeError for anything else."""
    if data.lstrip()[:1] == b"[":
        return _converted(_series.decode(data))
    try:
        part = _parts.decode(data)
    except msgspec.ValidationError:
        answer = _answers.decode(data)
        if answer.error or not bytes(answer.data):
            tally.unparsed += 1
            tally.note(f"the server answered with an error: {answer.errorType} {answer.error}".strip())
            return []
        part = _parts.decode(answer.data)
    if part.resultType in ("scalar", "string"):
        tally.note(f"an answer of type {part.resultType} names no series")
        return []
    series = _converted(_series.decode(part.result))
    if not series:
        tally.note("the answer holds no series")
    return series


def _converted(series: list[_Series]) -> list[Series]:
    return [Series(one.metric, bytes(one.values) or b"[" + bytes(one.value) + b"]") for one in series]


def _salvaged(data: bytes, tally: Tally) -> Iterator[Series]:
    """Series of a cut or damaged answer, or of several answers after each other; of a cut one its whole points."""
    starts = [match.start() for match in islice(_SERIES_START.finditer(data), MAX_PIECES)]
    failures = read = 0
    for start, end in pairwise([*starts, len(data)]):
        series = _piece(data[start:end].decode("utf-8", "replace"), tally)
        failures = 0 if series else failures + 1
        if series:
            read += 1
            yield series
        elif failures > MAX_FAILURES:
            break
    if not read or tally.unparsed or data.count(b"{") != data.count(b"}"):
        tally.unparsed += not tally.unparsed
        tally.note(f"the answer is cut or damaged: {read} series could be read, some perhaps in part")


def _piece(text: str, tally: Tally) -> Series | None:
    decoder = json.JSONDecoder()
    try:
        told, _ = decoder.raw_decode(text)
        metric, points = told["metric"], _points_of(told)
        damaged = False
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
        tally.unparsed += 1
        damaged = True
        try:
            metric, _ = decoder.raw_decode(text, text.index("{", 1))
        except (ValueError, RecursionError):
            return None
        points = [[float(at), value] for at, value in _POINT.findall(text) if at.count(".") <= 1 and _is_number(at)]
    if not isinstance(metric, dict) or not all(isinstance(value, str) for value in metric.values()):
        tally.unparsed += not damaged
        return None
    return Series(metric, msgspec.json.encode(points)) if points else None


def _points_of(told: dict[str, Any]) -> list[Any]:
    """Points of a series: pairs, or two lists as VictoriaMetrics exports them, with times in milliseconds."""
    if isinstance(times := told.get("timestamps"), list):
        return [[at / 1000, str(value)] for at, value in zip(times, told["values"], strict=False)]
    return told.get("values") or [told["value"]]


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
