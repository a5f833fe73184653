"""The sensors of some neighbouring hosts, read together: enough rows for whole-array work, few enough for a cache."""

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from simulator.parts.cluster import Cluster
from simulator.parts.overlay import Floats
from simulator.workload.levels import BUS, CLOCK, COMPUTE, HELD, MATRIX, MEMORY, NETWORK, POWER, SCALE_UP, UTILISATION
from simulator.workload.run import Mode

if TYPE_CHECKING:
    from simulator.parts.physics import Conditions

RISES = 225.0  # megahertz that the clock gains where there is no work, up to its highest
SHELF = 256  # hosts: columns of 2,048 cards take half a megabyte
Piece: TypeAlias = dict[str, Floats | float]  # columns of a shelf's rows; a float stands for all of them


class Shelf:
    """Readings of the hosts of rows `start` to `stop`, from a source of noise that is their own."""

    def __init__(self, cluster: Cluster, seed: int, boot_s: float, start: int, stop: int) -> None:
        self.hosts = slice(start, stop)
        self.cards = slice(cluster.rows(cluster.hosts[start]).start, cluster.rows(cluster.hosts[stop - 1]).stop)
        number = start // SHELF
        self.rng = np.random.default_rng([seed, 0x5E, number] if number else [seed, 0x5E])
        n, h = self.cards.stop - self.cards.start, stop - start
        draw = self.rng.standard_normal
        self._power, self._warmth, self._speed = 1 + 0.012 * draw(n), 2.0 * draw(n), 1 + 0.004 * draw(n)
        self._celsius = 38 + self._warmth
        self._energy = self.rng.uniform(1e11, 9e11, n)
        self._counters = {name: np.zeros(n) for name in ("heat", "replays", "moved", "fec", "down", "changes")}
        self._counters["fec"] = self.rng.uniform(1e6, 1e8, n)
        self._host = {name: np.zeros(h) for name in ("corrected", "kills")}
        self._was_up, self._boot = np.ones(n, bool), boot_s
        self._noise, self._host_noise = np.empty((8, n)), np.empty((2, h))

    def accelerators(self, now: "Conditions") -> Piece:
        """The accelerator table for one second."""
        mode, pace, slowed, throttled, load = (
            values[self.cards] for values in (now.mode, now.pace, now.clock, now.throttled, now.load)
        )
        noise = self.rng.standard_normal(out=self._noise)
        steps = mode == Mode.STEP
        work = np.where(steps, pace / slowed * load, 1.0)  # who is slow is busy all the time; others wait
        rises = RISES * np.clip(1.0 - load, 0.0, 1.0)
        clock = CLOCK[mode] * slowed * self._speed + np.where(steps, 6.0 * noise[0] + rises, 0.0)
        watts = POWER[mode] * self._power * (1 + 0.015 * noise[1])
        watts = np.where(steps, watts * (0.55 + 0.45 * work) * (0.4 + 0.6 * slowed), watts)
        self._celsius += (32 + 0.052 * watts + self._warmth + now.heat[self.cards] - self._celsius) / 20 + 0.1 * noise[
            2
        ]
        self._energy += watts * 1000
        self._counters["heat"] += throttled * 1e9
        self._counters["replays"] += now.replays[self.cards]
        traffic = np.where(steps, pace, 1.0) * (1 + 0.03 * noise[3])
        scale_up = SCALE_UP[mode] * traffic * load  # tensor groups talk while they compute
        traffic = np.where(steps, traffic * now.flow[self.cards], traffic)
        celsius, bus = np.round(self._celsius), BUS[mode] * traffic
        return {
            "utilisation_ratio": UTILISATION[mode],
            "compute_active_ratio": np.clip(COMPUTE[mode] * (1 + 0.01 * noise[4]), 0, 1),
            "matrix_active_ratio": np.clip(MATRIX[mode] * work * (1 + 0.015 * noise[5]), 0, 1),
            "memory_active_ratio": np.clip(MEMORY[mode] * work * (1 + 0.015 * noise[6]), 0, 1),
            "power_watts": watts,
            "power_limit_watts": 700.0,
            "temperature_celsius": celsius,
            "memory_temperature_celsius": np.round(self._celsius + 11),
            "clock_megahertz": np.round(clock / 15) * 15,
            "memory_clock_megahertz": 2619.0,
            "throttle_mask": np.where(steps, 4.0, 0.0) + np.where(throttled > 0, 32.0, 0.0),
            "memory_used_bytes": HELD[mode],
            "memory_total_bytes": 80e9,
            "bus_width_lanes": now.lanes[self.cards],
            "bus_width_max_lanes": 16.0,
            "bus_generation": 5.0,
            "bus_generation_max": 5.0,
            "bus_tx_bytes_per_second": bus,
            "bus_rx_bytes_per_second": BUS[mode] * 0.9 * traffic,
            "scale_up_tx_bytes_per_second": scale_up,
            "scale_up_rx_bytes_per_second": scale_up,
            "last_error_code": 0.0,
            "memory_repair_pending": 0.0,
            "memory_repair_failed": 0.0,
            "energy_millijoules_total": np.round(self._energy),
            "thermal_violation_nanoseconds_total": np.round(self._counters["heat"]),
            "memory_corrected_total": 0.0,
            "memory_uncorrected_total": 0.0,
            "memory_rows_corrected_total": 0.0,
            "memory_rows_uncorrected_total": 0.0,
            "bus_replays_total": self._counters["replays"],
        }

    def ports(self, now: "Conditions") -> Piece:
        """The port table for one second."""
        mode, up = now.mode[self.cards], now.port_up[self.cards]
        noise = self.rng.standard_normal(out=self._noise[0])
        pace = now.pace[self.cards] * now.flow[self.cards]
        moved = np.where(up, NETWORK[mode] * np.clip(pace * (1 + 0.04 * noise), 0, None), 0.0)
        counters, changed = self._counters, up != self._was_up
        counters["moved"] += np.round(moved)
        counters["fec"] += np.round(np.where(up, 900 + 200 * np.abs(noise), 0.0))
        counters["down"] += changed & ~up
        counters["changes"] += changed
        self._was_up = up.copy()
        return {
            "up": up.astype(float),
            "speed_gigabits_per_second": 400.0,
            "rx_bytes_total": counters["moved"],
            "tx_bytes_total": counters["moved"],
            "rx_errors_total": 0.0,
            "symbol_errors_total": 0.0,
            "corrected_bits_total": counters["fec"],
            "link_downed_total": counters["down"],
            "carrier_changes_total": counters["changes"],
            "rx_discards_total": 0.0,
            "retransmits_total": 0.0,
            "congestion_marked_total": 0.0,
        }

    def hosts_read(self, now: "Conditions") -> Piece:
        """The host table for one second."""
        noise = self.rng.standard_normal(out=self._host_noise)
        self._host["corrected"] += now.memory_errors[self.hosts]
        self._host["kills"] += now.kills[self.hosts]
        return {
            "up": now.host_up[self.hosts].astype(float),
            "accelerator_source_up": now.source_up[self.hosts].astype(float),
            "load_1m": 40 + np.abs(noise[0]),
            "memory_available_bytes": np.round(now.memory_free[self.hosts] * 2.16e12),
            "memory_total_bytes": 2.16e12,
            "boot_time_seconds": self._boot,
            "tasks_blocked": 0.0,
            "clock_offset_seconds": 1e-4 * noise[1],
            "corrected_memory_errors_total": self._host["corrected"],
            "uncorrected_memory_errors_total": 0.0,
            "out_of_memory_kills_total": self._host["kills"],
        }
