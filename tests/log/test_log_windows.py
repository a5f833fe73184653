"""The rules of state (design, section 2) hold on these engines: a window processor killed at random loses nothing.

It counts records per key and window. Rule 1: a decision depends on its partition's prefix only. Rule 2: its clock is
append time. Rule 6: the commit carries {frontier, low}; on assignment it seeks to `low` and suppresses by frontier.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sickbay.log import Appender, Fenced, Output, Position, Record, Task, TaskLog, tick, wall_ms
from sickbay.log.memory import MemoryLog
from tests.log.engines import ENGINES, START_MS, TOPICS, Engine, kafka
from tests.services.kafka import Addresses

WIDTH_MS, LATENESS_MS = 100, 50
PARTITIONS = range(TOPICS["in"].partitions)


class Killed(Exception):
    """The process died here."""


class Windows:
    """The state of one task: a pure function of the records since `low` and of the frontier."""

    def __init__(self, position: Position | None) -> None:
        told = json.loads(position.metadata) if position else {"frontier": 0, "low": 0}
        self.frontier, self.low = told["frontier"], told["low"]
        self.open: dict[int, Counter[bytes]] = {}
        self.first: dict[int, int] = {}  # offset of the oldest record of each open window
        self.clock = self.offset = 0

    def take(self, record: Record) -> Iterator[tuple[int, bytes, int]]:
        """The windows that this record closes; then the record itself is counted, unless its window is closed."""
        self.clock, self.offset = max(self.clock, record.append_ms), record.offset + 1
        for end in sorted(end for end in self.open if self.clock >= end + LATENESS_MS):
            counts = self.open.pop(end)
            del self.first[end]
            if end > self.frontier:
                self.frontier = end
                yield from ((end, key, count) for key, count in sorted(counts.items()))
        if not record.is_tick:
            end = (int(record.value or b"") // WIDTH_MS + 1) * WIDTH_MS
            if self.clock < end + LATENESS_MS:
                self.open.setdefault(end, Counter())[record.key] += 1
                self.first.setdefault(end, record.offset)

    def position(self) -> Position:
        low = min(self.first.values(), default=self.offset)
        return Position(self.offset, json.dumps({"frontier": self.frontier, "low": low}))


class Processor:
    """One life of a process."""

    def __init__(self, member: TaskLog, chance: random.Random) -> None:
        self.member, self.random = member, chance
        self.windows: dict[Task, Windows] = {}
        self.outputs: list[Output] = []

    def step(self) -> bool:
        """Whether there was something to do. Commits at random moments; a change of tasks drops uncommitted work."""
        batch = self.member.poll(limit=20)
        if batch.revoked or batch.assigned:
            self.outputs = []
            for task in self.member.assignment():
                self.windows[task] = state = Windows(self.member.committed(task))
                self.member.seek(task, state.low)
            return True
        for record in batch.records:
            for end, key, count in self.windows[record.task].take(record):
                value = b"%d %d %d" % (record.partition, end, count)
                self.outputs.append(Output("out", key, value, record.partition % 2))
        if self.random.random() < 0.4 or not batch.records:
            held = self.member.assignment()
            self.member.commit(self.outputs, {t: self.windows[t].position() for t in held if self.windows[t].offset})
            self.outputs = []
        return bool(batch.records)


def feed(appender: Appender, advance: Callable[[int], None], now: Callable[[], int], seed: int) -> None:
    """Records whose own time is up to 180 ms behind or 30 ms ahead, some too late, and a tick every 40 ms."""
    chance = random.Random(seed)
    for _ in range(150):
        advance(chance.choice((0, 0, 1, 5, 20)))
        at = now() + chance.randint(-180, 30)
        appender.append("in", b"host-%d" % chance.randrange(4), b"%d" % at, partition=chance.choice(PARTITIONS))
        if chance.random() < 0.3:
            advance(10)
            tick(appender, TOPICS, ["in"])
        appender.flush()  # the log dates what it writes
    advance(1000)
    tick(appender, TOPICS, ["in"])
    appender.flush()


def outputs_of(engine: Engine) -> list[tuple[bytes, bytes | None]]:
    return sorted((record.key, record.value) for index in range(2) for record in engine.all("out", index))


def expected(engine: Engine) -> list[tuple[bytes, bytes | None]]:
    """What one process that never dies writes, computed from the records themselves."""
    found = []
    for index in PARTITIONS:
        windows = Windows(None)
        for record in engine.all("in", index):
            found += [(key, b"%d %d %d" % (index, end, count)) for end, key, count in windows.take(record)]
    return sorted(found)


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize("seed", range(6))
def test_a_processor_that_dies_writes_what_one_that_lives_writes(name: str, seed: int, tmp_path: Path) -> None:
    engines = ENGINES[name](tmp_path)
    engine = next(engines)
    feed(engine.log.appender(), engine.after, lambda: engine.clock[0], seed)
    chance = random.Random(seed)
    for _ in range(12):  # lives
        processor = Processor(engine.log.join("group", ["in"], "m"), chance)
        for _ in range(chance.randrange(12)):
            processor.step()
    while processor.step() or processor.step():
        pass
    assert outputs_of(engine) == expected(engine)
    assert len(expected(engine)) > 20
    next(engines, None)


@pytest.mark.service
def test_a_processor_that_dies_writes_what_one_that_lives_writes_on_kafka(kafka_broker: Addresses) -> None:
    """The same in real time: the broker dates the records."""
    for engine in kafka(kafka_broker.brokers):
        feed(engine.appender, lambda ms: time.sleep(ms / 1000), wall_ms, seed=1)
        chance = random.Random(1)
        for _ in range(6):
            processor = Processor(engine.log.join("group", ["in"], "m"), chance)
            for _ in range(1 + chance.randrange(12)):
                processor.step()
        while processor.step() or processor.step():
            pass
        assert outputs_of(engine) == expected(engine)
        assert len(expected(engine)) > 20


@pytest.mark.parametrize("seed", range(25))
def test_members_that_come_go_sleep_and_die_in_a_commit_write_what_one_writes(seed: int) -> None:
    chance = random.Random(seed)
    clock = [START_MS]
    armed = [True]

    def advance(ms: int) -> None:
        clock[0] += ms

    def die(moment: str) -> None:
        if armed[0] and chance.random() < 0.15:
            raise Killed(moment)

    log = MemoryLog(TOPICS, clock=lambda: clock[0], seed=seed, hook=die, session_ms=50)
    feed(log.appender(), advance, lambda: clock[0], seed)
    engine = Engine(log, True, clock)
    alive: list[Processor] = []
    born = 0
    for _ in range(150):
        advance(chance.choice((0, 5, 60)))  # a member that is not chosen for a while is evicted
        if len(alive) < 3 and chance.random() < 0.4:
            born += 1
            alive.append(Processor(log.join("group", ["in"], f"m{born % 4}"), chance))
        if alive:
            one = chance.choice(alive)
            try:
                one.step()
            except Killed:
                alive.remove(one)
            except Fenced:
                if chance.random() < 0.5:
                    alive.remove(one)
                else:
                    one.outputs = []
    armed[0] = False
    clock[0] += 1000
    last = Processor(log.join("group", ["in"], "last"), chance)
    while last.step() or last.step() or len(last.member.assignment()) < len(PARTITIONS):
        clock[0] += 100
    assert outputs_of(engine) == expected(engine)
    assert len(expected(engine)) > 20
