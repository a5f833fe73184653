"""A cluster of a few hosts that speaks as agents do, signed, into any log; and a calm run over what it said."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sickbay import messages, wire
from sickbay.app.asking.incidents_topic import told
from sickbay.app.running.live import Pipeline
from sickbay.frames import matrix_of
from sickbay.log import Appender, Log, Record, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.messages import Event, Incident
from sickbay.schema import Samples
from sickbay.seal import Seal, host_key, sealed
from sickbay.topics import TOPICS
from sickbay.vocabulary import event_kinds
from streams.feature_record import is_clock

KEY = bytes(range(32))
TELEMETRY, EVENTS, SCHEMAS, FEATURES = (
    "sickbay.telemetry.v1", "sickbay.events.v1", "sickbay.schemas.v1", "sickbay.features.v1",
)  # fmt: skip
EVIDENCE, INCIDENTS, DEADLETTER = "sickbay.evidence.v1", "sickbay.incidents.v1", "sickbay.deadletter.v1"
INPUTS = (TELEMETRY, EVENTS, "sickbay.steps.v1", SCHEMAS, "sickbay.topology.v1", "sickbay.placement.v1")
SMALL = {name: replace(topic, partitions=min(2, topic.partitions)) for name, topic in TOPICS.items()}


def card(host: str, place: int = 0) -> str:
    return f"accelerator:{host}/0000:{place:02x}:00"


def lost_card(owner: str, at_ms: int, **fields: Any) -> Event:
    row = event_kinds()["accelerator.off_bus"]
    given: dict[str, Any] = {
        "component": card(owner), "kind": "accelerator.off_bus", "at_ms": at_ms, "seen_ms": at_ms, "code": "79",
        "severity": row.severity, "blame": row.blame, "path": f"{owner}/kmsg", "line": 7, "host": owner,
        "message": "fell off the bus",
    }  # fmt: skip
    return Event(**(given | fields))


@dataclass
class Agent:
    """One host: frames of two cards, and events, each with its place in the sequence of its topic."""

    host: str
    appender: Appender
    key: bytes | None = KEY
    incarnation: int = 7
    numbers: dict[str, int] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)

    def _next(self, topic: str) -> int:
        self.numbers[topic] = self.numbers.get(topic, 0) + 1
        return self.numbers[topic]

    def _secret(self) -> bytes | None:
        return None if self.key is None else host_key(self.key, self.host)

    def sample(self, at_ms: int, owner: str = "") -> bytes:
        """Appends one frame (of another host's cards, if told so) and returns it."""
        values = {
            "power_watts": np.array([500.0 + at_ms % 97, 450.0]),
            "energy_millijoules_total": np.array([at_ms % 10**9, at_ms % 10**9 / 2]),
        }
        samples = Samples(
            "accelerator", [card(owner or self.host), card(owner or self.host, 1)], np.array([at_ms] * 2), values
        )
        matrix = matrix_of(samples)
        if matrix.layout.id not in self.told:
            self.told.add(matrix.layout.id)
            self.appender.append(SCHEMAS, matrix.layout.key, matrix.layout.encoded())
            self.appender.flush()  # before any frame of it: topics have no order between them
        frame = wire.encode(
            self.host, [matrix], sequence=self._next(TELEMETRY), incarnation=self.incarnation, sent_ms=at_ms,
            key=self._secret(),
        )  # fmt: skip
        self.appender.append(TELEMETRY, self.host.encode(), frame)
        return frame

    def say(self, event: Event, host: str = "") -> bytes:
        """Appends one sealed event (under another's name, if told so) and returns it."""
        seal = Seal(host=host or self.host, incarnation=self.incarnation, sequence=self._next(EVENTS))
        payload = sealed(messages.encode(event), seal, self._secret())
        self.appender.append(EVENTS, (host or self.host).encode(), payload)
        return payload


def everything(log: Log, *topics: str) -> Iterator[Record]:
    """All records of the topics, task by task."""
    reader = log.reader()
    for task in tasks_of(log.topics, topics):
        at = reader.bounds(task).begin
        while records := reader.read(task, at, 2000):
            yield from records
            at = records[-1].offset + 1


def features(log: Log) -> list[tuple[int, bytes, bytes]]:
    return [
        (one.partition, one.key, one.value or b"")
        for one in everything(log, FEATURES)
        if not is_clock(one.key) and not one.is_tick
    ]


def incidents(log: Log) -> dict[str, tuple[object, ...]]:
    """The newest word on each incident."""
    found = [told(one.value) for one in everything(log, INCIDENTS)]
    return {one.id: (one.verdict, one.component, one.fault, one.action) for one in found if isinstance(one, Incident)}


def calm(log: Log, width_ms: int, lateness_ms: int) -> MemoryLog:
    """What an undisturbed run makes of the same inputs, told with the same append times."""
    clock = [0]
    calm_log = MemoryLog(log.topics, clock=lambda: clock[0])
    pipeline = Pipeline(calm_log, width_ms=width_ms, lateness_ms=lateness_ms)
    appender = calm_log.appender()
    inputs = sorted(everything(log, *INPUTS), key=lambda one: (one.append_ms, one.topic, one.partition, one.offset))
    clock[0] = inputs[0].append_ms if inputs else 0
    for (
        one
    ) in inputs:  # a layout stands in the log before the frame that needs it, though the same second may part them
        if one.topic == SCHEMAS:
            appender.append(one.topic, one.key, one.value, partition=one.partition)
    for one in inputs:
        if one.topic == SCHEMAS:
            continue
        if one.append_ms // 1000 > clock[0] // 1000 and clock[0]:
            pipeline.work(clock[0])
        clock[0] = max(clock[0], one.append_ms)
        appender.append(one.topic, one.key, one.value, partition=one.partition)
    pipeline.work(clock[0])
    return calm_log


def await_true(what: Any, timeout_s: float = 20.0) -> bool:
    """Whether `what()` came true in time."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.05)
    return False


def only(log: Log, topic: str) -> list[Record]:
    return [one for one in everything(log, topic) if not one.is_tick]
