"""Isolation forest on a host's own history: trees that split at random isolate what is unlike what was seen before.

Liu, Ting, Zhou, ICDM 2008, in numpy: a tree is three arrays; points walk down it all at once.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import LEAST, WARM, Features, Floats, first_alarms, lasting

NAME = "isolation_forest"
HISTORY = 8  # windows, all hosts' together, each less its own mean
TREES, POINTS = 25, 128
EULER = 0.5772156649
SETTINGS = tuple({"score": score, "windows": windows} for score in (0.52, 0.56, 0.6, 0.66) for windows in (3, 12))


def average_path(number: float) -> float:
    """The mean depth of an unsuccessful search in a binary tree of so many points."""
    return 2 * (np.log(number - 1) + EULER) - 2 * (number - 1) / number if number > 1 else 0.0


class Forest:
    """Trees grown over points, float64 [points, columns]."""

    def __init__(self, points: Floats, rng: np.random.Generator) -> None:
        size = min(POINTS, len(points))
        depth = int(np.ceil(np.log2(max(2, size))))
        self._usual = average_path(size)
        self._trees = [
            self._grow(points[rng.choice(len(points), size, replace=False)], depth, rng) for _ in range(TREES)
        ]

    def _grow(self, points: Floats, depth: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """(column, value, left, right), or (path below,) of a leaf."""
        low, high = points.min(axis=0), points.max(axis=0)
        wide = np.flatnonzero(high > low)
        if depth == 0 or len(points) <= 1 or not len(wide):
            return (average_path(len(points)),)
        column = int(rng.choice(wide))
        value = float(rng.uniform(low[column], high[column]))
        left = points[:, column] < value
        return column, value, self._grow(points[left], depth - 1, rng), self._grow(points[~left], depth - 1, rng)

    def score(self, points: Floats) -> Floats:
        """float64 [points]: 1 isolated at once, 0.5 like all others."""
        total = np.zeros(len(points))
        for tree in self._trees:
            _walk(tree, points, np.arange(len(points)), 0, total)
        found: Floats = 2 ** (-total / TREES / max(self._usual, 1e-9))
        return found


def _walk(tree: tuple[Any, ...], points: Floats, rows: Any, depth: int, total: Floats) -> None:
    if not len(rows):
        return
    if len(tree) == 1:
        total[rows] += depth + tree[0]
        return
    left = points[rows, tree[0]] < tree[1]
    _walk(tree[2], points, rows[left], depth + 1, total)
    _walk(tree[3], points, rows[~left], depth + 1, total)


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """Hosts whose windows are isolated so early, for so long."""
    odd = features.kept(NAME, scores) > setting["score"]
    yield from first_alarms(lasting(odd, setting["windows"]), features)


def scores(features: Features) -> Floats:
    """float64 [windows, hosts]; 0 in the history."""
    past = features.mean[WARM : WARM + HISTORY]
    found = np.zeros(features.told.shape)
    if len(past) == HISTORY:
        mean = np.nan_to_num(past).mean(axis=0)
        least = np.array([LEAST[one.partition(".")[2]] for one in features.columns]) / 8
        apart = np.nan_to_num((features.mean - mean) / least, nan=0.0)
        forest = Forest(apart[WARM : WARM + HISTORY].reshape(-1, apart.shape[2]), np.random.default_rng(1))
        after = apart[WARM + HISTORY :]
        found[WARM + HISTORY :] = forest.score(after.reshape(-1, apart.shape[2])).reshape(after.shape[:2])
    return found
