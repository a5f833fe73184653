"""Text of Prometheus and OpenMetrics: one scrape or several after each other, whole, cut or reduced; promtool's output.

A scrape without times gives samples at `at_ms` 0, which means unknown: whoever knows when it was taken dates them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from collectors.formats.metric_names import UP, is_known, targets
from collectors.formats.pasted import CHATTER
from collectors.formats.prometheus_layout import Layout, learnt, split
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_events import CodeEvents
from collectors.formats.series_names import Names, fits, is_slice
from collectors.formats.series_rows import Plain, SeriesRows
from collectors.formats.text import MAX_LINE, blocks
from sickbay import components
from sickbay.clock import NO_STAMP, Clock, Stamp
from sickbay.components import UNKNOWN, Kind, Name

FLUSH = 50_000  # values collected before rows are given out at the next change of series
MOST = 500_000  # values collected in any case, and series remembered of one scrape
CACHED = 100_000  # label texts remembered
MAX_LABELS = 64
_NOWHERE = (None, True)  # no component, and of a slice
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'[\s,]*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"')
_VALUE = re.compile(
    r"\s*(?:=> )?([+-]?(?:\d[\d.eE+-]*|\.\d[\deE+-]*|[Ii]nf(?:inity)?|[Nn]a[Nn]))"
    r"(?:\s+(?:@\[)?(-?\d+(?:\.\d+)?)\]?)?\s*(?:#.*)?$"
)
_POINT = re.compile(r"(\S+) @\[(\d+(?:\.\d+)?)\]$")
_SEPARATOR = re.compile(r"(?:timestamp|scrape(?:d at)?)\b[\s:=]*(.*)$", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")
_TYPE = re.compile(
    r"# (?:HELP [a-zA-Z_:]|TYPE [a-zA-Z_:][a-zA-Z0-9_:]* "
    r"(?:counter|gauge|histogram|gaugehistogram|summary|untyped|unknown|info|stateset)\b)"
)
_SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)?(?:\s*\{(?:__name__=\"([^\"]*)\")?.*\})?\s+"
    r"(?:=>$|(?:=> )?[+-]?(?:\d[\d.eE+-]*|Inf|NaN)(?:\s+(?:-?[\d.]+|@\[[\d.]+\]))?\s*$)"
)


def confidence(head: bytes, name: str) -> float:
    """How sure it is that this is an exposition: typed families, or known series names in its syntax."""
    lines = [line.strip() for line in head.decode("utf-8", "replace").split("\n")[:400] if line.strip()]
    lines = [line for line in lines if len(line) <= 4096 and not CHATTER.match(line)]
    typed = sum(1 for line in lines if _TYPE.match(line))
    told = [line for line in lines if line[0] != "#" and not _SEPARATOR.match(line) and not _POINT.match(line)]
    samples = [match for line in told if (match := _SAMPLE.match(line)) and (match.group(1) or match.group(2))]
    known = sum(1 for match in samples if is_known(match.group(1) or match.group(2)))
    other = len(told) - len(samples)
    if other > max(2, len(samples) // 4):  # the head may end, and a reduced scrape may break, in the middle of a line
        return 0.0
    if typed or known:
        return 0.95
    return 0.4 if samples and all("{" in match.group() for match in samples) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """Samples of every known series; events of codes; identities that labels tell."""
    scrape = _Scrapes(tally)
    for number, line in _lines(chunks, tally):
        yield from scrape.take(line, number)
    yield from scrape.end()


class Exporter:
    """Reads one exporter's answers, scrape after scrape: names and codes that were told stay known."""

    def __init__(self, tally: Tally) -> None:
        self._scrapes = _Scrapes(tally)
        self._between: list[bytes] = []  # of the answer before
        self._layout: Layout | None = None

    def scrape(self, body: bytes, at_ms: int) -> Iterator[Reading]:
        """The readings of one answer; values without a time of their own get `at_ms`."""
        scrapes, layout = self._scrapes, self._layout
        scrapes.at_ms = at_ms
        between, told = split(body)
        values = _numbers(told) if layout is not None and layout.between == between else None
        if layout is not None and values is not None:
            yield from scrapes.placed(layout, values, told)
        else:
            for number, line in _lines([body], scrapes.tally):
                if not scrapes.again(line):
                    yield from scrapes.take(line, number)
        yield from scrapes.next_scrape(0)
        if values is None:
            stands = between == self._between  # what changes each time is not learnt
            self._layout = learnt(body, between, scrapes.quick, _tells) if stands else None
            self._between = between

    @property
    def known(self) -> int:
        """How many values of known series it has told."""
        return self._scrapes.known

    @property
    def nameless(self) -> int:
        """How many values of accelerators it has told without a label that names the device."""
        return self._scrapes.nameless


class _Scrapes:
    """State of one input: the scrape being read, and what earlier lines taught."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.names = Names()
        self.codes = CodeEvents()
        self.rows = SeriesRows()
        self.labels: dict[str, dict[str, str]] = {}  # by their text: a device's are the same in all its series
        self.places: dict[tuple[int, str, str], tuple[Name | None, bool]] = {}  # exporter, part, labels
        self.quick: dict[str, Plain] = {}  # by a line without its value
        self.seen: set[tuple[str, str]] = set()  # series of this scrape that carry no time
        self.heading = ("", "")
        self.series = ""
        self.at_ms = 0
        self.known = self.other = self.slices = self.nameless = 0

    def take(self, line: str, number: int) -> Iterator[Reading]:
        """Readings that this line completes."""
        if line[0] == "#":
            if line.startswith("# EOF"):
                yield from self.next_scrape(0)
            return
        if separator := _SEPARATOR.match(line):
            yield from self.next_scrape(_time(separator.group(1)))
            return
        if _POINT.match(line):  # of the series that promtool headed with "=>"
            name, text = self.heading
            start = 0
        else:
            self.heading = ("", "")
            match = _NAME.match(line)
            name, start = (match.group(), match.end()) if match else ("", 0)
            if name and not is_known(name):
                self.other += 1
                return
            labels = self._label_text(line, start) if name or line[0] == "{" else None
            if labels is None:
                self.tally.unparsed += not CHATTER.match(line)
                return
            text, start = labels, start + len(labels)
            name = name or self.labels[text].get("__name__", "")
        if not is_known(name):
            self.other += 1
        elif line.endswith("=>") and not line[start:-2].strip():
            self.heading = (name, text)
        elif told := value_at(line, start):
            self.known += 1
            yield from self._dated(name, text, told[1])
            yield from self._sample(name, text, told[0], told[1] or self.at_ms, line, number)
            if not told[1]:
                self._remember(line[:start], name, text)
        else:
            self.tally.unparsed += 1

    def again(self, line: str) -> bool:
        """Takes a line that differs from an earlier one in its value at most, which nearly all of an exporter do."""
        head = line.rpartition(" ")[0]
        known = self.quick.get(head)
        if known is None or known.target.metric.speaks or known.series in self.seen or self.rows.count >= FLUSH:
            return False
        told = value_at(line, len(head))
        if told is None or told[1]:
            return False
        self.heading, self.series = ("", ""), known.target.name
        self.known += 1
        self.seen.add(known.series)
        self.rows.add(known.target, known.labels, known.component, self.at_ms, told[0])
        return True

    def _remember(self, head: str, name: str, text: str) -> None:
        """A series that gives a value, and maybe an event by it."""
        target = targets().get(name)
        component, of_slice = self.places.get((id(target.source), target.part, text), _NOWHERE) if target else _NOWHERE
        if target is None or component is None or of_slice:
            return
        if fits(target.metric, self.labels[text]) and len(self.quick) < CACHED:
            self.quick[head] = Plain((name, text), target, component, self.labels[text])

    def placed(self, layout: Layout, values: Sequence[float], told: Sequence[bytes]) -> Iterator[Reading]:
        """An answer with the layout of an earlier one."""
        layout.take(values, self.at_ms, self.rows)
        self.known += layout.known
        for head, one in layout.speaking:
            value, at_ms = values[head.place], self.at_ms or None
            event = self.codes.event(one.target, one.labels, one.component, value, at_ms, head.line(told))
            if event is not None:
                yield Reading(event, head.number, Stamp(Clock.ABSOLUTE, self.at_ms) if self.at_ms else NO_STAMP)
        for head in layout.odd:
            yield from self.take(head.line(told), head.number)

    def _label_text(self, line: str, start: int) -> str | None:
        """The labels' own text, once its meaning is in `labels`; None where it is damaged."""
        if line[start : start + 1] != "{":
            self.labels[""] = {}
            return ""
        text = line[start : line.find("} ", start) + 1]
        if not text or text not in self.labels:  # else these very characters were whole labels before
            found = labels_at(line, start)
            if found is None:
                return None
            if len(self.labels) >= CACHED:
                self.labels.clear()
                self.places.clear()
                self.quick.clear()
            text = line[start : found[1]]
            self.labels[text] = found[0]
        return text

    def _dated(self, name: str, text: str, at_ms: int) -> Iterator[Reading]:
        """Rows that are complete now: of the scrape before this one, or of many series."""
        if not at_ms:
            if (name, text) in self.seen or len(self.seen) >= MOST:
                yield from self.next_scrape(self.at_ms)  # scrapes were put together without a word between
            self.seen.add((name, text))
        if self.rows.count >= (FLUSH if name != self.series else MOST):
            yield from self.rows.flush(self.tally)
        self.series = name

    def _sample(self, name: str, text: str, value: float, at_ms: int, line: str, number: int) -> Iterator[Reading]:
        target, labels = targets().get(name), self.labels[text]
        if target is None:
            for found in self.names.learn(None, labels):
                yield Reading(found, number)
            if name == UP:
                self._up(labels, value, at_ms)
            return
        place = self.places.get((id(target.source), target.part, text))
        if place is None:
            for found in self.names.learn(target, labels):
                yield Reading(found, number)
            place = self.names.component(target, labels), is_slice(target.source, labels)
            self.places[id(target.source), target.part, text] = place
        component, of_slice = place
        if component is None or not fits(target.metric, labels):
            self.nameless += component is None and target.source.of_accelerators
            return
        if of_slice:
            self.slices += 1
            return
        if target.metric.to:
            self.rows.add(target, labels, component, at_ms, value)
        if target.metric.speaks and (event := self.codes.event(target, labels, component, value, at_ms or None, line)):
            yield Reading(event, number, Stamp(Clock.ABSOLUTE, at_ms) if at_ms else NO_STAMP)

    def _up(self, labels: dict[str, str], value: float, at_ms: int) -> None:
        column, host = self.names.up_column(labels), self.names.host(labels)
        if column and host != UNKNOWN and value in (0.0, 1.0):
            self.rows.add_host(components.name(Kind.HOST, host), at_ms, column, value)

    def next_scrape(self, at_ms: int) -> Iterator[Reading]:
        """The rows of the scrape that ends here; the next one was taken at `at_ms`."""
        yield from self.rows.flush(self.tally)
        self.codes.end_of_scrape()
        self.seen.clear()
        self.at_ms = at_ms

    def end(self) -> Iterator[Reading]:
        """What is left at the end of the input, and the notes for people."""
        yield from self.rows.flush(self.tally)
        if self.slices:
            self.tally.note(f"{self.slices} values of device partitions left out: they are not the whole device's")
        if self.nameless:
            self.tally.note(f"{self.nameless} values of accelerators left out: no label that is known names the device")
        if self.other and not self.known:
            self.tally.note(f"{self.other} series, none of a name that is known here")


def _tells(line: str) -> bool | None:
    """Whether a line, up to its value, may tell something; None where it changes what the next ones mean."""
    match = _NAME.match(line)
    if match is None or _SEPARATOR.match(line) or _POINT.match(line) or line.endswith("=>"):
        return None
    return is_known(match.group())


def _numbers(told: Sequence[bytes]) -> list[float] | None:
    try:
        return list(map(float, told))
    except ValueError:
        return None


def labels_at(line: str, start: int) -> tuple[dict[str, str], int] | None:
    """The labels that begin with the brace at `start`, and where they end; None where they are damaged."""
    labels: dict[str, str] = {}
    start += 1
    while (label := _LABEL.match(line, start)) and len(labels) < MAX_LABELS:
        labels[label.group(1)] = _unescaped(label.group(2))
        start = label.end()
    end = line.find("}", start)  # what stands between is an elision ("...") or damage
    return None if end < 0 or '"' in line[start:end] else (labels, end + 1)


def value_at(line: str, start: int) -> tuple[float, int] | None:
    """Value and time in ms (0 = not told) that follow at `start`."""
    match = _VALUE.match(line, start)
    try:
        return (float(match.group(1)), _time(match.group(2)) if match.group(2) else 0) if match else None
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
