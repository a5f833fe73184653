"""The pipeline under test: the live folds (windows, diagnosis, plans) in memory, in event time, without a broker.

Records come at the times at which a log would have taken them: a source's moment, plus what reading and transport take.
A tick each second closes windows; a look at T sees what was appended by T; what it says stands `commit_ms` later. Looks
are the fold's own: one when a window closed (every ten seconds) and one at once for a severe event.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from collectors.agent.naming import identity_key
from collectors.identity import Names
from sickbay import actions, messages
from sickbay.actions import Control
from sickbay.app.demonstrating.agents import NewLines, Tail
from sickbay.app.diagnosing.diagnosis_fold import WATCHED, DiagnosisFold
from sickbay.app.diagnosing.diagnosis_inputs import SIDE_MARGIN_MS
from sickbay.app.diagnosing.diagnosis_state import Memory
from sickbay.app.diagnosing.horizon import SEVERE
from sickbay.app.diagnosing.task_read import Stand
from sickbay.app.replaying.replay import Sides
from sickbay.edges import log_key
from sickbay.frames import Matrix
from sickbay.log import Record, Task, tasks_of
from sickbay.messages import AnyMessage, Edge, Event, Identity, Incident, Placement, Progress, Step
from sickbay.topics import CONTROL, EVENTS, FEATURES, PLACEMENT, STEPS, TELEMETRY, TOPICS, TOPOLOGY
from streams.feature_record import Clock, clock_key, encode_clock, is_clock
from streams.runner import Mark
from streams.side_inputs import Told
from streams.window_task import Decoded, WindowTask

ONE = {name: replace(topic, partitions=1) for name, topic in TOPICS.items()}


@dataclass(frozen=True, slots=True)
class Delays:
    """Milliseconds. `read`: until a source is read and its record is in the log; `commit`: from a look until what it
    says is in the log for others to act on."""

    read: int = 250
    commit: int = 250


class Said(NamedTuple):
    """An incident as it was new or changed, and when others could read it."""

    at_ms: int
    incident: Incident


class _Waiting(NamedTuple):
    append_ms: int
    number: int
    topic: str
    key: bytes
    message: AnyMessage | None
    value: bytes
    told: Decoded


class Pipeline:
    """One site. Feed it (`message`, `lines`, `rows`), then ask what each second says (`tick`): nothing where it is not
    `judged`, and only windows close."""

    def __init__(
        self, names: Names, delays: Delays, say: Callable[[str], None] = lambda text: None, *, judged: bool = True
    ) -> None:
        self._judged = judged
        self._delays, self._tail, self._numbers = delays, Tail(names), count()
        self.fold = DiagnosisFold(ONE, say=say)
        self._sides, self._now = Sides(), Decoded(())
        self._windows = WindowTask(
            Task(TELEMETRY, 0), Mark(), lambda record: self._now, sides=self._sides, partitions=1
        )
        self._ticked = tasks_of(ONE, WATCHED)
        self._waiting: list[_Waiting] = []
        self._sequence: dict[str, int] = {}
        self.events: list[tuple[int, Event]] = []  # with the time at which each was in the log
        self.steps: list[tuple[int, Step]] = []
        self.blocks: list[bytes] = []  # closed windows as records
        self.fold.begin(Stand(), Memory())

    @property
    def unparsed(self) -> int:
        """Lines that belong to a format and could not be read."""
        return self._tail.tally.unparsed

    def facts(self, edges: Iterable[Edge], identities: Iterable[Identity], at_ms: int) -> None:
        """The topology and the names of parts, once."""
        for edge in edges:
            self.message(TOPOLOGY, log_key(edge).encode(), edge, at_ms)
        for one in identities:
            self.message(TOPOLOGY, identity_key(one).encode(), one, at_ms)

    def placement(self, placement: Placement, at_ms: int) -> None:
        """An attempt that began or ended."""
        self.message(PLACEMENT, placement.job.encode(), placement, at_ms)

    def control(self, control: Control, at_ms: int) -> None:
        """Work that people declared."""
        key, value = f"{control.kind}/{control.target}".encode(), actions.encode(control)
        heappush(self._waiting, _Waiting(at_ms, next(self._numbers), CONTROL, key, None, value, Decoded(())))

    def message(self, topic: str, key: bytes, message: AnyMessage, append_ms: int) -> None:
        """One record of any topic but telemetry."""
        heappush(self._waiting, _Waiting(append_ms, next(self._numbers), topic, key, message, b"", Decoded(())))

    def lines(self, told: Iterable[tuple[int, NewLines]]) -> list[Event]:
        """New lines of logs, each group with the time at which it was written. Returns the severe events."""
        severe: list[Event] = []
        for at_ms, lines in told:
            seen_ms = at_ms + self._delays.read
            for message in self._tail.read(lines, seen_ms):
                topic = EVENTS if isinstance(message, Event) else STEPS
                self.message(topic, (lines.host or lines.job).encode(), message, seen_ms)
                if isinstance(message, Event):
                    self.events.append((seen_ms, message))
                    severe += [message] if message.severity in SEVERE else []
                elif isinstance(message, Step):
                    self.steps.append((seen_ms, message))
                else:
                    assert isinstance(message, Progress)
        return severe

    def rows(self, matrices: Iterable[Matrix], hosts: Iterable[str], sent_ms: int) -> None:
        """Telemetry that was sent, and who was heard."""
        append_ms = sent_ms + self._delays.read
        for host in hosts:
            number = self._sequence[host] = self._sequence.get(host, 0) + 1
            self._push(append_ms, Decoded((), host, 1, number))
        tables = [one for one in matrices if len(one.at_ms)]
        if tables:
            first, last = min(int(one.at_ms.min()) for one in tables), max(int(one.at_ms.max()) for one in tables)
            self._push(append_ms, Decoded(tables, first_ms=first, last_ms=last))

    def _push(self, append_ms: int, told: Decoded) -> None:
        heappush(self._waiting, _Waiting(append_ms, next(self._numbers), TELEMETRY, b"*", None, b"*", told))

    def tick(self, at_ms: int) -> Iterator[Said]:
        """The second before `at_ms` is over: everything that was appended by then is taken, and looked at."""
        while self._waiting and self._waiting[0].append_ms <= at_ms:
            self._take(heappop(self._waiting))
        self._features(Record(TELEMETRY, 0, 0, at_ms, b"", b""))
        if not self._judged:
            return
        clock = encode_clock(Clock(0, at_ms, False))
        for topic, partition in self._ticked:
            key, value = (clock_key(0), clock) if topic == FEATURES else (b"", b"")
            self.fold.take(Record(topic, partition, 0, at_ms, key, value))
        self.fold.inputs.facts_ms = at_ms - SIDE_MARGIN_MS
        for look in self.fold.looks():
            for incident in look.changed:
                yield Said(look.at_ms + self._delays.commit, incident)

    def _take(self, one: _Waiting) -> None:
        if one.topic == CONTROL:
            self.fold.take(Record(CONTROL, 0, one.number, one.append_ms, one.key, one.value))
            return
        if one.message is None:
            self._now = one.told
            self._features(Record(TELEMETRY, 0, one.number, one.append_ms, one.key, one.value))
            return
        if isinstance(one.message, Placement | Edge):
            self._sides.versions.add(Told(one.append_ms, one.key, one.message))
        value = messages.encode(one.message)
        self.fold.take(Record(one.topic, 0, one.number, one.append_ms, one.key, value))

    def _features(self, record: Record) -> None:
        for output in self._windows.take(record):
            if output.topic == FEATURES and not is_clock(output.key):
                assert output.value is not None
                self.blocks.append(output.value)
                if self._judged:
                    self.fold.take(Record(FEATURES, 0, 0, record.append_ms, output.key, output.value))
