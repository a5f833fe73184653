"""The live run in one process on the embedded log: agents append, streams make features, diagnosis makes incidents.

Every stage speaks to the next one through the log only, and commits its position with its outputs.
"""

from sickbay import frames, wire
from sickbay.app.diagnoser import Diagnoser
from sickbay.layouts import Schemas, UnknownLayout, decoded
from sickbay.log import Log, Task, tick
from sickbay.messages import Incident
from sickbay.schema import Samples
from streams.runner import Mark, Runner
from streams.window_task import WindowTask

TELEMETRY, SCHEMAS = "sickbay.telemetry.v1", "sickbay.schemas.v1"


class FrameReader:
    """Decodes frames; reads the schemas topic when it meets a layout that it does not know."""

    def __init__(self, log: Log) -> None:
        self._reader, self._schemas, self._next = log.reader(), Schemas(), 0

    def __call__(self, payload: bytes) -> list[Samples]:
        """The samples in a frame. Raises ValueError for a damaged one."""
        try:
            frame = wire.decode(payload, self._schemas)
        except UnknownLayout:
            self._learn()
            frame = wire.decode(payload, self._schemas)
        return [frames.samples_of(matrix) for matrix in frame.tables]

    def _learn(self) -> None:
        while records := self._reader.read(Task(SCHEMAS, 0), self._next):
            for record in records:
                self._next = record.offset + 1
                if record.value:
                    self._schemas.learn(decoded(record.value))


class Pipeline:
    """All stages over one log. `clock` gives the log's append time; `second` must be called every second."""

    def __init__(self, log: Log, lang: str = "en") -> None:
        read_frame = FrameReader(log)

        def windows(task: Task, mark: Mark) -> WindowTask:
            return WindowTask(task, mark, read_frame)

        self._ticker, self._topics = log.appender(), log.topics
        self.windows = Runner(log.join("streams.windows", [TELEMETRY], "windows-1"), windows)
        self.diagnoser = Diagnoser(log, lang)

    def second(self, now_ms: int) -> list[Incident]:
        """Gives silence a clock, and lets every stage do what there is to do. Returns new or changed incidents."""
        tick(self._ticker, self._topics, [TELEMETRY])
        self.windows.drain()
        return self.diagnoser.step(now_ms)
