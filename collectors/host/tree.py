"""Files below the host's root: what is not there says nothing, what cannot be read is a stated trouble.

Files of /sys and /proc are small; of a larger one only the beginning is read. No path leads out of what the caller
names, and nothing is ever written.
"""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 64 << 10  # of one file, unless the caller asks for more
MOST_SMALL = 4096  # of a file of one value
MOST_OPEN = 512  # files of one collector: 8 adapters have some 200
MOST_ROW = 4096
MOST_NAMES = 4096  # of one folder
MOST_TROUBLES = 3  # told of one pass
# The file is not there, its device has gone, or it has no value now (the speed of an interface that is down).
_NOTHING = frozenset(
    {
        errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODATA,
        errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG,
    }
)  # fmt: skip


@dataclass(slots=True)
class Tree:
    """Reads below `root`. Troubles gather until `blind` takes them."""

    root: Path
    _troubles: dict[str, str] = field(default_factory=dict)
    _open: dict[str, int] = field(default_factory=dict)  # files that are read again and again

    def read(self, path: str, most: int = MOST_BYTES) -> str:
        """The text of a file, stripped; "" where there is nothing to read."""
        try:
            handle = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                raw = _whole(handle, most)
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            self._trouble(path, error)
            return ""
        return raw.decode("utf-8", "replace").strip()

    def again(self, path: str) -> str:
        """As `read`, for a small file that is read every second: it stays open until `let_go`.

        The kernel makes the text anew at each read from the beginning; a file whose device has gone says so.
        """
        handle = self._open.get(path)
        try:
            if handle is None:
                handle = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
                if len(self._open) >= MOST_OPEN:
                    self.let_go()
                self._open[path] = handle
            raw = os.pread(handle, MOST_SMALL, 0)
        except (OSError, ValueError) as error:
            if (stale := self._open.pop(path, None)) is not None:
                os.close(stale)
            self._trouble(path, error)
            return ""
        return raw.decode("utf-8", "replace").strip()

    def let_go(self) -> None:
        """Close what is open: another device may have the name of one that was here."""
        while self._open:
            os.close(self._open.popitem()[1])

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; none where there is no such folder."""
        try:
            return sorted(os.listdir(self._at(path)))[:MOST_NAMES]
        except (OSError, ValueError) as error:
            self._trouble(path, error)
            return []

    def written_ns(self, path: str) -> int | None:
        """When a file was last written, None where it is not there."""
        try:
            return os.stat(self._at(path)).st_mtime_ns
        except (OSError, ValueError) as error:
            self._trouble(path, error)
            return None

    def rows(self, path: str, most: int) -> list[str] | None:
        """The lines of a text file, each cut to what matters; None where it cannot be read whole."""
        found, size = list[str](), 0
        try:
            with open(self._at(path), encoding="utf-8", errors="replace") as file:
                while row := file.readline(MOST_ROW):
                    found.append(row[:500])
                    size += len(row)
                    if size > most:
                        self._troubles[path] = f"is larger than {most} bytes"
                        return None
        except (OSError, ValueError) as error:
            self._trouble(path, error)
            return None
        return found

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        try:
            return os.path.lexists(self._at(path))
        except ValueError:
            return False

    def leads_to(self, path: str) -> list[str]:
        """The pieces of the path that a link leads to, below the root where it stays there; none for no link."""
        try:
            whole = os.path.realpath(self._at(path))
        except (OSError, ValueError):
            return []
        if not os.path.lexists(whole):
            return []
        inside = os.path.relpath(whole, os.path.realpath(self.root))
        return [] if inside.startswith("..") else inside.split("/")

    def blind(self) -> str:
        """Why something could not be read since the last call, "" where all could."""
        told, self._troubles = self._troubles, {}
        text = "; ".join(f"{path}: {why}" for path, why in list(told.items())[:MOST_TROUBLES])
        return text + (f"; and {len(told) - MOST_TROUBLES} more" if len(told) > MOST_TROUBLES else "")

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _trouble(self, path: str, error: OSError | ValueError) -> None:
        if isinstance(error, OSError) and error.errno in _NOTHING:
            return
        if len(self._troubles) < MOST_NAMES:
            self._troubles[path] = (error.strerror if isinstance(error, OSError) else "") or str(error)


def _whole(handle: int, most: int) -> bytes:
    """Up to `most` bytes. Files of /proc give a page at a time."""
    raw = os.read(handle, most)
    if len(raw) < 4096:  # all of a small file
        return raw
    pieces = [raw]
    size = len(raw)
    while size < most and (piece := os.read(handle, most - size)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
