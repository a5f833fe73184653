"""Bundles of evidence beside the spool: a folder each, of a bounded size in all, the oldest given up first."""

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

MOST_FILE = 1 << 20
_STRANGE = re.compile(r"[^A-Za-z0-9.-]+")
_OURS = re.compile(r"\d{8}T\d{6}\.\d{3}Z-")


class Evidence:
    """The bundles of one host in a folder of their own."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most = folder, most_bytes

    def save(self, what: str, at_ms: int, files: Mapping[str, bytes]) -> Path | None:
        """A new bundle; None where nothing is to be kept. Raises OSError."""
        size = sum(min(len(data), MOST_FILE) for data in files.values())
        if size > self._most:
            return None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room(size)
        stamp = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S") + f".{at_ms % 1000:03}Z"
        path = self._folder / f"{stamp}-{_STRANGE.sub('_', what)[:120]}"
        if path.exists():
            return None
        hidden = self._folder / f".{path.name}"
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir(mode=0o700)
        for name, data in files.items():
            (hidden / _STRANGE.sub("_", name)).write_bytes(data[:MOST_FILE])
        hidden.rename(path)
        return path

    @property
    def size(self) -> int:
        """Bytes in all bundles."""
        return sum(_size(path) for path in self._bundles())

    def _bundles(self) -> list[Path]:
        """The oldest first. A link among them is nobody's bundle, and leads elsewhere."""
        with suppress(OSError), os.scandir(self._folder) as found:
            ours = (one for one in found if _OURS.match(one.name.lstrip(".")) and one.is_dir(follow_symlinks=False))
            return sorted(Path(one.path) for one in ours)
        return []

    def _make_room(self, more: int) -> None:
        bundles = self._bundles()
        sizes = [_size(path) for path in bundles]
        held = sum(sizes)
        for path, size in zip(bundles, sizes, strict=True):
            if held + more <= self._most:
                return
            shutil.rmtree(path, ignore_errors=True)
            held -= size - _size(path)


def _size(path: Path) -> int:
    total = 0
    with suppress(OSError):
        total = sum(one.stat(follow_symlinks=False).st_size for one in os.scandir(path))
    return total
