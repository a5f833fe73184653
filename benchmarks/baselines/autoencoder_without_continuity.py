"""The autoencoder without its four minutes: any machine that stands out once. To see what continuity is worth."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import COMMIT_S, Features
from benchmarks.baselines.autoencoder import CALL_S, SETTINGS, named

NAME = "autoencoder_without_continuity"

__all__ = ["NAME", "SETTINGS", "alarms"]


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """The one machine of a call."""
    found = named(features, setting, 1)
    if found is not None:
        yield Alarm(at_s=CALL_S + COMMIT_S, host=found.host)
