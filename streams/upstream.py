"""How far a partition of a repartitioned topic is: as far as the slowest of those who write into it."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Upstreams:
    """The clocks that `expected` upstream partitions, numbered from 0, told in one partition of the features topic."""

    expected: int
    _clocks: dict[int, int] = field(default_factory=dict)

    def heard(self, upstream: int, clock_ms: int) -> None:
        """One clock record. A clock never goes back: a second word of the same commit changes nothing."""
        if 0 <= upstream < self.expected:
            self._clocks[upstream] = max(clock_ms, self._clocks.get(upstream, clock_ms))

    @property
    def complete_ms(self) -> int:
        """Windows that close by this clock are all there; 0 until every upstream partition was heard."""
        return min(self._clocks.values()) if len(self._clocks) == self.expected else 0

    def behind(self, clock_ms: int) -> tuple[int, ...]:
        """The upstream partitions whose clock has not come so far."""
        return tuple(one for one in range(self.expected) if self._clocks.get(one, -1) < clock_ms)
