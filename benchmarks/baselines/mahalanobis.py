"""Mahalanobis distance of window features: how unlike its peers a host is, correlations of columns taken out."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import Features, Floats, Mask, first_alarms, lasting

NAME = "mahalanobis"
SHRINK = 0.3  # towards no correlation: hosts are fewer than columns
SETTINGS = tuple({"ratio": ratio, "windows": windows} for ratio in (2.0, 3.0, 4.5, 7.0) for windows in (6, 24))


def distances(features: Features) -> Floats:
    """float64 [windows, hosts]: each window's statistics are its hosts' mean and worst columns."""
    values = np.clip(features.peers(), -50, 50)
    windows, hosts, columns = values.shape
    if not windows:
        return np.empty((0, hosts))
    flat = values.reshape(-1, columns)
    usual = np.clip(flat, -6, 6)  # what is odd itself must not widen the scale
    spread = np.cov(usual, rowvar=False) + 1e-3 * np.eye(columns)
    spread = (1 - SHRINK) * spread + SHRINK * np.diag(np.diag(spread))
    inverse = np.linalg.inv(spread)
    found: Floats = np.sqrt(np.einsum("whc,cd,whd->wh", values, inverse, values))
    return found


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """The host that is furthest off, where it is so many times as far as the middle one, for so long."""
    odd = furthest(features.kept(NAME, distances), setting["ratio"])
    yield from first_alarms(lasting(odd, setting["windows"]), features)


def furthest(distance: Floats, ratio: float, least: float = 1e-9) -> Mask:
    """bool [windows, hosts]: the one furthest host of each window, where its distance is `ratio` times the median."""
    odd = np.zeros(distance.shape, np.bool_)
    if distance.size:
        top = distance.argmax(axis=1)
        middle = np.median(distance, axis=1)
        enough = distance[np.arange(len(distance)), top] > ratio * np.maximum(middle, least)
        odd[np.flatnonzero(enough), top[enough]] = True
    return odd
