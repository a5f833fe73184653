"""Text exposition of Prometheus and OpenMetrics: one scrape or several after each other, whole, cut or reduced.

A scrape without times gives samples at `at_ms` 0, which means unknown: whoever knows when it was taken dates them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from collectors.formats.metric_names import UP, is_known, targets
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_events import CodeEvents
from collectors.formats.series_names import Names
from collectors.formats.series_rows import SeriesRows
from collectors.formats.text import MAX_LINE, blocks
from sickbay import components
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.components import UNKNOWN, Kind

FLUSH = 50_000  # values collected before rows are given out at the next change of series
MOST = 500_000  # values collected in any case, and series remembered of one scrape
MAX_LABELS = 64
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'[\s,]*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"')
_VALUE = re.compile(
    r"\s*([+-]?(?:\d[\d.eE+-]*|\.\d[\deE+-]*|[Ii]nf(?:inity)?|[Nn]a[Nn]))(?:\s+(-?\d+(?:\.\d+)?))?\s*(?:#.*)?$"
)
_SEPARATOR = re.compile(r"(?:timestamp|scrape(?:d at)?)\b[\s:=]*(.*)$", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")
_TYPE = re.compile(
    r"# (?:HELP [a-zA-Z_:]|TYPE [a-zA-Z_:][a-zA-Z0-9_:]* "
    r"(?:counter|gauge|histogram|gaugehistogram|summary|untyped|unknown|info|stateset)\b)"
)
_SAMPLE = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?:\s*\{.*\})?\s+[+-]?(?:\d[\d.eE+-]*|Inf|NaN)(?:\s+-?[\d.]+)?\s*$")

_Told: TypeAlias = tuple[str, dict[str, str], float, int]


def confidence(head: bytes, name: str) -> float:
    """How sure it is that this is an exposition: typed families, or known series names in its syntax."""
    lines = [line.strip() for line in head.decode("utf-8", "replace").split("\n")[:400] if line.strip()]
    lines = [line for line in lines if len(line) <= 4096]
    typed = sum(1 for line in lines if _TYPE.match(line))
    samples = [line for line in lines if line[0] != "#" and _SAMPLE.match(line)]
    known = sum(1 for line in samples if is_known(line.split("{")[0].split()[0]))
    other = sum(1 for line in lines if line[0] != "#" and not _SEPARATOR.match(line)) - len(samples)
    if other > max(2, len(samples) // 4):  # the head may end, and a reduced scrape may break, in the middle of a line
        return 0.0
    if typed or known:
        return 0.95
    return 0.4 if samples and all("{" in line for line in samples) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Samples of every known series; events of codes; identities that labels tell."""
    scrape = _Scrapes(tally)
    for number, line in _lines(chunks, tally):
        yield from scrape.take(line, number)
    yield from scrape.end()


class _Scrapes:
    """State of one input: the scrape being read, and what earlier lines taught."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.names = Names()
        self.codes = CodeEvents()
        self.rows = SeriesRows()
        self.seen: set[int] = set()  # series of this scrape that carry no time
        self.series = ""
        self.at_ms = 0
        self.known = self.other = self.slices = 0

    def take(self, line: str, number: int) -> Iterator[Reading]:
        """Readings that this line completes."""
        if line[0] == "#":
            if line.startswith("# EOF"):
                yield from self._next_scrape(0)
            return
        if separator := _SEPARATOR.match(line):
            yield from self._next_scrape(_time(separator.group(1)))
            return
        match = _NAME.match(line)
        if not match:
            self.tally.unparsed += 1
        elif not is_known(match.group()):
            self.other += 1
        elif (told := parsed(line, match.group(), match.end())) is None:
            self.tally.unparsed += 1
        else:
            yield from self._sample(*told, line, number)

    def _sample(
        self, name: str, labels: dict[str, str], value: float, at_ms: int, line: str, number: int
    ) -> Iterator[Reading]:
        self.known += 1
        if not at_ms:
            at_ms = self.at_ms
            identity = hash((name, *labels.items()))
            if (
                identity in self.seen or len(self.seen) >= MOST
            ):  # the same series again: scrapes were put together without a word between
                yield from self._next_scrape(at_ms)
            self.seen.add(identity)
        if self.rows.count >= (FLUSH if name != self.series else MOST):
            yield from self.rows.flush(self.tally)
        self.series = name
        target = targets().get(name)
        for found in self.names.learn(target, labels):
            yield Reading(found, number)
        if name == UP:
            column, host = self.names.up_column(labels), self.names.host(labels)
            if column and host != UNKNOWN and value in (0.0, 1.0):
                self.rows.add_host(components.name(Kind.HOST, host), at_ms, column, value)
        if target is None:
            return
        component = self.names.component(target, labels)
        if component is None:
            return
        if self.names.is_slice(target, labels):
            self.slices += 1
            return
        if target.metric.to:
            self.rows.add(target, labels, component, at_ms, value)
        stamp = Stamp(Clock.ABSOLUTE, at_ms) if at_ms else NO_STAMP
        if event := self.codes.event(target, labels, component, value, at_ms or None, line):
            yield Reading(event, number, stamp)

    def _next_scrape(self, at_ms: int) -> Iterator[Reading]:
        yield from self.rows.flush(self.tally)
        self.seen.clear()
        self.at_ms = at_ms

    def end(self) -> Iterator[Reading]:
        """What is left at the end of the input, and the notes for people."""
        yield from self.rows.flush(self.tally)
        if self.slices:
            self.tally.note(f"{self.slices} values of device partitions left out: they are not the whole device's")
        if self.other and not self.known:
            self.tally.note(f"{self.other} series, none of a name that is known here")


def parsed(line: str, name: str, start: int) -> _Told | None:
    """Name, labels, value and time in ms (0 = not told) of a sample line whose name ends at `start`."""
    labels: dict[str, str] = {}
    if line[start : start + 1] == "{":
        start += 1
        while (label := _LABEL.match(line, start)) and len(labels) < MAX_LABELS:
            labels[label.group(1)] = _unescaped(label.group(2))
            start = label.end()
        end = line.find("}", start)  # what stands between is an elision ("...") or damage
        if end < 0 or '"' in line[start:end]:
            return None
        start = end + 1
    match = _VALUE.match(line, start)
    if not match:
        return None
    try:
        return name, labels, float(match.group(1)), _time(match.group(2) or "")
    except ValueError:
        return None


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: {"n": " "}.get(match.group(1), match.group(1)), text)


def _time(text: str) -> int:
    """Milliseconds of a time in seconds (OpenMetrics) or milliseconds; 0 where it is none, or not of this age."""
    try:
        value = float(text)
    except ValueError:
        return 0
    ms = value if value >= 1e11 else value * 1000  # 1e11 ms is 1973, 1e11 s is the year 5138
    return round(ms) if 1e11 <= ms < 1e13 else 0


def _lines(chunks: Iterable[bytes], tally: Tally) -> Iterator[tuple[int, str]]:
    """Whole lines. The last one of several without a line end is a cut number, and a cut number is a wrong one."""
    number, ended, line = 0, True, ""
    for block in blocks(chunks, tally, 1 << 18):
        text = block.text.decode()
        ended = text.endswith("\n")
        for offset, raw in enumerate(text.split("\n")):
            if line:
                yield number, line
            line = raw.strip()
            number = block.first + offset
            if len(line) >= MAX_LINE - 1:  # already counted as cut
                line = ""
    if line and (ended or number <= 1):
        yield number, line
    elif line and line[0] != "#":
        tally.unparsed += 1
        tally.note("the input ends in the middle of a line")
