"""The text around a log message: who said it where and when. One grammar an envelope, peeled until none is left.

`peel` is pure; `Envelopes` adds what needs memory: lines that a container runtime wrote in parts. Nothing is dated or
attributed by guess: what an envelope does not tell stays empty.
"""

import re
from collections.abc import Iterator

from collectors.formats import stamps
from collectors.formats.envelope_layers import MAX_REPEATS, RING, outermost
from collectors.formats.reading import Line
from collectors.formats.text import MAX_LINE, segments
from sickbay.clock import NO_STAMP, Clock

MAX_LAYERS = 4
MAX_PARTS = 200  # lines a partial line may wait for its end

_RANK = re.compile(r"^\[?[Rr]ank ?(\d{1,6})\]")
_CRI_PART = re.compile(r"^(\d{4}-\d\d-\d\dT\S{8,30} (stdout|stderr) )([FP])(?::\S{0,64})? ?")
_KMSG_PROPERTY = re.compile(r"^ [A-Z][A-Z_]{1,30}=")
_ESCAPED_NEWLINES = re.compile(r"#012|\\x0a")


def peel(text: str, number: int = 0) -> Line:
    """The line in `text` without its envelopes, at most MAX_LAYERS of them.

    The outer host wins unless empty, and so does the better clock; a bare kernel stamp inside a program's line does
    not make it the kernel's.
    """
    line = Line(text, number)
    for _ in range(MAX_LAYERS):
        inner = outermost(line)
        if inner is None:
            break
        line = _merged(line, inner)
    return _finished(line)


def known(text: str) -> bool:
    """Whether the text begins with an envelope."""
    return outermost(Line(text)) is not None


class Envelopes:
    """Peels the lines of one input; joins lines that a container runtime cut into parts (bounded)."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[int, str]] = {}  # stream -> first line's number, text so far
        self._waited = 0

    @property
    def open(self) -> bool:
        """Whether a partial line waits for its end: the next line is needed whatever it holds."""
        return bool(self._parts)

    def lines(self, text: str, number: int) -> Iterator[Line]:
        """The lines of one physical line: several where it holds carriage returns or escaped line feeds."""
        for piece in segments(text):
            if whole := self._whole(piece, number):
                yield from _split(peel(whole[1], whole[0]))
        if self._parts:
            self._waited += 1
            if self._waited > MAX_PARTS:
                yield from self.end()

    def end(self) -> Iterator[Line]:
        """What is left of unfinished lines."""
        parts, self._parts, self._waited = self._parts, {}, 0
        for number, text in parts.values():
            yield from _split(peel(text, number))

    def _whole(self, text: str, number: int) -> tuple[int, str] | None:
        if text[0] == " ":
            return None if _KMSG_PROPERTY.match(text) else (number, text)
        match = _CRI_PART.match(text) if self._parts or (" P" in text[:64]) else None
        if match is None:
            return number, text
        head, stream, flag = match.groups()
        first, so_far = self._parts.pop(stream, (number, f"{head}F "))
        joined = (so_far + text[match.end() :])[:MAX_LINE]
        if flag == "F":
            return first, joined
        self._parts[stream] = (first, joined)
        self._waited = 0 if len(joined) < MAX_LINE else self._waited
        return None


def _split(line: Line) -> Iterator[Line]:
    body = _ESCAPED_NEWLINES.sub("\n", line.body) if "#012" in line.body or "\\x0a" in line.body else line.body
    if "\n" not in body and "\r" not in body:
        if body.strip():
            yield line._replace(body=body.rstrip())
        return
    for piece in re.split(r"[\r\n]", body, maxsplit=1000):
        if piece.strip():
            yield line._replace(body=piece.rstrip())


def _merged(outer: Line, inner: Line) -> Line:
    origin = inner.origin
    if origin == RING and outer.origin:
        origin = outer.origin
    if origin == "kernel" and not inner.host and outer.origin not in ("", RING, "kernel"):
        origin = outer.origin  # a program that says "kernel:" is still that program
    return Line(
        body=inner.body,
        number=outer.number,
        stamp=stamps.better(outer.stamp, inner.stamp) if inner.stamp != NO_STAMP else outer.stamp,
        boot_s=outer.boot_s if inner.boot_s is None else inner.boot_s,
        host=outer.host or inner.host,
        origin=origin or outer.origin,
        pid=inner.pid or outer.pid,
        level=outer.level or inner.level,
        repeats=min(MAX_REPEATS, outer.repeats * inner.repeats),
        stream=_joined(outer.stream, inner.stream),
        boot_id=outer.boot_id or inner.boot_id,
    )


def _joined(outer: str, inner: str) -> str:
    return f"{outer}/{inner}" if outer and inner else outer or inner


def _finished(line: Line) -> Line:
    origin, pid, body, stream = line.origin, line.pid, line.body, line.stream
    if origin == RING:
        origin = "kernel"
    stamp = line.stamp if line.stamp != NO_STAMP else stamps.in_text(body)
    if stamp.clock is Clock.NONE and line.boot_s is not None:
        stamp = stamps.since_boot(line.boot_s)
    if rank := _RANK.match(body):
        stream = _joined(stream, f"rank{rank[1]}")
    elif pid and origin != "kernel":
        stream = _joined(stream, f"{origin}[{pid}]")
    return line._replace(body=body.rstrip(), origin=origin, pid=pid, stamp=stamp, stream=stream)
