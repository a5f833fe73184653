"""The autoencoder as published: metrics in order of merit, the furthest machine for four minutes, asked every eight."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import COMMIT_S, WARM, Features, Mask, lasting
from benchmarks.baselines.mahalanobis import furthest
from benchmarks.baselines.vae import POINTS, distances

NAME = "autoencoder"
CONTINUITY = 24  # windows of ten seconds
CALL_S = 480  # it is called so often, on what was there since
# Metrics by merit, as a decision tree on faults of the field orders them: what stalls and slows first.
ORDER = (
    "accelerator.matrix_active_ratio", "accelerator.power_watts", "accelerator.clock_megahertz",
    "port.tx_pause_total__increase", "port.tx_bytes_total__increase", "accelerator.scale_up_tx_bytes_per_second",
    "accelerator.utilisation_ratio", "accelerator.temperature_celsius", "accelerator.bus_tx_bytes_per_second",
    "accelerator.bus_width_lanes", "accelerator.bus_replays_total__increase", "port.up",
    "accelerator.memory_active_ratio", "accelerator.thermal_violation_nanoseconds_total__increase",
)  # fmt: skip
SETTINGS = tuple({"ratio": ratio, "metrics": metrics} for ratio in (1.5, 2.0, 3.0, 5.0) for metrics in (7, len(ORDER)))


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """The one machine that the first metric with something to say names, at the end of the call."""
    found = named(features, setting, CONTINUITY)
    if found is not None:
        yield Alarm(at_s=CALL_S + COMMIT_S, host=found.host)


def named(features: Features, setting: Mapping[str, Any], continuity: int) -> Alarm | None:
    """The first metric in order that has a machine which stands out for so long, and when that became so."""
    odd = outliers(features, setting["ratio"])
    for name in ORDER[: setting["metrics"]]:
        long = lasting(odd[features.columns.index(name)], continuity)
        places = np.argwhere(long)
        if len(places):
            window, row = places[0]
            return Alarm(at_s=float(features.at_s[window + POINTS - 1]), host=features.hosts[row])
    return None


def outliers(features: Features, ratio: float) -> Mask:
    """bool [metrics, windows, hosts]."""
    distance = features.kept("autoencoder", distances)
    odd = furthest(distance, ratio, least=0.25).reshape(len(features.columns), -1, len(features.hosts))
    odd[:, :WARM] = False
    return odd
