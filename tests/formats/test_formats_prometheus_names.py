"""The table of exporter series: it fits the schema, its units are right, and names are never invented."""

import math

import numpy as np
import pytest

from collectors.formats import metric_names
from collectors.formats.metric_names import Metric, converted, targets
from collectors.formats.series_names import Names, instance_host
from sickbay.messages import Identity
from sickbay.schema import TABLES
from sickbay.vocabulary import event_kinds


def of(name: str) -> metric_names.Target:
    return targets()[name]


def test_every_row_has_a_place_and_every_section_a_source() -> None:
    for target in (*targets().values(), *metric_names.files().values()):
        metric, source = target.metric, target.source
        assert source.source
        assert metric.to or metric.speaks or metric.names, target.name
        for key, told in metric.told.items():
            assert told.kind in event_kinds(), target.name
            assert key == ">0" or key.removeprefix("&").isdecimal(), target.name
        if metric.to:
            column = TABLES[source.table].column(metric.to)
            assert not (metric.sum_over and column.type == "gauge"), target.name
            assert not (metric.saturates and column.type == "gauge"), target.name


def test_no_series_name_is_claimed_twice() -> None:
    names = [
        prefix + name
        for source in metric_names.sources().values()
        for row, metric in source.metrics.items()
        for name in (row, *metric.also)
        for prefix in ("", *source.prefixes)
        if not source.numbered
    ]
    known = [name for name, target in targets().items() if not target.source.numbered and "." not in name]  # not OTLP's
    assert len(names) == len(set(names)) == len(known)


@pytest.mark.parametrize(
    ("name", "raw", "ours"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 100, 1),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.98, 0.98),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 98, 0.98),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 1, math.nan),  # one percent, or all of it
        ("DCGM_FI_DEV_FB_USED", 1, 2**20),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", 5e9, 5e9),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 1, 1024e3),
        ("DCGM_FI_DEV_RETIRED_PENDING", 3, 1),
        ("habanalabs_power_mW", 450_000, 450),
        ("gpu_energy_consumed", 1000, 1),
        ("npu_chip_optical_rx_power_2", 1, 0),
        ("npu_chip_optical_rx_power_2", 0, math.nan),
        ("npu_chip_info_link_status", -1, math.nan),
        ("node_network_speed_bytes", 12.5e9, 100),
        ("node_network_speed_bytes", -125_000, math.nan),
        ("node_infiniband_rate_bytes_per_second", 5e10, 400),
        ("node_infiniband_state_id", 2, 0),
        ("node_infiniband_state_id", 0, math.nan),
        ("node_infiniband_link_downed_total", 255, math.nan),
        ("enflame_gcu_health", 0, -1),
    ],
)
def test_units(name: str, raw: float, ours: float) -> None:
    assert converted(of(name).metric, np.array([float(raw)]))[0] == pytest.approx(ours, nan_ok=True)


@pytest.mark.parametrize("old_and_new", [("GPU_TEMP", "GPU_TEMP_CELSIUS"), ("POWER_USAGE", "BOARD_POWER_WATTS")])
def test_renamed_fields_are_the_same_column(old_and_new: tuple[str, str]) -> None:
    old, new = (of(f"DCGM_FI_DEV_{name}") for name in old_and_new)
    assert old.metric is new.metric


def test_what_goes_down_by_nature_is_no_counter() -> None:
    column = TABLES["accelerator"].column(of("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL").metric.to)
    assert column.type == "gauge"


def test_conversion_leaves_its_input_alone() -> None:
    raw = np.array([math.inf, 1.0])
    converted(Metric(to="x", least=5), raw)
    assert raw.tolist() == [math.inf, 1.0]


@pytest.mark.parametrize(
    ("instance", "host"),
    [
        ("trn-07:9100", "trn-07"),
        ("http://trn-07.site:9100/metrics", "trn-07.site"),
        ("10.0.0.7:9100", "10.0.0.7"),
        ("[fd00::7]:9100", "fd00::7"),
        ("trn-07", "trn-07"),
        ("localhost:9100", ""),
        ("127.0.0.1:9100", ""),
        ("[::1]:9100", ""),
        ("", ""),
        ("a b:1", ""),
        ("::", ""),
    ],
)
def test_the_host_of_an_instance(instance: str, host: str) -> None:
    assert instance_host(instance) == host


def test_the_most_stable_name_that_is_told() -> None:
    target, names = of("DCGM_FI_DEV_GPU_TEMP"), Names()
    labels = {"gpu": "2", "UUID": "GPU-9", "pci_bus_id": "00000000:3B:00.0", "Hostname": "h"}

    def named(*keys: str) -> str | None:
        return Names().component(target, {key: labels[key] for key in keys})

    assert named("gpu", "UUID", "pci_bus_id", "Hostname") == "accelerator:h/0000:3b:00"
    assert named("gpu", "UUID") == "accelerator:?/GPU-9"
    assert named("gpu") == "accelerator:?/2"
    assert named("Hostname") is None
    assert names.learn(target, labels) == [Identity(host="h", index="2", uuid="GPU-9", pci="0000:3b:00")]
    assert names.learn(target, labels) == []
    only_uuid = {"gpu_uuid": "GPU-9", "hostname": "h"}  # link series spell it so, and tell no address
    assert names.component(target, only_uuid) == "accelerator:h/0000:3b:00"


def test_a_pods_name_is_no_host() -> None:
    labels = {"Hostname": "exporter-x7k2p", "pod": "exporter-x7k2p", "instance": "10.2.0.4:9400"}
    assert Names().host(labels | {"node": "trn-07"}) == "trn-07"
    assert Names().host(labels) == "10.2.0.4"
    assert Names().host({"Hostname": "localhost"}) == "?"


@pytest.mark.parametrize(
    ("job", "instance", "column"),
    [
        ("dcgm-exporter", "a:1", "accelerator_source_up"),
        ("npu-exporter", "a:1", "accelerator_source_up"),
        ("node", "a:1", "up"),
        ("gpu-node-exporter", "a:1", None),  # says both
        ("gpu-node-exporter", "a:9100", "up"),
        ("gpu-hosts", "a:9100", "up"),
        ("pods", "a:9400", "accelerator_source_up"),
        ("prometheus", "a:9090", None),
        ("", "", None),
    ],
)
def test_whose_up_it_is(job: str, instance: str, column: str | None) -> None:
    assert Names().up_column({"job": job, "instance": instance}) == column


def test_memory_of_hostile_labels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.formats.series_names.MAX_IDENTITIES", 10)
    names, target = Names(), of("DCGM_FI_DEV_GPU_TEMP")
    for i in range(100):
        names.learn(target, {"gpu": str(i), "UUID": f"U{i}", "Hostname": f"h{i}", "instance": f"i{i}:1", "job": str(i)})
    assert max(len(names.told), len(names.host_of), len(names.up_of), len(names.pci_of_uuid)) <= 10
