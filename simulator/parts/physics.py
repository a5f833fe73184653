"""What the sensors read: telemetry columns from what the cards do, once a second, all cards at a time."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.parts.cables import Strain
from simulator.parts.cluster import Cluster
from simulator.parts.overlay import Columns, Floats, Overlay
from simulator.workload.levels import BUS, CLOCK, COMPUTE, HELD, MATRIX, MEMORY, NETWORK, POWER, SCALE_UP, UTILISATION
from simulator.workload.run import Mode


@dataclass(slots=True)
class Conditions:
    """What holds in one second. Effects write into it before the sensors are read. Rows as in the cluster."""

    mode: NDArray[np.int64]
    pace: Floats
    clock: Floats  # factor on the clock
    heat: Floats  # degrees above what the load explains
    throttled: Floats  # share of the second that heat holds the clock back
    lanes: Floats
    port_up: NDArray[np.bool_]
    seen: NDArray[np.bool_]  # the card's exporter gives values
    source_up: NDArray[np.bool_]  # per host
    host_up: NDArray[np.bool_]  # per host
    memory_free: Floats  # per host, ratio
    replays: Floats  # new host-link replays in this second
    memory_errors: Floats  # new corrected errors of main memory, per host
    kills: Floats  # new out-of-memory kills, per host
    facility: dict[str, dict[str, float]] = field(
        default_factory=dict
    )  # unit: readings that stand instead of the usual
    cables: Strain = field(default_factory=Strain)
    overlay: Overlay = field(default_factory=Overlay)  # any other reading, by table and column


def calm(cluster: Cluster) -> Conditions:
    """Conditions with nothing wrong and nothing running."""
    n, h = len(cluster.cards), len(cluster.hosts)
    return Conditions(
        mode=np.zeros(n, np.int64), pace=np.ones(n), clock=np.ones(n), heat=np.zeros(n), throttled=np.zeros(n),
        lanes=np.full(n, 16.0), port_up=np.ones(n, bool), seen=np.ones(n, bool), source_up=np.ones(h, bool),
        host_up=np.ones(h, bool), memory_free=np.full(h, 0.78), replays=np.zeros(n), memory_errors=np.zeros(h),
        kills=np.zeros(h),
    )  # fmt: skip


class Sensors:
    """Readings of all cards, ports and hosts; keeps what has a memory: temperatures and counters."""

    def __init__(self, cluster: Cluster, seed: int, boot_s: float) -> None:
        self.rng = np.random.default_rng([seed, 0x5E])
        n, h = len(cluster.cards), len(cluster.hosts)
        draw = self.rng.standard_normal
        self._power, self._warmth, self._speed = 1 + 0.012 * draw(n), 2.0 * draw(n), 1 + 0.004 * draw(n)
        self._celsius = 38 + self._warmth
        self._energy = self.rng.uniform(1e11, 9e11, n)
        self._counters = {name: np.zeros(n) for name in ("heat", "replays", "rx", "tx", "fec", "down", "changes")}
        self._counters["fec"] = self.rng.uniform(1e6, 1e8, n)
        self._host = {name: np.zeros(h) for name in ("corrected", "kills")}
        self._added: dict[str, Columns] = {"accelerator": {}, "port": {}, "host": {}}  # to counters, by effects
        self._was_up, self._boot = np.ones(n, bool), boot_s

    def accelerators(self, now: Conditions) -> Columns:
        """The accelerator table for one second."""
        n, mode = len(now.mode), now.mode
        noise = self.rng.standard_normal((8, n))
        work = np.where(mode == Mode.STEP, now.pace / now.clock, 1.0)  # who is slow is busy all the time; others wait
        clock = CLOCK[mode] * now.clock * self._speed + np.where(mode == Mode.STEP, 6.0 * noise[0], 0.0)
        watts = POWER[mode] * self._power * (1 + 0.015 * noise[1])
        watts = np.where(mode == Mode.STEP, watts * (0.55 + 0.45 * work) * (0.4 + 0.6 * now.clock), watts)
        self._celsius += (32 + 0.052 * watts + self._warmth + now.heat - self._celsius) / 20 + 0.1 * noise[2]
        self._energy += watts * 1000
        self._counters["heat"] += now.throttled * 1e9
        self._counters["replays"] += now.replays
        traffic = np.where(mode == Mode.STEP, now.pace, 1.0) * (1 + 0.03 * noise[3])
        busy = np.where(mode == Mode.STEP, work, 1.0)
        return self._told("accelerator", now, {
            "utilisation_ratio": UTILISATION[mode],
            "compute_active_ratio": np.clip(COMPUTE[mode] * (1 + 0.01 * noise[4]), 0, 1),
            "matrix_active_ratio": np.clip(MATRIX[mode] * busy * (1 + 0.015 * noise[5]), 0, 1),
            "memory_active_ratio": np.clip(MEMORY[mode] * busy * (1 + 0.015 * noise[6]), 0, 1),
            "power_watts": watts,
            "power_limit_watts": np.full(n, 700.0),
            "temperature_celsius": np.round(self._celsius),
            "memory_temperature_celsius": np.round(self._celsius + 11),
            "clock_megahertz": np.round(clock / 15) * 15,
            "memory_clock_megahertz": np.full(n, 2619.0),
            "throttle_mask": np.where(mode == Mode.STEP, 4.0, 0.0) + np.where(now.throttled > 0, 32.0, 0.0),
            "memory_used_bytes": HELD[mode],
            "memory_total_bytes": np.full(n, 80e9),
            "bus_width_lanes": now.lanes,
            "bus_width_max_lanes": np.full(n, 16.0),
            "bus_generation": np.full(n, 5.0),
            "bus_generation_max": np.full(n, 5.0),
            "bus_tx_bytes_per_second": BUS[mode] * traffic,
            "bus_rx_bytes_per_second": BUS[mode] * 0.9 * traffic,
            "scale_up_tx_bytes_per_second": SCALE_UP[mode] * traffic,
            "scale_up_rx_bytes_per_second": SCALE_UP[mode] * traffic,
            "last_error_code": np.zeros(n),
            "memory_repair_pending": np.zeros(n),
            "memory_repair_failed": np.zeros(n),
            "energy_millijoules_total": np.round(self._energy),
            "thermal_violation_nanoseconds_total": np.round(self._counters["heat"]),
            "memory_corrected_total": np.zeros(n),
            "memory_uncorrected_total": np.zeros(n),
            "memory_rows_corrected_total": np.zeros(n),
            "memory_rows_uncorrected_total": np.zeros(n),
            "bus_replays_total": self._counters["replays"].copy(),
        })  # fmt: skip

    def _told(self, table: str, now: Conditions, columns: Columns) -> Columns:
        return now.overlay.over(table, columns, self._added[table])

    def ports(self, now: Conditions) -> Columns:
        """The port table for one second."""
        noise = self.rng.standard_normal(len(now.mode))
        moved = np.where(now.port_up, NETWORK[now.mode] * np.clip(now.pace * (1 + 0.04 * noise), 0, None), 0.0)
        counters, changed = self._counters, now.port_up != self._was_up
        counters["rx"] += np.round(moved)
        counters["tx"] += np.round(moved)
        counters["fec"] += np.round(np.where(now.port_up, 900 + 200 * np.abs(noise), 0.0))
        counters["down"] += changed & ~now.port_up
        counters["changes"] += changed
        self._was_up = now.port_up.copy()
        zero = np.zeros(len(moved))
        return self._told("port", now, {
            "up": now.port_up.astype(float),
            "speed_gigabits_per_second": np.full(len(moved), 400.0),
            "rx_bytes_total": counters["rx"].copy(),
            "tx_bytes_total": counters["tx"].copy(),
            "rx_errors_total": zero,
            "symbol_errors_total": zero,
            "corrected_bits_total": counters["fec"].copy(),
            "link_downed_total": counters["down"].copy(),
            "carrier_changes_total": counters["changes"].copy(),
        })  # fmt: skip

    def hosts(self, now: Conditions) -> Columns:
        """The host table for one second."""
        h = len(now.host_up)
        self._host["corrected"] += now.memory_errors
        self._host["kills"] += now.kills
        return self._told("host", now, {
            "up": now.host_up.astype(float),
            "accelerator_source_up": now.source_up.astype(float),
            "load_1m": 40 + np.abs(self.rng.standard_normal(h)),
            "memory_available_bytes": np.round(now.memory_free * 2.16e12),
            "memory_total_bytes": np.full(h, 2.16e12),
            "boot_time_seconds": np.full(h, self._boot),
            "tasks_blocked": np.zeros(h),
            "clock_offset_seconds": 1e-4 * self.rng.standard_normal(h),
            "corrected_memory_errors_total": self._host["corrected"].copy(),
            "uncorrected_memory_errors_total": np.zeros(h),
            "out_of_memory_kills_total": self._host["kills"].copy(),
        })  # fmt: skip
