"""AMD's tool: its JSON as names and rows, and the collector that asks it."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from collectors.agent.hosting import host_of
from collectors.agent.source import Host
from collectors.formats import amd_smi_json
from collectors.formats.reading import Tally
from collectors.host import tool
from collectors.host.accelerator_amd_smi import AmdSmi
from collectors.inputs.sniff import sniff
from sickbay.config import parse
from sickbay.messages import Identity
from sickbay.schema import Samples

LIST = [
    {"gpu": 0, "bdf": "0000:05:00.0", "uuid": "11ff74a1-0000-1000-8005-000000000000", "kfd_id": 7, "partition_id": 0},
    {"gpu": 1, "bdf": "0000:26:00.0", "uuid": "22ff74a1-0000-1000-8026-000000000000", "kfd_id": 8, "partition_id": 0},
]
METRIC = {
    "gpu_data": [
        {
            "gpu": 0,
            "usage": {"gfx_activity": {"value": 73, "unit": "%"}, "umc_activity": {"value": 12, "unit": "%"}},
            "power": {"socket_power": {"value": 542, "unit": "W"}},
            "temperature": {"edge": "N/A", "hotspot": {"value": 61, "unit": "C"}, "mem": {"value": 58, "unit": "C"}},
            "clock": {
                "gfx_0": {"clk": {"value": 2100, "unit": "MHz"}},
                "mem_0": {"clk": {"value": 1300, "unit": "MHz"}},
            },
            "pcie": {"width": "16", "speed": {"value": 32, "unit": "GT/s"}, "replay_count": "3"},
            "ecc": {"total_correctable_count": 4, "total_uncorrectable_count": 0},
        },
        {"gpu": 1, "power": {"socket_power": {"value": 142000, "unit": "mW"}}, "temperature": {"hotspot": "N/A"}},
    ]
}


def records(told: object, *before: str) -> list[object]:
    raw = "".join(before).encode() + json.dumps(told).encode()
    return [reading.record for reading in amd_smi_json.read([raw], Tally())]


def test_the_list_tells_names() -> None:
    assert records(LIST, "WARNING: not in the render group\n") == [
        Identity(index="0", pci="0000:05:00", uuid="11ff74a1-0000-1000-8005-000000000000"),
        Identity(index="1", pci="0000:26:00", uuid="22ff74a1-0000-1000-8026-000000000000"),
    ]


def test_metrics_with_their_units() -> None:
    (rows,) = records(METRIC)
    assert isinstance(rows, Samples)
    assert rows.component == ["accelerator:?/0"]  # the other's power is in a unit that is not expected
    assert {column: values.tolist() for column, values in rows.values.items()} == {
        "utilisation_ratio": [0.73],
        "memory_active_ratio": [0.12],
        "power_watts": [542],
        "temperature_celsius": [61],
        "memory_temperature_celsius": [58],
        "clock_megahertz": [2100],
        "memory_clock_megahertz": [1300],
        "bus_width_lanes": [16],
        "bus_generation": [5],
        "bus_replays_total": [3],
        "memory_corrected_total": [4],
        "memory_uncorrected_total": [0],
    }


def test_a_partition_is_not_the_device() -> None:
    assert records([{**LIST[0], "partition_id": 1}]) == []


@pytest.mark.parametrize("told", [[1, None, {}, {"gpu": -1}, {"gpu": True}, {"gpu": "0"}], {"gpu_data": 3}, {}])
def test_what_is_no_device_is_left_out(told: object) -> None:
    assert records(told) == []


def test_it_is_recognised_by_its_content() -> None:
    assert sniff(json.dumps(LIST).encode(), "x").kind == "amd_smi_json"
    assert sniff(json.dumps(METRIC, indent=4).encode(), "x").kind == "amd_smi_json"
    assert sniff(b'[{"gpu": 0, "name": "x"}]', "x").kind != "amd_smi_json"


def host(folder: Path, exporters: Sequence[str], vendor: str = "0x1002") -> Host:
    card = folder / "sys/bus/pci/devices/0000:05:00.0"
    card.mkdir(parents=True)
    (card / "class").write_text("0x120000\n")
    (card / "vendor").write_text(f"{vendor}\n")
    told = f'[agent]\nhost = "h"\nroot = "{folder}"\nexporters = {json.dumps(list(exporters))}\n'
    return host_of(parse(told.encode(), "test"), lambda source: None)


def answer(asked: list[str]) -> "type[tool.ToolFailed] | object":
    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        asked.append(command[1])
        return json.dumps(LIST if command[1] == "list" else METRIC).encode()

    return ask


def test_names_now_and_then_and_measures_where_no_exporter_does(tmp_path: Path) -> None:
    asked: list[str] = []
    collector = AmdSmi(host(tmp_path, ()), answer(asked))  # type: ignore[arg-type]
    first = collector.collect(1_000_000)
    assert [type(one.record) for one in first.seen] == [Identity, Identity, Samples]
    assert {one.record.host for one in first.seen if isinstance(one.record, Identity)} == {"h"}
    collector.collect(1_030_000)
    assert asked == ["list", "metric", "metric"]


def test_beside_an_exporter_it_is_asked_for_names_only(tmp_path: Path) -> None:
    asked: list[str] = []
    AmdSmi(host(tmp_path, ["http://127.0.0.1:5000/metrics"]), answer(asked)).collect(1_000_000)  # type: ignore[arg-type]
    assert asked == ["list"]


def test_a_host_of_another_vendor_is_asked_nothing(tmp_path: Path) -> None:
    asked: list[str] = []
    found = AmdSmi(host(tmp_path, (), "0x10de"), answer(asked)).collect(1_000_000)  # type: ignore[arg-type]
    assert (asked, found.problem, list(found.seen)) == ([], "", [])


@pytest.mark.parametrize(
    ("error", "exporters", "problem"),
    [
        (tool.ToolMissing("amd-smi is not installed"), (), "amd-smi is not installed"),
        (tool.ToolMissing("amd-smi is not installed"), ("http://127.0.0.1:5000/metrics",), ""),
        (
            tool.ToolFailed("no whole answer within 3 s"),
            ("http://127.0.0.1:5000/metrics",),
            "no whole answer within 3 s",
        ),
    ],
)
def test_a_tool_that_is_missing_or_hangs(
    tmp_path: Path, error: Exception, exporters: Sequence[str], problem: str
) -> None:
    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        raise error

    assert AmdSmi(host(tmp_path, exporters), ask).collect(1_000_000).problem == problem


def test_half_an_answer_is_a_problem(tmp_path: Path) -> None:
    found = AmdSmi(host(tmp_path, ()), lambda *_: b'[{"gpu": 0, "bdf": ').collect(1_000_000)
    assert "no whole answer" in found.problem
