"""The members of a group and what each holds: handing over, eviction, fencing. Time is an argument."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sickbay.log import Task, checks
from sickbay.log.sharing import shared_out


@dataclass(eq=False, slots=True)
class Member:
    """One life of a member; a restarted process of the same name is another. `told`: what its polls said it holds."""

    name: str
    seen_ms: int
    told: set[Task] = field(default_factory=set)


class Group:
    """Which member holds which task. A task changes hands when its holder polls, leaves, or is silent for too long.

    `led`: one member holds all; where there is none, the next that polls.
    """

    def __init__(self, name: str, session_ms: int, *, led: bool = False) -> None:
        self.name, self.led, self._session_ms = name, led, session_ms
        self._tasks: list[Task] = []
        self._members: dict[str, Member] = {}
        self._owner: dict[Task, Member] = {}

    def join(self, name: str, tasks: Sequence[Task], now_ms: int) -> Member:
        """A new life of `name`; an older one is fenced and its tasks are free. Raises ValueError for other tasks."""
        if self._members and set(tasks) != set(self._tasks):
            raise ValueError(f"group {self.name!r} reads other topics: one group, one list of topics")
        self._tasks = sorted(tasks)
        before, fresh = self._members.get(name), Member(name, now_ms)
        self._members[name] = fresh
        if before is not None:
            self._drop(before)
        return fresh

    def leave(self, member: Member) -> None:
        """Give everything back."""
        if self._members.get(member.name) is member:
            del self._members[member.name]
        self._drop(member)
        member.told.clear()

    def heard(self, member: Member, now_ms: int) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
        """A sign of life: what the member has lost and what it gains since the last one. Raises Fenced."""
        self._welcome(member, now_ms)
        self._evict_silent(member, now_ms)
        target = self._target(member)
        for task in self._held(member):
            if target[task] != member.name:
                del self._owner[task]
        held = set(self._held(member))
        revoked = tuple(sorted(member.told - held))
        gained = {task for task, name in target.items() if name == member.name and task not in self._owner}
        self._owner |= dict.fromkeys(gained, member)
        member.told = held | gained
        return revoked, tuple(sorted(gained))

    def allow(self, member: Member, tasks: Iterable[Task], now_ms: int) -> None:
        """Raises Fenced unless the member is in and holds all `tasks`, and leads where the group is led."""
        present = self._members.get(member.name)
        if present is None:
            raise checks.fenced(self.name, member.name, "it was silent for too long")
        if present is not member:
            raise checks.replaced(self.name, member.name)
        for task in self._tasks if self.led else tasks:
            if self._owner.get(task) is not member or task not in member.told:
                raise checks.fenced(self.name, member.name, f"{task.topic}[{task.partition}] is not held")
        member.seen_ms = now_ms

    def _target(self, member: Member) -> dict[Task, str]:
        owners = {task: owner.name for task, owner in self._owner.items()}
        if not self.led:
            return shared_out(self._tasks, self._members, owners)
        return dict.fromkeys(self._tasks, next(iter(owners.values()), member.name))

    def _welcome(self, member: Member, now_ms: int) -> None:
        present = self._members.setdefault(member.name, member)
        if present is not member:
            raise checks.replaced(self.name, member.name)
        member.seen_ms = now_ms

    def _evict_silent(self, member: Member, now_ms: int) -> None:
        for other in list(self._members.values()):
            if other is not member and now_ms - other.seen_ms > self._session_ms:
                del self._members[other.name]
                self._drop(other)

    def _drop(self, member: Member) -> None:
        for task in self._held(member):
            del self._owner[task]

    def _held(self, member: Member) -> list[Task]:
        return [task for task, owner in self._owner.items() if owner is member]
