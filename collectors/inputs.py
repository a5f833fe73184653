"""Walks what the user names (files, folders, archives, compressed files) and opens each part as a stream of chunks.

A thin shell: all I/O of the offline path is here. Nothing is unpacked to disk, nothing is held whole, special files are
never opened, links are followed once, and a part that cannot be read is an input with a reason, never silence.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import zstandard

CHUNK = 1 << 20
MAX_BYTES = 64 << 30  # per input, after decompression: a bomb ends here and is told, a 5 GB log is far below
MAX_INPUTS = 100_000
HEAD = 64 << 10  # what the sniffer looks at

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
)
READ_ERRORS = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Input:
    """One readable part. `path` is how people find it (`logs.tar.gz!/h17/dmesg`), `problem` why it has no chunks."""

    path: str
    open: Callable[[], Iterator[bytes]] | None = None
    problem: str = ""


def walk(paths: Iterable[Path]) -> Iterator[Input]:
    """All inputs under `paths`, in a stable order. At most MAX_INPUTS, the rest told as one with a problem."""
    count = 0
    for path in paths:
        for found in _under(path):
            count += 1
            if count > MAX_INPUTS:
                yield Input(shown(path), problem=f"more than {MAX_INPUTS} inputs: the rest was not read")
                return
            yield found


def _under(path: Path, seen: set[tuple[int, int]] | None = None) -> Iterator[Input]:
    try:
        info = path.stat()
        entries = sorted(os.listdir(path)) if stat.S_ISDIR(info.st_mode) else []
    except OSError as error:
        yield Input(shown(path), problem=reason(error))
        return
    if stat.S_ISREG(info.st_mode):
        yield from _file(path)
    elif not stat.S_ISDIR(info.st_mode):
        yield Input(shown(path), problem="not a file or folder: special files are not opened")
    elif (key := (info.st_dev, info.st_ino)) not in (seen := set() if seen is None else seen):
        seen.add(key)  # a link back to a folder that was walked ends here
        for entry in entries:
            yield from _under(path / entry, seen)


def _file(path: Path) -> Iterator[Input]:
    try:
        with _stream(path) as stream:
            archive = _is_tar(stream.peek(512))
            names = _names(stream) if archive else []
    except READ_ERRORS as error:
        yield Input(shown(path), problem=reason(error))
        return
    if not archive:
        yield Input(shown(path), open=lambda: _chunks(path))
    for index, name in enumerate(names):
        if name:
            yield Input(f"{shown(path)}!/{_text(name)}", open=partial(_member, path, index))


@contextmanager
def _stream(path: Path) -> Iterator[io.BufferedReader]:
    with path.open("rb", buffering=0) as raw:
        yield _decompressed(io.BufferedReader(raw, CHUNK))


def _decompressed(stream: io.BufferedReader) -> io.BufferedReader:
    """`stream` through as many decompressors as its magic bytes ask for, at most two (`x.tar.gz` inside an archive)."""
    for _ in range(2):
        magic = stream.peek(8)[:8]
        kind = next((kind for prefix, kind in _MAGIC if magic.startswith(prefix)), "")
        if not kind:
            break
        stream = io.BufferedReader(_decompressor(kind, stream), CHUNK)
    return stream


def _decompressor(kind: str, stream: io.BufferedReader) -> io.RawIOBase:
    if kind == "zstd":  # 128 MiB: the largest window that `zstd` makes without asking its reader for more
        wide = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        return cast(io.RawIOBase, wide.stream_reader(stream, read_across_frames=True))
    if kind == "gzip":
        return _Eager(gzip.GzipFile(fileobj=stream))
    return _Eager(bz2.BZ2File(stream) if kind == "bzip2" else lzma.LZMAFile(stream))


class _Eager(io.RawIOBase):
    """Gives what is decompressed so far: of a file that is cut in the middle, all that came before is read."""

    def __init__(self, stream: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile) -> None:
        self._decompressing = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._decompressing.read1(min(len(buffer), 1 << 16))
        buffer[: len(data)] = data
        return len(data)


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _names(stream: io.BufferedReader) -> list[str]:
    """The names of the members by position, "" for those that are no files: links and devices are not followed."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        return [member.name if member.isfile() else "" for member in archive]


def _chunks(path: Path) -> Iterator[bytes]:
    with _stream(path) as stream:
        yield from _capped(stream)


def _member(path: Path, wanted: int) -> Iterator[bytes]:
    """One member, by a new pass over the archive: archives of logs are few and small."""
    with _stream(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for index, member in enumerate(archive):
            if index == wanted and (content := archive.extractfile(member)):
                yield from _capped(_decompressed(cast(io.BufferedReader, content)))
                return


def _capped(stream: io.BufferedReader) -> Iterator[bytes]:
    left = MAX_BYTES
    while left > 0 and (chunk := stream.read1(min(CHUNK, left))):
        left -= len(chunk)
        yield chunk
    if left <= 0 and stream.peek(1):
        raise ValueError(f"longer than {MAX_BYTES >> 30} GiB after decompression: the rest was not read")


def shown(path: Path) -> str:
    """A path as text that every output can carry: bytes that are no UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def _text(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def reason(error: BaseException) -> str:
    """What to tell people about an input that could not be read, or not to its end."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__)[:200]
