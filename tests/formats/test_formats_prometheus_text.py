"""Scrapes as text: what they become, and what damage cannot make of them."""

import math
import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import prometheus_text
from collectors.formats.reading import Record, Tally
from sickbay.messages import Event, Identity, Severity
from sickbay.schema import Samples

CARD = (
    'gpu="1",UUID="GPU-5be1",pci_bus_id="00000000:CB:00.0",device="nvidia1",modelName="NVIDIA H100",Hostname="trn-07"'
)
NAME = "accelerator:trn-07/0000:cb:00"
SCRAPE = f"""\
# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{{{CARD}}} 61
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{CARD}}} 97
DCGM_FI_DEV_FB_USED{{{CARD}}} 71000
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{CARD}}} 2000
DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{CARD}}} 12
DCGM_FI_DEV_XID_ERRORS{{{CARD},err_code="0",err_msg="No Error"}} 0
"""


def read(text: str | bytes, name: str = "") -> tuple[list[Record], Tally]:
    tally = Tally()
    data = text.encode() if isinstance(text, str) else text
    return [reading.record for reading in prometheus_text.read([data], tally, name)], tally


def cells(records: Iterable[Record]) -> dict[tuple[str, int, str], float]:
    """(component, at_ms, column) -> value of all samples."""
    return {
        (component, int(at), column): float(values[row])
        for record in records
        if isinstance(record, Samples)
        for column, values in record.values.items()
        for row, (component, at) in enumerate(zip(record.component, record.at_ms, strict=True))
        if not math.isnan(values[row])
    }


def test_a_scrape_becomes_one_row_per_device_in_our_units() -> None:
    records, tally = read(SCRAPE)
    assert cells(records) == {
        (NAME, 0, "temperature_celsius"): 61,
        (NAME, 0, "utilisation_ratio"): 0.97,
        (NAME, 0, "memory_used_bytes"): 71000 * 2**20,
        (NAME, 0, "scale_up_bytes_per_second"): 2000 * 1024 * 1000,
        (NAME, 0, "bus_replays_total"): 12,
        (NAME, 0, "last_error_code"): 0,
    }
    assert [record for record in records if isinstance(record, Identity)] == [
        Identity(host="trn-07", index="1", pci="0000:cb:00", uuid="GPU-5be1", name="nvidia1", model="NVIDIA H100")
    ]
    assert not [record for record in records if isinstance(record, Event)]
    assert tally.unparsed == 0


@pytest.mark.parametrize(
    "blank", ["9.223372036854776e18", "2147483632", "2147483635", "140737488355328", "NaN", "+Inf"]
)
def test_blanks_are_missing_not_numbers(blank: str) -> None:
    records, _ = read(f"DCGM_FI_DEV_MEMORY_TEMP{{{CARD}}} {blank}\nDCGM_FI_DEV_GPU_TEMP{{{CARD}}} 50\n")
    assert cells(records) == {(NAME, 0, "temperature_celsius"): 50}


def test_reduced_labels_and_several_scrapes_after_each_other() -> None:
    text = 'timestamp t\nDCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{gpu="3"...} 90\n\n'
    text += 'timestamp t + 1\nDCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{gpu="3"...} 30\n'
    records, tally = read(text)
    assert [cells([record]) for record in records] == [
        {("accelerator:?/3", 0, "scale_up_bytes_per_second"): value * 1024e3} for value in (90, 30)
    ]
    assert tally.unparsed == 0
    assert prometheus_text.confidence(text.encode(), "x") > 0.9


def test_scrapes_put_together_without_a_word_between_stay_apart() -> None:
    again = SCRAPE.replace(" 61", " 64")
    records, _ = read(SCRAPE + again)
    temperatures = [cells([r])[NAME, 0, "temperature_celsius"] for r in records if isinstance(r, Samples)]
    assert temperatures == [61, 64]


@pytest.mark.parametrize(("stamp", "at_ms"), [("1790000000123", 1790000000123), ("1790000000.123", 1790000000123)])
def test_times_are_milliseconds_or_openmetrics_seconds(stamp: str, at_ms: int) -> None:
    records, _ = read(f"DCGM_FI_DEV_GPU_TEMP{{{CARD}}} 61 {stamp}\n# EOF\n")
    assert cells(records) == {(NAME, at_ms, "temperature_celsius"): 61}


@pytest.mark.parametrize(
    "text",
    [
        "".join(f'{{__name__="node_load1", instance="a:9100"}} {v} 17900000{t}000\n' for v, t in ((3, "00"), (4, 15))),
        'node_load1{instance="a:9100"} =>\n3 @[1790000000]\n4 @[1790000015.000]\n',
        'node_load1{instance="a:9100"} => 3 @[1790000000.000]\nnode_load1{instance="a:9100"} => 4 @[1790000015]\n',
    ],
    ids=["tsdb dump", "query range", "query instant"],
)
def test_what_promtool_prints(text: str) -> None:
    records, tally = read(text)
    assert cells(records) == {("host:a", 1790000000000, "load_1m"): 3, ("host:a", 1790000015000, "load_1m"): 4}
    assert tally.unparsed == 0
    assert prometheus_text.confidence(text.encode(), "x") > 0.9


def test_points_below_an_unknown_series_belong_to_nobody() -> None:
    records, tally = read('node_load1{instance="a:9100"} =>\n3 @[1790000000]\nother{} =>\n4 @[1790000000]\n')
    assert cells(records) == {("host:a", 1790000000000, "load_1m"): 3}
    assert tally.unparsed == 0


def test_a_window_count_is_a_cross_check_whose_code_is_the_label() -> None:
    text = (
        "# HELP DCGM_EXP_XID_ERRORS_COUNT Count of XID Errors within user-specified time window\n"
        f'DCGM_FI_DEV_XID_ERRORS_ACTIVE{{{CARD},window_size_in_ms="300000",xid="79"}} 2\n'
        f'DCGM_EXP_XID_ERRORS_COUNT{{{CARD},window_size_in_ms="300000"}} 0\n'
    )
    records, _ = read(text)
    [event] = [record for record in records if isinstance(record, Event)]
    assert (event.component, event.code, event.count, event.severity) == (NAME, "XID 79", 2, Severity.WARNING)
    assert event.kind == "accelerator.fault_reported"
    assert event.attributes["window"] == "yes"
    assert event.attributes["window_ms"] == "300000"


def test_a_last_code_is_told_once_and_again_only_after_a_change() -> None:
    scrapes = "".join(f"timestamp t\nDCGM_FI_DEV_XID_ERRORS{{{CARD}}} {code}\n" for code in (0, 31, 31, 79, 79))
    records, _ = read(scrapes)
    events = [record for record in records if isinstance(record, Event)]
    assert [event.code for event in events] == ["XID 31", "XID 79"]
    assert all(event.attributes["last_value"] == "yes" for event in events)
    # The program's error is information; the hardware's is worth watching, for its time is not known.
    assert [event.kind for event in events] == ["accelerator.code_reported", "accelerator.fault_reported"]
    assert [event.severity for event in events] == [Severity.INFO, Severity.WARNING]


@pytest.mark.parametrize(
    ("line", "kind", "code"),
    [
        (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{CARD}}} 1", "accelerator.code_reported", "row remap failed"),
        (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{CARD}}} 0", "", ""),
        (f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{CARD}}} 9223372036854775794", "", ""),
        (f"DCGM_FI_DEV_FABRIC_MANAGER_STATUS{{{CARD}}} 4", "accelerator.fault_reported", "fabric manager failed"),
        (f"DCGM_FI_DEV_FABRIC_MANAGER_STATUS{{{CARD}}} 3", "", ""),
        (f'DCGM_EXP_GPU_HEALTH_STATUS{{{CARD},health_watch="MEM"}} 20', "accelerator.fault_reported", "health failed"),
        ('gpu_health{gpu_id="3",hostname="n1"} 0', "accelerator.fault_reported", "health 0"),
        ('gpu_health{gpu_id="3",hostname="n1"} 1', "", ""),
        (
            f"DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{CARD}}} 72",
            "accelerator.fault_reported",
            "clocks held by heat (hardware)",
        ),
        (f"DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{CARD}}} 5", "", ""),  # idle, power cap: normal
        (f"DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{CARD}}} 2147483632", "", ""),
        (f"DCGM_FI_DEV_XID_ERRORS{{{CARD}}} 2147483634", "", ""),
        (f"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL{{{CARD}}} 4", "accelerator.code_reported", "uncorrected errors in its life"),
        (f"DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{CARD}}} 72 1790000000000", "", ""),  # dated: detectors judge
        ('nvidia_smi_gpu_recovery_action{uuid="a1b2"} 2', "accelerator.recovery_action", "recovery action 2"),
        ('dcgm_xid_errors{gpu="0",uuid="GPU-a1"} 48', "accelerator.fault_reported", "XID 48"),
    ],
)
def test_single_values_that_say_something_by_themselves(line: str, kind: str, code: str) -> None:
    records, _ = read(line + "\n")
    events = [record for record in records if isinstance(record, Event)]
    assert [(event.kind, event.code) for event in events] == ([(kind, code)] if kind else [])
    assert all(event.message == line for event in events)


def test_what_curl_and_a_shell_print_round_a_scrape_does_not_hide_it() -> None:
    text = (
        "$ curl -v http://localhost:9400/metrics\n*   Trying 127.0.0.1:9400...\n> GET /metrics HTTP/1.1\n"
        "> Host: localhost:9400\n< HTTP/1.1 200 OK\n< Content-Type: text/plain\n< \n```\n"
        "  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0# HELP x y\n"
        f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{CARD}}} 1\n* Connection #0 to host localhost left intact\n```\n"
    )
    assert prometheus_text.confidence(text.encode(), "input.txt") > 0.9
    _, tally = read(text)
    assert tally.unparsed == 0


def test_a_partition_never_stands_for_its_device() -> None:
    text = f"DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 300\n"
    text += f'DCGM_FI_PROF_SM_ACTIVE{{{CARD},GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}} 0\n'
    records, tally = read(text)
    assert cells(records) == {(NAME, 0, "power_watts"): 300}
    assert any("partitions" in note for note in tally.notes)


def test_two_jobs_on_one_device_are_one_device() -> None:
    text = "".join(f'DCGM_FI_DEV_POWER_USAGE{{{CARD},hpc_job="{job}"}} 300\n' for job in (1, 2))
    assert cells(read(text)[0]) == {(NAME, 0, "power_watts"): 300}


def test_parts_of_one_number_are_added() -> None:
    text = (
        'node_edac_correctable_errors_total{controller="0"} 3\nnode_edac_correctable_errors_total{controller="1"} 4\n'
    )
    assert cells(read(text)[0]) == {("host:?", 0, "corrected_memory_errors_total"): 7}


def test_ports_interfaces_and_hosts() -> None:
    text = (
        'node_infiniband_state_id{device="mlx5_2",port="1"} 4\n'
        'node_infiniband_rate_bytes_per_second{device="mlx5_2",port="1"} 5e+10\n'
        'node_infiniband_symbol_error_total{device="mlx5_2",port="1"} 65535\n'
        'node_network_up{device="eth0"} 0\n'
        'node_network_speed_bytes{device="eth0"} -125000\n'
        'node_network_up{device="veth12ab"} 0\n'
        'node_network_up{device="lo"} 0\n'
        'node_ethtool_info{bus_info="0000:c1:00.0",device="eth0",driver="mlx5_core"} 1\n'
        "node_load1 3.5\n"
        "node_boot_time_seconds 1.7899e+09\n"
    )
    records, tally = read(text)
    assert cells(records) == {
        ("port:?/mlx5_2/1", 0, "up"): 1,
        ("port:?/mlx5_2/1", 0, "speed_gigabits_per_second"): 400,
        ("port:?/eth0", 0, "up"): 0,
        ("host:?", 0, "load_1m"): 3.5,
        ("host:?", 0, "boot_time_seconds"): 1.7899e9,
    }
    assert Identity(kind="nic", pci="0000:c1:00.0", name="eth0") in records
    assert any("65535" in note for note in tally.notes)


def test_a_federated_up_is_told_by_what_its_target_exports() -> None:
    text = (
        f'DCGM_FI_DEV_GPU_TEMP{{{CARD},instance="10.0.0.7:19400",job="pods"}} 61 1790000000000\n'
        'node_load1{instance="10.0.0.7:9100",job="nodes"} 1 1790000000000\n'
        'up{instance="10.0.0.7:19400",job="pods"} 0 1790000000000\n'
        'up{instance="10.0.0.7:9100",job="nodes"} 1 1790000000000\n'
        'up{instance="10.0.0.7:8081",job="kube-state"} 0 1790000000000\n'
    )
    at = 1790000000000
    assert cells(read(text)[0]) == {
        (NAME, at, "temperature_celsius"): 61,
        ("host:trn-07", at, "load_1m"): 1,
        ("host:trn-07", at, "accelerator_source_up"): 0,
        ("host:trn-07", at, "up"): 1,
    }


def test_worst_lane_of_an_optic_and_decimal_codes() -> None:
    labels = 'id="2",vdie_id="D1",pcie_bus_info="0000:82:00.0",instance="npu-3:8082"'
    text = "".join(f"npu_chip_optical_rx_power_{lane}{{{labels}}} {mw}\n" for lane, mw in enumerate((1.0, 0.1, 0.9, 0)))
    records, _ = read(text + f"npu_chip_info_error_code{{{labels}}} 2162169857\n")
    assert cells(records) == {("optic:npu-3/0000:82:00", 0, "rx_power_dbm"): pytest.approx(-10)}
    assert [record.code for record in records if isinstance(record, Event)] == ["80E01801"]


@pytest.mark.parametrize(
    "line",
    [
        'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0"} ',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 6O',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 1_0',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0" 61}',
        "=== 61",
    ],
)
def test_damaged_lines_are_counted_and_give_nothing(line: str) -> None:
    records, tally = read(line + "\n")
    assert cells(records) == {}
    assert tally.unparsed == 1


def test_a_number_cut_at_the_end_of_the_input_is_not_believed() -> None:
    records, tally = read(SCRAPE + f"DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 6")
    assert (NAME, 0, "power_watts") not in cells(records)
    assert tally.unparsed == 1
    assert cells(read(f"DCGM_FI_DEV_POWER_USAGE{{{CARD}}} 600")[0]) == {(NAME, 0, "power_watts"): 600}


def test_a_line_over_the_limit_is_cut_and_counted() -> None:
    records, tally = read(f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",pod="{"x" * 70_000}"}} 61\n' + SCRAPE)
    assert (NAME, 0, "temperature_celsius") in cells(records)
    assert len(cells(records)) == 6
    assert tally.cut == 1


def test_a_value_may_stand_at_its_labels() -> None:
    text = 'node_load1 1\nDCGM_FI_DEV_GPU_TEMP{gpu="0"}50\nDCGM_FI_DEV_GPU_TEMP{gpu="1"} 51 # {trace="a"} 1\n'
    assert cells(read(text)[0]) == {
        ("host:?", 0, "load_1m"): 1,
        ("accelerator:?/0", 0, "temperature_celsius"): 50,
        ("accelerator:?/1", 0, "temperature_celsius"): 51,
    }


def test_escapes_in_labels() -> None:
    text = r'{a="x\"}y",b="c\\d",c="e\nf"} 1'
    assert prometheus_text.labels_at(text, 0) == ({"a": 'x"}y', "b": r"c\d", "c": "e f"}, len(text) - 2)


label = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Cf"]), max_size=12)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), label, max_size=4), st.floats(allow_nan=False))
def test_what_an_exporter_writes_is_read_back(labels: dict[str, str], value: float) -> None:
    escaped = {k: v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for k, v in labels.items()}
    line = "m{" + ",".join(f'{key}="{text}"' for key, text in escaped.items()) + "} " + repr(value)
    found = prometheus_text.labels_at(line, 1)
    assert found is not None
    assert found[0] == labels
    assert prometheus_text.value_at(line, found[1]) == (value, 0)


@given(st.integers(1, 50))
def test_chunks_do_not_matter(size: int) -> None:
    data, tally = SCRAPE.encode(), Tally()
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    records = [reading.record for reading in prometheus_text.read(chunks, tally)]
    assert cells(records) == cells(read(SCRAPE)[0])


def test_other_texts_are_not_taken_for_scrapes() -> None:
    for text in (
        "[  12.5] NVRM: Xid (PCI:0000:cb:00): 79\n",
        "name value\nfoo bar\n",
        '{"status":"success"}',
        "# Title\n",
    ):
        assert prometheus_text.confidence(text.encode(), "x.prom") < 0.3


@pytest.mark.slow
def test_mutations_never_crash_nor_invent_devices() -> None:
    chance = random.Random(7)
    source = (SCRAPE + 'node_infiniband_state_id{device="mlx5_2",port="1"} 4 1790000000000\n# EOF\n').encode()
    source += b'node_load1{instance="a:9100"} =>\n3 @[1790000000]\n{__name__="up",job="node"} 1 1790000000000\n'
    for _ in range(5_000):
        data = bytearray(source)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    del data[place : place + chance.randrange(40)]
                case 2:
                    data[place:place] = data[: chance.randrange(200)]
                case _:
                    data[place:place] = bytes(chance.randrange(256) for _ in range(chance.randrange(5)))
        records, _ = read(bytes(data))
        for record in records:
            if isinstance(record, Samples):
                assert all(np.isfinite(v[~np.isnan(v)]).all() for v in record.values.values())
