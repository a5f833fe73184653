"""Known methods on the same windows: what each is given, and how it answers.

A baseline is a module with `NAME`, `SETTINGS` (as many as every other has: the tuning budget) and `alarms(features,
setting)`. It names machines; it sees a window when the pipeline under test sees it, and what it says stands as much
later. It gets events and steps where its method reads such.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.outcomes import Alarm
from sickbay.messages import Event, Step
from simulator.parts.cluster import Cluster
from streams.feature_record import decode
from streams.open_windows import LATENESS_MS

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
BUDGET = 8  # settings of each baseline
WARM = 3  # windows in which a job starts: nobody looks at those
COMMIT_S = 0.25  # see `windows` in accuracy.toml

CHEAP = ("rules", "three_sigma", "robust_z", "mahalanobis", "raw_distance", "change_point", "link_voting",
         "isolation_forest")  # fmt: skip
DEAR = ("autoencoder", "autoencoder_without_continuity", "autoencoder_streaming")

# What machines are compared by: columns of cards and of their ports. Increases of counters are of one window.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "accelerator": (
        "utilisation_ratio", "matrix_active_ratio", "memory_active_ratio", "power_watts", "temperature_celsius",
        "clock_megahertz", "bus_tx_bytes_per_second", "scale_up_tx_bytes_per_second", "bus_width_lanes",
        "thermal_violation_nanoseconds_total__increase", "bus_replays_total__increase",
        "memory_corrected_total__increase",
    ),
    "port": ("rx_bytes_total__increase", "tx_bytes_total__increase", "tx_pause_total__increase", "up"),
}  # fmt: skip
# Differences that are nothing: a column's spread over peers is taken to be this at least (in the column's own unit).
LEAST = {
    "utilisation_ratio": 0.02, "matrix_active_ratio": 0.01, "memory_active_ratio": 0.01, "power_watts": 8.0,
    "temperature_celsius": 2.0, "clock_megahertz": 15.0, "bus_tx_bytes_per_second": 1e8, "bus_width_lanes": 0.5,
    "scale_up_tx_bytes_per_second": 2e9, "thermal_violation_nanoseconds_total__increase": 1e8,
    "bus_replays_total__increase": 5.0, "memory_corrected_total__increase": 5.0, "rx_bytes_total__increase": 5e9,
    "tx_bytes_total__increase": 5e9, "tx_pause_total__increase": 500.0, "up": 0.1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Features:
    """One window of the benchmark. `mean` and `worst` float64 [windows, hosts, columns]: of a host's cards the mean,
    and the one that is furthest from the middle of all; NaN where nothing was told. `told` [windows, hosts]: share of
    the cards that told anything. `at_s`: when each window could be looked at."""

    hosts: tuple[str, ...]
    columns: tuple[str, ...]
    at_s: Floats
    mean: Floats
    worst: Floats
    told: Floats
    events: Sequence[tuple[float, Event]]
    steps: Sequence[tuple[float, Step]]
    addresses: Mapping[str, str]  # of the training network: host
    per_host: int
    _kept: dict[str, Floats] = field(default_factory=dict)

    def kept(self, name: str, make: Callable[["Features"], Floats]) -> Floats:
        """What a method makes of the window whatever its setting is: made once."""
        if name not in self._kept:
            self._kept[name] = make(self)
        return self._kept[name]

    @classmethod
    def of(
        cls, blocks: Iterable[bytes], events: Iterable[tuple[int, Event]], steps: Iterable[tuple[int, Step]],
        cluster: Cluster, start_ms: int,
    ) -> "Features":  # fmt: skip
        """From the closed windows of the pipeline under test."""
        cards = _cards(blocks, cluster)
        ends = sorted(cards)
        values = np.stack([cards[end] for end in ends]) if ends else np.empty((0, len(cluster.cards), len(NAMES)))
        shape = len(ends), len(cluster.hosts), cluster.per_host, len(NAMES)
        return cls(
            hosts=cluster.hosts, columns=NAMES,
            at_s=(np.array(ends, float) - start_ms + LATENESS_MS) / 1000 + COMMIT_S,
            mean=_mean(values.reshape(shape), 2), worst=_worst(values.reshape(shape)),
            told=(~np.isnan(values[:, :, 0])).reshape(shape[:3]).mean(axis=2),
            events=[((at - start_ms) / 1000 + COMMIT_S, one) for at, one in events],
            steps=[((at - start_ms) / 1000 + COMMIT_S, one) for at, one in steps],
            addresses={card.address: card.host for card in cluster.cards}, per_host=cluster.per_host,
        )  # fmt: skip

    def peers(self) -> Floats:
        """How far each host is from the middle of its peers, in units of their spread, of `mean` and `worst` both:
        [windows, hosts, 2 x columns], 0 where nothing is told."""
        return self.kept("peers", _peers)


NAMES = tuple(f"{table}.{column}" for table, columns in COLUMNS.items() for column in columns)


def _peers(features: Features) -> Floats:
    both = np.concatenate([features.mean, features.worst], axis=2)
    middle = _median(both, 1)
    spread = 1.4826 * _median(np.abs(both - middle), 1)
    least = np.tile(np.array([LEAST[_column(one)] for one in features.columns]), 2)
    found: Floats = np.nan_to_num((both - middle) / np.maximum(spread, least))
    return found


def _column(name: str) -> str:
    return name.partition(".")[2]


def _cards(blocks: Iterable[bytes], cluster: Cluster) -> dict[int, Floats]:
    """By end of a window: float64 [cards, columns]."""
    rows = {
        "accelerator": {one: row for row, one in enumerate(cluster.components)},
        "port": {one: row for row, one in enumerate(cluster.ports)},
    }
    found: dict[int, Floats] = {}
    for block in map(decode, blocks):
        if block.table not in rows:
            continue
        known = rows[block.table]
        inside = [(place, known[one]) for place, one in enumerate(block.names) if one in known]
        if not inside:
            continue
        into = found.setdefault(block.end_ms, np.full((len(cluster.cards), len(NAMES)), np.nan))
        source, target = np.array(inside, np.int64).T
        for place, column in enumerate(block.columns):
            if (name := f"{block.table}.{column}") in NAMES:
                values = block.values[place, source]
                into[target, NAMES.index(name)] = np.where(np.isnan(values), into[target, NAMES.index(name)], values)
    return found


def _mean(values: Floats, axis: int) -> Floats:
    told = ~np.isnan(values)
    number = told.sum(axis=axis)
    total = np.where(told, values, 0.0).sum(axis=axis)
    found: Floats = np.where(number, total / np.maximum(number, 1), np.nan)
    return found


def _median(values: Floats, axis: int) -> Floats:
    """The median of what is told, NaN where nothing is."""
    told = ~np.isnan(values).all(axis=axis, keepdims=True)
    found: Floats = np.where(told, np.nanmedian(np.where(told, values, 0.0), axis=axis, keepdims=True), np.nan)
    return found


def _worst(values: Floats) -> Floats:
    """float64 [windows, hosts, cards of a host, columns] -> [windows, hosts, columns]: of the cards the one that is
    furthest from the middle of all cards of that window."""
    windows, hosts, cards, columns = values.shape
    middle = _median(values.reshape(windows, hosts * cards, columns), 1)[:, :, None, :]
    away = np.nan_to_num(np.abs(values - middle), nan=-1.0)
    chosen = away.argmax(axis=2)
    found: Floats = np.take_along_axis(values, chosen[:, :, None, :], axis=2)[:, :, 0, :]
    return found


class Baseline(NamedTuple):
    """A method with its settings."""

    name: str
    settings: Sequence[Mapping[str, Any]]
    alarms: Callable[[Features, Mapping[str, Any]], Iterator[Alarm]]


def load(names: Iterable[str]) -> dict[str, Baseline]:
    """Baselines by name. Raises ValueError for one whose tuning budget is not that of the others."""
    found = {}
    for name in names:
        module = import_module(f"benchmarks.baselines.{name}")
        if len(module.SETTINGS) != BUDGET:
            raise ValueError(f"{name} has {len(module.SETTINGS)} settings, every baseline has {BUDGET}")
        found[name] = Baseline(name, module.SETTINGS, module.alarms)
    return found


def lasting(odd: Mask, windows: int) -> Mask:
    """Where something has been so for so many windows in a row: bool [windows, hosts] in and out."""
    run = np.zeros(odd.shape[1], np.int64)
    found = np.zeros_like(odd)
    for place in range(len(odd)):
        run = np.where(odd[place], run + 1, 0)
        found[place] = run >= windows
    return found


def first_alarms(odd: Mask, features: Features) -> Iterator[Alarm]:
    """An alarm for each host when it is odd for the first time; warm-up does not count."""
    for row, host in enumerate(features.hosts):
        places = np.flatnonzero(odd[WARM:, row])
        if len(places):
            yield Alarm(at_s=float(features.at_s[WARM + places[0]]), host=host)
