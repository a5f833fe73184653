"""The telemetry of a night as saved `query_range` answers: exporter names, labels and units, a file per metric."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from sickbay.components import Name, parts_of
from sickbay.schema import Samples
from simulator.output import vendor_series
from simulator.output.vendor_series import Metric
from simulator.parts.cluster import Card, Cluster
from simulator.parts.models import model
from simulator.world import Second

MIB = 2.0**20
ACCELERATOR = (
    Metric("DCGM_FI_DEV_GPU_UTIL", "utilisation_ratio", 100),
    Metric("DCGM_FI_PROF_SM_ACTIVE", "compute_active_ratio"),
    Metric("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "matrix_active_ratio"),
    Metric("DCGM_FI_PROF_DRAM_ACTIVE", "memory_active_ratio"),
    Metric("DCGM_FI_DEV_POWER_USAGE", "power_watts"),
    Metric("DCGM_FI_DEV_GPU_TEMP", "temperature_celsius"),
    Metric("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_celsius"),
    Metric("DCGM_FI_DEV_SM_CLOCK", "clock_megahertz"),
    Metric("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "throttle_mask"),
    Metric("DCGM_FI_DEV_FB_USED", "memory_used_bytes", 1 / MIB),
    Metric("DCGM_FI_DEV_PCIE_LINK_WIDTH", "bus_width_lanes"),
    Metric("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "bus_width_max_lanes"),
    Metric("DCGM_FI_PROF_PCIE_TX_BYTES", "bus_tx_bytes_per_second"),
    Metric("DCGM_FI_PROF_PCIE_RX_BYTES", "bus_rx_bytes_per_second"),
    Metric("DCGM_FI_PROF_NVLINK_TX_BYTES", "scale_up_tx_bytes_per_second"),
    Metric("DCGM_FI_PROF_NVLINK_RX_BYTES", "scale_up_rx_bytes_per_second"),
    Metric("DCGM_FI_DEV_XID_ERRORS", "last_error_code"),
    Metric("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_millijoules_total"),
    Metric("DCGM_FI_DEV_THERMAL_VIOLATION", "thermal_violation_nanoseconds_total"),
    Metric("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "bus_replays_total"),
)
PORT = (
    Metric("node_network_up", "up"),
    Metric("node_network_receive_bytes_total", "rx_bytes_total"),
    Metric("node_network_transmit_bytes_total", "tx_bytes_total"),
    Metric("node_network_carrier_changes_total", "carrier_changes_total"),
)
RDMA_PORT = (
    Metric("node_infiniband_state_id", "up", 4.0),  # 4: active
    Metric("node_infiniband_port_data_received_bytes_total", "rx_bytes_total"),
    Metric("node_infiniband_port_data_transmitted_bytes_total", "tx_bytes_total"),
    Metric("node_infiniband_symbol_error_total", "symbol_errors_total"),
    Metric("node_infiniband_link_downed_total", "link_downed_total"),
)
HOST = (
    Metric("node_load1", "load_1m"),
    Metric("node_memory_MemAvailable_bytes", "memory_available_bytes"),
    Metric("node_memory_MemTotal_bytes", "memory_total_bytes"),
    Metric("node_boot_time_seconds", "boot_time_seconds"),
    Metric("node_vmstat_oom_kill", "out_of_memory_kills_total"),
)
SERIES = {"accelerator": ACCELERATOR, "port": PORT, "host": HOST}


@dataclass(slots=True)
class Recorder:
    """Collects samples every `step_s` seconds, as a Prometheus that scrapes so often would have them."""

    cluster: Cluster
    step_s: int = 10
    _values: dict[str, dict[str, list[tuple[int, str]]]] = field(default_factory=dict)
    _labels: dict[str, dict[str, str]] = field(default_factory=dict)
    _cards: dict[str, Card] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for card in self.cluster.cards:
            self._cards[card.component] = self._cards[card.port] = card

    def add(self, second: Second) -> None:
        """Take a second, if it is one of those that are scraped."""
        if second.at_ms // 1000 % self.step_s:
            return
        at_s = second.at_ms // 1000
        for host in self.cluster.hosts:
            self._up(host, second.samples.get(host, ()), at_s)
            for samples in second.samples.get(host, ()):
                self._take(samples, at_s)

    def _up(self, host: str, told: Iterable[Samples], at_s: int) -> None:
        own = next((samples for samples in told if samples.table == "host"), None)
        source = own is not None and own.values["accelerator_source_up"][0] > 0
        card = self.cluster.of(host)[0]
        name, at = ("dcgm", 9400) if vendor_series.usual(card) else vendor_series.scraped(card)
        for job, port, up in ((name, at, source), ("node", 9100, own is not None)):
            key = f"{job}/{host}"
            self._labels[key] = {"instance": f"{host}:{port}", "job": job}
            self._values.setdefault("up", {}).setdefault(key, []).append((at_s, "1" if up else "0"))

    def _take(self, samples: Samples, at_s: int) -> None:
        for row, component in enumerate(samples.component):
            labels = self._labels.setdefault(component, {}) or self._labels[component]
            labels.update(labels_of(samples.table, component, self._cards))
            for metric in self._metrics(samples.table, component):
                if metric.column not in samples.values:
                    continue
                value = float(samples.values[metric.column][row]) * metric.factor
                if not np.isnan(value):  # an exporter drops a blank: the series has a hole
                    series = self._values.setdefault(metric.name, {}).setdefault(component, [])
                    series.append((at_s, number(value)))

    def _metrics(self, table: str, component: Name) -> tuple[Metric, ...]:
        if table == "accelerator" and not vendor_series.usual(self._cards[component]):
            return vendor_series.series(model(self._cards[component].model).maker)
        rdma = table == "port" and self._cards[component].fabric == "infiniband"
        return RDMA_PORT if rdma else SERIES[table]

    def answers(self) -> Iterator[tuple[str, bytes]]:
        """Each metric's name and its `query_range` answer."""
        for metric, series in self._values.items():
            result: list[dict[str, object]] = [
                {"metric": {"__name__": metric, **self._labels[key]}, "values": [list(pair) for pair in values]}
                for key, values in series.items()
            ]
            answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
            yield metric, json.dumps(answer).encode()


def labels_of(table: str, component: Name, cards: Mapping[Name, Card]) -> dict[str, str]:
    """The labels of a component's series, as its exporter gives them. `cards`: by component and by port."""
    host = parts_of(component)[0]
    if table == "host":
        return {"instance": f"{host}:9100", "job": "node"}
    card = cards[component]
    if table == "port" and card.fabric == "infiniband":
        return {"instance": f"{host}:9100", "job": "node", "device": card.rdma, "port": "1"}
    if table == "port":
        return {"instance": f"{host}:9100", "job": "node", "device": card.interface}
    if not vendor_series.usual(card):
        job, port = vendor_series.scraped(card)
        return {"instance": f"{host}:{port}", "job": job, **vendor_series.labels(card)}
    return {
        "instance": f"{host}:9400", "job": "dcgm", "Hostname": host, "gpu": str(card.index),
        "device": f"nvidia{card.index}", "UUID": card.uuid, "pci_bus_id": f"0000{card.pci.upper()}.0",
        "modelName": model(card.model).title,
    }  # fmt: skip


def number(value: float) -> str:
    """A value as exporters print it."""
    return str(int(value)) if value == int(value) and abs(value) < 1e18 else repr(value)
