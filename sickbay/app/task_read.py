"""How far one task of the diagnosis stage is read, and where its memory begins."""

from dataclasses import dataclass, field

from sickbay.app.horizon import HORIZON_MS
from sickbay.log import Position, Record
from streams.dead_letters import DeadLetters
from streams.runner import Mark, write_mark

BUCKET_MS = 10_000  # how finely the beginning of the horizon is known


@dataclass(slots=True)
class TaskRead:
    """`clock_ms`: append time of the newest record; `told_ms`: telemetry's clock, of features. `end`: the next offset,
    where something was read since the last commit. Records before `committed` had their letters, if any."""

    committed: int
    end: int | None = None
    clock_ms: int = 0
    told_ms: int = 0
    letters: DeadLetters = field(default_factory=DeadLetters)
    _begins: list[tuple[int, int]] = field(default_factory=list)  # append_ms and offset where each bucket begins

    def heard(self, record: Record) -> None:
        """One more record."""
        self.end, self.clock_ms = record.offset + 1, max(self.clock_ms, record.append_ms)
        if not self._begins or record.append_ms >= self._begins[-1][0] + BUCKET_MS:
            self._begins.append((record.append_ms, record.offset))

    def position(self, end: int, judged_ms: int) -> Position:
        """What is to be committed: never an offset before what was committed. The mark tells up to when everything was
        judged, and where the memory begins that the next look needs."""
        before_ms = min(self.clock_ms, judged_ms or self.clock_ms) - HORIZON_MS - BUCKET_MS
        while len(self._begins) > 1 and self._begins[1][0] < before_ms:
            self._begins.pop(0)
        low = self._begins[0][1] if self._begins else end
        return Position(
            max(end, self.committed), write_mark(Mark(frontier_ms=judged_ms, low=low, clock_ms=self.clock_ms))
        )

    def kept(self, end: int) -> None:
        """Everything before `end` is committed."""
        self.committed, self.end = max(self.committed, end), None
