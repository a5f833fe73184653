"""What a format yields: a record, and where and when the input says it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from sickbay.actions import Control
from sickbay.clock import NO_STAMP, Stamp
from sickbay.messages import Change, Edge, Event, Identity, Placement, Progress, Step
from sickbay.schema import Samples

Record: TypeAlias = Event | Identity | Edge | Placement | Progress | Step | Change | Control | Samples


class Reading(NamedTuple):
    """A record with its provenance. `host` is what the input itself says ("" = nothing); times in the record are
    None unless the input tells them absolutely: `stamp` waits for the zone and the year."""

    record: Record
    line: int = 0
    stamp: Stamp = NO_STAMP
    boot_s: float | None = None
    host: str = ""
    until: Stamp = NO_STAMP  # of the last one folded in


class Line(NamedTuple):
    """A log line without its envelope."""

    body: str  # what the writer said, no colours, no control characters, right-trimmed
    number: int = 0  # 1-based
    stamp: Stamp = NO_STAMP
    boot_s: float | None = None
    host: str = ""
    origin: str = ""  # "kernel", a program's name ("python3", "nv-hostengine"), "" = the envelope does not tell
    pid: str = ""
    level: str = ""  # as told; never a severity
    repeats: int = 1  # "message repeated N times"
    stream: str = ""  # what interleaved writers differ in (rank prefix, container, pid): state is kept per stream
    boot_id: str = ""


class Body(Protocol):
    """A body grammar. One instance reads one input; state between lines stays small and bounded.

    Every module of `bodies/` exports `GRAMMAR` (the class), `LITERALS` (substrings one of which every line that it
    needs holds, continuation lines included: what the prefilter looks for) and `SAMPLES` (see bodies/__init__.py).
    """

    def read(self, line: Line) -> Iterable[Record | tuple[Record, Line]]:
        """Records of this line, or of an earlier one where a block had to be read first: then with that line.

        An event's `message`, line number, stamp and host are filled in by the caller from the line.
        """
        ...

    def end(self) -> Iterable[tuple[Record, Line]]:
        """Records still open at the end of the input, each with the line it began at."""
        ...


class Document(Protocol):
    """A document format: a module with these two functions."""

    def confidence(self, head: bytes, name: str) -> float:
        """0 to 1 for the first 64 KiB of an input called `name`. Content decides; a name alone gives at most 0.3."""
        ...

    def read(self, chunks: Iterable[bytes], tally: "Tally", name: str = "") -> Iterator[Reading]:
        """All readings of an input called `name`. Bad parts are counted in the tally and skipped; nothing raises."""
        ...


@dataclass(slots=True)
class Tally:
    """What a reader could not use: the reader counts, the caller tells people."""

    records: int = 0
    unparsed: int = 0  # lines, rows or entries that belong to the format but could not be read
    cut: int = 0  # lines longer than the limit
    notes: list[str] = field(default_factory=list)  # at most a few, for people

    def note(self, text: str) -> None:
        """Remember one thing to tell, at most ten."""
        if len(self.notes) < 10 and text not in self.notes:
            self.notes.append(text[:300])
