"""The spool on disk, and one in memory while the disk takes nothing: an event must get out all the same.

The one in memory has an incarnation of its own, so that its numbers cannot be taken for those of the other.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from collectors.agent.spool import Draft, Dropped, Fact, Spool

MEMORY_BYTES = 4 << 20  # some minutes of telemetry, thousands of events
MOVE_S = 2.0  # between two times that nothing but places is written
RETRY_S = 10.0  # between tries of a disk that took nothing


class Spools:
    """Where an agent puts its entries. `trouble` tells why the disk is not used."""

    def __init__(self, disk: Spool, host: str, say: Callable[[str], None] = lambda text: None) -> None:
        self.disk, self._memory = disk, Spool(None, host, MEMORY_BYTES)
        self.all: Sequence[Spool] = (self.disk, self._memory)
        self._say, self._try_at, self._move_at = say, 0.0, 0.0
        self._held_facts: dict[tuple[str, bytes], Fact] = {}
        self._held_places: dict[str, bytes] = {}
        self._places: dict[str, bytes] = {}  # as they stand on disk
        self._telling: list[tuple[Spool, list[Dropped]]] = []
        self.trouble = ""

    @property
    def size(self) -> int:
        """All that is kept."""
        return sum(spool.held.bytes for spool in self.all)

    def add(
        self,
        drafts: Sequence[Draft],
        now_ms: int,
        *,
        facts: Iterable[Fact] = (),
        places: Mapping[str, bytes] | None = None,
    ) -> None:
        """Store it, on disk if it can be."""
        facts = list(facts)
        self._held_facts |= {(fact.topic, fact.key): fact for fact in facts}
        self._held_places |= places or {}
        if not self.trouble or time.monotonic() >= self._try_at:
            try:
                told = [drop for spool, drops in self._telling if spool is self.disk for drop in drops]
                self.disk.add(drafts, now_ms, facts=self._held_facts.values(), places=self._held_places, told=told)
                self._telling = [one for one in self._telling if one[0] is not self.disk]
                self._places = self._places | self._held_places
                self._held_facts, self._held_places, self.trouble = {}, {}, ""
                return self._were_told()
            except sqlite3.Error as error:
                self._failed(error)
        self._memory.add(drafts, now_ms, facts=facts)
        self._were_told()

    def _were_told(self) -> None:
        telling, self._telling = self._telling, []
        for spool, drops in telling:
            if drops:
                with suppress(sqlite3.Error):  # then they are told once more
                    spool.forget(drops)

    def moved(self, places: Mapping[str, bytes]) -> None:
        """Nothing came of what was read: the places are kept with the next entry, or after a while without one."""
        if all(self._places.get(source) == place for source, place in places.items()):
            return
        self._held_places |= places
        if not self.trouble and time.monotonic() >= self._move_at:
            self._move_at = time.monotonic() + MOVE_S
            try:
                self.disk.move(self._held_places)
                self._places, self._held_places = self._places | self._held_places, {}
            except sqlite3.Error as error:
                self._failed(error)

    def place(self, source: str) -> bytes | None:
        """Where a source stopped, also where that is not on disk yet."""
        return self._held_places[source] if source in self._held_places else self.disk.place(source)

    def since_ms(self) -> int | None:
        """When the oldest entry that waits was stored, None where none does."""
        return min((since for spool in self.all if (since := spool.since_ms()) is not None), default=None)

    def dropped(self) -> list[Dropped]:
        """Drops that were not told yet; whoever asks tells them in the next `add`."""
        with suppress(sqlite3.Error):
            self._telling = [(spool, spool.dropped()) for spool in self.all[bool(self.trouble) :]]
        return [one for _, drops in self._telling for one in drops]

    def _failed(self, error: sqlite3.Error) -> None:
        if not self.trouble:
            self._say(f"the spool on disk takes nothing, memory is used: {error}")
        self.trouble, self._try_at = f"spool: {error}", time.monotonic() + RETRY_S

    def close(self) -> None:
        """Let both go."""
        for spool in self.all:
            spool.close()
