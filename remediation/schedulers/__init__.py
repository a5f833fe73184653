"""What remediation needs of a scheduler: read nodes and jobs, hold and release a node, give a job back to the queue.

Every read is stamped, so that a write can refuse to build on an old one. A node that somebody else drained is never
written: clients tell who set a reason, the policy decides. One module per scheduler.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct


class SchedulerError(Exception):
    """The scheduler could not be asked or would not do it; the text says what to do about it."""


class Unreachable(SchedulerError):
    """No answer in time: nothing is known of what happened."""


class Refused(SchedulerError):
    """It answered no."""


class NodeState(Struct, frozen=True, kw_only=True):
    """A node as the scheduler sees it. `flags` as it spells them, lower case: idle, allocated, drain, down, maint."""

    name: str
    flags: frozenset[str]
    reason: str = ""
    reason_by: str = ""  # user who set it
    reason_at_ms: int | None = None
    jobs: tuple[str, ...] = ()
    read_ms: int

    @property
    def held(self) -> bool:
        """Whether it takes no new work, by whomever."""
        return bool(self.flags & {"drain", "drained", "draining", "down", "fail", "maint"})


class JobState(Struct, frozen=True, kw_only=True):
    """A job as the scheduler sees it. `state` lower case: running, pending, completing, ..."""

    id: str
    attempt: int  # restart count
    state: str
    nodes: tuple[str, ...] = ()
    user: str = ""
    may_requeue: bool = False
    read_ms: int


class Scheduler(Protocol):
    """A client of one scheduler. Methods raise SchedulerError; none waits longer than its time limit."""

    name: str

    def nodes(self, names: Iterable[str] = ()) -> Mapping[str, NodeState]:
        """The named nodes, all where none is named. Unknown names are missing from the answer."""
        ...

    def jobs(self, ids: Iterable[str] = ()) -> Mapping[str, JobState]:
        """The named jobs, all that are known where none is named."""
        ...

    def drain(self, node: str, reason: str) -> None:
        """Give it no new work. What runs there goes on."""
        ...

    def resume(self, node: str) -> None:
        """Take our hold off."""
        ...

    def requeue(self, job: str) -> None:
        """Stop the job and put it back into the queue: it starts again elsewhere from its checkpoint."""
        ...
