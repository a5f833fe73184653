"""A file that grows, read as it does: whole lines only, through rotation, truncation, junk and lines without end."""

import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from collectors.formats.text import MAX_LINE

CHUNK = 128 << 10  # bytes read at once
PASS = 512 << 10  # bytes read in one pass: half a second where every line is an event
FIRST_LOOK = 256 << 10  # bytes of an old file that a first look goes back
_HEAD = 256  # bytes by which a file that was written anew is told from the one that was read


class Place(Struct, frozen=True):
    """Where to read on: the file, how it begins, the offset of the next line and its number."""

    device: int
    inode: int
    offset: int
    line: int
    numbered: bool
    head_size: int
    head_crc: int


class Lines(NamedTuple):
    """Whole lines. `numbered`: `first` counts from the file's beginning, else from where it was joined. `again`: an
    earlier run told of them already; they are read for what they begin. `placed`: they stood in the file when it was
    first seen in the place of another one."""

    text: bytes
    first: int
    numbered: bool
    again: bool = False
    placed: bool = False


class Resume(NamedTuple):
    """Where to read on, and up to where everything was told; the same unless something was begun and not yet told."""

    read: bytes
    told: bytes

    def encoded(self) -> bytes:
        """For the spool."""
        return msgspec.json.encode((self.read.decode(), self.told.decode()))


def resume_of(place: bytes | None) -> Resume | None:
    """What `encoded` made; None for nothing and for what is damaged."""
    try:
        read, told = msgspec.json.decode(place or b"", type=tuple[str, str])
    except msgspec.DecodeError:
        return None
    return Resume(read.encode(), told.encode())


class Growing:
    """Follows one path. `resume`: where an earlier run stopped; without it, it begins near the end of what is there."""

    def __init__(self, path: Path, resume: Resume | None = None, *, whole: bool = False) -> None:
        self._path, self._handle = path, -1
        self._from, self._told = (_decoded(resume.read), _decoded(resume.told)) if resume else (None, None)
        self._whole = whole or self._from is not None  # else only the end of what is there at the first look
        self._identity = (0, 0)
        self._offset = 0
        self._line, self._numbered = 1, True
        self._tail, self._skipping = b"", False
        self._head = (0, 0)
        self._looked_again = False
        self._placed = False
        self._still: tuple[int, ...] = ()  # the file as it was when all of it had been read
        self.cut = 0  # lines that were too long
        self.at_end = False

    def read(self) -> Iterator[Lines]:
        """New whole lines, at most about PASS bytes; `at_end` tells whether that was all. Raises OSError."""
        self.at_end = False
        left, self._looked_again, looks = PASS, False, self._looks()
        if not self.begun() and self._rewritten():
            self._begin_anew()
            self._told, self._placed = None, True
        while left > 0:
            data = os.pread(self._handle, self._wanted(), self._offset)
            left -= len(data)
            self._offset += len(data)
            if lines := self._whole_lines(data):
                yield lines
            if not data and not self._newer():
                self.at_end, self._placed = True, False
                break
            if not data and self._looked_again:
                if self._tail:
                    yield Lines(self._tail + b"\n", self._line, self._numbered, self._told is not None)
                self._take(self._path)
                self._placed = True
                if self._told is not None and self._identity != (self._told.device, self._told.inode):
                    self._told = None
            self._looked_again = not data
        self._remember_head()
        same = self.at_end and looks[:3] == (*self._identity, self._offset)
        self._still = looks if same else ()

    def still(self) -> bool:
        """Whether the file is as it was when all of it had been read: one question where a look asks four."""
        return bool(self._still) and self._handle >= 0 and self._still == self._looks()

    def _looks(self) -> tuple[int, ...]:
        try:
            told = os.stat(self._path)
        except OSError:
            return ()
        return (told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns)

    def begun(self) -> bool:
        """Open the file where it is not open yet; True if it was not. Raises OSError."""
        if self._handle >= 0:
            return False
        self._open()
        return True

    def _wanted(self) -> int:
        """How much to read: no further than to where an earlier run had told everything."""
        told = self._told
        if told is not None and self._identity == (told.device, told.inode):
            if self._offset < told.offset:
                return min(CHUNK, told.offset - self._offset)
            self._told = None
        return CHUNK

    @property
    def place(self) -> bytes:
        """Where the first line begins that was not given yet."""
        whole = Place(*self._identity, self._offset - len(self._tail), self._line, self._numbered, *self._head)
        return msgspec.json.encode(whole)

    def close(self) -> None:
        """Let the file go."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _open(self) -> None:
        start = self._from
        if start is not None and not _is(self._path, start):
            rotated = self._path.with_name(self._path.name + ".1")
            if _is(rotated, start):  # finish the old file first, then go on with the new one
                self._take(rotated)
                self._offset, self._line, self._numbered = start.offset, start.line, start.numbered
                self._from = None
                return
            start = self._told = None
        self._take(self._path)
        size = os.fstat(self._handle).st_size
        fits = start is not None and start.offset <= size and self._crc(start.head_size) == start.head_crc
        if start is not None and fits:
            self._offset, self._line, self._numbered = start.offset, start.line, start.numbered
            self._head = (start.head_size, start.head_crc)
        else:
            self._told = None
        if not fits and not self._whole and size > FIRST_LOOK:
            self._offset, self._numbered, self._skipping = size - FIRST_LOOK, False, True
        self._from, self._whole = None, True

    def _take(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        told = os.fstat(handle)
        if not stat.S_ISREG(told.st_mode):
            os.close(handle)
            raise OSError(f"{path} is no file")
        self.close()
        self._handle, self._identity = handle, (told.st_dev, told.st_ino)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._offset, self._line, self._numbered, self._head = 0, 1, True, (0, 0)
        self._tail, self._skipping = b"", False

    def _rewritten(self) -> bool:
        """Whether the open file is not the one that was read so far: shorter, or with another beginning."""
        size = os.fstat(self._handle).st_size
        return size < self._offset or (size != self._offset and self._crc(self._head[0]) != self._head[1])

    def _newer(self) -> bool:
        """At the end of a file: whether another one lies at its path and is written to.

        An empty one is not yet: the writer goes on with the old one until it is told to open anew. And what it wrote
        to the old one in between is read by looking there once more.
        """
        try:
            told = os.stat(self._path)
        except OSError:
            return False  # moved away, and the new one is not there yet
        return (told.st_dev, told.st_ino) != self._identity and stat.S_ISREG(told.st_mode) and told.st_size > 0

    def _remember_head(self) -> None:
        size = min(_HEAD, self._offset)
        if size > self._head[0]:
            self._head = (size, self._crc(size))

    def _crc(self, size: int) -> int:
        return zlib.crc32(os.pread(self._handle, size, 0)) if size else 0

    def _whole_lines(self, data: bytes) -> Lines | None:
        """The lines that `data` completes. A carriage return ends one too: progress bars may never end theirs."""
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return None
            self._skipping, data = False, data[end + 1 :]
            self._line += self._numbered
        data = self._tail + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._tail = data[end:]
        if len(self._tail) > MAX_LINE:
            self._tail, self._skipping = b"", True
            self.cut += 1
        if not end:
            return None
        lines = Lines(data[:end], self._line, self._numbered, self._told is not None, self._placed)
        self._line += data.count(b"\n", 0, end)
        return lines


def _decoded(place: bytes | None) -> Place | None:
    try:
        return None if place is None else msgspec.json.decode(place, type=Place)
    except msgspec.DecodeError:
        return None


def _is(path: Path, place: Place) -> bool:
    try:
        told = os.stat(path)
    except OSError:
        return False
    return (told.st_dev, told.st_ino) == (place.device, place.inode)
