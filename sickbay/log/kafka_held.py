"""Which tasks a member of a Kafka group holds, and what of that its processor was told. No client, no clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sickbay.log import Batch, OffsetOutOfRange, Record, Task


@dataclass(slots=True)
class Held:
    """The client says `took` and `lost` at any time; the processor is told by `change` and then owns or forgets."""

    told: set[Task] = field(default_factory=set)
    out_of_range: dict[Task, OffsetOutOfRange] = field(default_factory=dict)
    placed: set[Task] = field(default_factory=set)  # read from an offset that we said, not from what is committed
    start_over: bool = False  # a commit failed: the processor must forget its open work
    _fresh: list[Task] = field(default_factory=list)
    _gone: list[Task] = field(default_factory=list)
    _waiting: list[Record] = field(default_factory=list)  # fetched, and not handed out yet

    def took(self, tasks: Iterable[Task]) -> None:
        """The member was given tasks."""
        found = list(tasks)
        self._fresh += found
        self.placed.difference_update(found)

    def lost(self, tasks: Iterable[Task]) -> None:
        """The member gave tasks up, or they were taken from it."""
        for task in tasks:
            self.forget(task)
            if task in self._fresh:
                self._fresh.remove(task)
            else:
                self._gone.append(task)

    def has(self, task: Task) -> bool:
        """Whether it holds the task now, told or not."""
        return task in self._fresh or (task in self.told and task not in self._gone)

    def all(self) -> list[Task]:
        """Every task that it holds now."""
        return [task for task in {*self.told, *self._fresh} if self.has(task)]

    def forget(self, task: Task) -> None:
        """Nothing that was fetched or found of the task counts any more: it is read from another offset on."""
        self.out_of_range.pop(task, None)
        self._waiting = [record for record in self._waiting if record.task != task]

    def keep(self, record: Record, task: Task) -> None:
        """A record of a task was fetched."""
        if self.has(task):
            self._waiting.append(record)

    def room(self, limit: int) -> int:
        """How many more records a poll of `limit` can hand out."""
        return max(0, limit - len(self._waiting))

    def records(self, limit: int) -> Sequence[Record]:
        """Hand out up to `limit` records."""
        batch, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return batch

    @property
    def changed(self) -> bool:
        """Whether there is a change to be told."""
        return bool(self._gone or self._fresh or self.start_over)

    def change(self) -> Batch:
        """Tell what was lost and taken; after a failed commit all that stays is told as lost and taken again."""
        held = {task for task in (*self.told, *self._fresh) if self.has(task)}
        kept = set() if self.start_over else self.told - set(self._gone)
        batch = Batch((), tuple(sorted(self.told - kept)), tuple(sorted(held - kept)))
        self.told, self._fresh, self._gone, self.start_over = held, [], [], False
        return batch
