"""How each host's batch of a second travels: late, twice, out of order. What is in it does not change.

    road = Delivery.of("field", seed=3)
    for now_ms, batches in delivered(night.seconds(600), road):
        for batch in batches: ...          # in the order of their arrival

A batch of a second arrives at `Delivery.times(second)`: milliseconds per host.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.noise.kit import Spells, told_of
from simulator.world import Second

Times = NDArray[np.int64]
USUAL_MS = 180.0  # [house] from an agent to the log; half of all are faster
LATE_PER_HOUR, LATE_S, LATE_BY_S = 0.2, (5, 60), 45  # spells of a host, and how much later its batches come
ASTRAY, ASTRAY_MS = 0.01, (2_000, 20_000)  # share of the batches that later ones overtake
TWICE, TWICE_MS = 0.01, (0, 30_000)  # share that comes again, as its sender saw no answer
NEVER = np.int64(-1)
TRAVELS = ("late", "out_of_order", "duplicate")
PRESETS: dict[str, dict[str, float]] = {
    "none": {},
    "field": dict.fromkeys(TRAVELS, 1.0),
    "harsh": dict.fromkeys(TRAVELS, 4.0),
}


class Batch(NamedTuple):
    """What one host told in one second, as it arrives."""

    arrives_ms: int
    host: str
    second: Second
    again: bool = False


@dataclass(slots=True)
class Delivery:
    """When batches arrive. `strengths`: of "late", "out_of_order" and "duplicate"; 0 or left out: not at all."""

    strengths: Mapping[str, float]
    seed: int = 0
    _rng: dict[str, np.random.Generator] = field(default_factory=dict)
    _spells: Spells = field(init=False)
    _by_ms: Times = field(default_factory=lambda: np.zeros(0, np.int64))  # how late each host is in its spell

    def __post_init__(self) -> None:
        if unknown := set(self.strengths) - set(TRAVELS):
            raise KeyError(f"no such noise of delivery: {', '.join(sorted(unknown))}; one of {', '.join(TRAVELS)}")
        words = ("usual", *TRAVELS)
        self._rng = {word: np.random.default_rng([self.seed, 0xDE, place]) for place, word in enumerate(words)}
        self._spells = Spells(LATE_PER_HOUR * self.strengths.get("late", 0.0), *LATE_S)

    @classmethod
    def of(cls, what: str | Mapping[str, float], seed: int = 0) -> "Delivery":
        """A preset, or strengths by name. Raises KeyError."""
        return cls(PRESETS[what] if isinstance(what, str) else what, seed)

    def times(self, second: Second) -> tuple[Times, Times]:
        """Arrival of each host's batch, by row, and that of its second copy (-1: none), UTC milliseconds."""
        size = len(told_of(second).cluster.hosts)
        arrives = second.at_ms + self._usual(size) + self._late(size) + self._astray(size)
        return arrives, self._again(arrives)

    def _usual(self, size: int) -> Times:
        if not self.strengths:
            return np.zeros(size, np.int64)
        slow = USUAL_MS * np.exp(0.5 * self._rng["usual"].standard_normal(size))
        return np.round(np.minimum(slow, 900)).astype(np.int64)

    def _late(self, size: int) -> Times:
        rng = self._rng["late"]
        if len(self._by_ms) != size:
            self._by_ms = np.zeros(size, np.int64)
        on, began, _ = self._spells.tick(rng, size)
        self._by_ms[began] = rng.integers(1_000, 1_000 * LATE_BY_S, len(began))
        late = np.zeros(size, np.int64)
        late[on] = self._by_ms[on]
        return late

    def _astray(self, size: int) -> Times:
        rng = self._rng["out_of_order"]
        hit, by = rng.random(size), rng.integers(*ASTRAY_MS, size)
        return np.where(hit < ASTRAY * self.strengths.get("out_of_order", 0.0), by, 0)

    def _again(self, arrives: Times) -> Times:
        rng = self._rng["duplicate"]
        hit, after = rng.random(len(arrives)), rng.integers(*TWICE_MS, len(arrives))
        return np.where(hit < TWICE * self.strengths.get("duplicate", 0.0), arrives + after, NEVER)


def delivered(seconds: Iterable[Second], delivery: Delivery) -> Iterator[tuple[int, list[Batch]]]:
    """For each second its end and all that arrived by then, by arrival; at the end what is still on its way."""
    waiting: list[tuple[int, int, Batch]] = []
    number, now_ms = 0, 0
    for second in seconds:
        hosts, now_ms = told_of(second).cluster.hosts, second.at_ms + 1000
        first, again = delivery.times(second)
        for copy, times in ((False, first), (True, again)):
            for row in np.flatnonzero(times >= 0).tolist():
                if hosts[row] in second.samples:
                    number += 1
                    batch = Batch(int(times[row]), hosts[row], second, copy)
                    heapq.heappush(waiting, (batch.arrives_ms, number, batch))
        yield now_ms, _arrived(waiting, now_ms)
    if waiting:
        last_ms = max(at_ms for at_ms, _, _ in waiting)
        yield last_ms, _arrived(waiting, last_ms)


def _arrived(waiting: list[tuple[int, int, Batch]], now_ms: int) -> list[Batch]:
    found = []
    while waiting and waiting[0][0] <= now_ms:
        found.append(heapq.heappop(waiting)[2])
    return found
