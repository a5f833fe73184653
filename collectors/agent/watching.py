"""Collectors at work: those of a host take turns in one thread, and one that hangs holds up nobody for long.

Code that runs alone is out of the processor's cache each time, and threads that wake together fight for the
interpreter: one thread for all costs a fifth less than one for each. Who is found hanging keeps that thread for itself,
and all others move to a fresh one (`Crew.relieve`). What calls drivers or tools, takes long or is told of its news has
a thread of its own from the beginning.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from collectors.agent import states
from collectors.agent.bell import Bell, heard
from collectors.agent.source import Collected, Collector, Patient, Told
from collectors.agent.states import State

MAX_WAITING = 64  # collections that wait to be spooled, of all collectors; more make them wait too
PUT_S = 0.5
ABSENT_S = 2.0  # between two looks for what is not there
GATHER_S = 0.05  # after the first of several news: one look for all costs less than many
HELD_S = 0.3  # that a collection may hold up others


class Done(NamedTuple):
    """One collection: whose, when it began, how long it took and what it gave."""

    source: str
    at_ms: int
    took_s: float
    collected: Collected


Queue = queue.Queue[Done]


@dataclass(slots=True)
class Watch:
    """What is known of one collector at work. `busy_since`: monotonic time at which a collection began that has not
    ended; `due`: at which the next one begins.

    `took` is told of every collection; those that say nothing new go no further.
    """

    collector: Collector
    out: Queue
    clock: Callable[[], int]
    limit_s: float
    took: Callable[[Done], None]
    end: "End"
    busy_since: float | None = None
    due: float = 0.0
    thread: threading.Thread | None = None
    _told: bool = False  # it is told of its news
    _place: bytes | None = None  # of the newest collection, and whether it failed
    _failed: bool = True
    _said: tuple[str, str] | None = None  # problem and absence that the newest collection told

    def __post_init__(self) -> None:
        self._told = isinstance(self.collector, Told)
        if isinstance(self.collector, Patient):
            self.limit_s = max(self.limit_s, self.collector.limit_s + 1.0)

    @property
    def alone(self) -> bool:
        """Whether it needs a thread of its own."""
        return self.collector.asks_driver or self._told or isinstance(self.collector, Patient)

    def look(self) -> None:
        """One collection."""
        done = self._once()
        self.took(done)
        if self._is_news(done.collected):
            self._put(done)
        now = time.monotonic()
        self.due = (
            now if done.collected.more else self._next(now, bool(done.collected.absent))
        )  # after who waits longer

    def _next(self, now: float, absent: bool) -> float:
        """When the next look is due: all of a host fall on the same moments."""
        interval_s = max(self.collector.interval_s, ABSENT_S if absent else 0.0)
        return (now // interval_s + 1) * interval_s

    def pause(self) -> None:
        """Until it is due, the end, or news where it is told of them."""
        handle = cast(Told, self.collector).handle if self._told and self._said == ("", "") else -1
        if handle < 0:
            self.end.wait(self.due - time.monotonic())
        elif handle in self.end.wait(self.due - time.monotonic(), handle):
            self.end.wait(GATHER_S)
            self.due = 0.0

    def _is_news(self, collected: Collected) -> bool:
        before, self._place, self._failed = (self._place, self._failed), collected.place, bool(collected.problem)
        return bool(collected.seen or collected.lost) or before != (collected.place, False) or self._failed

    @property
    def trouble(self) -> str:
        """Why nothing comes of it: it hangs, or its thread ended; empty where all is well."""
        if self.held_s > self.limit_s:
            return f"a collection takes over {self.limit_s:g} s"
        ended = self.thread is not None and not self.thread.is_alive() and not self.end.come
        return "its thread ended by itself" if ended else ""

    @property
    def held_s(self) -> float:
        """How long the collection takes that is under way, 0 where none is."""
        since = self.busy_since
        return 0.0 if since is None else time.monotonic() - since

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
        except (Exception, SystemExit) as error:  # a fault of one collector must not silence the others
            collected = Collected(problem=f"{type(error).__name__}: {error}"[:300])
        self.busy_since = None
        self._said = (collected.problem, collected.absent)
        return Done(self.collector.name, at_ms, time.monotonic() - began, collected)

    def _put(self, done: Done) -> None:
        while not self.end.come:
            try:
                return self.out.put(done, timeout=PUT_S)
            except queue.Full:
                continue


class End:
    """Whether the collectors are to end."""

    def __init__(self) -> None:
        self.come, self._bell = False, Bell()

    def comes(self) -> None:
        """From now on."""
        self.come = True
        self._bell.ring()

    def wait(self, seconds: float, *handles: int) -> list[int]:
        """Until it comes, for some time; those of the files that can be read."""
        return heard(seconds, self._bell.handle, *handles)


class Worker:
    """One thread, and the watches that take turns in it."""

    def __init__(self, watches: Sequence[Watch], end: End) -> None:
        self._watches, self._end, self._lock = list(watches), end, threading.Lock()
        self._now: Watch | None = None  # the one whose turn it is
        names = {watch.collector.name for watch in watches}
        self.thread = threading.Thread(target=self._run, name=min(names) if len(names) == 1 else "shared", daemon=True)
        for watch in watches:
            watch.thread = self.thread
        self.thread.start()

    def _run(self) -> None:
        while not self._end.come:
            if (watch := self._turn()) is not None:
                watch.look()
                self._now = None
            else:
                min(self._watches, key=lambda watch: watch.due).pause()
        for watch in self._watches:
            watch.collector.close()

    def _turn(self) -> Watch | None:
        """The one that is due first, None where none is."""
        with self._lock:
            first = min(self._watches, key=lambda watch: watch.due)
            self._now = first if first.due <= time.monotonic() else None
            return self._now

    @property
    def holds_up(self) -> bool:
        """Whether one has its turn while others wait."""
        return self._now is not None and len(self._watches) > 1

    def behind(self, held_s: float) -> list[Watch]:
        """Those that wait for one that has taken over `held_s`, or ended the thread: they leave this worker."""
        with self._lock:
            now = self._now
            if now is None or not self.holds_up or (now.held_s <= held_s and self.thread.is_alive()):
                return []
            left = [watch for watch in self._watches if watch is not now]
            self._watches = [now]
            return left


class Crew:
    """All collectors of a host at work. `shared`: the quiet ones take turns in one thread."""

    def __init__(
        self,
        collectors: Iterable[Collector],
        out: Queue,
        clock: Callable[[], int],
        limit_s: float,
        took: Callable[[Done], None] = lambda done: None,
        *,
        shared: bool = True,
    ) -> None:
        self._end = End()
        self.watches = [Watch(one, out, clock, limit_s, took, self._end) for one in collectors]
        together = [watch for watch in self.watches if shared and not watch.alone]
        groups = [[watch] for watch in self.watches if watch not in together] + ([together] if together else [])
        self._workers = [Worker(group, self._end) for group in groups]

    @property
    def states(self) -> list[State]:
        """The state of every source."""
        return [watch.state for watch in self.watches]

    def relieve(self, held_s: float = HELD_S) -> bool:
        """Who waits behind a collection that hangs goes on in a fresh thread. Whether to look again after HELD_S."""
        for worker in list(self._workers):
            if left := worker.behind(held_s):
                self._workers.append(Worker(left, self._end))
        return any(worker.holds_up for worker in self._workers)

    def end(self, timeout_s: float) -> list[str]:
        """End all; the names of those that hang: they end with the process."""
        self._end.comes()
        self.relieve(0.0)  # what waits behind them is closed
        deadline = time.monotonic() + timeout_s
        for worker in self._workers:
            worker.thread.join(max(0.0, deadline - time.monotonic()))
        return [one.collector.name for one in self.watches if one.thread is not None and one.thread.is_alive()]
