"""Doing one action at the scheduler: read, check, write within five seconds of that read, read back.

A process can be stopped between any two lines here. Both clocks are looked at right before each write: whoever slept
writes nothing, and the policy looks at the world anew. The rest of the window is the scheduler's own, which has no
compare-and-set. What the policy saw may be older than the target as read here: a scheduler of a large cluster needs
seconds for each answer, and must be acted upon all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from remediation.ledger import is_ours
from remediation.schedulers import JobState, NodeState, Refused, Scheduler, SchedulerError
from remediation.settle import co_held, passed_on, released, verified
from remediation.stages.attempts import runs
from sickbay.actions import Action, ActionState
from sickbay.components import Kind, Name

WITHIN_MS = 5_000  # from the read of the target to the write [house]
LOOK_MS = 15_000  # from what the policy saw to the write: as old as a verdict may be [house]
MOST_TRIES = 5


class Moment(NamedTuple):
    """One moment on both clocks: after a stop of the process, or a step of the wall clock, they tell."""

    monotonic_s: float
    wall_ms: int


class TooLate(Exception):
    """What was read is too old to be written upon: nothing was done."""


class Stopped(Exception):
    """The kill switch is set: nothing was done."""


@dataclass(slots=True)
class Hands:
    """The only place that writes to a scheduler. `may`: False once the kill switch is set."""

    scheduler: Scheduler
    clock: Callable[[], int]
    monotonic: Callable[[], float]
    may: Callable[[], bool]
    tries: dict[str, int] = field(default_factory=dict)

    def moment(self) -> Moment:
        """Now."""
        return Moment(self.monotonic(), self.clock())

    def do(self, action: Action, hold: Action | None, seen: Moment) -> list[Action]:
        """The lines after doing it; none where nothing was done and it has to be looked at anew.

        `seen`: when the policy looked at the world; `hold`: the hold that a release ends.
        """
        try:
            return self._done(action, hold, seen)
        except (TooLate, Stopped):
            return self._again(action, "it took too long to be safe")
        except Refused as error:
            return [self._now(action, state=ActionState.FAILED, why=f"refused by the scheduler: {error}"[:1000])]
        except SchedulerError as error:
            return self._again(action, str(error))

    def _done(self, action: Action, hold: Action | None, seen: Moment) -> list[Action]:
        if action.do == "drain_host":
            return [self._drain(action, seen)]
        if action.do == "requeue":
            return [self._requeue(action, seen)]
        if action.do == "release" and hold is not None:
            return self._release(action, hold, seen)
        return []

    def _again(self, action: Action, why: str) -> list[Action]:
        count = self.tries[action.id] = self.tries.get(action.id, 0) + 1
        if count >= MOST_TRIES:
            return [self._now(action, state=ActionState.FAILED, why=f"given up after {count} tries: {why}"[:1000])]
        return [self._now(action, read_back=f"try {count} of {MOST_TRIES}: {why}"[:1000])]

    def _drain(self, action: Action, seen: Moment) -> Action:
        began = self.moment()
        node = self._node(action.target)
        if is_ours(node, action):
            return verified(action, node, at_ms=self.clock())
        if node.held:
            return co_held(action, node, at_ms=self.clock())
        self._in_time(seen, began)
        try:
            self.scheduler.drain(node.name, action.reason)
        except Refused:
            now = self._node(action.target)
            if not now.held or is_ours(now, action):
                raise
            return co_held(action, now, at_ms=self.clock())
        return self._drained(action)

    def _drained(self, action: Action) -> Action:
        """Read back: reason and user tell whose hold it is."""
        done = self._now(action, state=ActionState.DONE)
        try:
            node = self._node(action.target)
        except SchedulerError:
            return done
        if is_ours(node, action):
            return verified(action, node, at_ms=self.clock())
        if node.held:
            return passed_on(action, node, at_ms=self.clock())
        return done

    def _requeue(self, action: Action, seen: Moment) -> Action:
        began = self.moment()
        job = self._job(action.target)
        if job is None or not runs(job, action.attempt):
            why = f"attempts: attempt {action.attempt} does not run any more"
            return self._now(action, state=ActionState.EXPIRED, why=why)
        self._in_time(seen, began)
        self.scheduler.requeue(job.id)
        done = self._now(action, state=ActionState.DONE)
        try:
            back = self._job(action.target)
        except SchedulerError:
            return done
        if back is None or runs(back, action.attempt):
            return done
        return replace(done, state=ActionState.VERIFIED, read_back=f"{back.state}, attempt {back.id}/{back.attempt}")

    def _release(self, action: Action, hold: Action, seen: Moment) -> list[Action]:
        began = self.moment()
        node = self._node(action.target)
        if not node.held:
            return list(released(action, hold, node, self.clock()))
        if not is_ours(node, hold):
            why = "reason or user changed: it is not ours to release"
            return [self._now(action, state=ActionState.FAILED, why=why)]
        self._in_time(seen, began)
        self.scheduler.resume(node.name)
        try:
            node = self._node(action.target)
        except SchedulerError:
            return [self._now(action, state=ActionState.DONE)]
        if not node.held:
            return list(released(action, hold, node, self.clock()))
        return [self._now(action, state=ActionState.DONE)]

    def _node(self, target: Name) -> NodeState:
        name = target.removeprefix(f"{Kind.HOST}:")
        node = self.scheduler.nodes([name]).get(name)
        if node is None:
            raise Refused(f"it does not know node {name}")
        return node

    def _job(self, target: Name) -> JobState | None:
        job = target.removeprefix(f"{Kind.JOB}:")
        return self.scheduler.jobs([job]).get(job)

    def _in_time(self, seen: Moment, read: Moment) -> None:
        """Raises unless the write comes now, right after its read, and nobody said stop."""
        if not self.may():
            raise Stopped
        now = self.moment()
        if _apart_ms(now, read) > WITHIN_MS or _apart_ms(now, seen) > LOOK_MS:
            raise TooLate

    def _now(self, action: Action, **fields: Any) -> Action:
        return replace(action, at_ms=self.clock(), **fields)


def _apart_ms(now: Moment, then: Moment) -> float:
    """The time between, by the clock that tells of more."""
    return max((now.monotonic_s - then.monotonic_s) * 1000, abs(now.wall_ms - then.wall_ms))
