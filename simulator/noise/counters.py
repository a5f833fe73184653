"""Noise of counters: they begin anew, and those of 32 bits wrap."""

from collections.abc import Iterator

import numpy as np

from simulator.noise.kit import COUNTERS, size_of, some, told_of, with_columns
from simulator.parts.overlay import Columns
from simulator.world import Second

RESETS_PER_HOUR = 0.01  # per device: a driver or an agent below it was started anew
WRAP = 2.0**32
NARROW = {  # counters that some devices keep in 32 bits
    "accelerator": ("energy_millijoules_total", "bus_replays_total", "memory_corrected_total"),
    "port": ("corrected_bits_total", "rx_pause_total", "tx_pause_total", "carrier_changes_total", "rx_errors_total"),
}
NARROW_SHARE = 0.05  # of the devices


def resets(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """All counters of a device begin at zero again."""
    since: dict[str, Columns] = {"accelerator": {}, "port": {}}
    for second in seconds:
        told, changed = told_of(second), dict[str, Columns]()
        for table, base in since.items():
            hit = some(rng, RESETS_PER_HOUR * strength, size_of(told, table))
            columns = told.tables.get(table, {})
            if len(hit):
                for name in set(COUNTERS[table]) & set(columns):
                    base.setdefault(name, np.zeros(size_of(told, table)))[hit] = np.nan_to_num(columns[name][hit])
            changed[table] = {name: columns[name] - zero for name, zero in base.items() if name in columns}
        yield with_columns(second, changed)


def wraps(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """Some devices keep some counters in 32 bits, and have done so for long: they wrap at any time."""
    began: dict[str, Columns] | None = None
    for second in seconds:
        told = told_of(second)
        if began is None:
            began = {
                table: {name: _offsets(size_of(told, table), strength, rng) for name in names}
                for table, names in NARROW.items()
            }
        changed = dict[str, Columns]()
        for table, offsets in began.items():
            columns = told.tables.get(table, {})
            changed[table] = {
                name: np.where(np.isnan(own), columns[name], (columns[name] + own) % WRAP)
                for name, own in offsets.items()
                if name in columns
            }
        yield with_columns(second, changed)


def _offsets(size: int, strength: float, rng: np.random.Generator) -> np.ndarray:
    """What each device had counted before, NaN where it keeps 64 bits."""
    narrow = rng.random(size) < NARROW_SHARE * strength
    return np.where(narrow, np.floor(rng.uniform(0, WRAP, size)), np.nan)
