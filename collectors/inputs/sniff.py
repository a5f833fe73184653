"""Picks the format of an input by its content: every format says how sure it is, the surest wins."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple, cast

from collectors.formats import DOCUMENTS, LOG
from collectors.formats.reading import Document, Reading

_CONTROLS = bytes([*range(7), *range(14, 27), *range(28, 32)])  # not in text; bell to carriage return and escape are
_KNOWN_ELSE = (  # what people hand in that is no text: the first bytes, and what to do
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    (b"Rar!", "a rar archive: unpack it first"),
    (b"\x04\x22\x4d\x18", "lz4: unpack it first"),
    (b"LPKSHHRH", "a binary journal: export it with journalctl --file NAME -o short-iso-precise"),
    (b"SQLite format 3\0", "a database"),
    (b"\x7fELF", "a program or core dump"),
    (b"PAR1", "a Parquet file"),
    (b"%PDF", "a PDF document"),
    (b"\x1f\x8b", "compressed more than twice, or damaged: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed more than twice: unpack it first"),
    (b"\xfd7zXZ", "compressed more than twice: unpack it first"),
)
LEAST = 0.3  # below this nothing recognises the input: it is listed as not understood

Read = Callable[..., Iterator[Reading]]  # (chunks, tally, name)


class Sniffed(NamedTuple):
    """The format of an input: `kind` "unknown" and no reader where none is sure enough."""

    kind: str
    confidence: float
    read: Read | None


def formats() -> dict[str, str]:
    """All formats by kind, the log reader last: at equal confidence a document wins."""
    return {**DOCUMENTS, "log": LOG}


def sniff(head: bytes, name: str) -> Sniffed:
    """The surest format for an input called `name` that starts with `head`."""
    best = Sniffed("unknown", 0.0, None)
    for kind, module_name in formats().items():
        module = cast(Document, import_module(module_name))
        if best.confidence >= getattr(module, "MOST", 1.0):
            continue  # it cannot be surer, and to ask it costs
        confidence = module.confidence(head, name)
        if confidence > best.confidence:
            best = Sniffed(kind, confidence, module.read)
    return best if best.confidence >= LEAST else Sniffed("unknown", best.confidence, None)


def reading_as_log() -> Read:
    """The reader for text that nothing recognises by its beginning: what a log says may come late."""
    read: Read = import_module(LOG).read
    return read


def looks_like_text(head: bytes) -> bool:
    """Whether `head` is text of any encoding that keeps ASCII: hardly a control character in it."""
    start = head[:4096]
    return len(start) - len(start.translate(None, _CONTROLS)) <= len(start) // 100


def unreadable(head: bytes) -> str:
    """What to tell people of an input that is no text."""
    told = next((text for start, text in _KNOWN_ELSE if head.startswith(start)), "no text")
    return f"not read: {told}"
