"""The telemetry schema: every table and column, its unit, whether it is a gauge or a counter, and what it means.

The one source for docs, frames, windows and dashboards. Units stand in the names. Missing is NaN in a gauge and -1 in
a counter, never 0. A column is added at the end of its table; one that changes its meaning gets a new name.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Name

Type = Literal["gauge", "counter"]
MISSING_COUNTER = -1


@dataclass(frozen=True, slots=True)
class Column:
    """One value of a sample. `peer`: compared between components of the same role. `low`: lower is worse, so that of
    two values told at once (lanes of an optic) the lower one stays; else the higher. `kept`: goes on into the features
    topic though it is compared with nobody (see `declared`)."""

    name: str
    type: Type
    unit: str
    meaning: str
    peer: bool = False
    low: bool = False
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A telemetry table: one row per component and time."""

    name: str
    component: str  # kind of the component a row speaks of
    columns: tuple[Column, ...]
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)  # of all columns, in order
    _by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(column.name for column in self.columns))
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})

    def column(self, name: str) -> Column:
        """The column of that name. Raises KeyError."""
        return self._by_name[name]


def gauge(name: str, unit: str, meaning: str, *, peer: bool = False, low: bool = False, kept: bool = False) -> Column:
    """A column whose value stands for itself."""
    return Column(name, "gauge", unit, meaning, peer, low, kept)


def counter(name: str, unit: str, meaning: str, *, kept: bool = False) -> Column:
    """A column of which only increases count; it may be reset."""
    return Column(name, "counter", unit, meaning, kept=kept)


def declared(table: "Table") -> tuple[tuple[Column, tuple[str, ...]], ...]:
    """The columns that go on into the features topic, each with the names of its features.

    Of those that peers are compared by the mean, maximum and spread; of `kept` ones the mean, or a counter's increase.
    """
    return tuple((column, _features(column)) for column in table.columns if column.peer or column.kept)


def _features(column: Column) -> tuple[str, ...]:
    if column.type == "counter":
        return (f"{column.name}__increase",)
    return (column.name, f"{column.name}__max", f"{column.name}__spread") if column.peer else (column.name,)


ACCELERATOR = Table(
    "accelerator",
    "accelerator",
    (
        gauge("utilisation_ratio", "ratio 0-1", "a kernel was resident; a hung collective shows 1", peer=True),
        gauge("compute_active_ratio", "ratio 0-1", "cores active; spinning collectives count", peer=True),
        gauge("matrix_active_ratio", "ratio 0-1", "matrix units active: the best sign of real training", peer=True),
        gauge("memory_active_ratio", "ratio 0-1", "memory interface active", peer=True),
        gauge("power_watts", "W", "board power", peer=True),
        gauge("power_limit_watts", "W", "power cap in force", kept=True),
        gauge("temperature_celsius", "degC", "core temperature", peer=True),
        gauge("memory_temperature_celsius", "degC", "memory temperature", peer=True),
        gauge("clock_megahertz", "MHz", "core clock", peer=True),
        gauge("memory_clock_megahertz", "MHz", "memory clock"),
        gauge(
            "throttle_mask",
            "bit mask",
            "why clocks are held: 4 power cap, 32 and 64 thermal, 128 power brake",
            kept=True,
        ),
        gauge("memory_used_bytes", "bytes", "device memory in use"),
        gauge("memory_total_bytes", "bytes", "device memory in all"),
        gauge("bus_width_lanes", "lanes", "current width of the host link", kept=True),
        gauge("bus_width_max_lanes", "lanes", "width that card and slot allow", kept=True),
        gauge("bus_generation", "generation", "current generation of the host link; low when idle by design"),
        gauge("bus_generation_max", "generation", "generation that card and slot allow"),
        gauge("bus_tx_bytes_per_second", "bytes/s", "device to host", peer=True),
        gauge("bus_rx_bytes_per_second", "bytes/s", "host to device", peer=True),
        gauge("scale_up_tx_bytes_per_second", "bytes/s", "sent over scale-up links", peer=True),
        gauge("scale_up_rx_bytes_per_second", "bytes/s", "received over scale-up links", peer=True),
        gauge("last_error_code", "code", "last vendor code, never returns to zero by itself"),
        gauge("memory_repair_pending", "0/1", "a memory repair waits for a reset", kept=True),
        gauge("memory_repair_failed", "0/1", "a memory repair failed", kept=True),
        gauge("recovery_action", "code", "the driver's own verdict, 0 = none", kept=True),
        gauge("fabric_state", "code", "scale-up fabric manager: 3 = completed"),
        gauge("health", "1/0/-1", "the exporter's own word: 1 good, 0 bad, -1 unknown", low=True, kept=True),
        counter("energy_millijoules_total", "mJ", "since driver load"),
        counter("thermal_violation_nanoseconds_total", "ns", "time held back by heat", kept=True),
        counter("power_violation_nanoseconds_total", "ns", "time held back by power", kept=True),
        counter("memory_corrected_total", "count", "corrected memory errors, volatile", kept=True),
        counter("memory_uncorrected_total", "count", "uncorrected memory errors, volatile", kept=True),
        counter("memory_rows_corrected_total", "rows", "rows remapped for corrected errors, lifetime"),
        counter("memory_rows_uncorrected_total", "rows", "rows remapped for uncorrected errors, lifetime"),
        counter("bus_replays_total", "count", "host link replays", kept=True),
        counter("scale_up_crc_errors_total", "count", "scale-up link CRC errors"),
        counter("scale_up_replays_total", "count", "scale-up link replays"),
        counter("scale_up_recoveries_total", "count", "scale-up link recoveries"),
        gauge("scale_up_bytes_per_second", "bytes/s", "sent and received over scale-up links, where only that is told"),
    ),
)

PORT = Table(
    "port",
    "port",
    (
        gauge("up", "0/1", "link state: 1 active", low=True, kept=True),
        gauge("speed_gigabits_per_second", "Gb/s", "rate in use", kept=True),
        counter("rx_bytes_total", "bytes", "received", kept=True),
        counter("tx_bytes_total", "bytes", "sent", kept=True),
        counter("rx_errors_total", "count", "packets received with an error", kept=True),
        counter("tx_discards_total", "count", "packets dropped on transmit"),
        counter("symbol_errors_total", "count", "uncorrected symbol errors, receive direction", kept=True),
        counter("corrected_bits_total", "bits", "bits corrected by FEC: non-zero is normal", kept=True),
        counter("link_downed_total", "count", "failed recoveries: the link went down", kept=True),
        counter("link_recoveries_total", "count", "successful retrains"),
        counter("carrier_changes_total", "count", "carrier transitions: one down and up adds 2"),
        counter("rx_pause_total", "frames", "pause frames received: the network holds this port", kept=True),
        counter("tx_pause_total", "frames", "pause frames sent: this host cannot drain", kept=True),
        counter("congestion_marked_total", "packets", "packets received with a congestion mark"),
        counter("retransmits_total", "count", "transport time-outs and sequence errors", kept=True),
        counter("retries_exceeded_total", "count", "transport retries used up"),
        counter("bus_stalled_seconds_total", "s", "seconds in which the host bus stalled the port", kept=True),
        counter("transmit_wait_total", "ticks", "data queued and nothing sent: no credits"),
        counter("rx_discards_total", "count", "packets received and dropped: no buffer"),
        counter("rx_pause_microseconds_total", "us", "time the network held this port"),
        counter("tx_pause_microseconds_total", "us", "time this port asked its peer to hold"),
        counter(
            "uncorrected_codewords_total", "count", "codewords that FEC could not correct: traffic is lost", kept=True
        ),
        counter("received_bits_total", "bits", "bits received: what corrected bits are divided by", kept=True),
    ),
)

OPTIC = Table(
    "optic",
    "optic",
    (
        gauge("rx_power_dbm", "dBm", "received power, worst lane", low=True, kept=True),
        gauge("tx_power_dbm", "dBm", "transmitted power, worst lane", low=True, kept=True),
        gauge("bias_milliamperes", "mA", "laser bias, highest lane", kept=True),
        gauge("temperature_celsius", "degC", "module temperature", kept=True),
        gauge("supply_volts", "V", "module supply", kept=True),
        gauge("errors_before_correction_ratio", "ratio", "bit error ratio before FEC", kept=True),
        gauge("rx_power_alarm_dbm", "dBm", "the module's own low alarm for received power", kept=True),
        gauge("temperature_alarm_celsius", "degC", "the module's own high alarm for its temperature", kept=True),
    ),
)

HOST = Table(
    "host",
    "host",
    (
        gauge("up", "0/1", "1: the host's own exporter answered", kept=True),
        gauge("accelerator_source_up", "0/1", "1: the accelerator exporter of this host answered", kept=True),
        gauge("load_1m", "tasks", "load average", kept=True),
        gauge("memory_available_bytes", "bytes", "memory available", kept=True),
        gauge("memory_total_bytes", "bytes", "memory in all", kept=True),
        gauge("tasks_blocked", "tasks", "tasks in uninterruptible sleep", kept=True),
        gauge("clock_offset_seconds", "s", "own clock against its time source", kept=True),
        # An int64, as a float32 would be a minute off; it only grows: an increase is a boot.
        counter("boot_time_seconds", "s since 1970", "when the kernel started", kept=True),
        counter("corrected_memory_errors_total", "count", "corrected errors of main memory", kept=True),
        counter("uncorrected_memory_errors_total", "count", "uncorrected errors of main memory", kept=True),
        counter("out_of_memory_kills_total", "count", "processes killed for want of memory", kept=True),
        gauge(
            "pressure_cpu_ratio",
            "ratio 0-1",
            "share of the last 10 s in which some task waited for a processor",
            kept=True,
        ),
        gauge(
            "pressure_memory_ratio",
            "ratio 0-1",
            "share of the last 10 s in which some task waited for memory",
            kept=True,
        ),
        gauge(
            "pressure_io_ratio", "ratio 0-1", "share of the last 10 s in which some task waited for storage", kept=True
        ),
        gauge("management_up", "0/1", "1: its management controller answered", low=True, kept=True),
        gauge("powered", "0/1", "1: switched on, as its management controller tells", low=True, kept=True),
        gauge("inlet_temperature_celsius", "degC", "air that it takes in", kept=True),
        gauge("power_watts", "W", "of the whole machine, as its management controller tells", kept=True),
    ),
)

FILESYSTEM = Table(
    "filesystem",
    "filesystem",
    (
        gauge(
            "connected_ratio",
            "ratio 0-1",
            "share of the client's connections to its servers that are up",
            low=True,
            kept=True,
        ),
        counter("requests_total", "count", "requests to its servers that were completed", kept=True),
        counter("request_milliseconds_total", "ms", "time that these requests took, from asking to answer", kept=True),
        counter("retransmits_total", "count", "requests that were sent again", kept=True),
        counter("timeouts_total", "count", "requests without an answer in time", kept=True),
        counter("read_bytes_total", "bytes", "read from its servers", kept=True),
        counter("write_bytes_total", "bytes", "written to its servers", kept=True),
    ),
)

SWITCH = Table(
    "switch",
    "switch",
    (
        gauge("up", "0/1", "1: the switch answered, or streams", low=True, kept=True),
        gauge("temperature_celsius", "degC", "hottest sensor of the switch", kept=True),
        gauge("power_watts", "W", "taken from its supplies", kept=True),
        gauge("cpu_ratio", "ratio 0-1", "its control plane at work", kept=True),
        gauge("memory_used_ratio", "ratio 0-1", "memory of its control plane in use", kept=True),
        gauge("fan_ratio", "ratio 0-1", "speed of its slowest fan, of the greatest", low=True, kept=True),
        counter(
            "boot_time_seconds", "s since 1970", "when it started; it only grows: an increase is a restart", kept=True
        ),
    ),
)

PDU = Table(
    "pdu",
    "pdu",
    (
        gauge("up", "0/1", "1: the unit answered", low=True, kept=True),
        gauge("power_watts", "W", "given to all that hangs on it", low=True, kept=True),
        gauge("current_amperes", "A", "of its inlet or branch; 0 after a trip", low=True, kept=True),
        gauge("voltage_volts", "V", "at its inlet", low=True, kept=True),
    ),
)

CDU = Table(
    "cdu",
    "cdu",
    (
        gauge("up", "0/1", "1: the unit answered", low=True, kept=True),
        gauge("flow_litres_per_minute", "l/min", "coolant to the racks", low=True, kept=True),
        gauge("supply_temperature_celsius", "degC", "coolant to the racks", kept=True),
        gauge("return_temperature_celsius", "degC", "coolant from the racks", kept=True),
        gauge("pressure_kilopascals", "kPa", "across the racks' side, or at its supply", low=True, kept=True),
        gauge("pump_ratio", "ratio 0-1", "speed of its pumps, of the greatest", kept=True),
        gauge("leak", "0/1", "1: its rope or tray is wet", kept=True),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table for table in (ACCELERATOR, PORT, OPTIC, HOST, FILESYSTEM, SWITCH, PDU, CDU)
}


# Counted by the windows themselves, from the frames: no source tells it, and there is no telemetry of it.
LIVENESS = Table(
    "liveness",
    "host",
    (
        gauge("silent_ms", "ms", "since the host's last frame was appended, at the window's end", kept=True),
        gauge("frames", "count", "frames of the host that were appended in the window", kept=True),
    ),
)

WINDOWED: dict[str, Table] = TABLES | {LIVENESS.name: LIVENESS}  # of these there are windows of features


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows of one table as columns: row i is `component[i]` at `at_ms[i]`. Columns not told are left out.

    `at_ms`: int64 [n]. `values`: float64 [n] each, missing = NaN (counters too: exact up to 2^53).
    """

    table: str
    component: list[Name]
    at_ms: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]

    def __post_init__(self) -> None:
        lengths = {len(self.component), len(self.at_ms), *(len(column) for column in self.values.values())}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        if unknown := set(self.values) - set(TABLES[self.table].names):
            raise ValueError(f"not columns of {self.table}: {sorted(unknown)}")
