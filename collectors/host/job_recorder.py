"""Flight-recorder dumps of the jobs on this host: each new one is read once, when it no longer grows.

Whoever runs a job writes them, so they are read by the restricted reader, within a size and only a few at a time. A
dump that was there before the agent ever looked is old; one that was read is known by its name, size and time.
"""

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from collectors.agent.source import Collected, Host, Seen
from collectors.formats import flight_recorder
from collectors.formats.reading import Tally
from collectors.host.job_log import job_of
from sickbay.components import UNKNOWN
from sickbay.messages import Progress

INTERVAL_S = 2.0
SETTLED_MS = 3_000  # that a file must not have changed
OLD_MS = 600_000  # at the first look: a younger one may be of what is going on
MOST = 8  # dumps of one collection; a host has eight ranks
MOST_BYTES = 16 << 20  # of one dump: it takes eight times as much while it is read, and the unit's limit is 256 MB
MOST_KNOWN = 4_096  # dumps that are remembered
MOST_LOOKED = 2_000  # files of the patterns that are looked at

Mark = tuple[int, int]  # size, time of the last change


class JobRecorder:
    """The collector `job_recorder`."""

    name = "job_recorder"
    asks_driver = False
    interval_s = INTERVAL_S

    def __init__(self, host: Host) -> None:
        self._host = host
        place = host.places(self.name)
        self._known = _decoded(place)
        self._first = place is None
        self._absent = ""

    def collect(self, now_ms: int) -> Collected:
        """The progress in new dumps."""
        tally, seen = Tally(), list[Seen]()
        fresh, size, done = sorted(self._fresh(now_ms)), 0, 0
        for _, path, mark in fresh[:MOST]:
            if size + mark[0] > MOST_BYTES and done:  # a dump of 13 MB takes 3 s
                break
            self._known.pop(path, None)
            self._known[path] = mark
            seen += self._read(path, tally)
            size, done = size + mark[0], done + 1
        for path in list(self._known)[: max(0, len(self._known) - MOST_KNOWN)]:
            del self._known[path]
        place = msgspec.json.encode(self._known) if fresh or self._first else None
        self._first = False
        lost = f"flight-recorder dumps not understood: {'; '.join(tally.notes[:2])}"[:300] if tally.unparsed else ""
        return Collected(seen, place, lost=tally.unparsed, lost_why=lost, more=len(fresh) > done, absent=self._absent)

    def close(self) -> None:
        """Nothing is held."""

    def _fresh(self, now_ms: int) -> Iterator[tuple[int, str, Mark]]:
        """Dumps that have settled and were not read as they are, by their time."""
        looked, self._absent = 0, "no dump is there"
        for pattern in self._host.settings.flight_recorders:
            for path in glob.iglob(pattern, root_dir=self._host.root):
                looked, self._absent = looked + 1, ""
                if looked > MOST_LOOKED:
                    return
                try:
                    told = os.stat(self._host.root / path)
                except OSError:
                    continue
                changed_ms = told.st_mtime_ns // 1_000_000
                mark = (told.st_size, changed_ms)
                if not stat.S_ISREG(told.st_mode) or not told.st_size or self._known.get(path) == mark:
                    continue
                if self._first and changed_ms < now_ms - OLD_MS:
                    self._known[path] = mark
                elif not now_ms - SETTLED_MS < changed_ms <= now_ms:
                    yield changed_ms, path, mark

    def _read(self, path: str, tally: Tally) -> Iterator[Seen]:
        """A name such as `nccl_trace_rank_3` tells the rank, the folder or name the job."""
        whole = self._host.root / path
        if (size := self._known[path][0]) > MOST_BYTES:
            tally.unparsed += 1
            tally.note(f"{path}: {size >> 20} MiB: read it with `sickbay diagnose`")
            return
        try:
            chunks = _chunks(whole)
            readings = list(flight_recorder.read(chunks, tally, path))
        except OSError as error:
            tally.unparsed += 1
            tally.note(f"{path}: {error.strerror or error}")
            return
        changed_ms = int(whole.stat().st_mtime_ns // 1_000_000) if whole.exists() else 0
        for reading in readings:
            if isinstance(reading.record, Progress):
                yield Seen(reading.record, reading.record.at_ms or changed_ms, path, reading.line,
                           host=self._host.name, job=_job(path))  # fmt: skip


def _job(path: str) -> str:
    """The job in the name of a folder above the dump: the dump's own numbers are ranks."""
    folder = path.rpartition("/")[0]
    return job_of(folder) if folder else UNKNOWN


def _chunks(path: Path) -> Iterator[bytes]:
    left = MOST_BYTES + 1
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may have become a pipe
    with os.fdopen(descriptor, "rb") as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            left -= len(piece)
            yield piece


def _decoded(place: bytes | None) -> dict[str, Mark]:
    try:
        return msgspec.json.decode(place or b"{}", type=dict[str, Mark])
    except msgspec.DecodeError:
        return {}


def collectors(host: Host) -> Sequence[JobRecorder]:
    """One for all patterns, none where there are none."""
    return (JobRecorder(host),) if host.settings.flight_recorders else ()
