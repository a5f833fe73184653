"""95 % intervals: of shares (Wilson), of rates of rare events (exact Poisson), of what is no share (bootstrap)."""

from collections.abc import Callable, Sequence
from math import exp, lgamma, log, sqrt
from typing import TypeVar

import numpy as np

Z = 1.959963984540054
RESAMPLES = 1_000

One = TypeVar("One")
Interval = tuple[float, float, float]  # value, low, high


def share(right: int, of: int) -> Interval | None:
    """A share with its Wilson interval, None of nothing."""
    if of == 0:
        return None
    p, z2 = right / of, Z * Z
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = Z * sqrt(p * (1 - p) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return p, max(0.0, middle - half), min(1.0, middle + half)


def at_most(count: int, mean: float) -> float:
    """The probability of so many events or fewer where `mean` are expected."""
    if mean <= 0:
        return 1.0
    return min(1.0, sum(exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(count + 1)))


def upper(count: int, confidence: float = 0.95) -> float:
    """The largest mean that so few events do not speak against (exact, one-sided): 3.0 for none at 95 %."""
    low, high = float(count), count + 10 * sqrt(count + 1) + 10
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(count, middle) > 1 - confidence else (low, middle)
    return (low + high) / 2


def rate(count: int, exposure: float, per: float = 1_000.0) -> tuple[float, float]:
    """Events per so much exposure, and the upper bound."""
    if exposure <= 0:
        return 0.0, float("inf")
    return count * per / exposure, upper(count) * per / exposure


def bootstrap(of: Callable[[Sequence[One]], float | None], cases: Sequence[One], seed: int = 0) -> Interval | None:
    """A figure of many cases, and the middle 95 % of what it is on cases drawn again from those."""
    value = of(cases)
    if value is None:
        return None
    rng = np.random.default_rng(seed)
    drawn = (of([cases[place] for place in rng.integers(len(cases), size=len(cases))]) for _ in range(RESAMPLES))
    found = sorted(one for one in drawn if one is not None)
    return value, found[int(0.025 * len(found))], found[min(len(found) - 1, int(0.975 * len(found)))]
