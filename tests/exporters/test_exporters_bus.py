"""Accelerators on the bus: their vendor by id or driver, the names that join, and hosts that nobody asks."""

from pathlib import Path

import pytest

from collectors.agent.hosting import host_of
from collectors.agent.source import Host
from collectors.formats.vendors import columns, makers, source_of, vendor_of
from collectors.host.accelerator_bus import AcceleratorBus, look
from collectors.host.tree import Tree
from sickbay.config import parse
from sickbay.messages import Identity
from sickbay.schema import ACCELERATOR


def host(folder: Path, **told: str) -> Host:
    settings = "".join(f"{key} = {value}\n" for key, value in told.items())
    return host_of(parse(f'[agent]\nhost = "h"\nroot = "{folder}"\n{settings}'.encode(), "test"), lambda source: None)


def card(root: Path, address: str, vendor: str, **files: str) -> Path:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, text in {"vendor": vendor, "class": "0x120000", **{k.strip("_"): v for k, v in files.items()}}.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("pci", "driver", "vendor"),
    [
        ("0x1002", "", "AMD Instinct"),
        ("0x10de", "", "NVIDIA"),
        ("0x19E5", "", "Huawei Ascend"),
        ("1ed5", "", "Moore Threads"),
        ("0x1d22", "", "Kunlun XPU"),
        ("", "habanalabs", "Intel Gaudi"),
        ("0xabcd", "amdgpu", "AMD Instinct"),
        ("0xabcd", "nouveau", ""),
        ("", "", ""),
    ],
)
def test_the_vendor_of_a_device(pci: str, driver: str, vendor: str) -> None:
    assert vendor_of(pci, driver) == vendor


def test_the_names_of_a_card(tmp_path: Path) -> None:
    card(tmp_path, "0000:c6:00.0", "0x1002", serial_number="692305106", product_name="AMD Instinct MI300X")
    card(tmp_path, "0000:c7:00.0", "0x1002")
    found = AcceleratorBus(host(tmp_path, exporters='["http://127.0.0.1:5000/metrics"]')).collect(1_000)
    assert [one.record for one in found.seen] == [
        Identity(host="h", pci="0000:c6:00", serial="692305106", model="AMD Instinct MI300X")
    ]
    assert found.problem == ""


def test_accelerators_that_nobody_asks_are_a_problem(tmp_path: Path) -> None:
    card(tmp_path, "0000:01:00.0", "0x19e5")
    card(tmp_path, "0000:02:00.0", "0x19e5")
    assert "2 accelerators on the bus (Huawei Ascend)" in AcceleratorBus(host(tmp_path)).collect(1_000).problem


def test_what_is_no_accelerator_or_only_a_guests_function_is_left_out(tmp_path: Path) -> None:
    card(tmp_path, "0000:01:00.0", "0x1002", class_="0x060400")
    (card(tmp_path, "0000:02:00.1", "0x1002") / "physfn").symlink_to("../0000:02:00.0")
    card(tmp_path, "0000:03:00.0", "0xabcd")
    assert [(one.pci, one.vendor) for one in look(Tree(tmp_path))] == [("0000:03:00", "")]
    assert AcceleratorBus(host(tmp_path)).collect(1_000).problem == ""


def test_a_host_without_a_bus_says_nothing(tmp_path: Path) -> None:
    found = AcceleratorBus(host(tmp_path)).collect(1_000)
    assert (list(found.seen), found.problem) == ([], "")


def test_every_column_of_every_vendor_has_a_series_or_a_reason() -> None:
    told = dict(columns())
    assert tuple(told) == ACCELERATOR.names
    for by in told.values():
        assert set(by) == set(makers())
        assert all(text and text != "not available: " for text in by.values())
    assert told["power_watts"]["kunlun"] == "node_xpu_powerUsage"
    assert told["temperature_celsius"]["tpu"] == "not available: not told to tenants"
    assert source_of(makers()["amd"], "accelerator", "memory_used_bytes").startswith("not available: documented in MB")
