"""The live run in one process on the embedded log: agents append, streams make features, diagnosis makes incidents.

Every stage speaks to the next one through the log only, and commits its position with its outputs.
"""

from sickbay import frames, selfmetrics
from sickbay.admission import Admission
from sickbay.app.diagnoser import Diagnoser
from sickbay.layouts import Schemas, UnknownLayout, decoded
from sickbay.log import Log, Record, Task, driving, tick
from sickbay.log.reading import Followed
from sickbay.messages import Incident
from sickbay.schema import TABLES
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Windows
from sickbay.topics import SCHEMAS, TELEMETRY
from streams import runner, window_state
from streams.processor import LATENESS_MS
from streams.runner import Mark, Runner
from streams.window_task import Decoded, WindowTask
from streams.windows import WIDTH_MS

WINDOWS_GROUP = "streams.windows"


class FrameReader:
    """Decodes frames; reads the schemas topic when it meets a layout that it does not know."""

    def __init__(self, log: Log, admission: Admission | None = None, metrics: SelfMetrics | None = None) -> None:
        self._topic, self._schemas = Followed(log.reader(), Task(SCHEMAS, 0)), Schemas()
        self._admission, self._metrics = admission or Admission(), metrics or SelfMetrics()

    def __call__(self, record: Record) -> Decoded:
        """What the frame in a record tells. Raises ValueError for a damaged one, or one that is not let in."""
        try:
            frame = self._admission.frame(record, self._schemas)
        except UnknownLayout:
            self._learn()
            frame = self._admission.frame(record, self._schemas)
        self._metrics.count(selfmetrics.WIRE_DECODED)
        known = []
        for matrix in frame.tables:
            if matrix.layout.table in TABLES:
                known.append(frames.samples_of(matrix))
            else:  # of a newer version
                self._metrics.count(selfmetrics.WIRE_DROPPED, len(matrix.at_ms), table=matrix.layout.table)
        return Decoded(known, frame.host, frame.incarnation, frame.sequence)

    def _learn(self) -> None:
        for record in self._topic.read():
            try:
                if record.value:
                    self._schemas.learn(decoded(record.value))
            except ValueError:  # frames of that layout go to the dead letters
                self._metrics.count(selfmetrics.LOG_ERRORS, kind="BadLayout")


def window_maker(
    log: Log,
    admission: Admission | None = None,
    metrics: SelfMetrics | None = None,
    *,
    width_ms: int = WIDTH_MS,
    lateness_ms: int = LATENESS_MS,
) -> runner.Make:
    """What makes the fold of one telemetry task from what is committed of it."""
    read_frame, reader = FrameReader(log, admission, metrics), log.reader()

    def made(task: Task, mark: Mark) -> WindowTask:
        kept = window_state.read(reader, task, mark.state) if mark.frontier_ms else {}
        return WindowTask(task, mark, read_frame, kept=kept, width_ms=width_ms, lateness_ms=lateness_ms)

    return made


def widths(settings: Windows) -> dict[str, int]:
    """The arguments of `window_maker` that the settings name."""
    return {"width_ms": settings.width_s * 1000, "lateness_ms": settings.lateness_s * 1000}


class Pipeline:
    """All stages over one log. `clock` gives the log's append time; `second` must be called every second."""

    def __init__(self, log: Log, lang: str = "en", *, width_ms: int = WIDTH_MS, lateness_ms: int = LATENESS_MS) -> None:
        self._ticker, self._topics = log.appender(), log.topics
        make = window_maker(log, width_ms=width_ms, lateness_ms=lateness_ms)
        self.windows = Runner(log.join(WINDOWS_GROUP, [TELEMETRY], "windows-1"), make, group=WINDOWS_GROUP)
        self.diagnoser = Diagnoser(log, lang, window_ms=width_ms, lateness_ms=lateness_ms)

    def second(self, now_ms: int) -> list[Incident]:
        """Gives silence a clock, and lets every stage do what there is to do. Returns new or changed incidents."""
        tick(self._ticker, self._topics, driving(self._topics))
        return self.work(now_ms)

    def work(self, now_ms: int) -> list[Incident]:
        """`second` without its ticks, where somebody else writes them."""
        self.windows.drain()
        return self.diagnoser.drain(now_ms)
