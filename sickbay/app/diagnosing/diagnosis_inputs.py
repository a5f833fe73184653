"""The records that diagnosis reads, of all tasks, until their moment has come; then in one order.

The order is (append time, topic, partition, offset), whatever the order of reading: between partitions a log has none.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sickbay.log import Record, Task

SIDE_MARGIN_MS = 1_000  # facts are seen so much later: that is how far the clocks of brokers may be apart


def _order(record: Record) -> tuple[int, str, int, int]:
    return record.append_ms, record.topic, record.partition, record.offset


@dataclass(slots=True)
class Inputs:
    """`driving` tasks have ticks, and with them a clock; `side` ones are complete as far as `facts_ms`."""

    driving: Iterable[Task]
    side: Iterable[Task]
    facts_ms: int = 0
    first_ms: int | None = None  # append time of the first record of a driving task
    heard: dict[Task, int] = field(init=False)  # append time of each task's newest record
    clocks: dict[Task, int] = field(init=False)  # nothing comes of a task that was appended before
    _waiting: dict[Task, deque[Record]] = field(init=False)
    _facts: dict[Task, deque[Record]] = field(init=False)
    _driven_ms: int | None = 0  # None: to be counted anew

    def __post_init__(self) -> None:
        self.clocks, self.heard = dict.fromkeys(tasks := sorted(self.driving), 0), dict.fromkeys(tasks, 0)
        self._waiting = {task: deque() for task in self.clocks}
        self._facts = {task: deque() for task in sorted(self.side)}

    def add(self, record: Record) -> None:
        """One more record of a task, in the task's order."""
        task = record.task
        if task in self._facts:
            self._facts[task].append(record)
            return
        waiting = self._waiting[task]
        if record.is_tick and waiting and waiting[-1].append_ms == record.append_ms and waiting[-1].is_tick:
            waiting.pop()  # the time that they carry is the same
        waiting.append(record)
        self.first_ms = record.append_ms if self.first_ms is None else min(self.first_ms, record.append_ms)
        self.heard[task] = record.append_ms
        self.reached(task, record.append_ms)

    def reached(self, task: Task, clock_ms: int) -> None:
        """Nothing of a task comes any more that was appended before."""
        if clock_ms > self.clocks[task]:
            self.clocks[task], self._driven_ms = clock_ms, None

    @property
    def newest_ms(self) -> int:
        """What time it is by more than half of the partitions: a broker whose clock is wrong must not decide that."""
        return sorted(self.heard.values())[(len(self.heard) - 1) // 2]

    @property
    def driven_ms(self) -> int:
        """All that was appended before is there, of driving tasks; 0 where one of them was never heard."""
        if self._driven_ms is None:
            self._driven_ms = min(self.clocks.values())
        return self._driven_ms

    def until(self, at_ms: int) -> list[Record]:
        """What was appended by then, facts `SIDE_MARGIN_MS` before, in the one order; each record once."""
        found: list[Record] = []
        for waiting in self._waiting.values():
            while waiting and waiting[0].append_ms <= at_ms:
                found.append(waiting.popleft())
        for waiting in self._facts.values():
            while waiting and waiting[0].append_ms <= at_ms - SIDE_MARGIN_MS:
                found.append(waiting.popleft())
        found.sort(key=_order)
        return found
