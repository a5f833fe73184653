"""Training logs of the jobs on this host: steps, collectives and errors, as their ranks print them.

A log on a shared file system is seen by every host, so its lines are not this host's own: a process whose host they
do not tell stays unknown. Let one host follow each log: the batch host, or one that only reads.
"""

import glob
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from collectors.agent.source import Collected, Host, Seen
from collectors.host.growing import Growing, Resume, resume_of
from collectors.identity import stand_in
from collectors.lines import Dated, Follower
from sickbay.components import UNKNOWN, Kind
from sickbay.messages import Event, Progress, Step, replace

INTERVAL_S = 0.5
LOOK_MS = 2_000  # between two looks for new files, and
LOOK_SHARE = 50  # so many times as long as the look took: a folder of 100,000 old logs lies on servers that many share
LONGEST_LOOK_MS = 60_000
MAX_FILES = 64  # followed at once: the newest
MAX_KNOWN = 256  # logs let go whose places are kept: one that is written to again must not be told again
STALE_MS = 3_600_000  # a log that was not written to for so long is let go: the run is over, or beyond help
# Whoever runs a job writes its log: it may speak of the job and its processes, but of no host's hardware.
OF_JOB = frozenset({Kind.JOB, Kind.RANK, Kind.PROCESS, Kind.PATH})
_NUMBER = re.compile(r"(?<![0-9A-Za-z])(\d{1,12}(?:_\d{1,7})?)(?![0-9A-Za-z])")


class _Log:
    """One file."""

    def __init__(self, path: Path, host: Host, resume: Resume | None, new: bool) -> None:
        self.growing = Growing(path, resume, whole=new)
        self.follower = Follower(host.zone, history=not new and resume is None)


class JobLog:
    """The collector `job_log`."""

    name = "job_log"
    asks_driver = False
    interval_s = INTERVAL_S

    def __init__(self, host: Host, patterns: Sequence[str] = (), absent: str = "no log of a job is there") -> None:
        self._host, self._patterns, self._absent = host, tuple(patterns) or host.settings.job_logs, absent
        self._logs: dict[str, _Log] = {}
        self._known: dict[str, str] = _decoded(host.places(self.name))  # path -> place
        self._looked_ms: int | None = None
        self._every_ms = LOOK_MS
        self._refused: dict[str, str] = {}  # logs that cannot be read, until they can or are not there any more

    def collect(self, now_ms: int) -> Collected:
        """What is new in all logs."""
        if self._looked_ms is None or not 0 <= now_ms - self._looked_ms < self._every_ms:
            began = time.monotonic()
            self._look(now_ms)
            self._every_ms = max(LOOK_MS, min(LONGEST_LOOK_MS, round((time.monotonic() - began) * 1000 * LOOK_SHARE)))
        seen: list[Seen] = []
        lost, more = 0, False
        for path, log in list(self._logs.items()):
            try:
                if log.growing.begun():
                    log.follower.began(log.growing.place)
                dated = log.follower.take(log.growing.read(), now_ms)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    self._refused[path] = f"{path}: {error.strerror or error}"
                self._forget(path)
                continue
            self._refused.pop(path, None)
            if log.growing.at_end:
                log.follower.caught_up(now_ms)
            seen += self._seen(path, dated)
            more = more or not log.growing.at_end
            lost += log.growing.cut + log.follower.omitted
            log.growing.cut = log.follower.omitted = 0
            self._known[path] = log.follower.resume(log.growing.place, now_ms).encoded().decode()
        why = "lines too long, or events of a storm" if lost else ""
        absent = "" if self._logs else self._absent
        problem = "; ".join(list(self._refused.values())[:3])
        return Collected(seen, msgspec.json.encode(self._known), problem, lost, why, more, absent)

    def close(self) -> None:
        """Let all logs go."""
        for log in self._logs.values():
            log.growing.close()

    def _look(self, now_ms: int) -> None:
        """Follow the newest files of the patterns, let the others go."""
        found = sorted(self._files(now_ms), reverse=True)[:MAX_FILES]
        fresh = {path for _, path in found}
        self._refused = {path: why for path, why in self._refused.items() if path in fresh}
        for path in self._logs.keys() - fresh:
            self._forget(path)
        gone = [path for path in self._known if path not in fresh]
        for path in gone[: max(0, len(gone) - MAX_KNOWN)]:
            del self._known[path]
        for path in sorted(fresh - self._logs.keys()):
            resume = resume_of(self._known.get(path, "").encode())
            new = self._looked_ms is not None  # it was not there at the first look
            self._logs[path] = _Log(self._host.root / path, self._host, resume, new)
        self._looked_ms = now_ms

    def _files(self, now_ms: int) -> Iterator[tuple[int, str]]:
        for pattern in self._patterns:
            for path in glob.iglob(pattern, root_dir=self._host.root):
                try:
                    changed_ms = os.stat(self._host.root / path).st_mtime_ns // 1_000_000
                except OSError:
                    continue
                if changed_ms >= now_ms - STALE_MS:
                    yield changed_ms, path

    def _forget(self, path: str) -> None:
        if log := self._logs.pop(path, None):
            log.growing.close()

    def _seen(self, path: str, dated: Sequence[Dated]) -> Iterator[Seen]:
        job = job_of(path)
        for one in dated:
            record, told = one.reading.record, one.reading.host
            if not isinstance(record, Event | Progress | Step):
                continue
            if isinstance(record, Event) and record.component.partition(":")[0] not in OF_JOB:
                continue
            if isinstance(record, Event) and record.host and not self._host.is_self(record.host):
                record = replace(record, host="")  # no host speaks for another
            host = self._host.name if told and self._host.is_self(told) else UNKNOWN
            yield Seen(record, one.at_ms, path, one.line, host=host, job=job)


def job_of(path: str) -> str:
    """The job whose log this is: the number in the file's name, as schedulers name logs; else a stand-in."""
    numbers = _NUMBER.findall(path.rpartition("/")[2])
    return numbers[0] if len(numbers) == 1 else stand_in(path)


def _decoded(place: bytes | None) -> dict[str, str]:
    try:
        return msgspec.json.decode(place or b"{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def collectors(host: Host) -> Sequence[JobLog]:
    """One for all patterns, none where there are none."""
    return (JobLog(host),) if host.settings.job_logs else ()
