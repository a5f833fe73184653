"""The columns of `telemetry`: what sensors of cards, ports and hosts of a calm cluster read, whole arrays at a time.

Levels are those of `physics`. A column that is not told here is zero. Counters only grow: their noise moves the time
that they count by less than half a second.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.workload.levels import BUS, CLOCK, COMPUTE, HELD, MATRIX, MEMORY, NETWORK, POWER, SCALE_UP
from simulator.workload.run import Mode

Values = NDArray[np.float32] | NDArray[np.float64] | float
STEP, PAUSE = Mode.STEP, Mode.PAUSE
SPACING = 4999  # between the places of two columns in the table of noise


class Moment(NamedTuple):
    """Some hosts over some seconds; arrays broadcast to [hosts, seconds, parts]."""

    times: NDArray[np.float64]  # seconds since the begin, [seconds, 1]
    done: NDArray[np.float64]  # of them in compute, up to each second and up to the one before, [2, hosts, seconds, 1]
    place: NDArray[np.int64]  # in the table of noise, [hosts, seconds, parts]
    own: NDArray[np.float64]  # offsets of power, warmth and speed, [3, hosts, 1, parts]
    table: NDArray[np.float32]

    def noise(self, column: int) -> NDArray[np.float32]:
        """Normal, at most 2.5: [hosts, seconds, parts]."""
        return np.asarray(self.table[(self.place + column * SPACING) & (len(self.table) - 1)], np.float32)

    @property
    def busy(self) -> NDArray[np.float32]:
        """Share of each second in compute, [hosts, seconds, 1]."""
        return np.asarray(self.done[0] - self.done[1], np.float32)

    def grown(self, idle: float, busy: float, column: int) -> NDArray[np.float64]:
        """What a counter shows that grows by so much a second, idle and in compute."""
        time = self.times + np.float32(0.15) * self.noise(column)
        return np.asarray(np.floor(idle * time + (busy - idle) * self.done[0]), np.float64)


def accelerators(now: Moment) -> Mapping[str, Values]:
    """The accelerator table."""
    power, warmth, speed = (now.own * np.array([0.012, 2.0, 0.004])[:, None, None, None]).astype(np.float32)
    busy = now.busy

    def between(levels: NDArray[np.float64], noise: NDArray[np.float32], spread: float) -> NDArray[np.float32]:
        idle, more = np.float32(levels[PAUSE]), np.float32(levels[STEP] - levels[PAUSE])
        return np.asarray((idle + more * busy) * (1 + np.float32(spread) * noise), np.float32)

    watts = between(POWER, now.noise(0), 0.015) * (1 + power)
    celsius = np.round(38 + 0.045 * watts + warmth + 0.3 * now.noise(1))
    traffic = now.noise(2)
    return {
        "utilisation_ratio": 1.0,
        "compute_active_ratio": np.minimum(between(COMPUTE, now.noise(3), 0.01), 1),
        "matrix_active_ratio": between(MATRIX, now.noise(4), 0.015),
        "memory_active_ratio": between(MEMORY, now.noise(5), 0.015),
        "power_watts": watts,
        "power_limit_watts": 700.0,
        "temperature_celsius": celsius,
        "memory_temperature_celsius": celsius + 11,
        "clock_megahertz": between(CLOCK, now.noise(6), 0.003) * (1 + speed),
        "memory_clock_megahertz": 2619.0,
        "memory_used_bytes": float(HELD[STEP]),
        "memory_total_bytes": 80e9,
        "bus_width_lanes": 16.0,
        "bus_width_max_lanes": 16.0,
        "bus_generation": 5.0,
        "bus_generation_max": 5.0,
        "bus_tx_bytes_per_second": between(BUS, traffic, 0.03),
        "bus_rx_bytes_per_second": between(BUS * 0.9, traffic, 0.03),
        "scale_up_tx_bytes_per_second": between(SCALE_UP, traffic, 0.03),
        "scale_up_rx_bytes_per_second": between(SCALE_UP, traffic, 0.03),
        "scale_up_bytes_per_second": between(SCALE_UP * 2, traffic, 0.03),
        "fabric_state": 3.0,
        "health": 1.0,
        "energy_millijoules_total": now.grown(POWER[PAUSE] * 1000, POWER[STEP] * 1000, 7),
        "memory_corrected_total": 3.0,
        "memory_rows_corrected_total": 1.0,
    }


def ports(now: Moment) -> Mapping[str, Values]:
    """The port table."""
    received = now.grown(NETWORK[STEP] / 8, NETWORK[STEP], 0)
    return {
        "up": 1.0,
        "speed_gigabits_per_second": 400.0,
        "rx_bytes_total": received,
        "tx_bytes_total": now.grown(NETWORK[STEP] / 8, NETWORK[STEP], 1),
        "corrected_bits_total": now.grown(900.0, 900.0, 2),
        "received_bits_total": np.mod(received * 8, 2.0**62),  # some four years of line rate
        "congestion_marked_total": now.grown(3.0, 40.0, 3),
        "transmit_wait_total": now.grown(100.0, 9000.0, 4),
    }


def hosts(now: Moment) -> Mapping[str, Values]:
    """The host table."""
    return {
        "up": 1.0,
        "accelerator_source_up": 1.0,
        "load_1m": 40 + np.abs(now.noise(0)),
        "memory_available_bytes": 1.68e12 * (1 + np.float32(0.001) * now.noise(1)),
        "memory_total_bytes": 2.16e12,
        "clock_offset_seconds": np.float32(1e-4) * now.noise(2),
        "boot_time_seconds": 1_699_000_000.0,
        "management_up": 1.0,
        "powered": 1.0,
        "inlet_temperature_celsius": 24 + np.float32(0.2) * now.noise(3),
        "power_watts": 5900 + np.float32(40) * now.noise(4),
    }
