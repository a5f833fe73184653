"""The diagnosis stage of a live run: what it remembers, and how it reads and writes the log."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from collectors.codes import in_context
from diagnosis.case import Case
from diagnosis.engine import advance
from remediation.plan import planned
from sickbay import messages
from sickbay.log import Log, Output, Position, Record, Task
from sickbay.messages import Edge, Event, Identity, Incident, Placement, Progress, Severity, Step
from sickbay.placement import Placements
from sickbay.topology import Topology
from streams.feature_record import decode as decode_features
from streams.runner import Mark, read_mark, write_mark
from streams.windows import WIDTH_MS

FEATURES, EVENTS, STEPS = "sickbay.features.v1", "sickbay.events.v1", "sickbay.steps.v1"
PLACEMENT, TOPOLOGY, INCIDENTS = "sickbay.placement.v1", "sickbay.topology.v1", "sickbay.incidents.v1"
WATCHED = (FEATURES, EVENTS, STEPS)
KEPT = (TOPOLOGY, PLACEMENT)  # compacted: read whole at every start
HORIZON_MS = 30 * 60_000  # a job's own time-out and its aftermath fit in
SEVERE = frozenset({Severity.ERROR, Severity.FATAL})  # such an event is looked at without waiting for its window


@dataclass(slots=True)
class Horizon:
    """What diagnosis remembers: everything of the last half hour that the log told."""

    events: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    fresh_edges: list[Edge] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    placements: Placements = field(default_factory=Placements)
    topology: Topology = field(default_factory=Topology)
    windows: dict[str, list[tuple[int, pl.DataFrame]]] = field(default_factory=dict)

    def take(self, record: Record) -> bool:
        """One record. True if it is worth a look at once."""
        if not record.value:
            return False
        if record.topic == FEATURES:
            table, end_ms, frame = decode_features(record.value)
            self.windows.setdefault(table, []).append((end_ms, frame))
            return True
        return self._message(messages.decode(record.value))

    def _message(self, message: messages.AnyMessage) -> bool:
        match message:
            case Event():
                self.events.append(message)
                return message.severity in SEVERE
            case Step():
                self.steps.append(message)
            case Progress():
                self.progress.append(message)
                return True
            case Placement():
                self.placements = self.placements.add([message])
            case Edge():
                self.fresh_edges.append(message)
            case Identity():
                self.identities.append(message)
            case _:
                pass
        return False

    def case(self, now_ms: int) -> Case:
        """The case of this moment."""
        self._forget(now_ms - HORIZON_MS)
        if self.fresh_edges:
            self.topology, self.fresh_edges = self.topology.add(self.fresh_edges), []
        return Case(
            now_ms=now_ms,
            events=tuple(in_context(sorted(self.events, key=lambda e: (e.at_ms or 0, e.path, e.line)))),
            progress=tuple(self.progress),
            steps=tuple(self.steps),
            identities=tuple(self.identities),
            features={table: _joined(frames) for table, frames in self.windows.items()},
            window_ms=WIDTH_MS,
            topology=self.topology,
            placements=self.placements,
        )

    def _forget(self, before_ms: int) -> None:
        self.events = [event for event in self.events if (event.at_ms or 0) >= before_ms]
        self.steps = [step for step in self.steps if (step.at_ms or 0) >= before_ms]
        self.progress = [one for one in self.progress if (one.at_ms or 0) >= before_ms]
        for table, closed in self.windows.items():
            self.windows[table] = [(end, frame) for end, frame in closed if end >= before_ms]


def _joined(frames: Sequence[tuple[int, pl.DataFrame]]) -> pl.DataFrame:
    return pl.concat([frame for _, frame in frames], how="diagonal_relaxed").sort("component", "end_ms")


class Diagnoser:
    """The diagnosis stage: reads features, events and steps, writes incidents. One active process a cluster.

    Its memory is what the log tells of the last half hour: a commit keeps the offset at which that begins, and a fresh
    process reads from there, and the incidents so far from their topic.
    """

    def __init__(self, log: Log, lang: str = "en") -> None:
        self._log, self._reader = log.join("diagnosis", [*WATCHED, *KEPT], "diagnosis-1"), log.reader()
        self._lang, self.horizon = lang, Horizon()
        self.incidents: tuple[Incident, ...] = tuple(self._recalled())
        self._judged = self.incidents
        self._begins: dict[Task, deque[tuple[int, int]]] = {}  # (append_ms, offset) of records not yet forgotten
        self.looks = self.damaged = 0

    def step(self, now_ms: int) -> list[Incident]:
        """Reads what is new; if something is worth a look, judges. Returns the incidents that are new or changed."""
        ends, urgent = self._read()
        changed = self._judge(now_ms) if urgent else []
        outputs = [Output(INCIDENTS, one.id.encode(), messages.encode(one)) for one in changed]
        if ends:
            before_ms = now_ms - HORIZON_MS
            marks = {task: write_mark(Mark(low=self._low(task, end, before_ms))) for task, end in ends.items()}
            self._log.commit(outputs, {task: Position(end, marks[task]) for task, end in ends.items()})
        return changed

    def _recalled(self) -> Iterator[Incident]:
        found: dict[bytes, Incident] = {}
        task = Task(INCIDENTS, 0)
        offset = self._reader.bounds(task).begin
        while records := self._reader.read(task, offset):
            for record in records:
                offset = record.offset + 1
                if record.value and isinstance(told := messages.decode(record.value), Incident):
                    found[record.key] = told
        yield from found.values()

    def _read(self) -> tuple[dict[Task, int], bool]:
        ends: dict[Task, int] = {}
        urgent, idle = False, 0
        while idle < 2:
            batch = self._log.poll(2000)
            self._begin(batch.assigned)
            idle = 0 if batch.records or batch.assigned else idle + 1
            for record in batch.records:
                urgent |= self._taken(record)
                ends[record.task] = record.offset + 1
        return ends, urgent

    def _begin(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            begin = self._reader.bounds(task).begin
            mark = read_mark(self._log.committed(task))
            self._log.seek(task, begin if task.topic in KEPT else max(begin, mark.low))

    def _taken(self, record: Record) -> bool:
        self._begins.setdefault(record.task, deque()).append((record.append_ms, record.offset))
        try:
            return self.horizon.take(record)
        except ValueError:
            self.damaged += 1
            return False

    def _low(self, task: Task, end: int, before_ms: int) -> int:
        begins = self._begins.get(task, deque())
        while begins and begins[0][0] < before_ms:
            begins.popleft()
        return begins[0][1] if begins else end

    def _judge(self, now_ms: int) -> list[Incident]:
        self.looks += 1
        before = {incident.id: incident for incident in self.incidents}
        case = self.horizon.case(now_ms)
        self._judged = advance(self._judged, case, self._lang)
        self.incidents = planned(self._judged, case, self._lang)
        return [one for one in self.incidents if _word(before.get(one.id)) != _word(one)]


def _word(incident: Incident | None) -> tuple[object, ...]:
    """What people would want to be told of again."""
    if incident is None:
        return ()
    return incident.verdict, incident.component, incident.fault, incident.action, incident.state
