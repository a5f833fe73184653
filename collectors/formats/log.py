"""Logs of any kind: kernel, system, container and training logs, mixed as they come.

Bytes → clean blocks (`text`) → lines that hold a literal of some grammar (`prefilter`) → their envelopes off
(`envelopes`) → every grammar of `bodies.CATALOGUE`. An ordinary line costs only the search.
"""

import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Protocol, cast

from msgspec.structs import replace

from collectors.formats.bodies import CATALOGUE
from collectors.formats.envelopes import Envelopes, known
from collectors.formats.prefilter import ENCODED, MAX_FOLLOWING, Find, Wanted, finder
from collectors.formats.reading import Body, Line, Reading, Record, Tally
from collectors.formats.text import blocks, lines
from sickbay.messages import MAX_MESSAGE, Event, Progress, Step

_HEAD_LINES = 300
_LOG_NAMES = (".log", ".out", ".err", ".txt", ".jsonl", "messages", "syslog", "dmesg", "kmsg", "journal", "stderr")


class BodyModule(Protocol):
    """What a module of `bodies/` exports."""

    GRAMMAR: type[Body]
    LITERALS: tuple[str, ...]


@cache
def modules() -> dict[str, BodyModule]:
    """The body grammars by name."""
    return {name: cast(BodyModule, importlib.import_module(path)) for name, path in CATALOGUE.items()}


@cache
def find_candidates() -> Find:
    """The search for lines that some grammar may want."""
    return finder((*(literal for module in modules().values() for literal in module.LITERALS), *ENCODED))


def confidence(head: bytes, name: str) -> float:
    """How much of the head looks like a log: lines in an envelope, or with words that a grammar knows."""
    if _binary(head):
        return 0.0
    sample = [text for _, text in zip(range(_HEAD_LINES), (text for _, text in lines([head], Tally())), strict=False)]
    if len(head) >= 1 << 16 and len(sample) > 1:
        sample = sample[:-1]  # cut by the reader of the head
    sample = [text for text in sample if text.strip()]
    find = find_candidates()
    taken = sum(known(text) or any(True for _ in find(text.encode())) for text in sample)
    named = 0.1 if name.lower().endswith(_LOG_NAMES) else 0.0
    return named if not taken else min(0.85, 0.25 + 0.5 * taken / len(sample) + named)


def read(chunks: Iterable[bytes], tally: Tally) -> Iterator[Reading]:
    """All records in a log, in the order of their lines."""
    yield from read_with(find_candidates(), chunks, tally)


def read_with(find: Find, chunks: Iterable[bytes], tally: Tally) -> Iterator[Reading]:
    """The same with a given search; one that finds every line is the slow, plain reader that tests compare with."""
    reader = _Reader(tally)
    wanted = Wanted(find)
    for block in blocks(chunks, tally):
        for number, text, hit in wanted.lines(block):
            yield from reader.hit(text, number) if hit else reader.offered(text, number)
            wanted.following = reader.expects_more
    yield from reader.end()


class _Reader:
    """One input's envelopes and grammars."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._envelopes = Envelopes()
        self._grammars = [(name, module.GRAMMAR()) for name, module in modules().items()]
        self._followed = 0
        self.expects_more = False

    def hit(self, text: str, number: int) -> Iterator[Reading]:
        """The readings of a line that holds a literal."""
        self._followed = 0
        self.expects_more = True
        if text.startswith("{") and not known(text) and text.rstrip().count("{") != text.count("}"):
            self._tally.unparsed += 1  # a record of a JSON log that was cut short
        for line in self._envelopes.lines(text, number):
            yield from self._line(line)

    def offered(self, text: str, number: int) -> Iterator[Reading]:
        """The readings of a line behind one that was read: only if it is indented, or ends a line begun before."""
        self._followed += 1
        waiting = self._envelopes.open
        found = list(self._envelopes.lines(text, number))
        indented = bool(found) and all(line.body[0] in " \t" for line in found)
        self.expects_more = self._followed < MAX_FOLLOWING and (self._envelopes.open or indented or not found)
        for line in found if waiting or indented else ():
            yield from self._line(line)

    def end(self) -> Iterator[Reading]:
        """What is still open at the end of the input."""
        for line in self._envelopes.end():
            yield from self._line(line)
        for name, grammar in self._grammars:
            try:
                for record, line in grammar.end():
                    yield self._reading(record, line)
            except Exception as error:  # a fault in one grammar must not silence the others
                self._failed(name, error)

    def _line(self, line: Line) -> Iterator[Reading]:
        for name, grammar in self._grammars:
            try:
                for told in grammar.read(line):
                    yield self._reading(*told) if isinstance(told, tuple) else self._reading(told, line)
            except Exception as error:
                self._failed(name, error)

    def _reading(self, record: Record, line: Line) -> Reading:
        self._tally.records += 1
        if isinstance(record, Event):
            record = replace(
                record,
                message=(record.message or line.body)[:MAX_MESSAGE],
                count=record.count * line.repeats,
                boot_id=record.boot_id or line.boot_id,
                line=record.line or line.number,
            )
        elif isinstance(record, Progress | Step):
            record = replace(record, line=record.line or line.number)
        return Reading(record, line.number, line.stamp, line.boot_s, line.host)

    def _failed(self, name: str, error: Exception) -> None:
        self._tally.unparsed += 1
        self._tally.note(f"grammar {name} failed: {type(error).__name__}: {error}")


def _binary(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    return sum(head[:4096].count(byte) for byte in b"\x00\x01\x02\x03\x04\x05\x06") * 10 > min(len(head), 4096)
