"""Some of the hosts of a simulated cluster, and what their agents put into the log: frames, records of lines, facts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.agent.framing import Sender
from collectors.agent.naming import identity_key
from collectors.identity import Names
from sickbay import actions, messages
from sickbay.app.demonstrating.agents import NewLines, Tail
from sickbay.app.demonstrating.demo import told as new_lines
from sickbay.app.demonstrating.simulated_sinks import Record, Sink
from sickbay.edges import log_key
from sickbay.messages import AnyMessage, Event, Placement
from sickbay.schema import Samples
from sickbay.topics import CHANGES, CONTROL, EVENTS, PLACEMENT, SCHEMAS, STEPS, TELEMETRY, TOPOLOGY
from simulator.output.site_samples import told_with
from simulator.output.wire_frames import Senders
from simulator.parts import facility
from simulator.parts.cluster import Cluster, edges_of, identities_of
from simulator.parts.told import Told
from simulator.scenario import Scenario
from simulator.world import Second

PART_HOSTS = 512  # whole shelves of sensors


@dataclass
class Part:
    """The hosts of rows `hosts`; what belongs to no host is the first part's."""

    scenario: Scenario
    hosts: range
    sink: Sink
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        cluster = self.scenario.cluster
        self._names = frozenset(cluster.hosts[self.hosts.start : self.hosts.stop])
        self._jobs = {job.id: job.hosts[0] in self._names for job in self.scenario.jobs}
        self._senders = Senders(cluster, self.hosts)
        self._schemas: set[int] = set()
        self._first = {job.id: job.hosts[0] for job in self.scenario.jobs}
        self._tails: dict[str, Tail] = {}
        self._pollers: dict[str, Sender] = {}
        self._leaves = {leaf: cluster.under(leaf)[0].host in self._names for leaf in cluster.leaves}

    def _rows(self, cluster: Cluster) -> slice:
        first, last = cluster.hosts[self.hosts.start], cluster.hosts[self.hosts.stop - 1]
        return slice(cluster.rows(first).start, cluster.rows(last).stop)

    @property
    def first(self) -> bool:
        """The part that takes what belongs to nobody."""
        return self.hosts.start == 0

    def facts(self, at_ms: int) -> None:
        """What does not change: who is who, what hangs on what."""
        cluster = self.scenario.cluster
        for card in cluster.cards[self._rows(cluster)]:
            edges = [(log_key(edge).encode(), messages.encode(edge)) for edge in edges_of(card)]
            names = [(identity_key(one).encode(), messages.encode(one)) for one in identities_of(card)]
            self._put(TOPOLOGY, [*edges, *names], at_ms)
        if self.first:
            told = facility.edges(cluster, self.scenario.feeds)
            self._put(TOPOLOGY, [(log_key(edge).encode(), messages.encode(edge)) for edge in told], at_ms)

    def take(self, second: Second, new: Sequence[NewLines] | None = None) -> None:
        """One second of the night: it is told at its end. `new`: its lines, where they are at hand by log."""
        sent_ms = second.at_ms + 1000
        self._put(PLACEMENT, self._placed(second.placements), sent_ms)
        self._words(second, sent_ms)
        for lines in new_lines(second, self.scenario.start_ms) if new is None else new:
            if self._mine(lines):
                self._read(lines, sent_ms)
        told, others = self._told(second)
        frames = [(host.encode(), frame) for host, frame in self._senders.take(told, sent_ms)]
        frames += self._others(others, sent_ms)
        self._put(SCHEMAS, self._new_layouts(), sent_ms)
        self._put(TELEMETRY, frames, sent_ms)
        self.counts["values"] = self._senders.values

    def _words(self, second: Second, sent_ms: int) -> None:
        """What training hooks told, and what people did and declared."""
        steps = (one for one in second.steps if self._jobs.get(one.job, self.first))
        self._put(STEPS, [(one.job.encode(), messages.encode(one)) for one in steps], sent_ms)
        if self.first:
            self._put(CHANGES, [(one.target.encode(), messages.encode(one)) for one in second.changes], sent_ms)
            told = enumerate(second.declared)
            keys = [(f"{one.kind}:{one.target}:{sent_ms}-{place}", one) for place, one in told]
            self._put(CONTROL, [(key.encode(), actions.encode(one)) for key, one in keys], sent_ms)

    def _told(self, second: Second) -> tuple[Told, Mapping[str, tuple[Samples, ...]]]:
        """What agents read, and what switches and units told: without cables in the second only the former."""
        if second.cables:
            return told_with(second, (second.at_ms - self.scenario.start_ms) // 1000)
        return second.samples, {}

    def _others(self, told: Mapping[str, tuple[Samples, ...]], sent_ms: int) -> Iterator[tuple[bytes, bytes]]:
        """Frames of switches and units, which are read by pollers and not by an agent: sent at once."""
        for name, samples in told.items():
            if self._leaves.get(name, self.first):
                sender = self._pollers.setdefault(name, Sender(name, incarnation=1))
                sender.hold(samples)
                if sent := sender.frames(sent_ms):
                    self._senders.layouts.update({one.layout.id: one.layout for one in sent[0]})
                    yield name.encode(), sent[1]

    @property
    def unparsed(self) -> int:
        """Lines that belong to a format and could not be read."""
        return sum(tail.tally.unparsed for tail in self._tails.values())

    def _placed(self, placements: Iterable[Placement]) -> Iterator[Record]:
        for one in placements:
            if self._jobs.get(one.job, self.first):
                yield one.job.encode(), messages.encode(one)

    def _mine(self, lines: NewLines) -> bool:
        if lines.host:
            return lines.host in self._names or (self.first and lines.host not in self.scenario.cluster.host_index)
        return self._jobs.get(lines.job, self.first)

    def _read(self, lines: NewLines, seen_ms: int) -> None:
        self.counts["lines"] += lines.text.count("\n") + 1
        for message in self._tail(lines.host or self._first.get(lines.job, "")).read(lines, seen_ms):
            self._put(*_record(message, (lines.host or lines.job).encode()), seen_ms)

    def _tail(self, host: str) -> Tail:
        """The reader of a host's agent: a job's log is read on the first of its hosts."""
        if host not in self._tails:
            cards = self.scenario.cluster.of(host) if host in self.scenario.cluster.host_index else ()
            self._tails[host] = Tail(Names([one for card in cards for one in identities_of(card)]))
        return self._tails[host]

    def _new_layouts(self) -> Iterator[Record]:
        for layout in self._senders.layouts.values():
            if layout.id not in self._schemas:
                self._schemas.add(layout.id)
                yield layout.key, layout.encoded()

    def _put(self, topic: str, records: Iterable[Record], at_ms: int) -> None:
        found = list(records)
        self.counts[topic] += len(found)
        self.counts["bytes"] += sum(len(value) for _, value in found)
        self.sink.put(topic, found, at_ms)


def _record(message: AnyMessage, key: bytes) -> tuple[str, list[Record]]:
    return EVENTS if isinstance(message, Event) else STEPS, [(key, messages.encode(message))]


def parts(hosts: int) -> list[range]:
    """The hosts of each part: they do not depend on who works on them."""
    return [range(first, min(first + PART_HOSTS, hosts)) for first in range(0, hosts, PART_HOSTS)]
