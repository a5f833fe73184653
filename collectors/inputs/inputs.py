"""Walks what the user names (files, folders, archives, compressed files) and opens each part as a stream of chunks.

A thin shell: all I/O of the offline path is here. Nothing is unpacked to disk, nothing is held whole, special files are
never opened, links are followed once, and a part that cannot be read is an input with a reason, never silence.
"""

import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from collectors.inputs.tar import BLOCK, Member, is_header, members
from collectors.inputs.unpack import CHUNK, UNPACK_ERRORS, unpacked

MAX_BYTES = 64 << 30  # per input, after decompression: a bomb ends here and is told, a 5 GB log is far below
MAX_INPUTS = 100_000
MAX_NESTED = 3  # archives inside archives
MAX_SHOWN = 4096  # characters of a path that are shown: the longest path a system opens
HEAD = 64 << 10  # what the sniffer looks at
READ_ERRORS = UNPACK_ERRORS
_NO_FILE = "not a file or folder: special files are not opened"
# Without waiting: a pipe that takes the place of a file between the look and the opening must not stop everything.
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Input:
    """One readable part. `path` is how people find it (`logs.tar.gz!/h17/dmesg`), `problem` why it has no chunks.

    A member of an archive can be opened until the next input is asked for: archives are read in one pass.
    """

    path: str
    open: Callable[[], Iterator[bytes]] | None = None
    problem: str = ""


@dataclass(slots=True)
class _Seen:
    """What was walked already: a thing that is named twice, or linked back to, is read once."""

    folders: set[tuple[int, int]] = field(default_factory=set)
    files: dict[tuple[int, int], str] = field(default_factory=dict)

    def folder(self, info: os.stat_result) -> bool:
        """Whether the folder is new."""
        key = (info.st_dev, info.st_ino)
        new = key not in self.folders
        self.folders.add(key)
        return new

    def file(self, info: os.stat_result, path: str) -> bool:
        """Whether the file is new. Two names of equal rank (hard links) are two files: their folders may tell hosts."""
        known = self.files.setdefault((info.st_dev, info.st_ino), path)
        return known is path or os.path.realpath(known) != os.path.realpath(path)


def walk(paths: Iterable[Path]) -> Iterator[Input]:
    """All inputs under `paths`, in a stable order. At most MAX_INPUTS, the rest told as one with a problem."""
    count, seen = 0, _Seen()
    for path in paths:
        for found in _under(os.fspath(path), seen):
            count += 1
            if count > MAX_INPUTS:
                yield Input(shown(path), problem=f"more than {MAX_INPUTS} inputs: the rest was not read")
                return
            yield replace(found, path=found.path[-MAX_SHOWN:])


def _under(top: str, seen: _Seen) -> Iterator[Input]:
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            info = os.stat(path)
            if stat.S_ISDIR(info.st_mode):
                waiting += _entries(path) if seen.folder(info) else []
                continue
        except (OSError, ValueError) as error:
            yield Input(shown(path), problem=reason(error))
            continue
        if not stat.S_ISREG(info.st_mode):
            yield Input(shown(path), problem=_NO_FILE)
        elif seen.file(info, path):
            yield from _file(path)


def _entries(folder: str) -> list[str]:
    """What lies in a folder, the first in the alphabet last."""
    with os.scandir(folder) as found:
        return sorted((entry.path for entry in islice(found, MAX_INPUTS + 1)), reverse=True)


def _file(path: str) -> Iterator[Input]:
    try:
        with _stream(path) as (stream, raw):
            if is_header(stream.peek(BLOCK)):
                yield from _archive(_Opened(stream, raw.tell, shown(path)), 1)
                return
    except READ_ERRORS as error:
        yield Input(shown(path), problem=reason(error))
        return
    yield Input(shown(path), open=lambda: _chunks(path))


class _Opened(NamedTuple):
    """An archive while it is read. `read` tells how much of the file round it is read."""

    stream: io.BufferedReader
    read: Callable[[], int]
    path: str


def _archive(archive: _Opened, depth: int) -> Iterator[Input]:
    """The members of an archive, and last what stopped the reading of it."""
    files: set[str] = set()
    try:
        for member in members(archive.stream):
            path = f"{archive.path}!/{member.name}"
            if member.kind == "file":
                files.add(member.name[-MAX_SHOWN:])
                yield from _member(member, archive._replace(path=path), depth)
            elif problem := _left_out(member, files):
                yield Input(path, problem=problem)
    except READ_ERRORS as error:
        yield Input(archive.path, problem=reason(error))


def _left_out(member: Member, files: set[str]) -> str:
    """Why a member that is no file is not read, "" where nothing is lost by that: what it links to was read."""
    if member.kind == "folder":
        return ""
    if member.kind == "special":
        return _NO_FILE
    beside = os.path.normpath(os.path.join(os.path.dirname(member.name), member.target))
    return "" if {member.target, beside} & files else "a link inside an archive: not followed"


def _member(member: Member, place: _Opened, depth: int) -> Iterator[Input]:
    """A file of an archive; its content is gone once the next is asked for."""
    try:
        content = unpacked(io.BufferedReader(member.content, CHUNK), place.read)
        nested = is_header(content.peek(BLOCK))
    except READ_ERRORS as error:
        yield Input(place.path, problem=reason(error))
        return
    if nested and depth < MAX_NESTED:
        yield from _archive(place._replace(stream=content), depth + 1)
    elif nested:
        yield Input(place.path, problem=f"archives inside archives, more than {MAX_NESTED} deep: not read")
    else:
        current = [content]
        yield Input(place.path, open=lambda: _content(current))
        current.clear()


def _content(current: list[io.BufferedReader]) -> Iterator[bytes]:
    if not current:
        raise ValueError("this member of an archive was passed over")
    yield from _capped(current[0], MAX_BYTES)


@contextmanager
def _stream(path: str) -> Iterator[tuple[io.BufferedReader, io.FileIO]]:
    """What the file holds, unpacked, and the file itself."""
    with io.FileIO(os.open(path, _OPEN)) as raw:
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise OSError(_NO_FILE)
        yield unpacked(io.BufferedReader(raw, CHUNK), raw.tell), raw


def _chunks(path: str) -> Iterator[bytes]:
    with _stream(path) as (stream, raw):
        # What is appended while we read is not of this look: a fast writer must not keep us here.
        size = os.fstat(raw.fileno()).st_size if stream.raw is raw else 0
        yield from _capped(stream, size or MAX_BYTES)


def _capped(stream: io.BufferedReader, limit: int) -> Iterator[bytes]:
    left = min(limit, MAX_BYTES)
    while left > 0 and (chunk := stream.read1(min(CHUNK, left))):
        left -= len(chunk)
        yield chunk
    if left <= 0 and limit >= MAX_BYTES and stream.peek(1):
        raise ValueError(f"longer than {MAX_BYTES >> 30} GiB after decompression: the rest was not read")


def shown(path: str | Path) -> str:
    """A path as text that every output can carry: bytes that are no UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def reason(error: BaseException) -> str:
    """What to tell people about an input that could not be read, or not to its end."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__)[:200]
