"""What a small cluster puts into the log, from a seed: good, late, repeated, out of order, damaged, foreign, unsigned.

Frames of two cards and two ports a host; jobs that move from host to host inside a window and are told late; cables
that are told late; lost cards, links down, wishes of jobs. One partition of telemetry hears of no host at all.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sickbay import messages, packs, wire
from sickbay.components import Name
from sickbay.edges import log_key
from sickbay.frames import Matrix, matrix_of
from sickbay.log import Log, LogError, wall_ms
from sickbay.messages import Edge, Event, Placement, Relation, Severity
from sickbay.schema import Samples
from sickbay.seal import Seal, host_key, sealed
from sickbay.topics import EVENTS, PLACEMENT, SCHEMAS, TELEMETRY, TOPICS, TOPOLOGY, partition_of
from sickbay.vocabulary import event_kinds

PARTITIONS, SILENT = 3, 2
SMALL = {name: replace(topic, partitions=min(PARTITIONS, topic.partitions)) for name, topic in TOPICS.items()}
KEY = bytes(range(32))
WIDTH_MS = LATENESS_MS = 1000
BEAT_MS = 500  # between two frames of a host
RAILS = 2
RELAYED = 2  # hosts whose frames come in packs


def named(start: str, count: int) -> list[str]:
    """Names none of which falls into the silent partition."""
    names = (f"{start}{number}" for number in range(10 * count))
    return [name for name in names if partition_of(name.encode(), PARTITIONS) != SILENT][:count]


POD = named("pod", 1)[0]


def card(host: str, place: int) -> Name:
    """One of a host's two cards."""
    return f"accelerator:{host}/0000:{place:02x}:00"


@dataclass
class Host:
    """One agent: its counters, and its place in the sequence of each topic."""

    name: str
    numbers: Counter[str] = field(default_factory=Counter)
    erring: bool = False  # its ports count errors

    def seal(self, topic: str) -> Seal:
        self.numbers[topic] += 1
        return Seal(host=self.name, incarnation=7, sequence=self.numbers[topic])

    def matrices(self, at_ms: Iterable[int], chance: random.Random) -> list[Matrix]:
        """Rows of these times; now and then without a column, or with a counter that began anew."""
        times = np.repeat(np.array(list(at_ms), np.int64), 2)
        restarted = 0 if chance.random() > 0.05 else 10**6
        power = {"power_watts": np.array([chance.uniform(300, 700) for _ in times])}
        energy = {"energy_millijoules_total": times % 10**9 * 7 - restarted}
        cards = power | (energy if chance.random() > 0.1 else {})
        ports: dict[str, Any] = {"up": np.ones(len(times)), "rx_errors_total": times // 1000 % 10**6 * self.erring}
        names = [[card(self.name, place) for place in range(2)], [f"port:{self.name}/r{rail}" for rail in range(RAILS)]]
        tables = zip(("accelerator", "port"), names, (cards, ports), strict=True)
        return [matrix_of(Samples(table, own * (len(times) // 2), times, told)) for table, own, told in tables]

    def frame(self, matrices: list[Matrix], now_ms: int, key: bytes | None) -> bytes:
        number = self.seal(TELEMETRY).sequence
        return wire.encode(self.name, matrices, sequence=number, incarnation=7, sent_ms=now_ms, key=key)


class Site(threading.Thread):
    """Speaks for some seconds, in its own thread."""

    def __init__(self, seed: int, put: "Speaker", seconds: float, hosts: int = 8) -> None:
        super().__init__(daemon=True, name="site")
        self._chance, self._put, self._beats = random.Random(seed), put, round(seconds * 1000 / BEAT_MS)
        self.hosts = [Host(name, erring=not place) for place, name in enumerate(named("n", hosts))]
        self.said: Counter[str] = Counter()  # what was put in, by kind
        self.over = threading.Event()
        self.last_ms = 0
        self._held: list[tuple[str, bytes, bytes]] = []  # out of order: to be put in with the next beat
        self._layouts: set[int] = set()
        self._jobs: dict[str, tuple[str, ...]] = {}

    def run(self) -> None:
        """Each beat when its time is there."""
        begin_ms = wall_ms()
        for beat in range(self._beats):
            if self.over.wait(max(0.0, (begin_ms + beat * BEAT_MS - wall_ms()) / 1000)):
                break
            self.beat(beat, wall_ms())
            self._put.flush()
        self.over.set()

    def beat(self, beat: int, now_ms: int) -> None:
        """Everything that is said at one moment."""
        self.last_ms = now_ms
        held, self._held = self._held, []
        for host in self.hosts[:-RELAYED]:
            if self._chance.random() < 0.95:
                self._telemetry(host, now_ms)
        for topic, key, value in held:
            self.tell("out of order", topic, key, value)
        if beat in (1, 20):
            self._cables(beat)
        if beat % 3 == 0:
            self._placement(beat, now_ms)
        if self._chance.random() < 0.3:
            self._happens(now_ms)
        self._pack(now_ms)

    def tell(self, kind: str, topic: str, key: bytes, value: bytes) -> None:
        """Puts it in and counts it."""
        self.said[kind] += 1
        self._put(topic, key, value)

    def _telemetry(self, host: Host, now_ms: int) -> None:
        kind = self._chance.choices(KINDS, WEIGHTS)[0]
        ages = {
            "late": [0, self._chance.randrange(0, 1500)],
            "too late": [0, self._chance.randrange(2500, 9000)],
            "ahead": [-self._chance.randrange(500, 6000)],
        }.get(kind, [0])
        matrices = host.matrices([now_ms - age for age in ages], self._chance)
        self._learn(matrices)
        other = self._chance.choice([one for one in self.hosts if one is not host])
        secret = {"foreign": host_key(KEY, other.name), "unsigned": None}.get(kind, host_key(KEY, host.name))
        frame = host.frame(matrices, now_ms, secret)
        if kind == "damaged":
            at = self._chance.randrange(len(frame))
            frame = frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]
        record = TELEMETRY, host.name.encode(), frame
        if kind == "lost":
            return
        if kind == "held":
            self._held.append(record)
            return
        self.tell(kind, *record)
        if kind == "twice":
            (self._held.append if self._chance.random() < 0.5 else lambda one: self.tell("again", *one))(record)

    def _learn(self, matrices: Iterable[Matrix]) -> None:
        for layout in (matrix.layout for matrix in matrices):
            if layout.id not in self._layouts:
                self._layouts.add(layout.id)
                self.tell("layout", SCHEMAS, layout.key, layout.encoded())

    def _pack(self, now_ms: int) -> None:
        """A relay's record of its hosts, one of whose frames may be damaged."""
        frames = []
        for host in self.hosts[-RELAYED:]:
            matrices = host.matrices([now_ms - 50], self._chance)
            self._learn(matrices)
            frames.append(host.frame(matrices, now_ms, host_key(KEY, host.name)))
        if self._chance.random() < 0.1:
            frames[0] = frames[0][:-3] + b"bad"
        self.tell("pack", TELEMETRY, POD.encode(), packs.pack(frames))

    def _cables(self, beat: int) -> None:
        """Those of the first rail at once, all others ten seconds later."""
        told = [(host.name, rail) for host in self.hosts for rail in range(RAILS) if (rail == 0) == (beat == 1)]
        edges = [
            Edge(child=f"port:{host}/r{rail}", parent=f"port:leaf{rail}/{host}", relation=Relation.LINK_END, source="s")
            for host, rail in told
        ]
        edges += [
            Edge(child=f"port:leaf{rail}/e0", parent=f"switch:leaf{rail}", relation=Relation.PART_OF, source="s")
            for rail in range(RAILS)
        ]
        for edge in edges:
            self.tell("cable", TOPOLOGY, log_key(edge).encode(), messages.encode(edge))

    def _placement(self, beat: int, now_ms: int) -> None:
        """A job begins or ends in the last two seconds or the next one: inside a window, often told late."""
        job, at_ms = str(beat % 4), now_ms - self._chance.randrange(-1000, 2000)
        running = self._jobs.pop(job, None)
        if running is not None:
            said = Placement(job=job, attempt=beat // 12, hosts=running, to_ms=at_ms, state="completed")
        else:
            hosts = tuple(host.name for host in self._chance.sample(self.hosts, 3))
            self._jobs[job] = hosts
            said = Placement(job=job, attempt=beat // 12, hosts=hosts, from_ms=at_ms)
        self.tell("placement", PLACEMENT, job.encode(), messages.encode(said))

    def _happens(self, now_ms: int) -> None:
        host, other = self._chance.sample(self.hosts, 2)
        kind = self._chance.choices(("off", "link", "wish", "mend"), (6, 3, 1, 1))[0]
        payload = messages.encode(_event(kind, host.name, now_ms, self._chance))
        key, way = host_key(KEY, host.name), self._chance.choices(WAYS, (6, 2, 1, 1, 1))[0]
        value = {
            "damaged": lambda: b"{]" + payload[:20],
            "foreign": lambda: sealed(payload, host.seal(EVENTS), host_key(KEY, other.name)),
            "unsigned": lambda: sealed(payload, host.seal(EVENTS)),
        }.get(way, lambda: sealed(payload, host.seal(EVENTS), key))()
        self.tell(f"event {way}", EVENTS, host.name.encode(), value)
        if way == "twice":
            self._held.append((EVENTS, host.name.encode(), value))


KINDS = ("fine", "late", "too late", "ahead", "twice", "held", "lost", "damaged", "foreign", "unsigned")
WEIGHTS = (70, 10, 3, 2, 5, 4, 2, 1.5, 1.5, 1)
WAYS = ("fine", "twice", "damaged", "foreign", "unsigned")


def _event(kind: str, host: str, now_ms: int, chance: random.Random) -> Event:
    common: dict[str, Any] = {"at_ms": now_ms - chance.randrange(300), "host": host, "path": f"{host}/kmsg", "line": 7}
    if kind == "off":
        row = event_kinds()["accelerator.off_bus"]
        told: dict[str, Any] = {
            "severity": row.severity,
            "blame": row.blame,
            "code": "79",
            "message": "fell off the bus",
        }
        return Event(component=card(host, chance.randrange(2)), kind="accelerator.off_bus", **common, **told)
    if kind == "wish":
        until: dict[str, Any] = {"attributes": {"until_ms": str(now_ms + 60_000)}}
        return Event(component=f"job:{chance.randrange(4)}", kind="job.no_stop_until", **until, **common)
    port, state = f"port:{host}/r{chance.randrange(RAILS)}", "port.up" if kind == "mend" else "port.down"
    return Event(component=port, kind=state, severity=Severity.ERROR if kind == "link" else Severity.INFO, **common)


class Speaker:
    """Appends for a site, whatever happens to the log meanwhile: what was not taken is told again."""

    def __init__(self, log: Log) -> None:
        self._appender = log.appender()
        self.again = 0

    def __call__(self, topic: str, key: bytes, value: bytes) -> None:
        while True:
            try:
                self._appender.append(topic, key, value)
                if topic == SCHEMAS:  # before any frame of it: topics have no order between them
                    self._appender.flush()
                return
            except LogError:
                self.again += 1

    def flush(self) -> None:
        """What was said is in the log, or lost: a spool would say it again."""
        try:
            self._appender.flush()
        except LogError:
            self.again += 1
