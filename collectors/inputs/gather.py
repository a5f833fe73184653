"""Reads one input: sniffs it, reads it, folds repeats, keeps the worst where there are too many.

Folding is by component, kind, code, process and host within 15 s (a burst of one fault prints hundreds of lines); it is
done here, while streaming, so that an input of any length needs bounded memory.
"""

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from collectors.formats.reading import Reading, Tally
from collectors.inputs.inputs import HEAD, READ_ERRORS, Input, reason
from collectors.inputs.sniff import looks_like_text, reading_as_log, sniff, unreadable
from sickbay.clock import Clock, Stamp
from sickbay.messages import Event, Progress, Severity, Step, replace
from sickbay.schema import Samples

FOLD_MS = 15_000  # design §8; also the burst window of the vendor's own tools for one exception
MAX_EVENTS = 20_000  # kept per input; the answer shows 10,000 of all inputs
MAX_RECORDS = 400_000  # of other kinds per input: a hostile input must not fill the memory
MAX_BLANK = 256 << 20  # bytes of nothing that an input may begin with: a crash leaves zeros at the end of a log
_BLANK = b"\0 \t\r\n\v\f"
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_RANK = {severity: rank for rank, severity in enumerate(Severity)}
_BEST = list(Clock)
_SERIES = Step | Progress | Samples  # of these the latest are kept, of what tells who is who the first


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

    @property
    def readable(self) -> bool:
        """Whether anything could be read of it, understood or not."""
        return not self.problem or self.kind != "unknown"


def gather(source: Input, progress: Callable[[int], None] = lambda size: None) -> Gathered:
    """Everything that one input says. `progress` is told the size of each chunk. Never raises for bad content."""
    found = Gathered(source.path, problem=source.problem)
    if source.open is None:
        return found
    folder = Folder()
    records = 0
    try:
        for reading in _readings(found, _told(found, source.open(), progress)):
            records += 1
            folder.add(reading)
    except Exception as error:  # a fault in one format must not silence the other inputs
        found.problem = f"could not be read on: {type(error).__name__}: {error}"[:200]
    found.tally.records = records
    found.readings = folder.close()
    found.omitted = folder.omitted
    found.clock = min((reading.stamp.clock for reading in found.readings), key=_BEST.index, default=Clock.NONE)
    return found


def _told(found: Gathered, chunks: Iterable[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    """The chunks up to the first that cannot be read: what came before is kept, and the reason."""
    try:
        for chunk in chunks:
            progress(len(chunk))
            yield chunk
    except READ_ERRORS as error:
        found.problem = reason(error)


def _readings(found: Gathered, chunks: Iterator[bytes]) -> Iterator[Reading]:
    try:
        lines, head = _start(chunks)
    except ValueError as error:
        found.problem = str(error)
        return
    if not _bare(head):
        found.kind = "empty" if not found.problem else found.kind
        return
    sniffed = sniff(head[:HEAD], found.path)
    found.kind = sniffed.kind
    read = sniffed.read or (reading_as_log() if looks_like_text(head) else None)
    if read is None:
        found.tally.note(unreadable(head))
        return
    for reading in read(chain(_line_ends(lines), [head], chunks), found.tally, name=found.path):
        if found.kind == "unknown":  # its beginning said nothing, a later line does
            found.kind = "log"
        yield reading
    if found.kind == "unknown":
        found.tally.note("text in which nothing is recognised")


def _start(chunks: Iterator[bytes]) -> tuple[int, bytes]:
    """The first bytes that say something, from the start of their line, and how many lines were passed over."""
    lines = passed = 0
    head = b""
    for head in chunks:
        if _bare(head):
            break
        lines, passed, head = lines + head.count(b"\n"), passed + len(head), b""
        if passed > MAX_BLANK:
            raise ValueError(f"begins with {MAX_BLANK >> 20} MiB of nothing: the rest was not read")
    while len(head.lstrip(_BLANK)) < HEAD and (more := next(chunks, b"")):
        head += more
    blank = head[: len(head) - len(head.lstrip(_BLANK))]
    begin = max(blank.rfind(b"\n"), blank.rfind(b"\0")) + 1
    return lines + blank.count(b"\n", 0, begin), head[begin:]


def _bare(head: bytes) -> bytes:
    """What is there besides blanks and a mark of the encoding."""
    mark = next((mark for mark in _MARKS if head.startswith(mark)), b"")
    return head[len(mark) :].strip(_BLANK)


def _line_ends(count: int) -> Iterator[bytes]:
    while count > 0:
        yield b"\n" * min(count, HEAD)
        count -= HEAD


class Folder:
    """Folds readings of one input as they come, and keeps at most `limit` events: the worst, then the first."""

    def __init__(self, limit: int = MAX_EVENTS, records: int = MAX_RECORDS) -> None:
        self.omitted = 0
        self._limit, self._records = limit, records
        self._kept: dict[int, Reading] = {}  # by place in the input
        self._next = 0
        self._open: dict[tuple[str, ...], tuple[int, Stamp, float | None]] = {}  # key -> place, last stamp
        self._by_severity: dict[int, list[int]] = {rank: [] for rank in _RANK.values()}
        self._series: deque[int] = deque()
        self._events = self._others = 0

    def add(self, reading: Reading) -> None:
        """Takes one reading, in the order of the input."""
        if isinstance(reading.record, Event):
            self._event(reading, reading.record)
        else:
            self._other(reading)

    def _other(self, reading: Reading) -> None:
        if self._others >= self._records:
            self.omitted += 1
            if not self._series or not isinstance(reading.record, _SERIES):
                return
            del self._kept[self._series.popleft()]
            self._others -= 1
        if isinstance(reading.record, _SERIES):
            self._series.append(self._next)
        self._keep(reading)
        self._others += 1

    def _keep(self, reading: Reading) -> int:
        place, self._next = self._next, self._next + 1
        self._kept[place] = reading
        return place

    def _event(self, reading: Reading, event: Event) -> None:
        key = (event.component, event.kind, event.code, event.process, reading.host)
        place, stamp, boot_s = self._open.get(key, (-1, reading.stamp, None))
        known = self._kept.get(place)
        if known is not None and _close(stamp, boot_s, reading):
            both = folded(known.record, event)  # type: ignore[arg-type]
            self._kept[place] = known._replace(record=both, until=reading.stamp)
        elif self._room(_RANK[event.severity]):
            place = self._keep(reading)
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
                del self._kept[self._by_severity[milder].pop()]
                self._events -= 1
                self.omitted += 1
                return True
        return False

    def close(self) -> list[Reading]:
        """All that was kept, in the order of the input."""
        return list(self._kept.values())


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
