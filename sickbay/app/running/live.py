"""The live run in one process on the embedded log: agents append, streams make features, diagnosis makes incidents.

Every stage speaks to the next one through the log only, and commits its position with its outputs.
"""

from sickbay import packs, selfmetrics
from sickbay.admission import Admission
from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.app.running.frame_layouts import Layouts
from sickbay.app.running.side_reader import SideReader
from sickbay.frames import Frame
from sickbay.log import Log, Record, Task, driving, tick
from sickbay.messages import Incident
from sickbay.schema import TABLES
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Windows
from sickbay.topics import FEATURES, TELEMETRY
from streams import runner, window_state
from streams.open_windows import LATENESS_MS
from streams.runner import Mark, Runner
from streams.window_task import Decoded, Packed, WindowTask
from streams.windows import WIDTH_MS

WINDOWS_GROUP = "streams.windows"


class FrameReader:
    """Decodes frames and packs of them; reads the schemas topic when it meets a layout that it does not know."""

    def __init__(self, log: Log, admission: Admission | None = None, metrics: SelfMetrics | None = None) -> None:
        self._metrics = metrics or SelfMetrics()
        self._layouts = Layouts(log, admission or Admission(), self._metrics)

    def __call__(self, record: Record) -> Decoded | Packed:
        """What a record tells. Raises ValueError for a damaged one, or one that is not let in."""
        if packs.is_pack(record.value or b""):
            return self._packed(record)
        told = self._told(self._layouts.frame(record))
        self._metrics.count(selfmetrics.WIRE_DECODED)
        return told

    def _packed(self, record: Record) -> Packed:
        """Each member as if it had come alone: a bad one does not silence the others."""
        members, unfit = list[Decoded](), list[str]()
        for payload in packs.unpack(record.value or b""):
            try:
                members.append(self._told(self._layouts.frame(record._replace(value=payload), packed=True)))
            except ValueError as error:
                unfit.append(str(error))
        self._metrics.count(selfmetrics.WIRE_DECODED, len(members))
        return Packed(members, unfit)

    def _told(self, frame: Frame) -> Decoded:
        tables = frame.tables
        for matrix in tables:
            if matrix.layout.table not in TABLES:  # of a newer version
                self._metrics.count(selfmetrics.WIRE_DROPPED, len(matrix.at_ms), table=matrix.layout.table)
                tables = tuple(one for one in tables if one is not matrix)
        return Decoded(tables, frame.host, frame.incarnation, frame.sequence, frame.first_ms, frame.last_ms)


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
    sides = SideReader(log, admission or Admission(), metrics or SelfMetrics())

    def made(task: Task, mark: Mark) -> WindowTask:
        kept = window_state.read(reader, task, mark.state) if mark.frontier_ms else {}
        return WindowTask(
            task, mark, read_frame, kept=kept, sides=sides, width_ms=width_ms, lateness_ms=lateness_ms,
            partitions=log.topics[FEATURES].partitions,
        )  # fmt: skip

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
