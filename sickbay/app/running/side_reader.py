"""Reads the side inputs of windows from the log, on when a window asks for more than was read."""

import time

from sickbay import selfmetrics
from sickbay.admission import Admission
from sickbay.log import Log, LogError, Record, tasks_of
from sickbay.log.reading import Followed
from sickbay.messages import Edge, Placement
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import PLACEMENT, TOPOLOGY
from streams.runner import FATAL
from streams.side_inputs import SIDE_MARGIN_MS, Facts, Told, Versions

RETRY_S = 1.0  # after a read that failed: a log that is away answers nobody, and each question takes its time


class SideReader:
    """The `Sides` of all tasks of a process: each version is read and kept once."""

    def __init__(self, log: Log, admission: Admission, metrics: SelfMetrics) -> None:
        reader = log.reader()
        self._topics = [Followed(reader, task) for task in tasks_of(log.topics, (PLACEMENT, TOPOLOGY))]
        self._admission, self._metrics = admission, metrics
        self._versions = Versions()
        self._complete_ms = 0  # everything that was appended up to then was read
        self._retry_s = 0.0

    def at(self, cutoff_ms: int, clock_ms: int) -> Facts | None:
        """See `side_inputs.Sides`. What the log holds when `clock_ms` was told is all that it took up to a margin
        before that."""
        if cutoff_ms > self._complete_ms and not self._read(clock_ms - SIDE_MARGIN_MS):
            return None
        return self._versions.at(cutoff_ms)

    def known(self, cutoff_ms: int) -> Facts:
        """See `side_inputs.Sides`."""
        return self._versions.at(cutoff_ms)

    def _read(self, complete_ms: int) -> bool:
        if time.monotonic() < self._retry_s:
            return False
        try:
            for topic in self._topics:
                for record in topic.read():
                    self._take(record)
        except FATAL:
            raise
        except LogError as error:
            self._metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
            self._retry_s = time.monotonic() + RETRY_S
            return False
        self._complete_ms = max(self._complete_ms, complete_ms)
        return True

    def _take(self, record: Record) -> None:
        if not record.value:
            return
        try:
            message = self._admission.message(record).message
        except ValueError as error:  # diagnosis reads it, too: it makes the dead letter
            self._metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
            return
        if isinstance(message, Placement | Edge):
            self._versions.add(Told(record.append_ms, record.key, message))
