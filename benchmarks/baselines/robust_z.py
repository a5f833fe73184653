"""Robust z-score against peers, with continuity: median and median deviation of the job's hosts, for so long."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import Features, first_alarms, lasting

NAME = "robust_z"
SETTINGS = tuple({"z": z, "windows": windows} for z in (4, 8) for windows in (3, 6, 12, 24))


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """Hosts that are that far off in any column for so many windows."""
    odd = (np.abs(features.peers()) > setting["z"]).any(axis=2) | (features.told < features.told.max(initial=0.0) / 2)
    yield from first_alarms(lasting(odd, setting["windows"]), features)
