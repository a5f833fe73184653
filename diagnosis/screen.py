"""Which components a look may be about: a coarse sieve over whole windows of numbers, so that detectors see few rows.

Each rule lets through a superset of what a detector could ever claim on; what it holds back, no detector needs. Rows
are places in arrays: `values[column][row]` is one component's value in the newest window, missing NaN.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diagnosis import carriers
from diagnosis.clocks import FLAGGED_S
from diagnosis.detectors import bus_width, device_state, link_errors, optic_power, pause_sent, peers_idle
from diagnosis.detectors import slow_accelerator as slow
from diagnosis.wide import BY_CONTROLLER, OWN, SENSORS
from diagnosis.working import BUSY
from streams import peers
from streams.liveness import SILENT_MS

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Places: TypeAlias = NDArray[np.int64]
Values: TypeAlias = Mapping[str, Floats]
Paired: TypeAlias = Callable[[Places], Mask]

CARDS, PORTS, OPTICS, HOSTS, LIVENESS = "accelerator", "port", "optic", "host", "liveness"
# What detectors read of the tables with most rows; the rest need not be kept for them.
READ: Final[Mapping[str, tuple[str, ...]]] = {
    CARDS: tuple(
        dict.fromkeys((*slow.COLUMNS, *peers_idle.COLUMNS, *peers_idle.SEEN, *bus_width.COLUMNS, *device_state.SIGNS))
    ),
    PORTS: tuple(dict.fromkeys((*link_errors.COLUMNS, *link_errors.BACK, *link_errors.RATIO, *pause_sent.COLUMNS))),
}
SLACK = 0.98  # of a threshold: medians here are of slightly other rows than the detector's
DEVIATIONS, CLOCK_FLOOR = 0.8 * slow.DEVIATIONS, 0.8 * slow.CLOCK_FLOOR


def column(values: Values, name: str, rows: int) -> Floats:
    """A column, or as many missing values."""
    found = values.get(name)
    return np.full(rows, np.nan, np.float32) if found is None else found


def sees(values: Values, present: Mask) -> Mask:
    """Accelerators that tell a sensor's value."""
    seen = np.zeros(present.size, np.bool_)
    for name in SENSORS:
        seen |= ~np.isnan(column(values, name, present.size))
    return present & seen


def told(values: Values, present: Mask) -> Mask:
    """Hosts that speak themselves: see `wide.told_by_hosts`."""
    rows = present.size
    up = column(values, "up", rows)
    own = ~np.isnan(up)
    for name in OWN:
        own |= ~np.isnan(column(values, name, rows))
    controller = np.zeros(rows, np.bool_)
    for name in BY_CONTROLLER:
        controller |= ~np.isnan(column(values, name, rows))
    return present & ~(up <= 0.5) & (own | ~controller)


def device(values: Values, rows: int) -> Mask:
    """Accelerators with a state that is told, or a host link narrower than told."""
    found = np.zeros(rows, np.bool_)
    for name in device_state.SIGNS:
        found |= column(values, name, rows) > 0
    lanes, limit = (column(values, name, rows) for name in bus_width.COLUMNS)
    return found | ((lanes > 0) & (limit > 0) & (lanes < limit))


def narrow_of_model(values: Values, models: Places) -> Mask:
    """Accelerators that tell no limit and have fewer lanes than the widest of their model (0: unknown)."""
    lanes, limit = (column(values, name, models.size) for name in bus_width.COLUMNS)
    known = (lanes > 0) & (models > 0)
    widest = np.zeros(int(models.max(initial=0)) + 1, np.float32)
    np.maximum.at(widest, models[known], lanes[known])
    found: Mask = known & ~(limit > 0) & (lanes < widest[models])
    return found


def clocks_off(values: Values, rows: int) -> Mask:
    """Hosts whose clock is off."""
    found: Mask = np.abs(column(values, "clock_offset_seconds", rows)) > FLAGGED_S
    return found


def silent(values: Values, rows: int) -> Mask:
    """Hosts that were not heard for long."""
    found: Mask = column(values, "silent_ms", rows) > SILENT_MS
    return found


def slower(values: Values, groups: Places, count: int) -> Mask:
    """Accelerators whose clock is well below their peers' in this window. `groups`: one job's cards of one model.

    The detector compares with those that work. These are all that are resident, or at the least those of them that
    work as much as most: it is slow if it is beside either.
    """
    rows = groups.size
    clock, busy, matrix, power = (
        column(values, name, rows)
        for name in ("clock_megahertz", "utilisation_ratio", "matrix_active_ratio", "power_watts")
    )
    resident = np.where(~(busy < BUSY), groups, -1)
    core = ~(busy < SLACK * _usual(busy, resident, count)) & ~(matrix < SLACK * _usual(matrix, resident, count))
    core &= ~(power < 0.73 * _usual(power, resident, count))
    found = np.zeros(rows, np.bool_)
    for members in (resident, np.where(core, resident, -1)):
        beside = peers.compared(clock[None], members, share=CLOCK_FLOOR / DEVIATIONS)
        found |= beside.deviation[0] <= -SLACK * DEVIATIONS
    return found & (resident >= 0)


def _usual(values: Floats, groups: Places, count: int) -> Floats:
    """The median of each row's group."""
    found = np.append(peers.medians(values, groups, count), np.nan)
    beside: Floats = found[groups].astype(np.float32)
    return beside


def standing(history: Doubles) -> Mask:
    """Jobs that may have stood still for two windows: `history` [windows, jobs, `peers_idle.COLUMNS`], in order."""
    matrix, power, busy = (history[:, :, place] for place in range(len(peers_idle.COLUMNS)))
    spins = ~(busy < SLACK * peers_idle.RESIDENT)
    found = np.zeros(history.shape[1], np.bool_)
    for signal, share in ((matrix, peers_idle.IDLE), (power, peers_idle.POWER_LEFT)):
        usual = _upper_quartile(signal)
        low = (signal < share * usual / SLACK) & spins & (usual > 0)
        worked = (signal >= SLACK * peers_idle.FALLS * usual).sum(axis=0) >= peers_idle.LEAST_BEFORE
        found |= worked & (low.sum(axis=0) >= peers_idle.LEAST_WINDOWS)
    return found


def _upper_quartile(signal: Doubles) -> Doubles:
    """As the detector takes it: of the sorted known values the one three quarters up."""
    if not signal.size:
        return np.full(signal.shape[1], np.nan)
    ordered = np.sort(signal, axis=0)  # the unknown last
    known = (~np.isnan(signal)).sum(axis=0)
    found: Doubles = ordered[np.minimum(3 * known // 4, len(signal) - 1), np.arange(signal.shape[1])]
    return found


@dataclass(slots=True)
class Extreme:
    """The least (or most) of each row over one to two horizons: never less telling than that of the last one."""

    most: bool = False
    _now: Floats = field(default_factory=lambda: np.empty(0, np.float32))
    _before: Floats = field(default_factory=lambda: np.empty(0, np.float32))
    _since_ms: int | None = None

    def take(self, values: Floats, end_ms: int, horizon_ms: int) -> Floats:
        """With a window's values; the extremes so far."""
        if self._since_ms is None or end_ms - self._since_ms > horizon_ms:
            self._since_ms, self._before, self._now = end_ms, self._now, np.empty(0, np.float32)
        pick = np.fmax if self.most else np.fmin
        self._now = pick(grown(self._now, values.size), values)
        found: Floats = pick(self._now, grown(self._before, values.size))
        return found


def grown(values: Floats, rows: int) -> Floats:
    """The values with missing ones up to so many rows."""
    if values.size >= rows:
        return values
    return np.concatenate([values, np.full(rows - values.size, np.nan, np.float32)])


def newest(known: Floats, values: Floats) -> Floats:
    """The values, and where they are missing those known before."""
    return np.where(np.isnan(values), grown(known, values.size), values)


@dataclass(slots=True)
class PortScreen:
    """Ports that lose their carrier, symbols or correction; and who sends and gets pause, by window."""

    _up: Floats = field(default_factory=lambda: np.empty(0, np.float32))
    _least: Extreme = field(default_factory=Extreme)

    def take(self, values: Values, rows: int, end_ms: int, horizon_ms: int, window_ms: int, paired: Paired) -> Mask:
        """Ports to look at. `paired`: which of some have a module that is known too."""
        up, before = column(values, "up", rows), grown(self._up, rows)
        found = (before >= carriers.UP) & (up < carriers.UP)
        self._up = newest(self._up, up)
        symbols, received, downed = (np.nan_to_num(column(values, name, rows)) for name in link_errors.COLUMNS)
        found |= (downed > 0) | (symbols + received >= SLACK * link_errors.PER_SECOND * window_ms / 1000)
        bits, of_all = (column(values, name, rows) for name in link_errors.RATIO)
        ratio = np.where(of_all > 0, bits / np.where(of_all > 0, of_all, 1), np.nan).astype(np.float32)
        ratio[ratio > 1] = np.nan
        return found | corrects(ratio, self._least.take(ratio, end_ms, horizon_ms), paired)


def corrects(ratio: Floats, least: Floats, paired: Paired) -> Mask:
    """Receivers that correct far more than they once did; of those told by two sources the past is not known here."""
    much: Mask = ratio >= SLACK * link_errors.CORRECTED
    found = much & (ratio >= SLACK * link_errors.TIMES * least)
    left = np.flatnonzero(much & ~found)
    found[left] = paired(left)
    return found


def pauses(values: Values, rows: int, window_ms: int) -> tuple[Doubles, Places, Places]:
    """(pause frames that each port sends a second, ports that send so many that it matters, those held by as many)."""
    covered = column(values, "covered_ms", rows)
    seconds = np.maximum(np.where(np.isnan(covered), window_ms, covered).astype(np.float64), 1.0) / 1000
    sent, held = (
        np.nan_to_num(column(values, name, rows)).astype(np.float64) / seconds for name in pause_sent.COLUMNS[:2]
    )
    least = SLACK * pause_sent.PER_SECOND
    return sent, np.flatnonzero(sent >= least), np.flatnonzero(held >= least)


@dataclass(slots=True)
class OpticScreen:
    """Modules whose light or laser fell, or that need more correction."""

    _best: tuple[Extreme, Extreme] = field(default_factory=lambda: (Extreme(most=True), Extreme(most=True)))
    _least: Extreme = field(default_factory=Extreme)
    _last: dict[str, Floats] = field(default_factory=dict)

    def take(self, values: Values, rows: int, end_ms: int, horizon_ms: int, paired: Paired) -> Mask:
        """Modules to look at. `paired`: which of some have a port that is known too."""
        for name in optic_power.COLUMNS:
            self._last[name] = newest(
                self._last.get(name, np.empty(0, np.float32)), column(values, name, rows)
            )  # fmt: skip
        rx, tx, alarm = (self._last[name] for name in optic_power.COLUMNS)
        found = (rx > optic_power.DARK_DBM) & (rx <= alarm)
        for best, level, name in zip(self._best, (rx, tx), optic_power.COLUMNS, strict=False):
            most = best.take(column(values, name, rows), end_ms, horizon_ms)
            found |= most - level >= SLACK * optic_power.FALL_DB
        ratio = column(values, link_errors.OF_MODULE, rows)
        return found | corrects(ratio, self._least.take(ratio, end_ms, horizon_ms), paired)
