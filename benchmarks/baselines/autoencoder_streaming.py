"""The autoencoder asked at every window that closes, with a shorter continuity: the first metric that has it speaks."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import Features
from benchmarks.baselines.autoencoder import ORDER, named

NAME = "autoencoder_streaming"
SETTINGS = tuple({"ratio": ratio, "windows": windows} for ratio in (1.5, 2.0, 3.0, 5.0) for windows in (6, 12))


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """The machine, when it had stood out for so long."""
    each = (named(features, {**setting, "metrics": place + 1}, setting["windows"]) for place in range(len(ORDER)))
    found = [one for one in each if one is not None]
    if found:
        yield min(found, key=lambda one: one.at_s)
