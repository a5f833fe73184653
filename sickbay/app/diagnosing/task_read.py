"""How far one task of the diagnosis stage is judged, where its memory begins, and what a commit keeps of both."""

from dataclasses import dataclass, field

import msgspec

from sickbay.app.diagnosing.horizon import HORIZON_MS
from sickbay.log import Position, Record
from streams.dead_letters import DeadLetters
from streams.runner import Mark, mark_of, write_mark

BUCKET_MS = 10_000  # how finely the beginning of the horizon is known


class Stand(Mark, frozen=True, kw_only=True, omit_defaults=True):
    """What a commit keeps beside an offset: everything was judged up to `frontier_ms`, with windows up to `windows_ms`.

    `behind`: windows were left out, as their clock `told_ms` stood. `failed`: the newest look did.
    """

    windows_ms: int = 0
    told_ms: int = 0
    behind: bool = True
    failed: bool = False


def read_stand(position: Position | None) -> Stand:
    """The stand of a committed position; one that cannot be read has judged nothing."""
    return mark_of(position, Stand)


@dataclass(slots=True)
class TaskRead:
    """`clock_ms`: append time of the newest record that was judged; `end`: the offset after it, None: as committed."""

    committed: int = 0
    end: int | None = None
    clock_ms: int = 0
    letters: DeadLetters = field(default_factory=DeadLetters)
    _begins: list[tuple[int, int]] = field(default_factory=list)  # append_ms and offset where each bucket begins

    def heard(self, record: Record) -> None:
        """One more record."""
        self.end, self.clock_ms = record.offset + 1, max(self.clock_ms, record.append_ms)
        if not self._begins or record.append_ms >= self._begins[-1][0] + BUCKET_MS:
            self._begins.append((record.append_ms, record.offset))

    def position(self, stand: Stand) -> Position:
        """What is to be committed: never an offset before what was committed."""
        before_ms = stand.frontier_ms - HORIZON_MS - BUCKET_MS
        while len(self._begins) > 1 and self._begins[1][0] < before_ms:
            self._begins.pop(0)
        end = max(self.committed, self.end or 0)
        low = min(end, self._begins[0][1]) if self._begins else end
        told = msgspec.structs.replace(stand, low=low, clock_ms=self.clock_ms)
        return Position(end, write_mark(told))

    def kept(self) -> None:
        """What was judged is committed."""
        self.committed, self.end = max(self.committed, self.end or 0), None
