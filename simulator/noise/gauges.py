"""Noise of single gauges: each device reads a little off, some samples are absurd, some gauges stick, and the hall
follows the day."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simulator.noise.kit import column, size_of, some, told_of, with_columns
from simulator.parts.overlay import Columns, Floats
from simulator.parts.told import Told
from simulator.world import Second

# [house] share by which one device differs from another of the same model that does the same.
OFFSETS = {
    "power_watts": 0.02, "memory_active_ratio": 0.015, "matrix_active_ratio": 0.015, "compute_active_ratio": 0.01,
    "bus_tx_bytes_per_second": 0.03, "scale_up_tx_bytes_per_second": 0.02,
}  # fmt: skip
DEGREES = {"temperature_celsius": 1.5, "memory_temperature_celsius": 2.0}
SPIKES = (  # column, factor, added: what absurd samples look like
    ("power_watts", 3.1, 0.0), ("power_watts", 0.0, 0.0), ("temperature_celsius", 1.0, 55.0),
    ("temperature_celsius", 0.0, 0.0), ("matrix_active_ratio", 0.0, 0.0), ("clock_megahertz", 0.0, 0.0),
    ("memory_temperature_celsius", 0.0, 255.0), ("utilisation_ratio", 0.0, 0.0),
)  # fmt: skip
SPIKES_PER_HOUR = 0.05  # per device
STICK = ("power_watts", "temperature_celsius", "memory_temperature_celsius", "clock_megahertz", "utilisation_ratio")
STUCK_PER_HOUR, STUCK_S = 0.004, (60, 600)  # per device
DAY_S, SWING_CELSIUS = 86_400, 3.0


def offsets(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """Every device has a constant error of its own in each gauge."""
    factors: Columns | None = None
    warmer: Columns = {}
    for second in seconds:
        told = told_of(second)
        if factors is None:
            size = size_of(told, "accelerator")
            factors = {name: 1 + strength * share * rng.standard_normal(size) for name, share in OFFSETS.items()}
            warmer = {name: np.round(strength * most * rng.standard_normal(size)) for name, most in DEGREES.items()}
        changed = {name: _bounded(name, values * own) for name, own, values in _present(told, factors)}
        changed |= {name: values + own for name, own, values in _present(told, warmer)}
        yield with_columns(second, {"accelerator": changed})


def _present(told: Told, own: Columns) -> Iterator[tuple[str, Floats, Floats]]:
    columns = told.tables["accelerator"]
    return ((name, values, columns[name]) for name, values in own.items() if name in columns)


def _bounded(name: str, values: Floats) -> Floats:
    return np.clip(values, 0, 1) if name.endswith("_ratio") else values


def spikes(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """Single samples of single gauges are absurd."""
    for second in seconds:
        told = told_of(second)
        hit = some(rng, SPIKES_PER_HOUR * strength, size_of(told, "accelerator"))
        kinds = rng.integers(0, len(SPIKES), len(hit))
        changed: Columns = {}
        for row, kind in zip(hit.tolist(), kinds.tolist(), strict=True):
            name, factor, added = SPIKES[kind]
            values = changed.get(name, column(told, "accelerator", name))
            if values is not None:
                values[row] = values[row] * factor + added
                changed[name] = values
        yield with_columns(second, {"accelerator": changed}) if changed else second


class _Stuck(NamedTuple):
    row: int
    name: str
    until_ms: int
    value: float


def stuck(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """A gauge goes on to tell what it told for minutes."""
    held: list[_Stuck] = []
    for second in seconds:
        told = told_of(second)
        held = [one for one in held if one.until_ms > second.at_ms]
        begin = some(rng, STUCK_PER_HOUR * strength, size_of(told, "accelerator"))
        which, lengths = rng.integers(0, len(STICK), len(begin)), rng.integers(*STUCK_S, len(begin))
        for row, place, length in zip(begin.tolist(), which.tolist(), lengths.tolist(), strict=True):
            values = told.tables["accelerator"].get(STICK[place])
            if values is not None:
                held.append(_Stuck(row, STICK[place], second.at_ms + 1000 * length, float(values[row])))
        changed: Columns = {}
        for one in held:
            values = changed.get(one.name, column(told, "accelerator", one.name))
            if values is not None:
                values[one.row] = np.nan if np.isnan(values[one.row]) else one.value
                changed[one.name] = values
        yield with_columns(second, {"accelerator": changed}) if changed else second


def diurnal(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """Cards and the air that hosts take in grow warmer and cooler with the day, the same everywhere."""
    phase = float(rng.uniform(0, 2 * math.pi))
    for second in seconds:
        told = told_of(second)
        warmer = strength * SWING_CELSIUS * math.sin(phase + 2 * math.pi * second.at_ms / 1000 / DAY_S)
        places = (("accelerator", "temperature_celsius"), ("accelerator", "memory_temperature_celsius"),
                  ("host", "inlet_temperature_celsius"))  # fmt: skip
        changed: dict[str, Columns] = {}
        for table, name in places:
            values = column(told, table, name)
            if values is not None:
                changed.setdefault(table, {})[name] = np.round(values + warmer)
        yield with_columns(second, changed)
