"""Collectors at work: each in a thread of its own and at its own pace, so that one that hangs holds up nobody."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.agent import states
from collectors.agent.source import Collected, Collector, Patient
from collectors.agent.states import State

MAX_WAITING = 64  # collections that wait to be spooled, of all collectors; more make them wait too
PUT_S = 0.5
ABSENT_S = 2.0  # between two looks for what is not there


class Done(NamedTuple):
    """One collection: whose, when it began, how long it took and what it gave."""

    source: str
    at_ms: int
    took_s: float
    collected: Collected


Queue = queue.Queue[Done]


@dataclass(slots=True)
class Watch:
    """One collector's thread. `busy_since`: monotonic time at which a collection began that has not ended.

    `took` is told of every collection; those that say nothing new go no further.
    """

    collector: Collector
    out: Queue
    clock: Callable[[], int]
    limit_s: float
    took: Callable[[Done], None] = lambda done: None
    busy_since: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _place: bytes | None = None  # of the newest collection, and whether it failed
    _failed: bool = True
    _said: tuple[str, str] | None = None  # problem and absence that the newest collection told

    def __post_init__(self) -> None:
        if isinstance(self.collector, Patient):
            self.limit_s = max(self.limit_s, self.collector.limit_s + 1.0)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name=self.collector.name, daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; False where it hangs: then it ends with the process."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while not self.stop.is_set():
            done = self._once()
            self.took(done)
            if self._is_news(done.collected):
                self._put(done)
            if done.collected.more:
                continue
            now = time.monotonic()
            interval_s = max(self.collector.interval_s, ABSENT_S if done.collected.absent else 0.0)
            # All collectors of a host wake together: code that runs alone is out of the processor's cache each time.
            self.stop.wait((now // interval_s + 1) * interval_s - now)
        self.collector.close()

    def _is_news(self, collected: Collected) -> bool:
        before, self._place, self._failed = (self._place, self._failed), collected.place, bool(collected.problem)
        return bool(collected.seen or collected.lost) or before != (collected.place, False) or self._failed

    @property
    def trouble(self) -> str:
        """Why nothing comes of it: it hangs, or its thread ended; empty where all is well."""
        since = self.busy_since
        if since is not None and time.monotonic() - since > self.limit_s:
            return f"a collection takes over {self.limit_s:g} s"
        ended = self._thread is not None and not self._thread.is_alive() and not self.stop.is_set()
        return "its thread ended by itself" if ended else ""

    @property
    def state(self) -> State:
        """What its source is in now."""
        problem, absent = self._said or ("", "")
        said = self._said is not None
        return states.of(self.collector.name, problem=problem, absent=absent, hangs=self.trouble, collected=said)

    def _once(self) -> Done:
        at_ms, began = self.clock(), time.monotonic()
        self.busy_since = began
        try:
            collected = self.collector.collect(at_ms)
        except Exception as error:  # a fault of one collector must not silence the others
            collected = Collected(problem=f"{type(error).__name__}: {error}"[:300])
        self.busy_since = None
        self._said = (collected.problem, collected.absent)
        return Done(self.collector.name, at_ms, time.monotonic() - began, collected)

    def _put(self, done: Done) -> None:
        while not self.stop.is_set():
            try:
                return self.out.put(done, timeout=PUT_S)
            except queue.Full:
                continue
