"""Follows lists of the Kubernetes API: list once, then watch from there; a bounded feed of what changed, in order.

A watch that ends is taken up where it stopped (bookmarks move that place on while nothing happens). Where the server
has forgotten that place (410 Gone) all is listed again, and what is no longer there is told as gone. A feed that is
full holds its follower back; the server ends a watch that does not read, which is the same case.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from collectors.cluster.kubernetes_api import Opened, Trouble
from collectors.formats.kubernetes_objects import Page, Status, Versioned, Watched, decoded

PAGE = 250  # objects of a page of a list
MOST_HELD = 20_000  # changes that wait to be taken
MOST_OBJECTS = 200_000  # of a list
WATCH_S = 60  # after which the server ends a watch: a connection that died silently is noticed
SILENT_S = WATCH_S + 15.0
AGAIN_S = 5.0  # the longest wait before the next try

T = TypeVar("T")


class Ask(Protocol):
    """What an Api does."""

    def get(self, path: str, query: dict[str, str]) -> bytes:
        """A whole answer. Raises Trouble."""
        ...

    def lines(self, path: str, query: dict[str, str], silent_s: float, opened: Opened) -> Iterable[bytes]:
        """The lines of a watch. Raises Trouble."""
        ...


class Change(NamedTuple, Generic[T]):
    """What a follower saw. `full`: these are all of `path` there are; else one that is there now, or is `gone`."""

    sequence: int
    path: str
    objects: Sequence[T]
    full: bool = False
    gone: bool = False


@dataclass(slots=True)
class Feed(Generic[T]):
    """Changes that wait, in order; they stay until they are known to be taken."""

    unparsed: int = 0
    _held: deque[Change[T]] = field(default_factory=deque)
    _sequence: int = 0
    _size: int = 0
    _room: threading.Condition = field(default_factory=threading.Condition)
    _stopped: bool = False

    def put(self, path: str, objects: Sequence[T], *, full: bool = False, gone: bool = False) -> None:
        """Add a change; waits while the feed is full."""
        with self._room:
            while not (full or self._size < MOST_HELD or self._stopped):
                self._room.wait(1.0)
            self._sequence += 1
            self._size += len(objects)
            self._held.append(Change(self._sequence, path, objects, full, gone))
            self._room.notify_all()

    def after(self, sequence: int) -> list[Change[T]]:
        """What came after that change; up to it all is taken and forgotten."""
        with self._room:
            while self._held and self._held[0].sequence <= sequence:
                self._size -= len(self._held.popleft().objects)
            self._room.notify_all()
            return list(self._held)

    def count_unparsed(self) -> int:
        """Objects that were not understood since the last call."""
        with self._room:
            number, self.unparsed = self.unparsed, 0
            return number

    def wait(self, limit_s: float, ready: Callable[[], bool]) -> None:
        """Until something is there, or that."""
        with self._room:
            self._room.wait_for(lambda: bool(self._held) or ready(), limit_s)

    def wake(self, stopped: bool = False) -> None:
        """Let whoever waits look again."""
        with self._room:
            self._stopped = self._stopped or stopped
            self._room.notify_all()


class Follower(Generic[T]):
    """Follows one path in a thread of its own. `short` makes of an object what is kept; ValueError: not understood."""

    def __init__(self, ask: Ask, path: str, short: Callable[[bytes], T], feed: Feed[T]) -> None:
        self._ask, self.path, self._short, self._feed = ask, path, short, feed
        self.problem = ""
        self.listed = 0  # how often all was listed
        self._place = ""  # the resource version to go on from
        self._answer: Any = None  # that is open
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, within moments."""
        self._stop.set()
        self._feed.wake(stopped=True)
        if (answer := self._answer) is not None:
            with suppress(Exception):
                answer.shutdown()
        if self._thread.ident is not None:
            self._thread.join(3.0)

    def _run(self) -> None:
        tries = 0
        while not self._stop.is_set():
            try:
                if not self._place:
                    self._list()
                self._watch()
                tries = 0
            except Trouble as trouble:
                if trouble.status == 410:
                    self._place = ""
                else:
                    self._told(str(trouble))
                tries += 1
            except Exception as error:  # whatever a server says must not end the thread in silence
                self._place = ""
                self._told(f"{self.path}: {type(error).__name__}: {error}"[:300])
                tries += 1
            longest = min(AGAIN_S, 0.1 * 2 ** min(tries, 8))
            self._stop.wait(random.uniform(longest / 2, longest))

    def _open(self, answer: Any) -> None:
        self._answer = answer
        if answer is not None:
            self._told("")

    def _told(self, problem: str) -> None:
        self.problem = problem
        self._feed.wake()

    def _list(self) -> None:
        found: list[T] = []
        query = {"limit": str(PAGE)}
        while not self._stop.is_set():
            page = decoded(self._ask.get(self.path, query), Page)
            found += self._shortened(page.items or [])
            if len(found) > MOST_OBJECTS:
                raise Trouble(f"{self.path}: more than {MOST_OBJECTS} objects: name [kubernetes] namespaces")
            if not page.metadata.more:
                self._feed.put(self.path, found, full=True)
                self._place = page.metadata.resource_version
                self.listed += 1
                return
            query["continue"] = page.metadata.more

    def _watch(self) -> None:
        query = {
            "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": self._place,
            "timeoutSeconds": str(random.randint(WATCH_S * 3 // 4, WATCH_S)),
        }  # fmt: skip
        for line in self._ask.lines(self.path, query, SILENT_S, self._open):
            if self._stop.is_set():
                return
            told = decoded(line, Watched)
            if told.type == "ERROR":
                status = decoded(told.object, Status)
                raise Trouble(f"{self.path}: {status.message[:200]}", status.code)
            if told.type != "BOOKMARK":
                self._feed.put(self.path, self._shortened([told.object]), gone=told.type == "DELETED")
            self._place = decoded(told.object, Versioned).metadata.resource_version or self._place

    def _shortened(self, raw: Iterable[Any]) -> list[T]:
        found = []
        for one in raw:
            try:
                found.append(self._short(bytes(one)))
            except ValueError:
                self._feed.unparsed += 1
        return found
