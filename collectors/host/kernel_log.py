"""The kernel's messages: from the device that gives each record at once, or from a file that a logger writes."""

import errno
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from collectors.agent.source import Collected, Host, Seen
from collectors.host.growing import Growing, Lines, Resume, resume_of
from collectors.host.journal_follow import Journal, readable
from collectors.lines import Dated, Follower

INTERVAL_S = 0.5  # between two looks at a file: an event must leave within a second of its line
DETAILS_S = 0.25
TOLD_S = 10.0  # between two looks at what tells of its news
RECORD_BYTES = 16 << 10  # the kernel's records are at most about 8 KiB, escapes included
MAX_RECORDS = 5_000  # of one pass
BOOT_S = 10.0  # that time stands still there: the file tells of every processor, which costs a millisecond
_SEQUENCE = re.compile(rb"\d{1,4},(\d{1,19}),")
_BOOT_TIME = re.compile(r"^btime (\d{1,12})$", re.MULTILINE)


class KernelLog:
    """The collector `kernel_log`."""

    name = "kernel_log"
    asks_driver = False
    look_s = INTERVAL_S

    def __init__(self, host: Host) -> None:
        self._host, self._path = host, host.root / host.settings.kernel_log
        self._resume = resume_of(host.places(self.name))
        self._follower = Follower(host.zone, history=self._resume is None, placed=False)
        self._shown = host.settings.kernel_log
        self._whole = False
        self._quiet: Collected | None = None  # what a look tells that finds the file as it was
        self._source: File | Device | Journal | None = None

    def collect(self, now_ms: int) -> Collected:
        """New messages as events."""
        if self._quiet is not None and isinstance(self._source, File) and self._follower.idle and self._source.still():
            self._follower.caught_up(now_ms)
            return self._quiet
        self._quiet = None
        try:
            source = self._source = self._source or self._opened()
            if source.begun():
                self._follower.began(source.place)
            dated = self._follower.take(source.read(), now_ms, boot_ms=source.boot_ms(now_ms), live=source.live)
        except OSError as error:
            self._failed(error, now_ms)
            return Collected(problem=f"{self._path}: {error.strerror or error}")
        if source.at_end:
            self._follower.caught_up(now_ms)
        told = self._collected(source, dated, self._follower.resume(source.place, now_ms).encoded())
        self._quiet = told if source.at_end and not told.seen and not told.lost else None
        return told

    @property
    def handle(self) -> int:
        """The device or the journal; a file tells nobody when it grows."""
        return -1 if self._source is None else self._source.handle

    @property
    def interval_s(self) -> float:
        """Where nobody tells it is looked at often, and more so while what was read waits for its details."""
        return DETAILS_S if not self._follower.idle else self.look_s if self.handle < 0 else TOLD_S

    def close(self) -> None:
        """Let the log go."""
        if self._source is not None:
            self._source.close()

    def _failed(self, error: OSError, now_ms: int) -> None:
        """The next look opens it anew: where it was left, or from its beginning if it was not there at all."""
        if isinstance(self._source, Journal):
            return  # it begins again by itself, not too often
        if isinstance(error, FileNotFoundError) and self._source is None and self._resume is None:
            self._whole = True
            self._follower.caught_up(now_ms)
        if self._source is not None:
            self._resume = self._follower.resume(self._source.place, now_ms)
            self._source.close()
            self._source = None

    def _opened(self) -> "File | Device | Journal":
        if stat.S_ISCHR(os.stat(self._path).st_mode):
            try:
                return Device(self._path, self._resume)
            except PermissionError:
                if not readable(self._host.root):
                    raise
                return Journal(self._host.root, ("-k",), self._resume)  # who may not read the one may read the other
        return File(self._path, self._resume, self._host.root, whole=self._whole)

    def _collected(self, source: "File | Device | Journal", dated: Sequence[Dated], place: bytes) -> Collected:
        strange = [one for one in dated if (told := one.reading.host) and not self._host.is_self(told)]
        seen = [
            Seen(one.reading.record, one.at_ms, self._shown, one.line, host=self._host.name)
            for one in dated
            if one not in strange
        ]
        lost, why = source.lost(), "messages that were overwritten before they could be read"
        if strange:
            lost, why = lost + len(strange), f"lines of another host, {strange[0].reading.host}"
        tally = self._follower.tally
        if tally.unparsed:
            lost, why = lost + tally.unparsed, "; ".join(tally.notes) or "lines that could not be read"
            tally.unparsed, tally.notes = 0, []
        omitted, self._follower.omitted = self._follower.omitted, 0
        if omitted:
            lost, why = lost + omitted, "events of a storm"
        undated, self._follower.undated = self._follower.undated, 0
        if undated:
            lost, why = lost + undated, "lines without a time, in a log that was put in the place of another"
        old, self._follower.old = self._follower.old, 0
        if old:  # nobody acts on them, and a live fault among them would be missed
            lost, why = (
                lost + old,
                "lines dated long before they were written: a replay, or [cluster] timezone is wrong",
            )
        return Collected(seen, place, lost=lost, lost_why=why if lost else "", more=not source.at_end)


class File(Growing):
    """A log file, such as var/log/kern.log, or one with records as the device gives them."""

    live = False
    handle = -1  # nobody tells when it grows

    def __init__(self, path: Path, resume: Resume | None, root: Path, *, whole: bool) -> None:
        super().__init__(path, resume, whole=whole)
        self._root = root
        self._boot_ms: float | None = None
        self._asked = -BOOT_S  # when, by the monotonic clock

    def boot_ms(self, now_ms: int) -> float | None:
        """When the kernel started, as the host's own statistics tell it."""
        if time.monotonic() - self._asked >= BOOT_S:
            self._boot_ms, self._asked = self._booted_ms(), time.monotonic()
        return self._boot_ms

    def _booted_ms(self) -> float | None:
        try:
            found = _BOOT_TIME.search((self._root / "proc/stat").read_text(encoding="ascii", errors="replace"))
        except OSError:
            return None
        return int(found[1]) * 1000.0 if found else None

    def lost(self) -> int:
        """Lines that were too long to be read, since the last call."""
        cut, self.cut = self.cut, 0
        return cut


class Device:
    """/dev/kmsg: one record a read, numbered by the kernel; the ring overwrites what was not read in time."""

    live = True

    def __init__(self, path: Path, resume: Resume | None) -> None:
        self.handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._boot_id = _boot_id()
        self._next, self._told = (self._number(resume.read), self._number(resume.told) or 0) if resume else (None, 0)
        self._lost, self._begun = 0, False
        self.at_end = False

    def _number(self, place: bytes) -> int | None:
        """The number of the next record, None where an earlier run of this boot is not known."""
        try:
            boot_id, number = msgspec.json.decode(place, type=tuple[str, int])
        except msgspec.DecodeError:
            return None
        return number if boot_id == self._boot_id else None

    def begun(self) -> bool:
        """True once, before anything is read."""
        begun, self._begun = self._begun, True
        return not begun

    def read(self) -> Iterator[Lines]:
        """New records. Raises OSError."""
        self.at_end = False
        for _ in range(MAX_RECORDS):
            try:
                record = os.read(self.handle, RECORD_BYTES)
            except BlockingIOError:
                self.at_end = True
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten: the next read gives the oldest that is left
                    continue
                raise
            if not record:
                self.at_end = True
                return
            if lines := self._numbered(record):
                yield lines

    def _numbered(self, record: bytes) -> Lines | None:
        found = _SEQUENCE.match(record)
        if found is None:
            return None
        number = int(found[1])
        if self._next is not None and number < self._next:
            return None  # told by an earlier run
        self._lost += number - self._next if self._next is not None else 0
        self._next = number + 1
        return Lines(record if record.endswith(b"\n") else record + b"\n", number, True, number < self._told)

    def boot_ms(self, now_ms: int) -> float:
        """When the kernel's clock stood at 0."""
        return now_ms - time.clock_gettime(time.CLOCK_MONOTONIC) * 1000

    @property
    def place(self) -> bytes:
        """The boot, and the number of the next record."""
        return msgspec.json.encode((self._boot_id, self._next or 0))

    def lost(self) -> int:
        """Records that were overwritten, since the last call."""
        lost, self._lost = self._lost, 0
        return lost

    def close(self) -> None:
        """Let the device go."""
        os.close(self.handle)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def collectors(host: Host) -> Sequence[KernelLog]:
    """One, unless the settings ask for none."""
    return (KernelLog(host),) if host.settings.kernel_log else ()
