"""Logs of any kind: kernel, system, container and training logs, mixed as they come.

Bytes → clean blocks (`text`) → lines that hold a literal of some grammar (`prefilter`) → their envelopes off
(`envelopes`) → every grammar of `bodies.CATALOGUE`. An ordinary line costs only the search.
"""

import importlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple, Protocol, cast

from msgspec.structs import replace

from collectors.formats.bodies import CATALOGUE, Sample
from collectors.formats.envelope_margins import common_margin
from collectors.formats.envelopes import Envelopes, known
from collectors.formats.masking import struck
from collectors.formats.prefilter import ENCODED, MAX_FOLLOWING, Find, Wanted, finder, plain_finder
from collectors.formats.reading import Body, Line, Reading, Record, Tally
from collectors.formats.text import Block, blocks, clean, lines
from sickbay.messages import MAX_MESSAGE, Change, Event, Progress, Step

_HEAD_LINES = 300
_MAX_ENDED = 1000  # readings of ends that are remembered
# Begins a driver's code line. Where one stands behind words that no envelope takes off, and no program is known to
# quote it, silence would look like health.
UNMISTAKABLE = ("NVRM: Xid (", "nvidia-nvswitch")
_HEAD_BYTES = 1 << 16
_WORDS_ONLY = 0.6  # of a line without an envelope: its words may stand in a table as well
_LOG_NAMES = (".log", ".out", ".err", ".txt", ".jsonl", "messages", "syslog", "dmesg", "kmsg", "journal", "stderr")


class BodyModule(Protocol):
    """What a module of `bodies/` exports."""

    GRAMMAR: type[Body]
    LITERALS: tuple[str, ...]
    SAMPLES: tuple[Sample, ...]


@cache
def modules() -> dict[str, BodyModule]:
    """The body grammars by name."""
    return {name: cast(BodyModule, importlib.import_module(path)) for name, path in CATALOGUE.items()}


@cache
def find_candidates() -> Find:
    """The search for lines that some grammar may want."""
    return finder(_literals())


@cache
def _find_plainly() -> Find:
    return plain_finder(_literals())


def _literals() -> tuple[str, ...]:
    return (*(literal for module in modules().values() for literal in module.LITERALS), *ENCODED)


_JSON = re.compile(r"\s{0,64}(?:\[\s{0,64})?\{\s{0,64}(?:\"|$)")
MOST = 0.85  # how sure it is at best: what is made of log lines may be a document of its own


def confidence(head: bytes, name: str) -> float:
    """How much of the head looks like a log: lines in an envelope, or with words that a grammar knows."""
    if _binary(head):
        return 0.0
    sample = [text for _, text in zip(range(_HEAD_LINES), (text for _, text in lines([head], Tally())), strict=False)]
    if len(head) >= 1 << 16 and len(sample) > 1:
        sample = sample[:-1]  # cut by the reader of the head
    sample = [text for text in sample if text.strip()]
    find = find_candidates()
    worth = (1.0 if known(text) else _WORDS_ONLY if _is_line(text) and _found(find, text) else 0.0 for text in sample)
    taken = sum(worth)
    named = 0.1 if name.lower().endswith(_LOG_NAMES) else 0.0
    return named if not taken else min(MOST, 0.25 + 0.5 * taken / len(sample) + named)


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """All records in a log, in the order of their lines."""
    yield from _read_with(find_candidates(), chunks, tally)


def read_plainly(chunks: Iterable[bytes], tally: Tally) -> Iterator[Reading]:
    """The same by giving every line to every grammar: slow and simple, what tests compare `read` with."""
    yield from _read_with(_every_line, chunks, tally, chosen=False)


def _read_with(find: Find, chunks: Iterable[bytes], tally: Tally, chosen: bool = True) -> Iterator[Reading]:
    reader = _Reader(tally, chosen)
    wanted = Wanted(find)
    for block in blocks(chunks, tally):
        reader.begin(block.text)
        for number, text, hit in wanted.lines(block):
            yield from reader.hit(text, number) if hit else reader.offered(text, number)
            wanted.following = reader.expects_more
    yield from reader.end()


class Following:
    """Reads a log that grows, without polars: what a line tells comes at once, what waits for more lines at `end`."""

    def __init__(self, tally: Tally) -> None:
        self._reader = _Reader(tally, chosen=True)
        self._reader.begin(b"-")  # a log that is joined in its middle tells no margin
        self._wanted = Wanted(_find_plainly())
        self._ended: set[tuple[object, ...]] = set()
        self.hits = 0  # lines that some grammar was given because of their words

    def take(self, text: bytes, first: int) -> Iterator[Reading]:
        """The readings of more whole lines, the first of which has the number `first`."""
        for number, line, hit in self._wanted.lines(Block(clean(text), first)):
            self.hits += hit
            yield from self._reader.hit(line, number) if hit else self._reader.offered(line, number)
            self._wanted.following = self._reader.expects_more

    def end(self) -> Iterator[Reading]:
        """What waited: call it when the log has been quiet. Lines may follow."""
        for reading in self._reader.end():
            record = reading.record
            key = (type(record), reading.line, *((record.component, record.kind) if isinstance(record, Event) else ()))
            if key not in self._ended:  # a grammar may tell what it still holds at every end
                self._ended = self._ended if len(self._ended) < _MAX_ENDED else set()
                self._ended.add(key)
                yield reading


def _is_line(text: str) -> bool:
    """Whether a text may be a line of a log: an object or list of JSON without an envelope's fields is a document."""
    return not _JSON.match(text)


def _found(find: Find, text: str) -> bool:
    return any(True for _ in find(text.encode()))


def _every_line(text: bytes) -> Iterator[int]:
    at = 0
    while at < len(text):
        yield at
        at = text.find(b"\n", at) + 1 or len(text)


class _Speaker(NamedTuple):
    name: str
    grammar: Body
    literals: tuple[str, ...]


class _Reader:
    """One input's envelopes and grammars. With `chosen`, a grammar sees the lines that hold one of its literals."""

    def __init__(self, tally: Tally, chosen: bool) -> None:
        self._tally = tally
        self._envelopes = Envelopes()
        self._chosen = chosen
        self._all = [_Speaker(name, module.GRAMMAR(), module.LITERALS) for name, module in modules().items()]
        self._followed = 0
        self._last = self._all  # the grammars of the last hit: what is indented below it is theirs
        self.expects_more = False
        self._margin: str | None = None
        self._missed = 0

    def begin(self, text: bytes) -> None:
        """Learn the input's margin from its first block: whole lines that all begin with the same blanks."""
        if self._margin is None:
            indented = text[:1] in b" \t>\n" or text.startswith("│".encode())
            self._margin = common_margin(text[:_HEAD_BYTES].decode("utf-8", "replace").split("\n")) if indented else ""

    def hit(self, text: str, number: int) -> Iterator[Reading]:
        """The readings of a line that holds a literal."""
        text = text.removeprefix(self._margin or "")
        self._followed = 0
        self.expects_more = True
        if text.startswith("{") and not known(text) and _cut_short(text):
            self._tally.unparsed += 1
        self._last = self._choice(text)
        for line in self._envelopes.lines(text, number):
            yield from self._line(line)

    def offered(self, text: str, number: int) -> Iterator[Reading]:
        """The readings of a line behind one that was read: only if it is indented, or ends a line begun before."""
        text = text.removeprefix(self._margin or "")
        self._followed += 1
        waiting = self._envelopes.open
        found = list(self._envelopes.lines(text, number))
        indented = bool(found) and all(line.body[0] in " \t" for line in found)
        self.expects_more = self._followed < MAX_FOLLOWING and (self._envelopes.open or indented or not found)
        if waiting:
            self._last = self._all
        for line in found if waiting or indented else ():
            yield from self._line(line)

    def end(self) -> Iterator[Reading]:
        """What is still open at the end of the input."""
        for line in self._envelopes.end():
            yield from self._line(line)
        for speaker in self._all:
            try:
                for record, line in speaker.grammar.end():
                    yield self._reading(record, line)
            except Exception as error:  # a fault in one grammar must not silence the others
                self._failed(speaker.name, error)

    def _choice(self, text: str) -> list[_Speaker]:
        if not self._chosen or self._envelopes.open or any(mark in text for mark in ENCODED):
            return self._all
        return [speaker for speaker in self._all if _holds(text, speaker.literals)]

    def _line(self, line: Line) -> Iterator[Reading]:
        before = self._tally.records
        for speaker in self._last:
            try:
                for told in speaker.grammar.read(line):
                    yield self._reading(*told) if isinstance(told, tuple) else self._reading(told, line)
            except Exception as error:
                self._failed(speaker.name, error)
        if before == self._tally.records and not line.origin and any(line.body.find(mark) > 0 for mark in UNMISTAKABLE):
            self._tally.unparsed += 1
            self._missed = self._missed or line.number
            self._tally.note(f"device codes in an envelope that is not known, first in line {self._missed}")

    def _reading(self, record: Record, line: Line) -> Reading:
        self._tally.records += 1
        if isinstance(record, Event):
            record = replace(
                record,
                message=struck((record.message or line.body)[: 4 * MAX_MESSAGE])[:MAX_MESSAGE],
                code=struck(record.code),
                process=struck(record.process),
                count=record.count * line.repeats,
                boot_id=record.boot_id or line.boot_id,
                line=record.line or line.number,
            )
        elif isinstance(record, Progress | Step):
            record = replace(record, line=record.line or line.number)
        elif isinstance(record, Change):
            record = replace(record, old=struck(record.old), new=struck(record.new))
        return Reading(record, line.number, line.stamp, line.boot_s, line.host)

    def _failed(self, name: str, error: Exception) -> None:
        self._tally.unparsed += 1
        self._tally.note(f"grammar {name} failed: {type(error).__name__}: {error}")


def _holds(text: str, literals: tuple[str, ...]) -> bool:
    for literal in literals:  # noqa: SIM110 - a plain loop takes a third of the time of `any` with a generator
        if literal in text:
            return True
    return False


def _cut_short(text: str) -> bool:
    """Whether the text is a JSON record without its end."""
    return text.count("{") > text.count("}") and text.startswith(('{"', '{ "'))


def _binary(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    return sum(head[:4096].count(byte) for byte in b"\x00\x01\x02\x03\x04\x05\x06") * 10 > min(len(head), 4096)
