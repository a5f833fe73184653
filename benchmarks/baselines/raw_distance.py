"""Raw distance: the sum of a host's distances to all others on the plain values, the furthest for so long."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import Features, Floats, first_alarms, lasting
from benchmarks.baselines.mahalanobis import furthest

NAME = "raw_distance"
SETTINGS = tuple({"ratio": ratio, "windows": windows} for ratio in (1.2, 1.4, 1.8, 2.5) for windows in (6, 24))


def distances(features: Features) -> Floats:
    """float64 [windows, hosts]: mean distance to the others on values scaled by their range over the window."""
    low = np.nanmin(np.where(np.isnan(features.mean), np.inf, features.mean), axis=(0, 1), initial=np.inf)
    high = np.nanmax(np.where(np.isnan(features.mean), -np.inf, features.mean), axis=(0, 1), initial=-np.inf)
    width = np.where(np.isfinite(high - low) & (high > low), high - low, 1.0)
    values = np.nan_to_num((features.mean - np.where(np.isfinite(low), low, 0.0)) / width)
    found: Floats = np.stack([_to_others(one) for one in values]) if len(values) else np.empty(features.told.shape)
    return found


def _to_others(values: Floats) -> Floats:
    """float64 [hosts, columns] -> [hosts]."""
    square = (values**2).sum(axis=1)
    apart = np.sqrt(np.maximum(square[:, None] + square[None, :] - 2 * values @ values.T, 0.0))
    found: Floats = apart.sum(axis=1) / max(1, len(values) - 1)
    return found


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """The furthest host, where it stands out for so long."""
    odd = furthest(features.kept(NAME, distances), setting["ratio"], least=0.02)
    yield from first_alarms(lasting(odd, setting["windows"]), features)
