"""The system's journal as it grows, by `journalctl --follow`: lines of JSON, and the cursor up to which they were read.

The journal keeps what was written while nobody read, so a restart reads on from its cursor. A place that the journal no
longer has is told as a loss.
"""

import errno
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from collectors.formats.json_lines import of_person
from collectors.host.growing import Lines, Resume
from collectors.host.tool import ENVIRONMENT

FOLDERS = ("var/log/journal", "run/log/journal")
CHUNK, PASS = 64 << 10, 512 << 10  # bytes of one read, and of one pass
MAX_LINE = 64 << 10  # one entry; longer ones are passed over
AGAIN_S = 10.0  # between two beginnings of a tool that ends by itself
FIRST_S, QUIET_S = 1.5, 0.2  # that its first words are waited for, and the next of what stood there before
FIRST_LINES = "200"  # that a first look goes back
_UID = re.compile(rb'"_UID"\s?:\s?"(\d{1,10})"')  # set by the journal itself; inside a text the quotes are escaped
_UNIT = re.compile(rb'"_SYSTEMD_UNIT"\s?:\s?"([\w.@-]{1,200})"', re.ASCII)
_CURSOR = re.compile(rb'"__CURSOR"\s?:\s?"([\x21\x23-\x7e]{1,500})"')


class Journal:
    """One follower. `matches`: what journalctl is to select, such as `-k` or `-t slurmd`."""

    live = False

    def __init__(self, root: Path, matches: Sequence[str], resume: Resume | None) -> None:
        self._root, self._matches = root, tuple(matches)
        self._cursor, self._told = _decoded(resume.read if resume else b""), _decoded(resume.told if resume else b"")
        self._cursor = self._cursor or self._told
        self._process: subprocess.Popen[bytes] | None = None
        self._rest, self._skipping = b"", False
        self._again = bool(self._told) and self._told != self._cursor
        self._begun, self._lost, self._begun_s = False, 0, -AGAIN_S
        self._heard, self._settling = False, True
        self.at_end = False

    @property
    def handle(self) -> int:
        """What can be waited for; -1 while no tool runs."""
        process = self._process
        return -1 if process is None or process.stdout is None else process.stdout.fileno()

    def begun(self) -> bool:
        """True once, before anything is read."""
        begun, self._begun = self._begun, True
        return not begun

    def read(self) -> Iterator[Lines]:
        """New entries, at most about PASS bytes. Raises OSError where the journal cannot be followed."""
        self.at_end = False
        handle = self._started()
        left = PASS
        while left > 0:
            try:
                piece = os.read(handle, CHUNK)
            except BlockingIOError:
                if self._settling and self._more_comes(handle):
                    continue
                self.at_end, self._settling = True, False
                return
            if not piece:
                self._ended()
            left -= len(piece)
            yield from self._entries(piece)

    def _more_comes(self, handle: int) -> bool:
        """Whether it goes on with what stood there when it began: that is history, where nothing was read before."""
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll((QUIET_S if self._heard else FIRST_S) * 1000))

    def boot_ms(self, now_ms: int) -> float | None:
        """Entries tell their own time."""
        return None

    def lost(self) -> int:
        """Entries that were too long, and places that the journal no longer has, since the last call."""
        lost, self._lost = self._lost, 0
        return lost

    @property
    def place(self) -> bytes:
        """The cursor of the last entry."""
        return msgspec.json.encode(self._cursor)

    def close(self) -> None:
        """End the tool."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError, PermissionError):
                process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
            if process.stdout is not None:
                process.stdout.close()

    def _entries(self, piece: bytes) -> Iterator[Lines]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > MAX_LINE:
            self._rest, self._skipping = b"", True
            self._lost += 1
        for line in lines:
            if self._skipping:
                self._skipping = False
                continue
            self._heard = True
            cursor = _CURSOR.search(line[:2_000]) or _CURSOR.search(line)
            again = self._again
            if cursor is not None:
                self._cursor = cursor[1].decode("ascii")
                self._again = self._again and self._cursor != self._told
            if not of_user(line):
                yield Lines(line + b"\n", 0, False, again)

    def _started(self) -> int:
        if self._process is None:
            if time.monotonic() - self._begun_s < AGAIN_S:
                raise OSError(errno.EPIPE, "journalctl ended by itself")
            self._begun_s, self._heard, self._settling = time.monotonic(), False, True
            self._process = self._popen()
            assert self._process.stdout is not None
            os.set_blocking(self._process.stdout.fileno(), False)
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _popen(self) -> "subprocess.Popen[bytes]":
        path = shutil.which("journalctl", path=os.environ.get("PATH", "") + ":" + ENVIRONMENT["PATH"])
        if path is None:
            raise FileNotFoundError(errno.ENOENT, "journalctl is not installed")
        since = [f"--after-cursor={self._cursor}", "--no-tail"] if self._cursor else ["-n", FIRST_LINES]
        where = [] if self._root == Path("/") else ["-D", str(next(iter(folders(self._root)), self._root / FOLDERS[0]))]
        command = [path, "-q", "-f", "-o", "json", "--no-pager", *since, *where, *self._matches]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
            start_new_session=True,
        )  # fmt: skip

    def _ended(self) -> None:
        """Raises OSError. One that ended before it told anything knows no such cursor: the next begins near the end."""
        self.close()
        self._rest, self._skipping = b"", False
        if self._cursor and not self._heard:
            self._cursor, self._told, self._again = "", "", False
            self._lost += 1
        raise OSError(errno.EPIPE, "journalctl ended by itself")


def of_user(line: bytes) -> bool:
    """Whether a person's process wrote the entry: what it says is no daemon's word."""
    told, unit = _UID.search(line), _UNIT.search(line)
    return told is not None and of_person(int(told[1]), unit[1].decode("ascii") if unit else "")


def folders(root: Path) -> list[Path]:
    """Where a journal lies, if there is one."""
    return [root / folder for folder in FOLDERS if next((root / folder).glob("*/*.journal"), None) is not None]


def readable(root: Path) -> bool:
    """Whether this process may read a file of the journal."""
    files = (file for folder in folders(root) for file in folder.glob("*/*.journal"))
    return any(os.access(file, os.R_OK) for file in files)


def _decoded(place: bytes) -> str:
    try:
        return msgspec.json.decode(place, type=str)
    except msgspec.DecodeError:
        return ""
