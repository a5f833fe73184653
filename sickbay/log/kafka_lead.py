"""The lead of a group on Kafka: one member reads all tasks, the others stand by (docs/adr/0016).

Members are in the group for one partition only, the lock: whoever holds it leads. The leader reads the tasks by plain
assignment, and commits them with the group's generation, which the broker checks whatever was assigned: a leader that
was deposed is fenced. All members write under one transactional id, so that a new leader ends at once what the last
one left open, instead of waiting for its time-out.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sickbay.log import Batch, Fenced, LogError, Output, Position, Receipt, Task, checks, tasks_of
from sickbay.log.kafka_errors import MOVED
from sickbay.log.kafka_tasks import KafkaTasks
from sickbay.log.kafka_transactions import Lost, Transactions
from sickbay.topics import EVIDENCE, Topic

SETTLE_S = 2.0  # for a standby's coming or going to reach the leader


class KafkaLead(KafkaTasks):
    """A `TaskLog` of a Kafka log that holds all tasks or none."""

    HEARTBEATS = 8  # a session: the answer to one tells a standby that the lead is free

    def _transactions(self, topics: Mapping[str, Topic]) -> Transactions:
        return Transactions(self._settings, topics, f"{self.group}/lead", self._leads)

    def _begin(self) -> None:
        self._all = tasks_of(self._topics, self._names)
        self._consumer = self._client.Consumer(self._fetching())
        self._membership = self._joined([lock_of(self._topics)])

    # What the membership's client calls while it is polled.

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._identity = consumer.memberid() or self._identity  # None: it is out, and may be told "no more" first
        if not partitions:
            return
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)  # it is a lock: nobody reads it
        self._consumer.assign([self._asker.place(task, self._client.OFFSET_STORED) for task in self._all])
        self._held.took(self._all)

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        consumer.incremental_unassign(partitions)
        if partitions:
            self._consumer.unassign()
            self._held.lost(self._held.all())

    def _fetch(self, limit: int, wait_s: float) -> None:
        self._serve(0 if self._held.all() else wait_s)
        if self._held.all() and not self._broken_s:
            super()._fetch(limit, wait_s)

    def _serve(self, wait_s: float) -> None:
        message = self._membership.poll(wait_s)
        if message is not None and (error := message.error()) is not None:
            self._hear(error, message)

    def _change(self) -> Batch:
        if self._held.start_over and (self._membership.memberid() or "") != self._identity:
            self._held.lost(self._held.all())  # the client knows that it is out, and has yet to say so
        return super()._change()

    def _ready(self) -> None:
        if self._held.all():  # a standby's producer would fence the leader's
            super()._ready()

    def _leads(self) -> None:
        """Raises Lost where the broker says that this member is out: one that wakes must not fence the new leader."""
        if not self._held.all() or self._asker.holder(self.group, self.member) != self._identity:
            raise Lost("_ASSIGNMENT_LOST", "another member leads")

    def committed(self, task: Task) -> Position | None:
        """What the group committed for `task`; of a standby's question a commit under way is not part."""
        self._allow()
        if not self._held.all():
            return self._asker.positions(self.group, [task], stable=False).get(task)
        return super().committed(task)

    def commit(self, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> list[Receipt]:
        """Append `outputs` and store `positions`, all or nothing. Where a standby comes or goes, it tries again."""
        until = time.monotonic() + SETTLE_S
        while True:
            try:
                return self._once(outputs, positions)
            except _Moved as moved:
                self._settle()
                if self._held.changed or time.monotonic() > until:
                    self._held.start_over = True
                    raise checks.fenced(self.group, self.member, str(moved)) from None

    def _once(self, outputs: Sequence[Output], positions: Mapping[Task, Position]) -> list[Receipt]:
        if not self._held.told:
            self._allow()
            raise checks.fenced(self.group, self.member, "another member leads")
        return super().commit(outputs, positions)

    def _fencing(self, positions: Mapping[Task, Position]) -> Mapping[Task, Position]:
        """Outputs alone are the leader's, too: the lock's own position, which nobody reads, has them checked."""
        return positions or {Task(lock_of(self._topics), 0): Position(0)}

    def _settle(self) -> None:
        """Who kept the lock over a change of members was never anything but the leader: the commit may be repeated."""
        self._serve(0.05)

    def _fenced(self, lost: Lost) -> Fenced:
        if lost.name in MOVED:
            self._held.start_over = False
            return _Moved(str(lost))
        return super()._fenced(lost)


class _Moved(Fenced):
    """Members came or went since the client last heard of it; nothing was committed."""


def lock_of(topics: Mapping[str, Topic]) -> str:
    """The topic whose one partition is the lock: the same for all versions that share a group, or two would lead."""
    if EVIDENCE in topics:
        return EVIDENCE
    single = [name for name, topic in topics.items() if topic.partitions == 1]
    if not single:
        raise LogError("a lead needs a topic of one partition")
    return single[0]
