"""How far the windows of features are, as the clocks of telemetry tell it in each partition of the features topic.

A look must not depend on when a window was computed, only on whether its clock was told in time: so it is kept since
when, by the log's own time, each partition was told so far.
"""

from collections import deque
from dataclasses import dataclass, field

from streams.feature_record import Clock
from streams.upstream import Upstreams

AHEAD_MS = 2_000  # that the clocks of two brokers may be apart
Told = tuple[int, int]  # a clock of all upstreams, and the append time of the record that completed it


@dataclass(slots=True)
class WindowClocks:
    """`partitions` of features, into which `upstreams` partitions of telemetry write. `floor_ms`: known before."""

    partitions: int
    upstreams: int
    floor_ms: int = 0
    _clocks: list[Upstreams] = field(init=False)
    _news: list[deque[Told]] = field(init=False)
    _told: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._clocks = [Upstreams(self.upstreams) for _ in range(self.partitions)]
        self._news = [deque() for _ in range(self.partitions)]
        self._told = [0] * self.partitions

    def heard(self, partition: int, append_ms: int, clock: Clock) -> None:
        """One clock record. It is told after it was: one that is further ahead says no more than that moment, or a
        single wrong one would tell all windows to come as closed."""
        before = self._clocks[partition].complete_ms
        self._clocks[partition].heard(clock.upstream, min(clock.clock_ms, append_ms + AHEAD_MS))
        if (told := self._clocks[partition].complete_ms) > before:
            self._news[partition].append((told, append_ms))

    def by(self, append_ms: int) -> int:
        """The clock that was told in all partitions by an append time, which must not go back."""
        for place, news in enumerate(self._news):
            while news and news[0][1] <= append_ms:
                self._told[place] = news.popleft()[0]
        self.floor_ms = max(self.floor_ms, min(self._told))
        return self.floor_ms

    def since(self, partition: int, clock_ms: int) -> int | None:
        """The append time at which a partition was told a clock, None where it was not; 0: long ago."""
        if self._told[partition] >= clock_ms:
            return 0
        return next((append_ms for told, append_ms in self._news[partition] if told >= clock_ms), None)
