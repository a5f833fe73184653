"""Bytes as they come, in clean blocks of whole lines, in constant memory.

A block is valid UTF-8 without colour codes and control characters; its lines end at `\\n`, so numbers stay those an
editor shows. A lone carriage return (a progress bar) stays in its line: `segments` splits there.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from collectors.formats.reading import Tally

BLOCK_BYTES = 2 << 20  # 1 to 4 MiB is where the prefilter is fastest
MAX_LINE = 64 << 10  # bytes of a line that are kept; the rest is dropped and counted

# What a terminal would swallow: CSI (colours), OSC (titles, links), other strings, two- and three-byte escapes. Bounded
# repeats and no line end inside: linear, and a damaged sequence cannot swallow the next line.
_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,4}[@-~]|\][^\x07\x1b\n\r]{0,2048}(?:\x07|\x1b\\)"
    rb"|[PX^_][^\x07\x1b\n\r]{0,2048}(?:\x07|\x1b\\)|[ -/]{1,4}[0-~]|[0-Z\\-~])?"
)
# The same colours after an encoder: rsyslog (#033[31m), cat -v (^[[31m), JSON (\u001b[31m).
_ENCODED_ESCAPES = re.compile(rb"(?:#033|\^\[|\\u001[bB]|\\x1b)\[[0-9;?]{0,32}[A-Za-z]")
# First byte and whole mark: looking for one byte is free, for a word it is not.
_ENCODED_MARKS = ((b"#", b"#033["), (b"^", b"^[["), (b"\\", b"\\u001b["), (b"\\", b"\\u001B["), (b"\\", b"\\x1b["))
# Characters that JSON writers for web pages escape without need: put back, so that words are found without decoding.
_ENCODED_PUNCTUATION = re.compile(rb"(?<!\\)\\u00(?:3[cC]|3[eE]|26|27)")
_PUNCTUATION = {b"3c": b"<", b"3e": b">", b"26": b"&", b"27": b"'"}
_CONTROLS = bytes([*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])  # all but tab, line feed, carriage return
# C1 controls, zero-width and directional characters, line separators, byte order mark: invisible or deceiving.
_INVISIBLE_LEADS = (b"\xc2", b"\xe2\x80", b"\xe2\x81", b"\xd8\x9c", b"\xef\xbb\xbf")  # a look before the slow leap
_INVISIBLE = re.compile("[\x80-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class Block(NamedTuple):
    """Whole lines, the first of which has the 1-based number `first`."""

    text: bytes
    first: int


def blocks(chunks: Iterable[bytes], tally: Tally, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """The input in clean blocks of about `size` bytes cut at line ends; lines longer than MAX_LINE are cut."""
    number = 1
    for raw in _whole_lines(_utf8(chunks), tally, size):
        yield Block(clean(raw), number)
        number += raw.count(b"\n")


def clean(raw: bytes) -> bytes:
    """`raw` as valid UTF-8 without escapes, control and invisible characters; line feeds are all kept."""
    if b"\x1b" in raw:
        raw = _ESCAPES.sub(b"", raw)
    if any(byte in raw and mark in raw for byte, mark in _ENCODED_MARKS):
        raw = _ENCODED_ESCAPES.sub(b"", raw)
    if b"\\" in raw and b"\\u00" in raw:
        raw = _ENCODED_PUNCTUATION.sub(lambda match: _PUNCTUATION[match[0][-2:].lower()], raw)
    raw = raw.translate(None, _CONTROLS)
    if raw.isascii():
        return raw
    text = raw.decode("utf-8", "replace")
    return (_INVISIBLE.sub("", text) if any(lead in raw for lead in _INVISIBLE_LEADS) else text).encode()


def clean_text(text: str) -> str:
    """One value taken out of an encoded record, cleaned like a block (line feeds and tabs stay)."""
    return clean(text.encode("utf-8", "replace")).decode()


def segments(line: str) -> Iterator[str]:
    """The pieces of a line between carriage returns, blank ones left out."""
    for piece in line.split("\r"):
        if piece and not piece.isspace():
            yield piece


def lines(chunks: Iterable[bytes], tally: Tally) -> Iterator[tuple[int, str]]:
    """All lines with their 1-based numbers, right-trimmed: for readers that want every line and need no speed."""
    for block in blocks(chunks, tally, 1 << 18):
        for offset, line in enumerate(block.text.decode().split("\n")):
            for piece in segments(line):
                yield block.first + offset, piece.rstrip()


def _utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks as UTF-8 where a byte order mark says they are UTF-16; its own mark is dropped."""
    stream = iter(chunks)
    head = b""
    for chunk in stream:
        head += chunk
        if len(head) >= 3:
            break
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(head).encode("utf-8", "replace")
        for chunk in stream:
            yield decoder.decode(chunk).encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")
        return
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from stream


def _whole_lines(chunks: Iterable[bytes], tally: Tally, size: int) -> Iterator[bytes]:
    """Runs of whole lines of about `size` bytes; never holds more than `size` and one chunk."""
    held: list[bytes] = []
    length = 0  # of what is held
    tail = 0  # bytes of the unfinished last line in it
    skipping = False  # inside a line that is over its limit
    for chunk in chunks:
        for piece in _pieces(chunk, size):
            if skipping:
                end = piece.find(b"\n")
                if end < 0:
                    continue
                piece, skipping = piece[end:], False
            last = piece.rfind(b"\n")
            tail = len(piece) - last - 1 if last >= 0 else tail + len(piece)
            held.append(piece)
            length += len(piece)
            if tail > MAX_LINE:
                joined = b"".join(held)
                kept = joined[: len(joined) - tail + MAX_LINE]
                held, length, tail, skipping = [kept], len(kept), MAX_LINE, True
                tally.cut += 1
            if length >= size and tail < length:
                joined = b"".join(held)
                yield _short_lines(joined[: length - tail], tally)
                held, length = [joined[length - tail :]], tail
    if length:
        yield _short_lines(b"".join(held), tally)


def _pieces(chunk: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(chunk), size):
        yield chunk[start : start + size]


def _short_lines(text: bytes, tally: Tally) -> bytes:
    """`text` with every line cut to MAX_LINE bytes. Looks at one line end per MAX_LINE bytes, not at all of them."""
    kept: list[bytes] = []
    copied = start = 0
    while len(text) - start > MAX_LINE:
        end = text.rfind(b"\n", start, start + MAX_LINE + 1)
        if end >= 0:
            start = end + 1
            continue
        end = text.find(b"\n", start)
        kept.append(text[copied : start + MAX_LINE])
        tally.cut += 1
        if end < 0:
            return b"".join(kept)
        copied, start = end, end + 1
    return b"".join([*kept, text[copied:]]) if kept else text


def start_of(chunks: Iterable[bytes], most: int) -> bytes:
    """The beginning of an input: up to `most` bytes, and one more where there are more, so that the caller can tell."""
    raw = bytearray()
    for chunk in chunks:
        raw += chunk[: most + 1 - len(raw)]
        if len(raw) > most:
            break
    return bytes(raw)
