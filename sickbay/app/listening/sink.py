"""Where a listener puts records: into the log, confirmed before anybody is answered; a relay packs frames first."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from sickbay import packs, selfmetrics
from sickbay.handover import Handed
from sickbay.log import Appender, LogBusy, LogError, Outcome
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import TELEMETRY

FLUSH_S = 5.0  # for the log to take what a request told: else it is told to come again
REST_S = 1.0  # after a failure: who comes meanwhile is sent away at once, and nothing piles up
PACK_HOSTS = 32  # members of a pack (design, section 2)
PACK_BYTES = 3_500_000
PACK_S = 0.25  # that a frame waits for others
WAITING_BYTES = 64 << 20  # of frames that wait for the log


Wait = Callable[[], list[LogError | None]]


class Sink(Protocol):
    """Takes records. `direct`: what packs nothing: whose next request waits for the answer need not wait for a pack."""

    @property
    def direct(self) -> "Direct":
        """The way into the log."""
        ...

    def begin(self, records: Sequence[Handed]) -> Wait:
        """Hand them over in this order; what is returned waits for what becomes of each. None: the log has it."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class Direct:
    """Into the log as they are."""

    def __init__(self, appender: Appender, metrics: SelfMetrics) -> None:
        self._appender, self._metrics, self._rest_until = appender, metrics, 0.0
        self.trouble = ""

    @property
    def direct(self) -> "Direct":
        """Itself."""
        return self

    def begin(self, records: Sequence[Handed]) -> Wait:
        """Hand them over."""
        if time.monotonic() < self._rest_until:
            return lambda: [LogBusy(f"the log does not answer: {self.trouble}") for _ in records]
        handed = [self._handed(record) for record in records]
        return lambda: self._awaited(records, handed)

    def stored(self, records: Sequence[Handed]) -> list[LogError | None]:
        """What became of each."""
        return self.begin(records)()

    def _awaited(self, records: Sequence[Handed], handed: Sequence[Outcome | LogError]) -> list[LogError | None]:
        if any(not isinstance(one, LogError) for one in handed):
            with suppress(LogError):  # each outcome tells its own
                self._appender.flush(FLUSH_S)
        found = [one if isinstance(one, LogError) else _error(one) for one in handed]
        self._told(records, found)
        return found

    def _handed(self, record: Handed) -> Outcome | LogError:
        try:
            return self._appender.append(record.topic, record.key, record.value)
        except LogError as error:
            return error

    def _told(self, records: Sequence[Handed], found: Sequence[LogError | None]) -> None:
        busy = next((error for error in found if isinstance(error, LogBusy)), None)
        self.trouble = str(busy) if busy else "" if records else self.trouble
        if busy:
            self._rest_until = time.monotonic() + REST_S
        for record, error in zip(records, found, strict=True):
            if error is None:
                self._metrics.count(selfmetrics.LOG_APPENDED, topic=record.topic)
            else:
                self._metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)

    def close(self) -> None:
        """Let go."""
        self._appender.close()


def _error(outcome: Outcome) -> LogError | None:
    if not outcome.done():
        return LogBusy("no outcome in time")
    try:
        outcome.result()
    except LogError as error:
        return error
    return None


@dataclass(slots=True)
class _Waiting:
    """A frame on its way."""

    frame: bytes
    done: threading.Event = field(default_factory=threading.Event)
    error: LogError | None = None


class Packing:
    """Frames of many hosts as one record of the telemetry topic under the pod's name; all else as it is."""

    def __init__(self, sink: Direct, pod: str) -> None:
        self.direct, self._pod = sink, pod.encode()
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._changed = threading.Condition()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="packing", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        """Why nothing goes, empty where all is well."""
        return self.direct.trouble if self._thread.is_alive() else "the thread that packs has ended"

    def begin(self, records: Sequence[Handed]) -> Wait:
        """Hand them over: a frame is stored when its pack is."""
        frames = {place: self._joined(one) for place, one in enumerate(records) if one.topic == TELEMETRY and one.value}
        others = [one for place, one in enumerate(records) if place not in frames]
        wait = self.direct.begin(others) if others else list

        def awaited() -> list[LogError | None]:
            found = iter(wait())
            return [_awaited(frames[place]) if place in frames else next(found) for place in range(len(records))]

        return awaited

    def _joined(self, record: Handed) -> _Waiting:
        one = _Waiting(record.value or b"")
        with self._changed:
            if self._stop or self._bytes + len(one.frame) > WAITING_BYTES:
                one.error = LogBusy("too many frames wait for the log")
                one.done.set()
            else:
                self._waiting.append(one)
                self._bytes += len(one.frame)
                self._changed.notify()
        return one

    def _run(self) -> None:
        while batch := self._batch():
            try:
                error = self.direct.stored([self._record([one.frame for one in batch])])[0]
            except Exception as failure:  # whatever it is: nobody may wait for ever, and the next ones may go well
                error = LogBusy(f"{type(failure).__name__}: {failure}")
            for one in batch:
                one.error = error
                one.done.set()

    def _record(self, frames: Sequence[bytes]) -> Handed:
        """A pack, also of one: all frames of a host in one partition, or its numbers have holes in each."""
        if packs.size_of(frames) <= packs.MAX_PACK:
            return Handed(TELEMETRY, self._pod, packs.pack(frames))
        return Handed(TELEMETRY, host_of_frame(frames[0]), frames[0])

    def _batch(self) -> list[_Waiting]:
        """The next frames that go together; empty at the end."""
        with self._changed:
            while not self._waiting and not self._stop:
                self._changed.wait(1.0)
            until = time.monotonic() + PACK_S
            while not self._full() and not self._stop and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            batch, size = list[_Waiting](), 0
            while self._waiting and len(batch) < PACK_HOSTS and size + len(self._waiting[0].frame) <= PACK_BYTES:
                batch.append(self._waiting.pop(0))
                size += len(batch[-1].frame)
            if not batch and self._waiting:  # one that is larger than a pack goes alone
                batch.append(self._waiting.pop(0))
            self._bytes -= sum(len(one.frame) for one in batch)
            return batch

    def _full(self) -> bool:
        return len(self._waiting) >= PACK_HOSTS or self._bytes >= PACK_BYTES

    def close(self) -> None:
        """Send what waits, and let go."""
        with self._changed:
            self._stop = True
            self._changed.notify()
        self._thread.join(FLUSH_S + 1.0)
        self.direct.close()


def _awaited(one: _Waiting) -> LogError | None:
    if not one.done.wait(2 * FLUSH_S):
        return LogBusy("no outcome in time")
    return one.error


def host_of_frame(frame: bytes) -> bytes:
    """The sender that a frame's header names: the key of one that no pack holds."""
    size = int.from_bytes(frame[6:8], "little")
    return frame[48 : 48 + size]
