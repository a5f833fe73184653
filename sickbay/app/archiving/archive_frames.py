"""Frames as the archive takes them: every table and column that was told, of newer versions too."""

from sickbay import packs, selfmetrics
from sickbay.admission import Admission
from sickbay.app.running.frame_layouts import Layouts
from sickbay.frames import Frame
from sickbay.log import Log, Record
from sickbay.schema import TABLES
from sickbay.selfmetrics import SelfMetrics
from streams.archive_telemetry import Unpacked


class ArchiveFrames:
    """Decodes frames and packs, as `sickbay.app.running.live.FrameReader` does, and leaves the matrices as they are."""

    def __init__(self, log: Log, admission: Admission, metrics: SelfMetrics) -> None:
        self._layouts, self._metrics = Layouts(log, admission, metrics), metrics

    def __call__(self, record: Record) -> Unpacked:
        """The frames of a record. Raises ValueError for a damaged one, or one that is not let in."""
        if not packs.is_pack(record.value or b""):
            return Unpacked([self._known(self._layouts.frame(record))])
        frames, unfit = list[Frame](), list[str]()
        for payload in packs.unpack(record.value or b""):
            try:
                frames.append(self._known(self._layouts.frame(record._replace(value=payload), packed=True)))
            except ValueError as error:
                unfit.append(str(error))
        return Unpacked(frames, unfit)

    def _known(self, frame: Frame) -> Frame:
        for matrix in frame.tables:
            if matrix.layout.table not in TABLES:  # of a newer version
                self._metrics.count(selfmetrics.WIRE_DROPPED, len(matrix.at_ms), table=matrix.layout.table)
        return frame
