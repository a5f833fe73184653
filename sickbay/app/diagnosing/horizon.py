"""What live diagnosis remembers: everything that the log told of the last half hour, bounded whatever comes.

Events, steps and windows are forgotten by their own time, those without one by when they were appended; topology and
identities stand until they are told anew; placements until half an hour after their end; changes for a day, and
declared work for a day after its end.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeVar

from collectors.codes import in_context
from collectors.inputs.lanes import lanes_among
from collectors.inputs.modules import shared_modules
from collectors.port_names import PortNames
from diagnosis.case import Case
from diagnosis.evidence import in_order
from sickbay import actions, messages
from sickbay.actions import Control
from sickbay.app.diagnosing.feature_windows import FeatureWindows
from sickbay.app.diagnosing.interest import About
from sickbay.app.diagnosing.kept_steps import KeptSteps
from sickbay.cohorts import runs
from sickbay.components import Kind, Name
from sickbay.edges import log_key
from sickbay.log import Record
from sickbay.messages import AnyMessage, Change, Edge, Event, Identity, Placement, Progress, Severity, Step
from sickbay.owners import switches_among
from sickbay.placement import Placements
from sickbay.routes import routes_among
from sickbay.topics import CONTROL, FEATURES
from sickbay.topology import Topology
from streams.feature_record import decode as decode_features
from streams.open_windows import AHEAD_MS
from streams.windows import WIDTH_MS

HORIZON_MS = 30 * 60_000  # a job's own time-out and its aftermath fit in
SEVERE = frozenset({Severity.ERROR, Severity.FATAL})  # such an event is looked at without waiting for its window
SOON_MS = 60_000  # a window is told after its end, by clocks of brokers that may be apart
# A carrier is told at once, that a person closed its port by a further word of the switch: such losses wait for it.
ORDERED, ORDER_MS = frozenset({"port.down"}), 4_000
MEMORY_MS = 24 * 3_600_000  # of changes and declared work: what was touched in the day before
MAX_CHANGES, MAX_CONTROLS = 10_000, 10_000
MAX_EVENTS, MAX_PROGRESS = 20_000, 50_000  # of the newest; of events the severe stay longest

Dated = TypeVar("Dated", Event, Step, Progress, Change)


@dataclass(slots=True)
class Horizon:
    """What diagnosis remembers."""

    window_ms: int = WIDTH_MS
    severe: "deque[tuple[int, Event]]" = field(init=False)  # each with its time, else that of its append
    others: "deque[tuple[int, Event]]" = field(init=False)
    steps: KeptSteps = field(default_factory=KeptSteps)
    progress: "deque[tuple[int, Progress]]" = field(init=False)
    identities: dict[bytes, Identity] = field(default_factory=dict)
    placements: Placements = field(default_factory=Placements)
    topology: Topology = field(default_factory=Topology)
    windows: FeatureWindows = field(init=False)
    changes: dict[tuple[str, str, int], Change] = field(default_factory=dict)  # by target, what and time
    maintenance: dict[bytes, Control] = field(default_factory=dict)
    dropped: int = 0  # beyond the bounds
    _due: list[int] = field(default_factory=list)  # a heap: when events that are held back are told
    _ports: PortNames = field(default_factory=PortNames)
    _as_told: Topology = field(default_factory=Topology)  # under the names of its sources
    _edges: dict[bytes, Edge] = field(default_factory=dict)
    _fresh_edges: list[Edge] = field(default_factory=list)
    _fresh_modules: bool = False
    _hosts: frozenset[str] = frozenset()  # that run jobs
    _fresh_placements: list[Placement] = field(default_factory=list)
    _renamed: bool = False  # since the last look at windows
    _before_ms: int = 0  # what is older is not told any more

    def __post_init__(self) -> None:
        self.windows = FeatureWindows(self.window_ms)
        # Which ones fit is decided by their order in the log alone: not by when somebody looked.
        self.severe, self.others = deque(maxlen=MAX_EVENTS), deque(maxlen=MAX_EVENTS)
        self.progress = deque(maxlen=MAX_PROGRESS)

    @property
    def events(self) -> list[tuple[int, Event]]:
        """Those that a case would tell: of too many the severe, and the last to come."""
        severe, others = list(self._told_of(self.severe)), list(self._told_of(self.others))
        room = MAX_EVENTS - len(severe)
        return severe + (others[-room:] if room > 0 else [])

    def _told_of(self, kept: "deque[tuple[int, Dated]]") -> Iterator[tuple[int, Dated]]:
        return (one for one in kept if one[0] >= self._before_ms)

    def take(self, record: Record, message: AnyMessage | None = None) -> bool:
        """One record, decoded already or not. True if it is worth a look at once. Raises ValueError for a damaged one,
        before anything of it was kept."""
        if record.topic == CONTROL:
            return self._control(record)
        if not record.value:
            if gone := self.identities.pop(record.key, None):  # a removed key
                self._ports.forget(gone, record.key)
            return False
        if record.topic == FEATURES:
            block = decode_features(record.value)
            if not 0 <= block.end_ms <= record.append_ms + SOON_MS:  # would never be forgotten
                raise ValueError(f"a window that ends at {block.end_ms}, told at {record.append_ms}")
            self.windows.add(block)
            return False
        return self._message(message or messages.decode(record.value), record)

    def _message(self, message: AnyMessage, record: Record) -> bool:
        match message:
            case Event():
                return self._event(*dated(message, record.append_ms))
            case Step():
                self.steps.take(*dated(message, record.append_ms), record.append_ms)
            case Progress():
                self._keep(self.progress, dated(message, record.append_ms))
                return True
            case Placement():
                self._fresh_placements.append(message)
            case Edge() if self._edges.get(record.key) != message:  # pollers tell the same again and again
                self._edges[record.key] = message
                self._fresh_edges.append(message)
            case Identity() if self.identities.get(record.key) != message:
                self.identities[record.key] = message
                self._ports.learn(message, record.key)
                self.windows.learn(message)
                self._fresh_modules |= message.kind == Kind.OPTIC
            case Change():
                at_ms, change = dated(message, record.append_ms)
                self.changes[message.target, message.what, at_ms] = messages.replace(change, at_ms=at_ms)
                self._fresh_edges += runs([message])
            case _:
                pass
        return False

    def _event(self, at_ms: int, event: Event) -> bool:
        if event.kind in ORDERED:
            heappush(self._due, at_ms + ORDER_MS)
        self._keep(self.severe if event.severity in SEVERE else self.others, (at_ms, event))
        return event.severity in SEVERE

    def _keep(self, kept: "deque[tuple[int, Dated]]", one: tuple[int, Dated]) -> None:
        self.dropped += len(kept) == kept.maxlen and kept[0][0] >= self._before_ms
        kept.append(one)

    def _control(self, record: Record) -> bool:
        """Declared work; True where it is news."""
        said = actions.decode(record.value) if record.value else None
        known = self.maintenance.pop(record.key, None)
        if isinstance(said, Control) and said.kind == "maintenance":
            self.maintenance[record.key] = said
        return self.maintenance.get(record.key) != known

    def case(
        self, now_ms: int, *, before_ms: int | None = None, frontier_ms: int | None = None, parts: Iterable[Name] = ()
    ) -> Case:
        """The case of this moment. What is older than `before_ms` (half an hour) is forgotten; only windows that end
        at `frontier_ms` or before are told: later ones are not whole yet. `parts`: what open incidents rest on."""
        self.forget(now_ms - HORIZON_MS if before_ms is None else before_ms)
        self.settle()
        self.steps.clock(now_ms)
        events = in_order(self._told(now_ms))
        far = self.topology.at(None).other_end
        named = [one.component for one in events]
        about = About(self._ports.canonical, self._renamed, self.placements, far, named, parts)
        told, self._renamed = self.windows.look(frontier_ms, about), False
        return Case(
            now_ms=now_ms,
            events=tuple(in_context(events)),
            progress=tuple(one for _, one in self._told_of(self.progress)),
            steps=tuple(self.steps.steps(self._before_ms)),
            step_series=self.steps.series(self._before_ms),
            identities=tuple(self.identities.values()),
            features=told.features,
            wide=told.wide,
            whole_jobs=told.whole_jobs,
            window_ms=self.window_ms,
            topology=self.topology,
            named=self._ports.canonical,
            placements=self.placements,
            changes=tuple(sorted(self.changes.values(), key=lambda one: (one.at_ms or 0, one.target, one.what))),
            maintenance=tuple(sorted(self.maintenance.values(), key=lambda one: (one.at_ms, one.target, one.by))),
        )

    def settle(self) -> None:
        """What follows from the facts that came since: names of ports, placements, topology."""
        renamed, grown = self._ports.settle(), False
        self._renamed |= renamed
        if self._fresh_placements:
            self.placements, self._fresh_placements = self.placements.add(self._fresh_placements), []
            before, self._hosts = self._hosts, self._hosts | {one for place in self.placements for one in place.hosts}
            grown = self._hosts != before
        if self._fresh_modules or renamed:
            self._fresh_edges += self._modules()
            self._fresh_modules = False
        if self._fresh_edges or renamed or grown:
            self._fresh_edges += self._by_cables()
        if self._fresh_edges or renamed:
            fresh, self._fresh_edges = [*self._fresh_edges, *lanes_among(self._fresh_edges)], []
            self._as_told = self._as_told.add(fresh)
            named = self.topology.add(map(self._ports.edge, fresh)) if not renamed else None
            self.topology = named or self._as_told.renamed(self._ports.edge)

    def due(self, now_ms: int) -> bool:
        """Whether an event that was held back is worth a look now."""
        return bool(self._due) and now_ms >= self._due[0]

    def passed(self, now_ms: int) -> None:
        """Events that were held back until then were told."""
        while self._due and self._due[0] <= now_ms:
            heappop(self._due)

    def _told(self, now_ms: int) -> list[Event]:
        """The events, without those that still wait for the word that explains them."""
        self.passed(now_ms)
        return [
            self._ports.event(event)
            for at_ms, event in self.events
            if event.kind not in ORDERED or now_ms - at_ms >= ORDER_MS
        ]

    def _modules(self) -> list[Edge]:
        """What modules that serve several ports add to the topology, where that is news."""
        news = []
        for edge in shared_modules(map(self._ports.module, self.identities.values())):
            key = f"{edge.child} {edge.parent}".encode()
            if self._edges.get(key) != edge:
                self._edges[key] = edge
                news.append(edge)
        return news

    def _by_cables(self) -> list[Edge]:
        """Switches, and what is routed over them, that the cables tell, where that is news."""
        news = []
        for among in (switches_among, routes_among):
            for edge in [*among(self._edges.values(), self._hosts)]:
                key = log_key(edge).encode()
                known = self._edges.get(key)
                if known is None or (known.from_ms, known.to_ms) != (edge.from_ms, edge.to_ms):
                    self._edges[key] = edge
                    news.append(edge)
        return news

    def forget(self, before_ms: int) -> None:
        """Lets go of what is older, and of what is more than fits."""
        if len(self.placements):
            kept = self.placements.after(before_ms)
            if len(kept) != len(self.placements):
                self.placements = kept
        self._forget_work(before_ms + HORIZON_MS - MEMORY_MS)
        self.bound(before_ms)

    def _forget_work(self, before_ms: int) -> None:
        changes = [item for item in self.changes.items() if item[0][2] >= before_ms]
        self.changes = dict(sorted(changes, key=lambda item: item[0][2])[-MAX_CHANGES:])
        stands = [one for one in self.maintenance.items() if (one[1].until_ms or before_ms) >= before_ms]
        self.maintenance = dict(sorted(stands, key=lambda item: item[1].at_ms)[-MAX_CONTROLS:])

    def bound(self, before_ms: int) -> None:
        """Lets go of events, steps and windows that are older."""
        self._before_ms = before_ms
        self.windows.forget(before_ms)
        _drop(self.severe, before_ms)
        _drop(self.others, before_ms)
        self.steps.forget(before_ms)
        _drop(self.progress, before_ms)


def _drop(kept: "deque[tuple[int, Dated]]", before_ms: int) -> None:
    """The oldest to come that are old by their own time, too."""
    while kept and kept[0][0] < before_ms:
        kept.popleft()


def dated(message: Dated, append_ms: int) -> tuple[int, Dated]:
    """Its time, else that of its append. A stamp far ahead of the append is a wrong clock: clamped, as in windows, or
    it would never be forgotten; so is one before 1970."""
    told = message.at_ms
    if not told:
        return append_ms, message
    at_ms = max(0, min(told, append_ms + AHEAD_MS))
    return at_ms, message if at_ms == told else messages.replace(message, at_ms=at_ms)
