"""What remediation reads of the log: incidents through its group, and the ledger, controls and placements beside.

Whoever holds the one partition of the incidents topic is the active process; another one is a warm standby. Everything
is read from the start when the partition is assigned, as another process may have written since.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from remediation.ledger import Ledger
from sickbay import actions, messages, topics
from sickbay.actions import Action, ActionState, Control, Judged
from sickbay.app.asking.incidents_topic import told
from sickbay.app.asking.ledger_lines import ACTIONS, CONTROL, controls_of, ledger_of
from sickbay.log import Fenced, Log, LogBusy, OutcomeUnknown, Output, Position, Reader, Record, Replaced, Task, TaskLog
from sickbay.log.reading import Followed
from sickbay.messages import AnyMessage, Edge, Incident, Placement
from sickbay.placement import Placements
from sickbay.seal import opened
from sickbay.topics import INCIDENTS
from sickbay.topology import Topology

GROUP = "remediation"
TASK, PLACEMENT, TOPOLOGY = Task(INCIDENTS, 0), Task(topics.PLACEMENT, 0), Task(topics.TOPOLOGY, 0)
BATCH, BATCHES = 2000, 20  # records of one poll, polls of one step
QUIET_S = 2.0  # nothing came for so long: all is read that there was
ASIDE_MS = 500  # between two looks at what lies beside
KEEP_S = 3.0  # between two commits of a position alone; heartbeats come every 5 s


class NotWritten(Exception):
    """The lines are not in the ledger, or nobody knows: nothing may be done on them."""


@dataclass(slots=True)
class Inputs:
    """The state of remediation as the log tells it."""

    log: Log
    member: str
    monotonic: Callable[[], float] = time.monotonic
    incidents: dict[str, Incident] = field(default_factory=dict)
    judged: Judged | None = None
    ledger: Ledger = field(default_factory=Ledger)
    controls: dict[bytes, Control] = field(default_factory=dict)
    placements: Placements = field(default_factory=Placements)
    topology: Topology = field(default_factory=Topology)  # read once somebody declares maintenance
    uncertain: frozenset[str] = frozenset()
    unreadable: int = 0  # records of incidents or the ledger: the word before each still counts
    _offsets: dict[str, int] = field(default_factory=dict)  # of incidents
    _judged_at: int = -1
    _tasks: TaskLog = field(init=False)
    _reader: Reader = field(init=False)
    _beside: dict[Task, Followed] = field(default_factory=dict)
    _edges: dict[bytes, Edge] = field(default_factory=dict)
    _next: int | None = None  # None: the task is not ours, or not read anew yet
    _anew: bool = False  # the task is ours, and everything is to be read from the start
    _goal: int = 0  # the end when the task was assigned: before it, all is history
    _heard_s: float = 0.0
    _beside_ms: int = 0
    _kept: int | None = None  # the newest committed position
    _kept_s: float = 0.0

    def __post_init__(self) -> None:
        self._tasks, self._reader = self.log.join(GROUP, [INCIDENTS], self.member), self.log.reader()

    @property
    def active(self) -> bool:
        """Whether this process is the one to act, and knows all that there is to know."""
        if self._next is None:
            return False
        return self._next >= self._goal or self.monotonic() - self._heard_s > QUIET_S

    @property
    def unjudged(self) -> frozenset[str]:
        """Incidents that are newer than the newest heartbeat."""
        return frozenset(key for key, offset in self._offsets.items() if offset > self._judged_at)

    def read(self, now_ms: int) -> bool:
        """Takes what is new; True where that may change a decision. Raises Replaced and other LogErrors."""
        changed = False
        self._begin()
        for _ in range(BATCHES):
            batch = self._tasks.poll(BATCH)
            if TASK in batch.revoked:
                self._next, self._anew = None, False
            if TASK in batch.assigned:
                self._next, self._anew = None, True
            self._begin()
            if not batch.records and not batch.assigned and not batch.revoked:
                break
            changed |= bool(batch.records)
            self._take(batch.records)
        return self._aside(now_ms) or changed

    def write(self, lines: Sequence[Action], more: Sequence[Output] = ()) -> None:
        """Lines and the position as one: only the holder of the task can. Raises NotWritten, and Replaced."""
        if self._next is None:
            raise NotWritten
        outputs = [Output(ACTIONS.topic, line.id.encode(), actions.encode(line)) for line in lines]
        try:
            self._tasks.commit([*outputs, *more], {TASK: Position(self._next)})
        except Replaced:
            self._next = None
            raise
        except Fenced:
            self._next = None
            raise NotWritten from None
        except OutcomeUnknown:
            self._next, self._anew = None, True
            raise NotWritten from None
        except LogBusy:
            raise NotWritten from None
        self._kept, self._kept_s = self._next, self.monotonic()
        self.ledger = self.ledger.told(lines)
        self.uncertain -= {line.id for line in lines if line.state is not ActionState.WAITING}

    def keep(self) -> None:
        """The position alone, now and then: from outside, who reads and commits nothing looks as if it stood still."""
        if self._next is None or self._next == self._kept or self.monotonic() - self._kept_s < KEEP_S:
            return
        self._kept_s = self.monotonic()  # also where it fails
        self.write(())

    def close(self) -> None:
        """Leave the group."""
        self._tasks.close()

    def _begin(self) -> None:
        """Everything anew, from the start of each topic, where that is due; what the log refuses stays due."""
        if not self._anew:
            return
        begin, self._goal = self._reader.bounds(TASK)
        self._tasks.seek(TASK, begin)
        self.incidents, self.judged, self._offsets, self._judged_at = {}, None, {}, -1
        self.controls, self.placements = {}, Placements()
        self.topology, self._edges = Topology(), {}
        self._beside = {task: Followed(self._reader, task) for task in (CONTROL, PLACEMENT, TOPOLOGY)}
        self._beside_ms = 0
        self.ledger = Ledger(ledger_of(self._reader, self._unread))
        begun = (line for line in self.ledger.lines.values() if line.state is ActionState.INTENDED)
        self.uncertain = frozenset(line.id for line in begun)
        self._next, self._heard_s, self._anew = begin, self.monotonic(), False

    def _take(self, records: Sequence[Record]) -> None:
        for record in records if self._next is not None else ():
            self._next, self._heard_s = record.offset + 1, self.monotonic()
            found = told(record.value)
            if isinstance(found, Judged):
                self.judged, self._judged_at = found, record.offset
            elif found is not None:
                self.incidents[found.id], self._offsets[found.id] = found, record.offset
            elif record.value is None:
                self.incidents.pop(record.key.decode("utf-8", "replace"), None)
            else:
                self._unread(record)

    def _unread(self, record: Record) -> None:
        self.unreadable += 1

    def _aside(self, now_ms: int) -> bool:
        """Controls and placements, now and then."""
        if self._next is None or abs(now_ms - self._beside_ms) < ASIDE_MS:
            return False
        self._beside_ms = now_ms
        said = list(self._beside[CONTROL].read())
        self.controls = controls_of(said, self.controls)
        placed = [_message(record) for record in self._beside[PLACEMENT].read()]
        known = [one for one in placed if isinstance(one, Placement)]
        if known:
            self.placements = self.placements.add(known)
        if any(control.kind == "maintenance" for control in self.controls.values()):
            self._read_topology()
        return bool(said)

    def _read_topology(self) -> None:
        fresh: list[Edge] = []
        for record in self._beside[TOPOLOGY].read():
            edge = _message(record)
            if isinstance(edge, Edge) and self._edges.get(record.key) != edge:  # pollers tell the same again and again
                self._edges[record.key] = edge
                fresh.append(edge)
        if fresh:
            self.topology = self.topology.add(fresh)


def _message(record: Record) -> AnyMessage | None:
    try:
        return messages.decode(opened(record.value).payload) if record.value else None
    except ValueError:
        return None
