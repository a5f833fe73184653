"""Three sigma: a value further from the host's own mean than so many deviations, as everybody's first alert."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import LEAST, WARM, Features, first_alarms, lasting

NAME = "three_sigma"
HISTORY = 8  # windows, of which mean and deviation are taken
SETTINGS = tuple({"sigmas": sigmas, "columns": columns} for sigmas in (3, 5, 8, 12) for columns in (1, 3))


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """Hosts with so many columns beyond so many deviations."""
    past = features.mean[WARM : WARM + HISTORY]
    if not len(past):
        return
    told = ~np.isnan(past)
    number = np.maximum(told.sum(axis=0), 1)
    mean = np.where(told, past, 0.0).sum(axis=0) / number
    deviation = np.sqrt((np.where(told, past - mean, 0.0) ** 2).sum(axis=0) / number)
    least = np.array([LEAST[one.partition(".")[2]] for one in features.columns]) / 8  # of a mean of eight cards
    far = np.nan_to_num(np.abs(features.mean - mean) / np.maximum(deviation, least)) > setting["sigmas"]
    odd = far.sum(axis=2) >= setting["columns"]
    odd[: WARM + HISTORY] = False
    yield from first_alarms(lasting(odd, 1), features)
