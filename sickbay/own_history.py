"""Own history: how a component's features of the last windows run, and how the latest stands against those before.

Blocks are [windows, components] of one feature, oldest window first, missing = NaN; all in float64.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROBUST = 1.4826  # a median absolute deviation times this is a normal distribution's standard deviation
Floats = NDArray[np.float64]


class Change(NamedTuple):
    """Per component [components], missing = NaN: latest - median of the earlier windows, and that in robust standard
    deviations of the earlier ones; how many earlier windows tell something."""

    difference: Floats
    deviation: Floats
    earlier: NDArray[np.int64]


def slope(values: NDArray[np.floating], end_ms: NDArray[np.int64]) -> Floats:
    """The slope per second of the least squares line through a component's told windows ([components]); missing where
    fewer than two tell something. `end_ms`: [windows], all different."""
    told = ~np.isnan(values)
    count = told.sum(axis=0)
    second = ((end_ms - end_ms.mean()) / 1000.0)[:, None] if len(end_ms) else np.empty((0, 1))
    value = np.where(told, values, 0.0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle_s = np.where(told, second, 0.0).sum(axis=0) / count
        middle = value.sum(axis=0) / count
        away_s = np.where(told, second - middle_s, 0.0)
        found = (away_s * np.where(told, value - middle, 0.0)).sum(axis=0) / (away_s**2).sum(axis=0)
    return np.where(count >= 2, found, np.nan)


def change(values: NDArray[np.floating], *, floor: float = 0.0, least: int = 3) -> Change:
    """The newest window against the median of the earlier ones, in 1.4826 times their median absolute deviation or in
    `floor`, if that is more. Missing where the newest tells nothing, or fewer than `least` earlier ones do."""
    block = values.astype(np.float64)
    earlier, latest = block[:-1], block[-1] if len(block) else np.full(block.shape[1], np.nan)
    count = (~np.isnan(earlier)).sum(axis=0)
    enough = count >= max(least, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = _median(earlier, count)
        scale = np.maximum(ROBUST * _median(np.abs(earlier - middle), count), floor)
        difference = np.where(enough, latest - middle, np.nan)
        deviation = np.where(difference == 0, 0.0, difference / scale)
    return Change(difference, deviation, count)


def newest_last(values: NDArray[np.floating]) -> Floats:
    """The block with what each component told last in the last row: one that fell silent is judged by its last word."""
    block = values.astype(np.float64)
    if not len(block):
        return block
    told = ~np.isnan(block)
    parts = np.flatnonzero(told.any(axis=0))
    at = len(block) - 1 - np.argmax(told[::-1, parts], axis=0)
    last = block[at, parts]
    block[at, parts] = np.nan
    block[-1:, parts] = last
    return block


def _median(block: Floats, count: NDArray[np.int64]) -> Floats:
    """Of what is told along the windows; missing where nothing is."""
    if not len(block):
        return np.full(block.shape[1], np.nan)
    ordered = np.sort(block, axis=0)  # missing last
    last = np.maximum(count, 1)
    middle = [np.take_along_axis(ordered, place[None, :], axis=0)[0] for place in ((last - 1) // 2, last // 2)]
    return np.asarray((middle[0] + middle[1]) / 2)
