"""Whether the members of a group on Kafka hold every task between them.

A static member that dies while it hands a task over, and is back within its session, is given its old share without a
word to the others: then nobody has that task until members come or go (seen with Kafka 4.4). Each member looks from
time to time; where a task was nobody's at two looks, a session apart, the first member leaves for a moment, and all is
shared out anew.
"""

import contextlib
import time
from collections.abc import Iterable

from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove
from kafka.errors import KafkaError

from sickbay.log import LogError, Task
from sickbay.log.kafka_asker import Asker
from sickbay.log.kafka_clients import arguments, connected
from sickbay.settings import LogSettings

EVERY_S = 30.0


class Cover:
    """One member's looks at its group."""

    def __init__(self, asker: Asker, group: str, member: str, session_s: float) -> None:
        self._asker, self._group, self._member, self._session_s = asker, group, member, session_s
        self._tasks: tuple[Task, ...] = ()
        self._unheld: frozenset[Task] = frozenset()  # what nobody was given when it was looked at last
        self._next_s = 0.0

    def joined(self, tasks: Iterable[Task]) -> None:
        """The member has joined a group that shares these out."""
        self._tasks, self._unheld = tuple(tasks), frozenset()
        self._next_s = time.monotonic() + 2 * self._session_s

    def asks_to_leave(self) -> bool:
        """Looks where it is time. True where something is nobody's and this member is to leave and join again."""
        if time.monotonic() < self._next_s:
            return False
        self._next_s = time.monotonic() + EVERY_S
        try:
            unheld, first = self._asker.unheld(self._group, self._tasks)
        except LogError:
            return False
        if unheld:
            self._next_s = time.monotonic() + self._session_s
        still, self._unheld = unheld & self._unheld, unheld - self._unheld
        return bool(still) and first == self._member


def leave(settings: LogSettings, group: str, member: str, identity: str) -> None:
    """A static member that ends keeps its tasks for its session's length: this gives them up now, if it can."""
    with contextlib.suppress(KafkaError, LogError):
        admin = connected(KafkaAdminClient, arguments(settings, bootstrap_timeout_ms=2000, request_timeout_ms=2000))
        try:
            admin.remove_group_members(settings.prefix + group, [MemberToRemove(identity, member)])
        finally:
            admin.close()
