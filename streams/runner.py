"""Runs a processor over the tasks of a log: poll, fold, commit outputs and position as one. The only I/O of a stage.

After a restart or a change of tasks a task is read again from `low`, the first offset that its open work needs, and
what was already put out is suppressed by the frontier, not by the offset (design, section 2, rule 6). After any commit
that failed all tasks begin anew from what is committed: nobody can tell which of their work was kept.

A record that a processor cannot take becomes a dead letter, in the same commit as its position; it still carries time.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from sickbay import selfmetrics
from sickbay.log import (
    Batch,
    Closed,
    Fenced,
    LogDamaged,
    LogError,
    OffsetOutOfRange,
    Output,
    Position,
    Receipt,
    Record,
    Replaced,
    Task,
    TaskLog,
    TooLarge,
    UnfitPlace,
    UnknownTopic,
)
from sickbay.selfmetrics import SelfMetrics
from sickbay.trouble import Trouble
from streams.dead_letters import DeadLetters, reason_of

COMMIT_BYTES = 8 << 20  # of outputs, and a record's more: then a step commits, as a slow broker must take it in time
TAKE_S = 2.0  # of one step: what was polled and is not taken by then is left for the next one

FATAL = (Replaced, Closed, LogDamaged, UnfitPlace, TooLarge, UnknownTopic)  # no retry mends these: the process must end


class Mark(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a commit keeps beside the offset: windows up to `frontier_ms` are out, open work begins at offset `low`.

    `state`: offset of the state topic from which the newest state of the task is found.
    """

    frontier_ms: int = 0
    low: int = 0
    clock_ms: int = 0
    state: int = 0


M = TypeVar("M", bound=Mark)


class TaskProcessor(Protocol):
    """A fold over one task. Pure: its outputs depend on the records it was given and on nothing else."""

    def take(self, record: Record) -> Iterable[Output]:
        """What follows from one more record (a tick carries only time). Raises for one that cannot be used, before
        anything of it was kept; of a pack of many the good members are kept."""
        ...

    def mark(self, offset: int) -> Mark:
        """Where the fold stands, once everything before `offset` was taken."""
        ...

    def committed(self, written: Sequence[tuple[Output, Receipt]]) -> None:
        """Its outputs are in the log, and where; those of other tasks in the same commit are told too."""
        ...


Make = Callable[[Task, Mark], TaskProcessor]  # a fresh fold; what ends at or before the mark's frontier is not put out


def _silent(text: str) -> None:
    """Nobody is told."""


@dataclass(slots=True)
class _Held:
    """A task at work. `committed`: records before it had their letters, if any, in an earlier commit."""

    processor: TaskProcessor
    committed: int
    letters: DeadLetters = field(default_factory=DeadLetters)


@dataclass(slots=True)
class _Open:
    """Work of a task since its last commit."""

    end: int
    outputs: list[Output] = field(default_factory=list)


@dataclass(slots=True)
class Runner:
    """One member of a group with the folds of its tasks."""

    log: TaskLog
    make: Make
    metrics: SelfMetrics = field(default_factory=SelfMetrics)
    group: str = ""
    say: Callable[[str], None] = _silent
    commit_s: float = 0.0  # least time between two commits while nothing is to be put out; 0: one after each poll
    poll_bytes: int = 0  # about so much is polled at once; 0: any size
    tasks: dict[Task, _Held] = field(default_factory=dict)
    records: int = 0  # taken since the start, ticks included
    troubled: bool = False  # the newest step failed and begins anew: wait a little
    trouble: Trouble = field(init=False)
    _open: dict[Task, _Open] = field(default_factory=dict)  # taken and not committed
    _polled: deque[Record] = field(default_factory=deque)  # and not taken
    _committed_s: float = 0.0  # when, by the monotonic clock
    _mean: float = 0.0  # bytes of a record, of the newest poll

    def __post_init__(self) -> None:
        self.trouble = Trouble(self.group, self.say)

    @property
    def held(self) -> dict[Task, TaskProcessor]:
        """The folds at work, by task."""
        return {task: held.processor for task, held in self.tasks.items()}

    def step(self, limit: int = 500, timeout_s: float = 0.0) -> int:
        """One poll and one commit. Returns the number of records taken: 0 = nothing was there, or it failed.

        Work of a task that was lost meanwhile is forgotten; whoever holds it now repeats it. Raises what no retry
        mends, above all Replaced: another process took this member's name, so this one must stop.
        """
        self.troubled = False
        try:
            taken = self._step(limit, timeout_s)
            if taken:  # else nothing is said of the log: silence is no answer
                self.trouble.over()
            return taken
        except FATAL:
            self._forget()
            raise
        except LogError as error:
            self._failed(error)
        return 0

    def _step(self, limit: int, timeout_s: float) -> int:
        self._begin(self.log.assignment() - set(self.tasks))
        if not self._polled:
            batch = self._poll(self._room(limit), timeout_s)
            for task in batch.revoked:
                self._drop(task)
            self._begin(batch.assigned)
            self._polled.extend(batch.records)
            self._count(batch.records)
        taken = self._taken_of_polled()
        if self._open and self._is_time():
            self._commit()
        return taken

    def _taken_of_polled(self) -> int:
        """Takes records, as many as one step and one commit have room for. Returns how many."""
        began, size, number = time.monotonic(), 0, 0
        while self._polled and size < COMMIT_BYTES and time.monotonic() - began < TAKE_S:
            record = self._polled.popleft()
            work = self._open.get(record.task)
            if work is None:
                work = self._open[record.task] = _Open(0)
            for output in self._take(record):
                work.outputs.append(output)
                size += len(output.value or b"")
            work.end = record.offset + 1
            number += 1
        self.records += number
        return number

    def flush(self) -> None:
        """Commits what was taken, where that still is ours. Raises what no retry mends."""
        try:
            if self._open:
                self._commit()
        except FATAL:
            self._forget()
            raise
        except LogError as error:
            self._failed(error)

    def _is_time(self) -> bool:
        """Outputs wait for nobody."""
        waited_s = time.monotonic() - self._committed_s
        return waited_s >= self.commit_s or any(work.outputs for work in self._open.values())

    def _room(self, limit: int) -> int:
        """Records that one poll may give, by the size of those before."""
        if not self.poll_bytes or not self._mean:
            return limit
        return max(1, min(limit, int(self.poll_bytes / self._mean)))

    def _drop(self, task: Task) -> None:
        self.tasks.pop(task, None)
        self._open.pop(task, None)

    def _forget(self) -> None:
        self.tasks.clear()
        self._open.clear()
        self._polled.clear()

    def _poll(self, limit: int, timeout_s: float) -> Batch:
        while True:  # each task is overtaken once: it stands at the oldest record then
            try:
                return self.log.poll(limit, timeout_s)
            except OffsetOutOfRange as error:
                self._overtaken(error)

    def _take(self, record: Record) -> list[Output]:
        """What follows from a record; what was put out before it raised stands."""
        held, found = self.tasks[record.task], list[Output]()
        error = _taken(held.processor, record, found)
        if error is not None:
            found += self._letter(held, record, error)
            again = _taken(held.processor, record._replace(key=b"", value=b""), found)
            if again is not None:  # what its time would have closed
                self.say(f"{self.group}: {record.topic}[{record.partition}] {record.offset}: {reason_of(again)}")
        return found

    def _letter(self, held: _Held, record: Record, error: Exception) -> list[Output]:
        if record.offset < held.committed:
            return []
        self.metrics.count(selfmetrics.DEAD_LETTERS, topic=record.topic, reason=type(error).__name__)
        letter = held.letters.letter(record, reason_of(error))
        return [letter] if letter else []

    def _commit(self) -> None:
        began = time.monotonic()
        outputs = [output for work in self._open.values() for output in work.outputs]
        ends = {task: work.end for task, work in self._open.items()}
        written = list(zip(outputs, self.log.commit(outputs, self._positions(ends)), strict=True))
        self.metrics.observe(selfmetrics.LOG_COMMIT, time.monotonic() - began, group=self.group)
        count_appended(self.metrics, outputs)
        for task, end in ends.items():
            held = self.tasks[task]
            held.committed = max(held.committed, end)
            held.processor.committed(written)
        self._open.clear()
        self._committed_s = time.monotonic()

    def _positions(self, ends: Mapping[Task, int]) -> dict[Task, Position]:
        """Never before what was committed: a rebuild passes over it again."""
        found = {}
        for task, end in ends.items():
            held = self.tasks[task]
            found[task] = Position(max(end, held.committed), write_mark(held.processor.mark(end)))
        return found

    def _begin(self, tasks: Iterable[Task]) -> None:
        """A fresh fold for each task, and the log at the first record that it needs."""
        for task in sorted(tasks):
            position = self.log.committed(task)
            mark = read_mark(position)
            held = _Held(self.make(task, mark), position.offset if position else 0)
            try:
                self._seek(task, held, mark.low, known=position is not None)
            except Fenced:  # lost meanwhile: the next poll tells
                continue
            self.tasks[task] = held

    def _seek(self, task: Task, held: _Held, low: int, *, known: bool) -> None:
        try:
            self.log.seek(task, min(low, held.committed))
        except OffsetOutOfRange as error:
            self.log.seek(task, error.bounds.begin)
            if known:
                self._blind(error)
            if held.committed > error.bounds.end:  # another log than the one that was read
                held.committed = error.bounds.begin

    def _overtaken(self, error: OffsetOutOfRange) -> None:
        """Retention was faster than we: go on with what is left, and tell the hole."""
        self._drop(error.task)
        self._begin([error.task])

    def _blind(self, error: OffsetOutOfRange) -> None:
        lost = max(0, error.bounds.begin - error.offset)
        self.metrics.count(selfmetrics.LOG_BLIND, lost, topic=error.task.topic)
        self.say(f"{self.group}: blind: {lost} records were removed before they were read: {error}")

    def _failed(self, error: LogError) -> None:
        """What was committed is all that counts: every task begins there with the next step."""
        self.troubled = True
        self._forget()
        self.metrics.count(selfmetrics.LOG_ERRORS, kind=type(error).__name__)
        if not isinstance(error, Fenced):
            self.trouble.failed(error)

    def _count(self, records: Sequence[Record]) -> None:
        if records and self.poll_bytes:
            self._mean = sum(len(record.value or b"") for record in records) / len(records)
        for topic, number in Counter(record.topic for record in records).items():
            self.metrics.count(selfmetrics.LOG_READ, number, topic=topic)

    def drain(self, limit: int = 500) -> int:
        """Steps until two polls in a row find nothing. Returns the number of records taken."""
        before, idle = self.records, 0
        while idle < 2:
            idle = 0 if self.step(limit) else idle + 1
        self.flush()
        return self.records - before


def _taken(processor: TaskProcessor, record: Record, found: list[Output]) -> Exception | None:
    """Adds what follows from the record to `found`; the error that stopped it, if one did."""
    try:
        found.extend(processor.take(record))
    except LogError:
        raise
    except Exception as error:
        return error
    return None


def count_appended(metrics: SelfMetrics, outputs: Iterable[Output]) -> None:
    """Tells what a commit put into the log."""
    for topic, number in Counter(output.topic for output in outputs).items():
        metrics.count(selfmetrics.LOG_APPENDED, number, topic=topic)


def write_mark(mark: Mark) -> str:
    """The mark as the text that lies beside an offset."""
    return msgspec.json.encode(mark).decode()


def read_mark(position: Position | None) -> Mark:
    """The mark of a committed position; one that cannot be read begins at the committed offset with nothing put out."""
    return mark_of(position, Mark)


def mark_of(position: Position | None, kind: type[M]) -> M:
    """`read_mark` of a stage that keeps more beside its offset."""
    if position is None or not position.metadata:
        return kind(low=position.offset if position else 0)
    try:
        return msgspec.json.decode(position.metadata, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return kind(low=position.offset)
