"""The live run in one process on the embedded log: agents append, streams make features, diagnosis makes incidents.

Every stage speaks to the next one through the log only, and commits its position with its outputs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from collectors.codes import in_context
from collectors.identity import Names
from diagnosis.case import Case
from diagnosis.engine import advance
from sickbay import frames, messages, wire
from sickbay.app.agents import FRAME_S, Sender, Tail, Told
from sickbay.layouts import Schemas, UnknownLayout, decoded
from sickbay.log import Log, Output, Position, Record, Task, tick
from sickbay.messages import Edge, Event, Identity, Incident, Placement, Progress, Severity, Step
from sickbay.placement import Placements
from sickbay.schema import Samples
from sickbay.topology import Topology
from streams.feature_record import decode as decode_features
from streams.runner import Mark, Runner
from streams.window_task import FEATURES, WindowTask
from streams.windows import WIDTH_MS

TELEMETRY, EVENTS, STEPS = "sickbay.telemetry.v1", "sickbay.events.v1", "sickbay.steps.v1"
SCHEMAS, PLACEMENT, TOPOLOGY, INCIDENTS = (
    "sickbay.schemas.v1", "sickbay.placement.v1", "sickbay.topology.v1", "sickbay.incidents.v1",
)  # fmt: skip
HORIZON_MS = 30 * 60_000  # a job's own time-out and its aftermath fit in
SEVERE = frozenset({Severity.ERROR, Severity.FATAL})  # such an event is looked at without waiting for its window


class Agents:
    """All agents of the cluster: what they see is appended to the log."""

    def __init__(self, log: Log, names: Names, hosts: Sequence[str]) -> None:
        self._appender, self._tail = log.appender(), Tail(names)
        self._senders = {host: Sender(host, incarnation=1 + place) for place, host in enumerate(hosts)}
        self._layouts: set[int] = set()

    @property
    def unparsed(self) -> int:
        """Lines that belong to a format and could not be read."""
        return self._tail.tally.unparsed

    def tell_facts(self, edges: Iterable[Edge], identities: Iterable[Identity]) -> None:
        """The topology, once."""
        for edge in edges:
            key = f"{edge.child} {edge.relation} {edge.parent}".encode()
            self._appender.append(TOPOLOGY, key, messages.encode(edge))
        for one in identities:
            self._appender.append(TOPOLOGY, f"{one.host} {one.kind} {one.index}".encode(), messages.encode(one))

    def tell_placements(self, placements: Iterable[Placement]) -> None:
        """Attempts that began or ended."""
        for placement in placements:
            self._appender.append(PLACEMENT, placement.job.encode(), messages.encode(placement))

    def tell_lines(self, told: Iterable[Told], seen_ms: int) -> None:
        """New lines of logs: their records go at once."""
        for lines in told:
            for message in self._tail.read(lines, seen_ms):
                topic = EVENTS if isinstance(message, Event) else STEPS
                self._appender.append(topic, (lines.host or lines.job).encode(), messages.encode(message))

    def tell_samples(self, by_host: Mapping[str, Iterable[Samples]], at_ms: int) -> None:
        """One second of telemetry: sent as frames every few seconds, hosts taking turns."""
        for place, (host, sender) in enumerate(self._senders.items()):
            sender.hold(by_host.get(host, ()))
            if (at_ms // 1000 + place) % FRAME_S == 0 and (sent := sender.frames(at_ms)):
                self._tell_layouts(sent[0])
                self._appender.append(TELEMETRY, host.encode(), sent[1])

    def _tell_layouts(self, matrices: Iterable[frames.Matrix]) -> None:
        for layout in (matrix.layout for matrix in matrices):
            if layout.id not in self._layouts:
                self._layouts.add(layout.id)
                self._appender.append(SCHEMAS, layout.key, layout.encoded())


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
    """The diagnosis stage: reads features, events and steps, writes incidents. One active process a cluster."""

    def __init__(self, log: Log, lang: str = "en") -> None:
        self._log = log.join("diagnosis", [FEATURES, EVENTS, STEPS, TOPOLOGY, PLACEMENT], "diagnosis-1")
        self._lang, self.horizon = lang, Horizon()
        self.incidents: tuple[Incident, ...] = ()
        self.looks = 0

    def step(self, now_ms: int) -> list[Incident]:
        """Reads what is new; if something is worth a look, judges. Returns the incidents that are new or changed."""
        ends, urgent = self._read()
        changed = self._judge(now_ms) if urgent else []
        outputs = [Output(INCIDENTS, one.id.encode(), messages.encode(one)) for one in changed]
        if ends:
            self._log.commit(outputs, {task: Position(end) for task, end in ends.items()})
        return changed

    def _read(self) -> tuple[dict[Task, int], bool]:
        ends: dict[Task, int] = {}
        urgent, idle = False, 0
        while idle < 2:
            batch = self._log.poll(2000)
            idle = 0 if batch.records or batch.assigned else idle + 1
            for record in batch.records:
                urgent |= self.horizon.take(record)
                ends[record.task] = record.offset + 1
        return ends, urgent

    def _judge(self, now_ms: int) -> list[Incident]:
        self.looks += 1
        before = {incident.id: incident for incident in self.incidents}
        self.incidents = advance(self.incidents, self.horizon.case(now_ms), self._lang)
        return [one for one in self.incidents if _word(before.get(one.id)) != _word(one)]


def _word(incident: Incident | None) -> tuple[object, ...]:
    """What people would want to be told of again."""
    if incident is None:
        return ()
    return incident.verdict, incident.component, incident.fault, incident.action, incident.state


class Pipeline:
    """All stages over one log. `clock` gives the log's append time; `tick_all` must be called every second."""

    def __init__(self, log: Log, lang: str = "en") -> None:
        read_frame = FrameReader(log)
        make: Callable[[Task, Mark], WindowTask] = lambda task, mark: WindowTask(task, mark, read_frame)  # noqa: E731
        self._ticker, self._topics = log.appender(), log.topics
        self.windows = Runner(log.join("streams.windows", [TELEMETRY], "windows-1"), make)
        self.diagnoser = Diagnoser(log, lang)

    def second(self, now_ms: int) -> list[Incident]:
        """Gives silence a clock, and lets every stage do what there is to do. Returns new or changed incidents."""
        tick(self._ticker, self._topics, [TELEMETRY])
        self.windows.drain()
        return self.diagnoser.step(now_ms)
