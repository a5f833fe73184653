"""Compressed streams: gzip, zstd, xz and bzip2, recognised by their first bytes, in bounded memory.

Of a file that is cut or damaged in the middle, all that came before is given first. A bomb is stopped.
"""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any, cast

import zstandard

CHUNK = 1 << 20
_STEP = 1 << 16  # bytes unpacked at once
_MAGIC = (  # bzip2 alone has a mark that a text may begin with: its first block or its end must follow
    (re.compile(rb"\x1f\x8b\x08"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2"),
)
MAX_DICTIONARY = 256 << 20  # bytes: `xz -9` needs 65 MiB to unpack
MAX_LAYERS = 2  # of compression round one file
FREE_BYTES = 1 << 30  # unpacked before the ratio counts
MAX_RATIO = 400  # real logs shrink to a tenth or a hundredth; gzip's bombs to a thousandth
UNPACK_ERRORS = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


def unpacked(stream: io.BufferedReader, read: Callable[[], int]) -> io.BufferedReader:
    """`stream` through as many decompressors as its first bytes ask for. `read` tells how much of the file is read."""
    for _ in range(MAX_LAYERS):
        kind = packed(stream.peek(16)[:16])
        if not kind:
            break
        stream = io.BufferedReader(_Guarded(_unpacker(kind, stream), read), CHUNK)
    return stream


def packed(head: bytes) -> str:
    """How something that starts with `head` is compressed, "" where it is not."""
    return next((kind for mark, kind in _MAGIC if mark.match(head)), "")


def _unpacker(kind: str, stream: io.BufferedReader) -> Any:
    if kind == "zstd":  # 128 MiB: the largest window that `zstd` makes without asking its reader for more
        wide = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        return wide.stream_reader(cast(Any, _Whole(stream)), read_across_frames=True)
    if kind == "gzip":
        return gzip.GzipFile(fileobj=stream)
    if kind == "xz":
        return _Streams(stream, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DICTIONARY))
    return _Streams(stream, bz2.BZ2Decompressor)


class _Guarded(io.RawIOBase):
    """Gives what is unpacked as soon as it is there, and stops a bomb."""

    def __init__(self, source: Any, read: Callable[[], int]) -> None:
        self._source, self._read, self._given = source, read, 0
        self._next = getattr(source, "read1", source.read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._given > FREE_BYTES and self._given > MAX_RATIO * max(1, self._read()):
            raise ValueError(f"expands more than {MAX_RATIO}-fold: the rest was not read")
        data = self._next(min(len(buffer), _STEP))
        buffer[: len(data)] = data
        self._given += len(data)
        return len(data)


class _Streams:
    """Compressed streams one behind the other, as the tools write them when they append."""

    def __init__(self, stream: io.BufferedReader, make: Callable[[], Any]) -> None:
        self._stream, self._make, self._one = stream, make, make()

    def read(self, size: int) -> bytes:
        """At least one byte, empty at the end."""
        data = b""
        while not data:
            packed_bytes = self._more()
            if packed_bytes is None:
                return b""
            data = self._one.decompress(packed_bytes, size)
        return data

    def _more(self) -> bytes | None:
        """The next input, None at the end of all streams."""
        if self._one.eof:
            rest = (self._one.unused_data or b"").lstrip(b"\0")
            while not rest and (chunk := self._stream.read1(CHUNK)):
                rest = chunk.lstrip(b"\0")  # padding
            if not rest:
                return None
            self._one = self._make()
            return bytes(rest)
        if not self._one.needs_input:
            return b""
        chunk = self._stream.read1(CHUNK)
        if not chunk:
            raise EOFError("cut: it ends before its end mark")
        return chunk


class _Whole:
    """Follows the frames of a zstd stream: its decompressor takes a cut file for a whole one."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream, self._frames = stream, Frames()

    def read(self, size: int = -1) -> bytes:
        """The next packed bytes. Raises EOFError at an end inside a frame."""
        data = self._stream.read1(min(size, CHUNK) if size > 0 else CHUNK)
        self._frames.feed(data)
        if not data and not self._frames.whole:
            raise EOFError("cut: it ends before its end mark")
        return data


class Frames:
    """Where a zstd stream stands, from the sizes that its frames and blocks tell (RFC 8878, section 3.1)."""

    def __init__(self) -> None:
        self._held, self._skip, self._step, self._sum = b"", 0, "magic", 0

    @property
    def whole(self) -> bool:
        """Whether the stream may end here."""
        return self._step == "magic" and not self._held and not self._skip

    def feed(self, data: bytes) -> None:
        """Takes the next bytes; after something that is no frame nothing more is told."""
        at = 0
        while at < len(data) and self._step != "lost":
            if self._skip:
                passed = min(self._skip, len(data) - at)
                self._skip, at = self._skip - passed, at + passed
                continue
            need = {"magic": 4, "size": 4, "descriptor": 1, "block": 3}[self._step] - len(self._held)
            self._held, at = self._held + data[at : at + need], at + need
            if at <= len(data):
                held, self._held = self._held, b""
                self._advance(held)

    def _advance(self, field: bytes) -> None:
        value = int.from_bytes(field, "little")
        if self._step == "magic":
            skippable = value & 0xFFFFFFF0 == 0x184D2A50
            self._step = "descriptor" if value == 0xFD2FB528 else "size" if skippable else "lost"
        elif self._step == "size":
            self._skip, self._step = value, "magic"
        elif self._step == "descriptor":
            single, self._sum = value >> 5 & 1, value >> 2 & 1
            content = (single, 2, 4, 8)[value >> 6]
            self._skip, self._step = (0 if single else 1) + (0, 1, 2, 4)[value & 3] + content, "block"
        else:
            last, kind, size = value & 1, value >> 1 & 3, value >> 3
            self._skip = 1 if kind == 1 else size
            if last:
                self._skip, self._step = self._skip + 4 * self._sum, "magic"
