"""A saved `nvme smart-log -o json`: what a disk says of its own health. Which disk stands in the file's name only."""

import re
from collections.abc import Iterable, Iterator

from collectors.formats.disk_files import Disks, smart_log
from collectors.formats.reading import Reading, Tally
from collectors.formats.text import start_of
from sickbay.components import UNKNOWN

MAX_BYTES = 1 << 20
_KEYS = (b'"critical_warning"', b'"avail_spare"', b'"media_errors"')
_DISK = re.compile(r"(?<![A-Za-z0-9])(nvme\d{1,4})(?=n\d{1,4}(?![0-9A-Za-z])|[^0-9A-Za-z]|$)")


def confidence(head: bytes, name: str) -> float:
    """High for an object with the log's own keys."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return 0.95 if start[:1] == b"{" and all(key in start for key in _KEYS) else 0.0


def read(chunks: Iterable[bytes], tally: Tally, name: str = "") -> Iterator[Reading]:
    """The critical warning, where there is one."""
    raw = start_of(chunks, MAX_BYTES)
    told = smart_log(raw.decode("utf-8", "replace")) if len(raw) <= MAX_BYTES else {}
    if not told:
        tally.unparsed += 1
        tally.note("no whole health log")
    named = _DISK.findall(name.replace("\\", "/").rpartition("/")[2])
    yield from map(Reading, Disks().health(named[-1] if named else UNKNOWN, told))
