"""Lines that grow, as records with a time: what the kernel's log and training logs have in common.

A line that is read while it is followed was written since the last look. What stood there before the first look is
history: of it only what is dated, and new, is told.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from typing import NamedTuple

from collectors.formats.log import Following
from collectors.formats.reading import Reading, Tally
from collectors.host.growing import Lines, Resume
from collectors.inputs.gather import Folder
from sickbay.clock import Clock, Stamp, resolve

FIRST_LOOK_MS = 600_000  # what is older when an agent first looks is not news
AHEAD_MS = 2_000  # a stamp further in the future is no time (design, section 2)
DAY_MS = 86_400_000  # what no wrong zone explains
BOOT_MS = 3_600_000  # seconds since the boot that are further ahead are another boot's: the kernel's clock drifts less
FOLLOWS_MS = 60_000  # the end was seen so recently: what comes now was written since
QUIET_MS = 1_000  # after it, an event waits no longer for its details
HELD_MS = 3_000  # nor after this, if other events come all the time
MAX_EVENTS = 500  # of one pass; a storm tells no more in more


class Dated(NamedTuple):
    """A reading with its time in UTC milliseconds and its line, 0 where its number is not known."""

    reading: Reading
    at_ms: int
    line: int


def at_of(stamp: Stamp, seen_ms: int, zone: tzinfo, boot_ms: float | None = None) -> int | None:
    """UTC milliseconds of a stamp that was seen then; None where it tells none."""
    if stamp.clock is Clock.SINCE_BOOT:
        at = None if boot_ms is None else round(boot_ms + stamp.ms)
    elif stamp.clock is Clock.NO_YEAR:
        at = _of_a_year(stamp, seen_ms, zone)
    else:
        at = resolve(stamp, zone)
    return at if at is None or at <= seen_ms + AHEAD_MS else seen_ms


def _of_a_year(stamp: Stamp, seen_ms: int, zone: tzinfo) -> int | None:
    """In the newest year in which it is not ahead: a log of last December that is read in November is a year old."""
    year = datetime.fromtimestamp(seen_ms / 1000, zone).year
    found = (resolve(stamp, zone, one) for one in (year + 1, year, year - 1))
    return next((at for at in found if at is not None and at <= seen_ms + DAY_MS), None)


class Follower:
    """Turns the lines of one log into dated readings, folded per pass.

    `placed`: lines without a time count as new also where a file with them was put in the place of the one followed.
    """

    def __init__(self, zone: tzinfo, *, history: bool, placed: bool = True) -> None:
        self.tally = Tally()
        self.omitted = 0  # events of storms that were left out
        self.undated = 0  # records not told: nothing says when they were, and they were not seen to be written
        self.old = 0  # records told as they were written, though their own stamps are of long before
        self._following, self._zone = Following(self.tally), zone
        self._history = history  # nothing was read yet, and what there is may be old
        self._last_ms = 0  # the last look that saw the end
        self._believes_placed, self._placed_ms = placed, -HELD_MS
        self._hits: tuple[int, int] | None = None  # first and last time of words that may have begun something
        self._read_from: bytes = b""
        self._places: deque[tuple[int, bytes]] = deque()

    def take(
        self, lines: Iterable[Lines], now_ms: int, *, boot_ms: float | None = None, live: bool = False
    ) -> list[Dated]:
        """The readings of new lines. `live`: the kernel itself gave them as they were written."""
        folder, numbered = Folder(MAX_EVENTS), True
        for some in lines:
            numbered, hits = some.numbered, self._following.hits
            self._placed_ms = now_ms if some.placed and not self._believes_placed else self._placed_ms
            for reading in self._following.take(some.text, some.first):
                if not some.again:
                    folder.add(reading)
            if self._following.hits > hits:
                self._hits = (self._hits[0] if self._hits else now_ms, now_ms)
        if self._hits and (now_ms - self._hits[1] >= QUIET_MS or now_ms - self._hits[0] >= HELD_MS):
            self._hits = None
            for reading in self._following.end():
                folder.add(reading)
        self.omitted += folder.omitted
        return list(self._dated(folder.close(), now_ms, boot_ms, numbered, live))

    @property
    def idle(self) -> bool:
        """Whether it waits for nothing: no event of earlier lines may still get details."""
        return self._hits is None and not self._places

    def caught_up(self, now_ms: int) -> None:
        """All there was has been read: what comes from now on is new."""
        self._history, self._last_ms = False, now_ms

    def began(self, place: bytes) -> None:
        """Where reading begins."""
        self._read_from = self._read_from or place

    def resume(self, place: bytes, now_ms: int) -> Resume:
        """How to read on if the agent died now: an event may wait for its details in memory, so from before it."""
        if self._hits is None:
            self._places.clear()
            self._read_from = place
        else:
            self._places.append((now_ms, place))
            while self._places[0][0] <= now_ms - HELD_MS:
                self._read_from = self._places.popleft()[1]
        return Resume(self._read_from, place)

    def _dated(
        self, readings: Iterable[Reading], now_ms: int, boot_ms: float | None, numbered: bool, live: bool
    ) -> Iterator[Dated]:
        follows = not self._history and self._last_ms > 0 and now_ms - self._last_ms < FOLLOWS_MS
        for reading in readings:
            at = at_of(reading.stamp, now_ms, self._zone, boot_ms)
            if self._history and (at is None or at < self._news_ms(now_ms, boot_ms)):
                continue
            if at is None and now_ms - self._placed_ms < HELD_MS:
                self.undated += 1
                continue
            if not live and _of_another_boot(reading.stamp, now_ms, boot_ms):
                continue
            if live and self._last_ms:  # the kernel's own clock drifts from the host's
                at = max(self._last_ms - QUIET_MS, now_ms if at is None else at)
            self.old += follows and at is not None and at < now_ms - FIRST_LOOK_MS
            yield Dated(reading, now_ms if at is None else min(at, now_ms), reading.line if numbered else 0)

    def _news_ms(self, now_ms: int, boot_ms: float | None) -> int:
        """What is older than that is none at the first look: a boot has passed since, or much time."""
        return max(now_ms - FIRST_LOOK_MS, 0 if boot_ms is None else round(boot_ms) - AHEAD_MS)


def _of_another_boot(stamp: Stamp, now_ms: int, boot_ms: float | None) -> bool:
    return stamp.clock is Clock.SINCE_BOOT and boot_ms is not None and boot_ms + stamp.ms > now_ms + BOOT_MS
