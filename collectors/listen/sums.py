"""Numbers that come in parts, each a series of its own, in requests of their own: summed when all parts are there.

A sum of some of them would look like a counter that fell, or that jumped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from collectors.formats.metric_names import targets
from collectors.formats.series_matrix import Series

SETTLE_MS = 60_000  # a part that is new may not be the last one
MAX_SUMS, MAX_PARTS = 50_000, 256
_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Sum:
    """One number in parts: the newest value of each, and since when there is no new part."""

    parts: dict[tuple[str, ...], tuple[float, float, Series]] = field(default_factory=dict)
    since_ms: float = 0.0


@dataclass(slots=True)
class Sums:
    """Parts of numbers that wait for the others of the same time."""

    held: dict[_Key, _Sum] = field(default_factory=dict)

    def whole(self, found: Sequence[Series]) -> list[Series]:
        """The series without those that are parts; parts as soon as all that are known tell of the same time."""
        whole: list[Series] = []
        for series in found:
            target = targets().get(series.labels.get("__name__", ""))
            if target is None or not target.metric.sum_over:
                whole.append(series)
            else:
                whole += self._taken(series, target.metric.sum_over)
        return whole

    def _taken(self, series: Series, over: tuple[str, ...]) -> list[Series]:
        rest = tuple(sorted((name, value) for name, value in series.labels.items() if name not in over))
        key, part = (series.labels["__name__"], rest), tuple(series.labels.get(label, "") for label in over)
        if key not in self.held and len(self.held) >= MAX_SUMS:
            return []
        held, complete = self.held.setdefault(key, _Sum()), list[Series]()
        for at_ms, value in zip(*points_of(series), strict=True):
            if part not in held.parts:
                if len(held.parts) >= MAX_PARTS:
                    return []
                held.since_ms = at_ms
            elif held.parts[part][0] >= at_ms:
                continue
            held.parts[part] = (at_ms, value, series)
            if at_ms - held.since_ms >= SETTLE_MS and all(one[0] == at_ms for one in held.parts.values()):
                complete += [_at(one, at_ms, value) for at_ms, value, one in held.parts.values()]
        return complete

    def copy(self) -> "Sums":
        """A copy that changes apart."""
        return Sums({key: _Sum(dict(one.parts), one.since_ms) for key, one in self.held.items()})


def _at(series: Series, at_ms: float, value: float) -> Series:
    return Series(series.labels, ([at_ms], [value]))


def points_of(series: Series) -> tuple[Sequence[float], Sequence[float]]:
    """Times in ms and values of a series of a listener."""
    assert isinstance(series.points, tuple), "listeners make no JSON of numbers"
    return series.points
