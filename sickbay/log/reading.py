"""Reading a log without a group: a whole task, on from where one stood, or from a moment on."""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from sickbay.log import OffsetOutOfRange, Reader, Record, Task

BATCH = 2000

M = TypeVar("M")


class Logged(NamedTuple, Generic[M]):
    """A message and when the log took it."""

    append_ms: int
    message: M


def records(reader: Reader, task: Task, offset: int = 0) -> Iterator[Record]:
    """The records from an offset on, up to where the log ends now: a live one goes on growing.

    What is removed meanwhile is passed over. Raises OffsetOutOfRange for an offset beyond the end, and other LogErrors.
    """
    bounds = reader.bounds(task)
    if offset > bounds.end:
        raise OffsetOutOfRange(task, offset, bounds)
    offset = max(offset, bounds.begin)
    while offset < bounds.end:
        try:
            found = reader.read(task, offset, BATCH)
        except OffsetOutOfRange as error:
            if error.bounds.begin <= offset:
                raise
            offset = error.bounds.begin
            continue
        if not found:  # marks of transactions stand at the end
            return
        yield from found
        offset = found[-1].offset + 1


class Followed:
    """A task that is read from its start, on from there with each `read`."""

    def __init__(self, reader: Reader, task: Task) -> None:
        self._reader, self._task, self._next = reader, task, 0

    def read(self) -> Iterator[Record]:
        """What is new, to be taken to its end. Where the log is shorter than it was, all of it is. Raises LogError."""
        if self._next > self._reader.bounds(self._task).end:
            self._next = 0
        for record in records(self._reader, self._task, self._next):
            self._next = record.offset + 1
            yield record


def since(reader: Reader, task: Task, at_ms: int) -> int:
    """The offset of the first record that was appended at or after a time; the end where there is none."""
    low, high = reader.bounds(task)
    while low < high:  # records before `low` are older, those from `high` on are not
        middle = (low + high) // 2
        found = reader.read(task, middle, 1)  # the next one, where compaction or a transaction left a gap
        if not found or found[0].offset >= high or found[0].append_ms >= at_ms:
            high = middle
        else:
            low = found[0].offset + 1
    return low
