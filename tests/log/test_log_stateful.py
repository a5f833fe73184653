"""Every engine against a naive model, under random sequences of everything that can be done to it."""

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sickbay.log import Bounds, Fenced, OffsetOutOfRange, Output, Position, Task, TaskLog, TooLarge
from sickbay.topics import TOMBSTONE_MS, partition_of
from tests.log.engines import ENGINES, START_MS, TOPICS, Engine

TASKS = [Task(name, index) for name, topic in TOPICS.items() for index in range(topic.partitions)]
KEYS = [b"", b"a", b"b", "主机".encode(), b"\xff\x00"]


class Row(NamedTuple):
    offset: int
    append_ms: int
    key: bytes
    value: bytes | None


class Part:
    """A partition as a list."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.begin = self.end = 0

    def append(self, key: bytes, value: bytes | None, now: int) -> None:
        self.rows.append(Row(self.end, now, key, value))
        self.end += 1

    def expire(self, keep_ms: int, now: int) -> None:
        while self.rows and self.rows[0].append_ms < now - keep_ms:
            self.begin = self.rows.pop(0).offset + 1

    def compact(self, lag_ms: int, now: int) -> None:
        settled = [row for row in self.rows if row.append_ms < now - lag_ms]
        for row in settled:
            later = any(other.key == row.key and other.offset > row.offset for other in settled)
            forgotten = row.value is None and row.append_ms < now - lag_ms - TOMBSTONE_MS
            if later or forgotten:
                self.rows.remove(row)


class LogMachine(RuleBasedStateMachine):
    """Appends, polls, commits, seeks, restarts, zombies, time and upkeep in any order."""

    engine: Engine
    member: TaskLog

    @initialize()
    def open(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.engines = ENGINES[self.name](self.directory)
        self.engine = next(self.engines)
        self.parts = {task: Part() for task in TASKS}
        self.positions: dict[Task, Position] = {}
        self.now = START_MS
        self.join()

    name: ClassVar[str]

    def teardown(self) -> None:
        if hasattr(self, "engines"):
            next(self.engines, None)
            shutil.rmtree(self.directory)

    def join(self) -> None:
        self.member = self.engine.log.join("group", ["in", "fast"], "m")
        batch = self.member.poll()
        assert set(batch.assigned) == {task for task in TASKS if task.topic in ("in", "fast")}
        starts = {task: self.positions.get(task) for task in batch.assigned}
        self.at = {task: self.parts[task].begin if p is None else p.offset for task, p in starts.items()}

    def placed(self, output: Output) -> Task:
        count = TOPICS[output.topic].partitions
        wanted = output.partition
        return Task(output.topic, partition_of(output.key, count) if wanted is None else wanted % count)

    outputs = st.builds(
        Output,
        st.sampled_from(sorted(TOPICS)),
        st.sampled_from(KEYS),
        st.none() | st.binary(max_size=3),
        st.none() | st.just(0),
    )

    @rule(many=st.lists(outputs, min_size=1, max_size=6))
    def append(self, many: list[Output]) -> None:
        appender = self.engine.log.appender()
        outcomes = [appender.append(o.topic, o.key, o.value, partition=o.partition) for o in many]
        appender.flush()
        for output, outcome in zip(many, outcomes, strict=True):
            part = self.parts[self.placed(output)]
            assert outcome.result().offset == part.end
            part.append(output.key, output.value, self.now)

    @rule(ms=st.sampled_from([1, 50, 99, 100, 101, 400, 1000, 1001, TOMBSTONE_MS]))
    def wait(self, ms: int) -> None:
        self.engine.after(ms)
        self.now += ms

    @rule()
    def sweep(self) -> None:
        self.engine.sweep_all()
        for task, part in self.parts.items():
            topic = TOPICS[task.topic]
            if topic.compacted:
                part.compact(topic.lag_ms, self.now)
            elif topic.keep_ms is not None:
                part.expire(topic.keep_ms, self.now)

    @rule(limit=st.integers(1, 7))
    def poll(self, limit: int) -> None:
        if overtaken := {task for task, at in self.at.items() if at < self.parts[task].begin}:
            with pytest.raises(OffsetOutOfRange) as caught:
                self.member.poll(limit)
            assert caught.value.task in overtaken
            for task in overtaken:
                self.seek(task, self.parts[task].begin)
        waiting = any(row.offset >= self.at[task] for task in self.at for row in self.parts[task].rows)
        records = self.member.poll(limit).records
        assert len(records) <= limit
        assert bool(records) == waiting
        for record in records:
            expected = next(row for row in self.parts[record.task].rows if row.offset >= self.at[record.task])
            assert record[2:] == expected
            self.at[record.task] = record.offset + 1

    def seek(self, task: Task, offset: int) -> None:
        self.member.seek(task, offset)
        self.at[task] = offset

    @rule(task=st.sampled_from([task for task in TASKS if task.topic in ("in", "fast")]), share=st.floats(0, 1))
    def seek_somewhere(self, task: Task, share: float) -> None:
        part = self.parts[task]
        self.seek(task, part.begin + round(share * (part.end - part.begin)))

    @rule(many=st.lists(outputs, max_size=4), chosen=st.integers(0, 31), metadata=st.text(max_size=5))
    def commit(self, many: list[Output], chosen: int, metadata: str) -> None:
        metadata = metadata.encode("utf-8", "replace").decode()
        held = [task for place, task in enumerate(sorted(self.at)) if chosen >> place & 1]
        positions = {task: Position(self.at[task], metadata) for task in held}
        self.member.commit(many, positions)
        self.positions |= positions
        for output in many:
            self.parts[self.placed(output)].append(output.key, output.value, self.now)

    @rule(many=st.lists(outputs, max_size=3))
    def commit_that_is_refused(self, many: list[Output]) -> None:
        with pytest.raises(TooLarge):
            self.member.commit([*many, Output("out", b"k", bytes(2001))], {Task("in", 0): Position(1, "no")})

    @rule(many=st.lists(outputs, max_size=3), dies=st.booleans())
    def restart(self, many: list[Output], dies: bool) -> None:
        before = self.member
        if not dies:
            before.close()
        self.join()
        if dies:
            with pytest.raises(Fenced):
                before.commit(many, {Task("in", 0): Position(0, "from the dead")})

    @precondition(lambda self: hasattr(self, "member"))
    @invariant()
    def holds_what_the_model_holds(self) -> None:
        reader = self.engine.log.reader()
        for task, part in self.parts.items():
            assert reader.bounds(task) == Bounds(part.begin, part.end)
            assert [record[2:] for record in reader.read(task, part.begin, 10_000)] == part.rows
            assert reader.committed("group", task) == self.positions.get(task)


class MemoryMachine(LogMachine):
    name = "memory"


class SqliteMachine(LogMachine):
    name = "sqlite"


TestMemory = pytest.mark.slow(MemoryMachine.TestCase)
TestMemory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestSqlite = pytest.mark.slow(SqliteMachine.TestCase)
TestSqlite.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
