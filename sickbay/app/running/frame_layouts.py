"""Frames read with the layouts that the schemas topic tells: what all who read frames from the log have in common."""

from sickbay import selfmetrics
from sickbay.admission import Admission
from sickbay.frames import Frame
from sickbay.layouts import Schemas, UnknownLayout, decoded
from sickbay.log import Log, Record, Task
from sickbay.log.reading import Followed
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import SCHEMAS


class Layouts:
    """The layouts that the schemas topic tells, read on when a frame has one that is not known."""

    def __init__(self, log: Log, admission: Admission, metrics: SelfMetrics) -> None:
        self._topic, self._schemas = Followed(log.reader(), Task(SCHEMAS, 0)), Schemas()
        self._admission, self._metrics = admission, metrics

    def frame(self, record: Record, *, packed: bool = False) -> Frame:
        """The frame in a record. Raises ValueError for a damaged one, or one that is not let in."""
        try:
            return self._admission.frame(record, self._schemas, packed=packed)
        except UnknownLayout:
            self._learn()
            return self._admission.frame(record, self._schemas, packed=packed)

    def _learn(self) -> None:
        for record in self._topic.read():
            try:
                if record.value:
                    self._schemas.learn(decoded(record.value))
            except ValueError:  # frames of that layout go to the dead letters
                self._metrics.count(selfmetrics.LOG_ERRORS, kind="BadLayout")
