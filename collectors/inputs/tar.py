"""Tar archives as a stream: one pass, one member at a time, nothing held, every field checked.

The layout is that of POSIX `ustar` and pax, with GNU's long names, sparse members and large numbers. Whether bytes are
a header is decided by its checksum alone, so that a text that happens to say `ustar` is no archive and a nameless old
archive is one. Headers that announce more than MAX_EXTENDED bytes of names are refused: they are read whole.
"""

import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

BLOCK = 512
MAX_EXTENDED = 1 << 20  # bytes of an extended header: the longest path that a system takes has 4096
MAX_PADDING = 4 << 20  # zeros behind the end: writers pad to some kilobytes
_FILES, _LINKS, _FOLDER, _SPARSE = b"\x0007", b"12", b"5", b"S"
_WITHOUT_DATA = b"123456"
_DIGITS = re.compile(rb"[0-7]+")


class Member(NamedTuple):
    """One entry. `kind`: file, link, folder or special. `content` of a file can be read until the next is asked for."""

    name: str
    kind: str
    target: str
    content: io.RawIOBase


def is_header(block: bytes) -> bool:
    """Whether `block` begins with a member's header: its checksum is right."""
    block = block[:BLOCK]
    if len(block) < BLOCK or not any(block[:100]):
        return False
    try:
        told = _number(block[148:156])
    except ValueError:
        return False
    others = block[:148] + b" " * 8 + block[156:]
    return told in (sum(others), sum(others) - 256 * sum(byte > 127 for byte in others))  # old writers sum signed bytes


def members(stream: io.BufferedReader) -> Iterator[Member]:
    """All members in order. Raises ValueError or EOFError where the archive is damaged or cut."""
    told: dict[str, str] = {}
    while header := _header(stream):
        kind = header[156:157]
        size = _number(header[124:136])
        if kind in b"xgXLK":
            body = _exactly(stream, _padded(_bounded(size)))[:size]
            if kind in b"LK":
                told["path" if kind == b"L" else "linkpath"] = _text(body)
            elif kind != b"g":
                told |= _records(body)
            continue
        if kind == _SPARSE:
            _skip_map(stream, header)
        size = 0 if kind in _WITHOUT_DATA else _size(told, size)
        content = _Content(stream, size)
        yield Member(_name(told, header), _kind(kind), told.get("linkpath") or _text(header[157:257]), content)
        content.drop()
        _exactly(stream, _padded(size) - size)
        told = {}


def _header(stream: io.BufferedReader) -> bytes:
    """The next header, empty at the end. Zeros between joined archives are passed over."""
    zeros = 0
    while zeros < MAX_PADDING:
        block = _read(stream, BLOCK)
        if not block and not zeros:
            raise EOFError("ends without the mark of an archive's end: it may be cut")
        if not block:
            return b""
        if len(block) < BLOCK and any(block):
            raise EOFError("the archive is cut")
        if is_header(block):
            return block
        if any(block):
            raise ValueError("damaged: what follows the last member listed is no member")
        zeros += BLOCK
    return b""


class _Content(io.RawIOBase):
    """The bytes of one member."""

    def __init__(self, stream: io.BufferedReader, size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            return 0
        data = self._stream.read1(min(len(buffer), self._left))
        if not data:
            raise EOFError("the archive is cut inside this member")
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)

    def drop(self) -> None:
        """Passes over what was not read."""
        while self.read(1 << 16):
            pass


def _read(stream: io.BufferedReader, size: int) -> bytes:
    return stream.read(size) or b""


def _exactly(stream: io.BufferedReader, size: int) -> bytes:
    data = _read(stream, size) if size > 0 else b""
    if len(data) < size:
        raise EOFError("the archive is cut")
    return data


def _skip_map(stream: io.BufferedReader, header: bytes) -> None:
    """Passes over the list of a sparse member's pieces: its holes are zeros, which no format needs."""
    more = header[482]
    while more:
        more = _exactly(stream, BLOCK)[504]


def _bounded(size: int) -> int:
    if size > MAX_EXTENDED:
        raise ValueError(f"an extended header of {size} bytes: damaged or hostile")
    return size


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _number(field: bytes) -> int:
    """An octal number, or GNU's binary one. Raises ValueError for anything else."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0").partition(b"\0")[0].rstrip()
    if not digits:
        return 0
    if not _DIGITS.fullmatch(digits):
        raise ValueError("damaged: a header without numbers")
    return int(digits, 8)


def _records(body: bytes) -> dict[str, str]:
    """The records `length key=value` of a pax header; what is none ends the list."""
    found: dict[str, str] = {}
    at = 0
    while at < len(body):
        digits, blank, _ = body[at : at + 20].partition(b" ")
        length = int(digits) if blank and digits.isdigit() else 0
        if length < len(digits) + 3:
            break
        key, _, value = body[at + len(digits) + 1 : at + length - 1].partition(b"=")
        found[_text(key)] = _text(value)
        at += length
    return found


def _size(told: dict[str, str], size: int) -> int:
    text = told.get("size", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else size


def _name(told: dict[str, str], header: bytes) -> str:
    name = told.get("GNU.sparse.name") or told.get("path")
    if name:
        return name
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{_text(header[:100])}" if prefix else _text(header[:100])


def _kind(kind: bytes) -> str:
    if kind in _LINKS:
        return "link"
    return "folder" if kind == _FOLDER else "file" if kind in _FILES + _SPARSE else "special"


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "replace")
