"""Reads one input: sniffs it, reads it, folds repeats, keeps the worst where there are too many.

Folding is by component, kind, code, process and host within 15 s (a burst of one fault prints hundreds of lines); it is
done here, while streaming, so that an input of any length needs bounded memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from collectors.formats.reading import Reading, Tally
from collectors.inputs import HEAD, READ_ERRORS, Input, reason
from collectors.sniff import sniff
from sickbay.clock import Clock, Stamp
from sickbay.messages import Event, Severity, replace

FOLD_MS = 15_000  # design §8; also the burst window of the vendor's own tools for one exception
MAX_EVENTS = 20_000  # kept per input; the answer shows 10,000 of all inputs
MAX_RECORDS = 2_000_000  # of other kinds per input: a hostile input must not fill the memory
_RANK = {severity: rank for rank, severity in enumerate(Severity)}
_BEST = list(Clock)


@dataclass(slots=True)
class Gathered:
    """One input after reading. `clock` is the best clock seen on it; `problem` is empty or why reading stopped."""

    path: str
    kind: str = "unknown"
    readings: list[Reading] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    clock: Clock = Clock.NONE
    problem: str = ""
    omitted: int = 0

    @property
    def understood(self) -> bool:
        """Recognised, read to its end, and nothing of its own format left over."""
        return self.kind != "unknown" and not self.problem and not self.tally.unparsed


def gather(source: Input, progress: Callable[[int], None] = lambda size: None) -> Gathered:
    """Everything that one input says. `progress` is told the size of each chunk. Never raises for bad content."""
    found = Gathered(source.path, problem=source.problem)
    if source.open is None:
        return found
    folder = Folder()
    try:
        for reading in _readings(found, _told(source.open(), progress)):
            found.tally.records += 1
            folder.add(reading)
    except READ_ERRORS as error:
        found.problem = reason(error)
    found.readings = folder.close()
    found.omitted = folder.omitted
    found.clock = min((reading.stamp.clock for reading in found.readings), key=_BEST.index, default=Clock.NONE)
    return found


def _told(chunks: Iterable[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        progress(len(chunk))
        yield chunk


def _readings(found: Gathered, chunks: Iterator[bytes]) -> Iterator[Reading]:
    start = [next(chunks, b"")]
    while sum(map(len, start)) < HEAD and (more := next(chunks, b"")):
        start.append(more)
    head = b"".join(start)
    if not head.strip():
        found.kind = "empty"
        return
    sniffed = sniff(head[:HEAD], found.path)
    found.kind = sniffed.kind
    if sniffed.read is not None:
        yield from sniffed.read(chain([head], chunks), found.tally, name=found.path)


class Folder:
    """Folds readings of one input as they come, and keeps at most MAX_EVENTS events: the worst, then the first."""

    def __init__(self, limit: int = MAX_EVENTS) -> None:
        self.omitted = 0
        self._limit = limit
        self._kept: list[Reading | None] = []
        self._open: dict[tuple[str, ...], tuple[int, Stamp, float | None]] = {}  # key -> place, last stamp
        self._by_severity: dict[int, list[int]] = {rank: [] for rank in _RANK.values()}
        self._events = 0

    def add(self, reading: Reading) -> None:
        """Takes one reading, in the order of the input."""
        event = reading.record
        if not isinstance(event, Event):
            if len(self._kept) < MAX_RECORDS:
                self._kept.append(reading)
            else:
                self.omitted += 1
            return
        key = (event.component, event.kind, event.code, event.process, reading.host)
        place, stamp, boot_s = self._open.get(key, (-1, reading.stamp, None))
        known = self._kept[place] if place >= 0 else None
        if known is not None and _close(stamp, boot_s, reading):
            both = folded(known.record, event)  # type: ignore[arg-type]
            self._kept[place] = known._replace(record=both, until=reading.stamp)
        elif self._room(_RANK[event.severity]):
            place = len(self._kept)
            self._kept.append(reading)
            self._by_severity[_RANK[event.severity]].append(place)
            self._events += 1
        else:
            self.omitted += 1
            return
        if len(self._open) > self._limit:
            self._open.clear()  # a storm of distinct keys: folding starts anew, nothing is lost but compactness
        self._open[key] = (place, reading.stamp, reading.boot_s)

    def _room(self, rank: int) -> bool:
        """True if one more event of that severity is to be kept; makes room by dropping a milder one."""
        if self._events < self._limit:
            return True
        for milder in range(rank):
            if self._by_severity[milder]:
                self._kept[self._by_severity[milder].pop()] = None
                self._events -= 1
                self.omitted += 1
                return True
        return False

    def close(self) -> list[Reading]:
        """All that was kept, in the order of the input."""
        return [reading for reading in self._kept if reading is not None]


def _close(stamp: Stamp, boot_s: float | None, reading: Reading) -> bool:
    """True if the reading is within FOLD_MS of the last one folded; undated lines of one key belong together."""
    if stamp.clock is not reading.stamp.clock:
        return False
    if stamp.clock is Clock.NONE and boot_s is not None and reading.boot_s is not None:
        return abs(reading.boot_s - boot_s) * 1000 <= FOLD_MS
    return abs(reading.stamp.ms - stamp.ms) <= FOLD_MS


def folded(first: Event, more: Event) -> Event:
    """`first` with `more` folded in: counts add, the worse severity stays, new attributes join."""
    worse = max(first.severity, more.severity, key=lambda severity: _RANK[severity])
    return replace(  # type: ignore[no-any-return]
        first,
        count=first.count + more.count,
        severity=worse,
        advice=first.advice or more.advice,
        attributes={**more.attributes, **first.attributes},
    )
