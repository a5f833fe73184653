"""Runs a processor over the tasks of a log: poll, fold, commit outputs and position as one. The only I/O of a stage.

After a restart or a change of tasks a task is read again from `low`, the first offset that its open work needs, and
what was already put out is suppressed by the frontier, not by the offset (design, section 2, rule 6).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec import Struct

from sickbay.log import Fenced, OutcomeUnknown, Output, Position, Record, Replaced, Task, TaskLog


class Mark(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a commit keeps beside the offset: windows up to `frontier_ms` are out, open work begins at offset `low`."""

    frontier_ms: int = 0
    low: int = 0
    clock_ms: int = 0


class TaskProcessor(Protocol):
    """A fold over one task. Pure: its outputs depend on the records it was given and on nothing else."""

    def take(self, record: Record) -> Iterable[Output]:
        """What follows from one more record (a tick carries only time)."""
        ...

    def mark(self, offset: int) -> Mark:
        """Where the fold stands, once everything before `offset` was taken."""
        ...


Make = Callable[[Task, Mark], TaskProcessor]  # a fresh fold; what ends at or before the mark's frontier is not put out


@dataclass(slots=True)
class Runner:
    """One member of a group with the folds of its tasks."""

    log: TaskLog
    make: Make
    held: dict[Task, TaskProcessor] = field(default_factory=dict)
    records: int = 0  # taken since the start, ticks included

    def step(self, limit: int = 500, timeout_s: float = 0.0) -> int:
        """One poll and one commit. Returns the number of records taken: 0 = nothing was there.

        Work of a task that was lost meanwhile is forgotten; whoever holds it now repeats it. Raises Replaced where
        another process took this member's name: this one must stop.
        """
        try:
            return self._step(limit, timeout_s)
        except Replaced:
            self.held.clear()
            raise
        except Fenced:
            self.held.clear()
        except OutcomeUnknown:
            self._begin(self.log.assignment())
        return 0

    def _step(self, limit: int, timeout_s: float) -> int:
        batch = self.log.poll(limit, timeout_s)
        for task in batch.revoked:
            self.held.pop(task, None)
        self._begin(batch.assigned)
        outputs: list[Output] = []
        ends: dict[Task, int] = {}
        for record in batch.records:
            outputs += self.held[record.task].take(record)
            ends[record.task] = record.offset + 1
        if ends:
            self.log.commit(outputs, self._positions(ends))
        self.records += len(batch.records)
        return len(batch.records)

    def _begin(self, tasks: Iterable[Task]) -> None:
        for task in sorted(tasks):
            position = self.log.committed(task)
            mark = read_mark(position)
            self.held[task] = self.make(task, mark)
            if position is not None:
                self.log.seek(task, min(mark.low, position.offset))

    def _positions(self, ends: Mapping[Task, int]) -> dict[Task, Position]:
        return {task: Position(end, write_mark(self.held[task].mark(end))) for task, end in ends.items()}

    def drain(self, limit: int = 500) -> int:
        """Steps until two polls in a row find nothing. Returns the number of records taken."""
        before, idle = self.records, 0
        while idle < 2:
            idle = 0 if self.step(limit) else idle + 1
        return self.records - before


def write_mark(mark: Mark) -> str:
    """The mark as the text that lies beside an offset."""
    return msgspec.json.encode(mark).decode()


def read_mark(position: Position | None) -> Mark:
    """The mark of a committed position; one that cannot be read begins at the committed offset with nothing put out."""
    if position is None or not position.metadata:
        return Mark(low=position.offset if position else 0)
    try:
        return msgspec.json.decode(position.metadata, type=Mark)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return Mark(low=position.offset)
