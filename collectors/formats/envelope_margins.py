"""What stands in front of a log line without being its writer's: margins of pastes, fronts of other tools, dates in
other languages. Tried last, and only where no known envelope begins.

Such a front tells at most a host; its date is not read.
"""

import re
from collections.abc import Callable, Iterable
from itertools import takewhile

import msgspec

from collectors.formats.reading import Line

RING_STAMP = r"\[ {0,12}\d{1,9}\.\d{6}\]"
_MARGIN = re.compile(r"^[ \t>│]{1,40}")
_BULLET = re.compile(r"^(?:[ \t>│|]{1,40}|[-*] {1,4}|\[\d\d:\d\d:\d\d(?:\.\d{1,6})?\] )(?=\S)")
# grep -C, cat -n, compose, stern, a console's prompt. Words alone are a sentence that quotes the kernel.
_RING_BEHIND = re.compile(
    r"^(?:(?:[\w./@+-]{1,200}-)?\d{1,9}-|\d{1,9}[\t ]{1,4}|[\w.-]{1,64} {1,20}\| "
    rf"|[\w.]{{1,60}}-[\w.-]{{1,190}} [\w.-]{{1,63}} |[\w.-]{{1,64}} login: )(?={RING_STAMP})"
)
# Two or three words and a time of day: a date in another language or order. Nobody else writes a speaker behind it.
_WORD = r"[^\s:\[\]{}\"'=,;]{1,12},?"
_FOREIGN = re.compile(rf"^{_WORD}(?: {{1,2}}{_WORD}){{1,2}} \d\d:\d\d:\d\d(?:[.,]\d{{1,9}})? (?=\S)")
_PRETTY = re.compile(r'^\s{0,8}"MESSAGE" : (?P<text>".*"),?$')  # journalctl -o json-pretty
_SAMPLED = 200  # lines that settle the margin of an input

Inner = Callable[[Line], Line | None]


def common_margin(lines: Iterable[str]) -> str:
    """The indentation or quotation marks that all lines share: a paste's own."""
    margins = []
    for _, line in zip(range(_SAMPLED), (line for line in lines if line.strip()), strict=False):
        match = _MARGIN.match(line)
        if match is None:
            return ""
        margins.append(match[0])
    shortest = min(margins, key=len, default="")
    same = takewhile(lambda column: len(set(column)) == 1, zip(*margins, strict=False))
    return shortest[: sum(1 for _ in same)]


def behind_margin(line: Line, known: Inner) -> Line | None:
    """The line without what stands in front of a known envelope; None where there is none."""
    body = line.body
    if match := _PRETTY.match(body):
        return _decoded(match["text"])
    for pattern in (_BULLET, _RING_BEHIND):
        if (match := pattern.match(body)) and match.end() < len(body):
            rest = Line(body[match.end() :])
            if known(rest) is not None:
                return rest
    return None


def foreign_date(body: str) -> str | None:
    """What stands behind a date of no known form."""
    match = _FOREIGN.match(body)
    return body[match.end() :] if match else None


def _decoded(text: str) -> Line | None:
    try:
        return Line(msgspec.json.decode(text, type=str))
    except msgspec.DecodeError:
        return None
