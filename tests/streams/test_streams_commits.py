"""When the runner commits, and how much it polls at once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sickbay.log import Batch, Output, Receipt, Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.topics import EVENTS, EVIDENCE, TOPICS
from streams.runner import Mark, Runner

SMALL = {name: replace(topic, partitions=min(2, topic.partitions)) for name, topic in TOPICS.items()}


class Echo:
    """Puts out what begins with an exclamation mark."""

    def take(self, record: Record) -> Iterator[Output]:
        if (record.value or b"").startswith(b"!"):
            yield Output(EVIDENCE, b"", record.value)

    def mark(self, offset: int) -> Mark:
        return Mark(low=offset)

    def committed(self, written: Sequence[tuple[Output, Receipt]]) -> None:
        pass


class Night:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.s, self.commits = 100.0, 0
        self.log = MemoryLog(SMALL, hook=self._hook)
        self.put = self.log.appender()
        monkeypatch.setattr("time.monotonic", lambda: self.s)
        self.settings = settings
        self.runner = self.member("a")
        self.runner.step()

    def _hook(self, moment: str) -> None:
        self.commits += moment == "commit:before"

    def member(self, name: str) -> Runner:
        return Runner(self.log.join("g", [EVENTS], name), lambda task, mark: Echo(), **self.settings)

    def say(self, value: bytes, partition: int = 0) -> None:
        self.put.append(EVENTS, b"h", value, partition=partition)

    def committed(self, partition: int = 0) -> int:
        position = self.runner.log.committed(Task(EVENTS, partition))
        return position.offset if position else 0


def test_positions_wait_for_their_time_and_outputs_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch, commit_s=0.25)
    night.say(b"one")
    night.runner.step()
    assert (night.commits, night.committed()) == (1, 1)  # long after the commit before
    night.say(b"two")
    night.runner.step()
    assert (night.commits, night.committed()) == (1, 1)
    night.say(b"!three")
    night.runner.step()
    assert (night.commits, night.committed()) == (2, 3)
    night.say(b"four")
    night.runner.step()
    night.s += 0.3
    night.runner.step()  # finds nothing, and commits
    assert (night.commits, night.committed()) == (3, 4)
    night.say(b"five")
    night.runner.step()
    night.runner.flush()
    night.runner.flush()
    assert (night.commits, night.committed()) == (4, 5)


def test_what_was_taken_of_a_task_that_went_to_another_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch, commit_s=1000.0)
    night.runner._committed_s = night.s
    for partition in (0, 1):
        night.say(b"taken", partition)
    while len(night.runner._open) < 2:
        night.runner.step()
    other = night.member("b")
    while len(night.runner.tasks) == 2:
        night.runner.step()
        other.step()
    (lost,) = {0, 1} - {task.partition for task in night.runner.tasks}
    night.runner.flush()
    assert (night.committed(lost), night.committed(1 - lost)) == (0, 1)
    other.flush()
    while night.committed(lost) == 0:
        other.step()
        other.flush()
    assert night.committed(lost) == 1


def test_a_poll_takes_as_many_records_as_fit_by_the_size_of_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(monkeypatch, poll_bytes=1000)
    asked: list[int] = []
    poll = night.runner.log.poll

    def counted(limit: int = 500, timeout_s: float = 0.0) -> Batch:
        asked.append(limit)
        return poll(limit, timeout_s)

    monkeypatch.setattr(night.runner.log, "poll", counted)
    for size in (100, 5000, 1):
        night.say(bytes(size))
        night.runner.step(50)
    night.runner.step(50)
    assert asked == [50, 10, 1, 50]
