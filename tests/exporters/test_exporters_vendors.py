"""Every vendor's exporter: its sample scrape gives its golden table, and the laws that all data files keep.

A new vendor: `collectors/codes/exporters/NAME.toml` and `samples/NAME.prom`; run once with GOLDEN=write, then read what
stands in `samples/NAME.golden` against the numbers of the scrape.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from collectors.formats import metric_names, prometheus_text
from collectors.formats.metric_names import Metric, Source, Vendor, converted, refuse, vendors
from collectors.formats.reading import Reading, Tally
from sickbay.messages import Event, Identity
from sickbay.schema import Samples
from sickbay.vocabulary import event_kinds

SAMPLES = Path(__file__).parent / "samples"
MAKERS = [name for name, vendor in vendors().items() if any(one.of_accelerators for one in vendor.exporters.values())]

# What a device of these years can show: a factor that is off by 1000 (or by 8, for link rates) leaves the range.
RANGES = {
    "_ratio": (0, 1),
    "power_watts": (20, 2000),
    "power_limit_watts": (100, 3000),
    "temperature_celsius": (10, 110),
    "clock_megahertz": (300, 4000),
    "memory_used_bytes": (1e9, 4e11),
    "memory_total_bytes": (1.5e10, 4e11),
    "bus_width_lanes": (1, 16),
    "bus_width_max_lanes": (1, 16),
    "bus_generation": (1, 7),
    "bus_generation_max": (1, 7),
    "bus_tx_bytes_per_second": (1e6, 1.3e11),
    "bus_rx_bytes_per_second": (1e6, 1.3e11),
    "scale_up_tx_bytes_per_second": (1e6, 2e12),
    "scale_up_rx_bytes_per_second": (1e6, 2e12),
    "scale_up_bytes_per_second": (1e6, 4e12),
    "health": (-1, 1),
    "up": (0, 1),
    "supply_volts": (2, 14),
    "rx_power_dbm": (-40, 10),
    "tx_power_dbm": (-40, 10),
}


def readings(name: str) -> list[Reading]:
    tally = Tally()
    found = list(prometheus_text.read([(SAMPLES / f"{name}.prom").read_bytes()], tally))
    assert tally.unparsed == 0
    return found


def lines(found: list[Reading]) -> Iterator[str]:
    """One line for each thing that was told: a cell, an identity, an event."""
    for reading in found:
        record = reading.record
        if isinstance(record, Samples):
            for column, values in record.values.items():
                for component, value in zip(record.component, values.tolist(), strict=True):
                    if value == value:
                        yield f"{component} {column} {value:.12g}"
        elif isinstance(record, Identity):
            told = {key: value for key, value in msgspec.structs.asdict(record).items() if value and key != "kind"}
            yield f"identity {told}"
        elif isinstance(record, Event):
            word = f"{record.kind} {record.code!r} {record.severity} {record.advice}"
            yield f"event {record.component} {word} {record.attributes}"


@pytest.mark.parametrize("name", MAKERS)
def test_a_sample_gives_its_golden_table(name: str) -> None:
    told = sorted(lines(readings(name)))
    golden = SAMPLES / f"{name}.golden"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text("".join(f"{line}\n" for line in told), encoding="utf-8")
    assert told == golden.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", MAKERS)
def test_every_row_is_in_the_sample(name: str) -> None:
    text = (SAMPLES / f"{name}.prom").read_text(encoding="utf-8")
    shown = {line.partition("{")[0] for line in text.splitlines() if line[0] != "#"}
    for source in vendors()[name].exporters.values():
        numbers = re.compile(rf"(?:_\d+){{{len(source.numbered)}}}$")
        plain = {numbers.sub("", name) for name in shown}
        for row, metric in source.metrics.items():
            assert plain & {row, *metric.also}, row


@pytest.mark.parametrize("name", MAKERS)
def test_units_are_of_this_world(name: str) -> None:
    for reading in readings(name):
        if isinstance(reading.record, Samples):
            for column, values in reading.record.values.items():
                suffix = "temperature_celsius" if "temperature" in column else column
                suffix = "_ratio" if column.endswith("_ratio") else suffix
                suffix = "clock_megahertz" if column.endswith("clock_megahertz") else suffix
                low, high = RANGES.get(suffix, (0, 1e13))
                real = values[~np.isnan(values)]
                assert np.all((real >= low) & (real <= high)), (column, real)


@pytest.mark.parametrize("name", MAKERS)
def test_a_device_has_a_name_and_a_slice_is_not_the_device(name: str) -> None:
    for reading in readings(name):
        if isinstance(reading.record, Samples):
            assert all(one.partition("/")[2] for one in reading.record.component)
            cells = list(zip(reading.record.component, reading.record.at_ms.tolist(), strict=True))
            assert len(cells) == len(set(cells))


def test_a_sample_speaks_of_one_vendor_only() -> None:
    for name in MAKERS:
        text = (SAMPLES / f"{name}.prom").read_text(encoding="utf-8")
        shown = {line.partition("{")[0] for line in text.splitlines() if line[0] != "#"}
        own = {id(source) for source in vendors()[name].exporters.values()}
        found = [metric_names.targets()[one] for one in shown if one in metric_names.targets()]
        assert {id(target.source) for target in found} <= own


def test_no_name_of_a_bus_a_driver_or_a_section_belongs_to_two() -> None:
    all_of = [vendors()[name] for name in vendors()]
    for words in ([w for v in all_of for w in v.pci], [w for v in all_of for w in v.drivers]):
        assert len(words) == len(set(words))
    names = [name for vendor in all_of for name in vendor.exporters]
    assert len(names) == len(set(names)) == len(metric_names.sources())


def test_no_port_stands_for_two_vendors() -> None:
    ports = [port for vendor in vendors().values() for one in vendor.exporters.values() for port in one.ports]
    assert len(ports) == len(set(ports))


def test_what_is_not_available_has_a_reason() -> None:
    for name in MAKERS:
        vendor = vendors()[name]
        assert vendor.rest
        columns = [column for columns in vendor.absent.values() for column in columns]
        assert len(columns) == len(set(columns))
        assert all(vendor.absent)
        assert all(len(word) == 4 and word == word.lower() for word in vendor.pci)


def test_events_are_of_the_kinds_there_are() -> None:
    for source in metric_names.sources().values():
        for row, metric in source.metrics.items():
            for told in (*metric.told.values(), *([metric.rises] if metric.rises else [])):
                assert event_kinds()[told.kind].component == source.table, row


def _vendor(metric: Metric, **more: object) -> Vendor:
    return Vendor(name="X", exporters={"x": Source(source="s", table="accelerator", metrics={"x_a": metric})}, **more)  # type: ignore[arg-type]


def test_a_column_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no column power_kilowatts"):
        refuse(_vendor(Metric(to="power_kilowatts")))
    with pytest.raises(ValueError, match="no column warmth"):
        refuse(_vendor(Metric(to="power_watts"), absent={"why": ("warmth",)}))


def test_a_column_is_not_told_and_absent_at_once() -> None:
    with pytest.raises(ValueError, match="told and absent"):
        refuse(_vendor(Metric(to="power_watts"), absent={"why": ("power_watts",)}))


def test_an_unknown_word_in_a_data_file_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.toml.decode('name="X"\nexporters.x={source="s", table="port", metrics={a={too="b"}}}', type=Vendor)


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_becomes_a_number_that_was_none(name: str) -> None:
    blanks = np.array([np.nan, np.inf, -np.inf, 2147483632, 140737488355328, 9.3e18])
    for source in vendors()[name].exporters.values():
        for metric in source.metrics.values():
            assert np.all(np.isnan(converted(metric, blanks)))


def scrapes(*bodies: str) -> list[list[Event]]:
    exporter = prometheus_text.Exporter(Tally())
    found = [list(exporter.scrape(body.encode(), 1_000 * (at + 1))) for at, body in enumerate(bodies)]
    return [[one.record for one in answer if isinstance(one.record, Event)] for answer in found]


CODE = 'npu_chip_info_error_code%s{id="0",pcie_bus_info="0000:c1:00.0"} %d\n'
OTHER = 'npu_chip_info_health_status{id="0",pcie_bus_info="0000:c1:00.0"} 1\n'


def test_a_fault_that_stands_is_told_once_and_again_when_it_comes_back() -> None:
    one = OTHER + CODE % ("", 0x80E18402)
    told = scrapes(one, one, OTHER, one)
    assert [[event.code for event in events] for events in told] == [["80E18402"], [], [], ["80E18402"]]


def test_a_fault_that_moves_to_another_series_is_no_news() -> None:
    told = scrapes(CODE % ("", 0x80E18402), CODE % ("", 0x80CB8009) + CODE % ("_1", 0x80E18402))
    assert [[event.code for event in events] for events in told] == [["80E18402"], ["80CB8009"]]


def test_a_counter_of_faults_speaks_when_it_rises_and_not_before() -> None:
    series = 'gpu_ecc_uncorrect_umc{gpu_id="3",hostname="h"} %d\n'
    told = scrapes(series % 4, series % 4, series % 6, series % 0, series % 1)
    found = [(event.kind, event.count, event.at_ms) for events in told for event in events]
    assert found == [("accelerator.memory_uncorrectable", 2, 3_000), ("accelerator.memory_uncorrectable", 1, 5_000)]


def test_a_port_without_a_carrier_is_down_whatever_else_is_told() -> None:
    body = b'node_network_up{device="eth0"} 1\nnode_network_carrier{device="eth0"} 0\n'
    (reading,) = prometheus_text.read([body], Tally())
    assert isinstance(reading.record, Samples)
    assert reading.record.values["up"].tolist() == [0]


def test_numbers_in_a_name_are_a_part_of_the_device_and_each_part_keeps_its_own_state() -> None:
    labels = 'id="2",vdie_id="d-2",pcie_bus_info="0000:C3:00.0"'
    body = "".join(f"npu_chip_info_link_status_{part}{{{labels}}} {up}\n" for part, up in (("0_1", 1), ("3_15", 0)))
    body += f"npu_chip_info_link_status_0_99{{{labels}}} 0\n"  # beyond what any card has
    for _ in range(2):  # the second time by the line alone
        exporter = prometheus_text.Exporter(Tally())
        for at in (1_000, 2_000):
            found = [one.record for one in exporter.scrape(body.encode(), at) if isinstance(one.record, Samples)]
            told = {name: up for one in found for name, up in zip(one.component, one.values["up"], strict=True)}
            assert told == {"port:?/0000:c3:00/0_1": 1.0, "port:?/0000:c3:00/3_15": 0.0}


def test_a_fault_in_any_of_its_series_is_told() -> None:
    (told,) = scrapes(CODE % ("_9", 0x80E18402))
    assert [event.code for event in told] == ["80E18402"]
