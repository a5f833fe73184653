"""What agents do, in one process: lines become records by the same formats as everywhere, samples become frames.

A live reader knows when it saw a line: what the line does not date, that does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import NamedTuple

from collectors.agent.framing import Sender
from collectors.agent.naming import event_of, identity_key, progress_of
from collectors.agent.source import Seen
from collectors.formats import log
from collectors.formats.reading import Reading, Tally
from collectors.identity import Names
from collectors.inputs.gather import Folder
from collectors.lines import at_of
from sickbay import messages
from sickbay.components import UNKNOWN
from sickbay.edges import log_key
from sickbay.frames import Matrix
from sickbay.log import Log
from sickbay.messages import AnyMessage, Edge, Event, Identity, Placement, Progress, Step
from sickbay.schema import Samples
from sickbay.topics import EVENTS, PLACEMENT, SCHEMAS, STEPS, TELEMETRY, TOPOLOGY

FRAME_S = 5  # an agent sends a frame so often


class NewLines(NamedTuple):
    """Lines of one source in one second: `path` is what the records will cite."""

    path: str
    text: str
    host: str = ""
    job: str = UNKNOWN


@dataclass(slots=True)
class Tail:
    """Follows logs: keeps the number of the next line of each."""

    names: Names
    tally: Tally = field(default_factory=Tally)
    _lines: dict[str, int] = field(default_factory=dict)

    def read(self, told: NewLines, seen_ms: int) -> Iterator[AnyMessage]:
        """Records of new lines, named, dated and folded as an agent sends them."""
        first = self._lines.get(told.path, 0)
        self._lines[told.path] = first + told.text.count("\n") + 1
        folder = Folder()
        for reading in log.read([told.text.encode()], self.tally):
            folder.add(reading)
        for reading in folder.close():
            yield from self._message(reading, told, seen_ms, first)

    def _message(self, reading: Reading, told: NewLines, seen_ms: int, first: int) -> Iterator[AnyMessage]:
        record, host = reading.record, reading.host or told.host
        at, line = at_of(reading.stamp, seen_ms, UTC), first + reading.line
        seen = Seen(record, seen_ms if at is None else at, told.path, line, host, told.job)
        if isinstance(record, Event):
            yield event_of(record, seen, self.names, seen_ms)
        elif isinstance(record, Progress | Step):
            yield progress_of(record, seen)


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
            self._appender.append(TOPOLOGY, log_key(edge).encode(), messages.encode(edge))
        for one in identities:
            self._appender.append(TOPOLOGY, identity_key(one).encode(), messages.encode(one))

    def tell_placements(self, placements: Iterable[Placement]) -> None:
        """Attempts that began or ended."""
        for placement in placements:
            self._appender.append(PLACEMENT, placement.job.encode(), messages.encode(placement))

    def tell_lines(self, told: Iterable[NewLines], seen_ms: int) -> None:
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

    def _tell_layouts(self, matrices: Iterable[Matrix]) -> None:
        for layout in (matrix.layout for matrix in matrices):
            if layout.id not in self._layouts:
                self._layouts.add(layout.id)
                self._appender.append(SCHEMAS, layout.key, layout.encoded())
