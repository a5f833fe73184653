"""What a host's agent reads: the protocol of a collector, and what one collection gives.

A collector reads; it names nothing and sends nothing. It gets the time as an argument and dates what it read. One that
fails says so in `problem`; one that finds nothing says nothing.
"""

import queue
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from collectors.agent.bell import Bell
from collectors.formats.reading import Record
from sickbay.components import UNKNOWN
from sickbay.messages import Event
from sickbay.settings import Agent

MOST_HARD = 64  # hard events that wait for a second look


class Seen(NamedTuple):
    """A record with its time and place. `host` and `job` stand in where the record does not tell its own."""

    record: Record
    at_ms: int
    path: str = ""
    line: int = 0
    host: str = UNKNOWN
    job: str = UNKNOWN


class Collected(NamedTuple):
    """One collection. `place`: where to read on after a restart, kept together with what was seen."""

    seen: Sequence[Seen] = ()
    place: bytes | None = None
    problem: str = ""  # why it could not collect: the collector is blind
    lost: int = 0  # lines or records that it could not keep up with, or must not tell
    lost_why: str = ""
    more: bool = False  # there is more to read now: do not wait
    absent: str = ""  # why there is nothing to read here (no such device or tool): neither blind nor a problem


@dataclass(slots=True)
class Shared:
    """What collectors of one host let each other know; each field has one writer, but `counted`."""

    measured_ms: int = 0  # when an exporter last told of accelerators: while it does, nobody else needs to
    reread_ms: int = 0  # a hard event was seen then: who asks a driver asks again, at once
    driver: tuple[int, Sequence[Mapping[str, Any]]] = (0, ())  # when a driver last answered, and what
    # (component, counter) -> the exporter that tells it, and when it last did: another's value of the same counter,
    # some seconds older or newer, would count each step again and again
    counted: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    hangs: str = ""  # a driver does not answer: nothing more is asked of it
    hard: "queue.Queue[Event]" = field(default_factory=lambda: queue.Queue(MOST_HARD))  # events to look after
    bell: Bell | None = None  # of who looks after them

    def look_after(self, event: Event) -> None:
        """A hard event for whoever looks a second time; in a storm of them the first ones do."""
        with suppress(queue.Full):
            self.hard.put_nowait(event)
        if self.bell is not None:
            self.bell.ring()


@dataclass(frozen=True, slots=True)
class Host:
    """The host that is watched. `aliases`: what it calls itself in its logs. `places`: where earlier runs stopped."""

    name: str
    settings: Agent
    zone: tzinfo = UTC
    aliases: frozenset[str] = frozenset()
    places: Callable[[str], bytes | None] = lambda source: None
    shared: Shared = field(default_factory=Shared)

    @property
    def root(self) -> Path:
        """Every path is read below it."""
        return Path(self.settings.root)

    def is_self(self, told: str) -> bool:
        """Whether a log that says `told` speaks of this host: the same name, or one with and without its domain."""
        return any(_same(told, own) for own in (self.name, *self.aliases))


def _same(told: str, own: str) -> bool:
    told, own = told.lower(), own.lower()
    return told == own or told.startswith(f"{own}.") or own.startswith(f"{told}.")


class Collector(Protocol):
    """One source of one host, used by one thread at a time."""

    name: str  # its own among the host's: what metrics and `place` are kept under
    asks_driver: bool  # it calls a device's driver, or a tool that does: off where `driver_calls = false`

    @property
    def interval_s(self) -> float:
        """From one look to the next, as it stands after a look."""
        ...

    def collect(self, now_ms: int) -> Collected:
        """What is new. Returns within the host's time limit, or else is counted as hanging."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A collector that may take longer than the host's time limit before it counts as hanging."""

    limit_s: float


@runtime_checkable
class Told(Protocol):
    """A collector that is told when there is something to read, and need not look for it."""

    @property
    def handle(self) -> int:
        """A file that can be read as long as there is; -1 while nobody tells."""
        ...


Make = Callable[[Host], Sequence[Collector]]  # the collectors of one kind that the settings ask for: maybe none
