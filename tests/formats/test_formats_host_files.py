"""Files below a host's root: known answers, each named rule, and that no bytes in any file raise or invent anything."""

import json
import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import (
    disk_files,
    host_files,
    memory_files,
    optic_eeprom,
    optic_readings,
    pcie_files,
    port_files,
    port_statistics,
    storage_files,
    versions,
)
from collectors.formats.metric_names import converted, files, is_blank, statistics
from collectors.formats.pcie_files import Link
from sickbay.messages import Action, Event
from sickbay.schema import TABLES, Samples

PORT = "port:?/mlx5_0/1"
FILES = sorted(files())
TEXTS = st.one_of(
    st.text(max_size=40),
    st.integers(-5, 2**70).map(str),
    st.sampled_from(["N/A (no PMA)", "4: ACTIVE", "3: Disabled", "up", "unknown", "0x1003", "65535", "255", "-1", ""]),
)


def row(ports: port_files.Ports, texts: Mapping[str, str]) -> dict[str, float]:
    """The columns told of one port."""
    return ports.read({PORT: texts})[0][PORT]


def events(ports: port_files.Ports, texts: Mapping[str, str]) -> list[Event]:
    return ports.read({PORT: texts})[1]


# --- ports


def test_a_word_instead_of_a_number_is_missing_and_told_once() -> None:
    ports = port_files.Ports()
    texts = {"counters/symbol_error": "N/A (no PMA)", "counters/link_downed": "3"}
    (told,) = events(ports, texts)
    assert (told.kind, told.code) == ("port.counters_blind", "not available")
    assert events(ports, texts) == []
    assert row(ports, texts) == {"link_downed_total": 3.0}


@pytest.mark.parametrize(
    ("file", "top", "column"),
    [
        ("counters/link_downed", 255, "link_downed_total"),
        ("counters/symbol_error", 65535, "symbol_errors_total"),
        ("counters/port_rcv_data", 4294967295, "rx_bytes_total"),
    ],
)
def test_a_counter_at_its_width_is_blind_until_it_is_cleared(file: str, top: int, column: str) -> None:
    ports = port_files.Ports()
    assert row(ports, {file: str(top - 1)}).keys() == {column}
    assert row(ports, {file: str(top)}) == {}
    assert [one.code for one in events(ports, {file: str(top)})] == []  # told by the look before
    assert row(ports, {file: "2"}).keys() == {column}
    assert [one.code for one in events(ports, {file: str(top)})] == ["saturated"]


def test_a_32_bit_counter_that_goes_round_goes_on_counting() -> None:
    ports, file = port_files.Ports(), "hw_counters/local_ack_timeout_err"
    seen = [row(ports, {file: str(value)})["retransmits_total"] for value in (2**32 - 10, 5, 20)]
    assert seen == [2**32 - 10, 2**32 + 5, 2**32 + 20]
    again = port_files.Ports(dict(ports.wraps))  # after a restart of the agent
    assert row(again, {file: "30"})["retransmits_total"] == 2**32 + 30


@pytest.mark.parametrize("before", [500, 2**31, 2**32 - 2**29, 2**33])
def test_a_counter_that_is_reset_did_not_go_round(before: int) -> None:
    ports, file = port_files.Ports(), "hw_counters/local_ack_timeout_err"
    assert [row(ports, {file: str(value)})["retransmits_total"] for value in (before, 3)] == [before, 3]


def test_gauges_that_pose_as_counters_are_read_by_nobody() -> None:
    gauges = {"hw_counters/active_qps", "hw_counters/active_mrs", "hw_counters/lifespan"}
    assert not gauges & files().keys()
    assert not {"outbound_pci_stalled_rd", "outbound_pci_stalled_wr"} & statistics().keys()


def test_a_port_that_a_person_closed_tells_no_state() -> None:
    ports = port_files.Ports()
    assert row(ports, {"flags": "0x1003", "operstate": "up"}) == {"up": 1.0}
    assert [one.kind for one in events(ports, {"flags": "0x1002", "operstate": "down"})] == ["port.admin_down"]
    assert row(ports, {"flags": "0x1002", "operstate": "down"}) == {}
    assert row(ports, {"flags": "0x1003", "operstate": "down"}) == {"up": 0.0}
    assert row(ports, {"phys_state": "3: Disabled", "state": "1: DOWN"}) == {}


@given(st.lists(st.dictionaries(st.sampled_from([*FILES, "flags", "phys_state", "x/y"]), TEXTS), max_size=4))
def test_any_text_of_a_port_gives_numbers_or_nothing(looks: list[dict[str, str]]) -> None:
    ports = port_files.Ports()
    for look in looks:
        told = row(ports, look)
        assert told.keys() <= set(TABLES["port"].names)
        assert all(math.isfinite(value) for value in told.values())


def test_all_ones_are_a_device_that_is_gone() -> None:
    assert row(port_files.Ports(), {"statistics/rx_bytes": str(2**64 - 1), "carrier_changes": "2"}) == {
        "carrier_changes_total": 2.0
    }


@given(st.sampled_from(FILES), st.integers(0, 2**31 - 1) | st.integers(2**32, 2**60))
def test_one_value_is_converted_as_many_are(file: str, value: int) -> None:
    metric = files()[file].metric
    if metric.saturates == value or is_blank(value):  # words of an exporter, which files do not speak
        return
    (twin,) = converted(metric, np.array([float(value)])).tolist()
    told = port_files.in_our_unit(metric, port_files.number_of(str(value)))
    assert told == twin or (told != told and twin != twin)


def test_statistics_of_a_driver_are_summed_over_priorities() -> None:
    text = (
        "NIC statistics:\n  rx_pause_ctrl_phy: 10\n  rx_prio3_pause: 8\n  rx_prio4_pause: 7\n  rx_corrected_bits_phy: 5"
    )
    (reading,) = port_statistics.read(text, PORT, 1_000)
    assert isinstance(reading.record, Samples)
    assert {name: value[0] for name, value in reading.record.values.items()} == {
        "corrected_bits_total": 5.0,
        "rx_pause_total": 15.0,
    }


@given(st.text(max_size=300))
def test_any_statistics_give_numbers_or_nothing(text: str) -> None:
    assert list(port_statistics.read("NIC statistics:\n" + text, PORT, 1_000)) is not None


# --- bus


def test_a_link_is_bound_by_the_lesser_of_both_ends() -> None:
    device = Link(8, 16, 5, 5)
    assert pcie_files.columns(device, Link(16, 8, 4, 4)) == {
        "bus_width_lanes": 8.0,
        "bus_width_max_lanes": 8.0,
        "bus_generation": 5.0,
        "bus_generation_max": 4.0,
    }


def test_a_device_that_is_gone_has_no_width() -> None:
    gone = {"current_link_width": "63", "max_link_width": "255", "current_link_speed": "Unknown"}
    assert pcie_files.link_of(gone) == Link()
    assert pcie_files.columns(Link(), Link()) == {}


def test_bus_errors_count_from_the_first_look_on() -> None:
    bus, address = pcie_files.Bus(), "0000:1a:00.0"
    before = {"aer_dev_fatal": "DLP 4\nTOTAL_ERR_FATAL 4", "aer_dev_correctable": "BadTLP 4\nTOTAL_ERR_COR 4"}
    assert list(bus.errors(address, before, 0)) == []
    after = {"aer_dev_fatal": "DLP 5\nTOTAL_ERR_FATAL 5", "aer_dev_correctable": "BadTLP 9\nTOTAL_ERR_COR 9"}
    found = {one.kind: (one.code, one.count) for one in bus.errors(address, after, 70_000)}
    assert found == {"pcie.corrected": ("BadTLP", 5), "pcie.fatal": ("DLP", 1)}
    more = {"aer_dev_correctable": "BadTLP 12\nTOTAL_ERR_COR 12"}
    assert list(bus.errors(address, more, 80_000)) == []  # a storm is told once a minute
    assert [one.count for one in bus.errors(address, more, 140_000)] == [3]
    assert list(bus.errors(address, {"aer_dev_correctable": "BadTLP 0\nTOTAL_ERR_COR 0"}, 300_000)) == []  # reset


def test_requests_that_nobody_supports_are_only_watched() -> None:
    bus = pcie_files.Bus()
    for text in ("UnsupReq 0", "UnsupReq 2", "UnsupReq 3\nDLP 1"):
        found = list(bus.errors("a", {"aer_dev_nonfatal": f"{text}\nTOTAL_ERR_NONFATAL 9"}, 1))
        advice = [one.advice for one in found]
        assert advice == {"UnsupReq 0": [], "UnsupReq 2": [Action.WATCH]}.get(text, [None])


def test_a_narrow_link_is_told_once_for_each_width() -> None:
    bus = pcie_files.Bus()
    widths = (16, 16, 8, 8, 16)
    told = [[one.severity.value for one in bus.narrow("a", "nic", Link(width, 16), Link(16, 16))] for width in widths]
    assert told == [[], [], ["error"], [], ["info"]]


@given(st.dictionaries(st.sampled_from([*pcie_files.LINK_FILES, *pcie_files.ERROR_FILES]), st.text(max_size=60)))
def test_any_text_of_a_device_is_a_link_or_none(texts: dict[str, str]) -> None:
    link = pcie_files.link_of(texts)
    assert link.width is None or link.width in pcie_files.WIDTHS
    bus = pcie_files.Bus()
    assert list(bus.errors("a", texts, 0)) == []
    list(bus.errors("a", texts, 100_000))


# --- memory, disks, storage


def test_uncorrected_errors_name_their_module_once() -> None:
    def look(total: int, module: int) -> dict[str, dict[str, str]]:
        return {"mc0": {"ue_count": str(total), "dimm0/dimm_label": "A1", "dimm0/dimm_ue_count": str(module)}}

    memory = memory_files.Memory()
    assert list(memory.events(look(7, 7), 0)) == []
    assert [(one.component, one.count) for one in memory.events(look(9, 9), 1)] == [("dimm:?/A1", 2)]
    assert [one.component for one in memory.events(look(10, 9), 2)] == ["dimm:?"]
    assert list(memory.events(look(0, 0), 3)) == []


def test_a_controller_that_tells_no_count_makes_the_sum_unknown() -> None:
    told = {"mc0": {"ce_count": "3", "ue_count": "0"}, "mc1": {"ce_count": "4"}}
    assert memory_files.columns(told) == {"corrected_memory_errors_total": 7.0}


def test_machine_checks_are_told_as_they_grow() -> None:
    memory = memory_files.Memory()
    assert list(memory.checks("MCE:          1          1   Machine check exceptions")) == []
    assert [one.count for one in memory.checks("MCE:          1          3   Machine check exceptions")] == [2]


def test_a_dead_controller_is_lost_and_one_that_is_long_reset_hangs() -> None:
    disks = disk_files.Disks()
    looks = [("live", 0), ("resetting", 10_000), ("resetting", 41_000), ("resetting", 51_000), ("live", 60_000)]
    kinds = [[one.kind for one in disks.controller("nvme0", *look)] for look in looks]
    assert kinds == [[], [], ["disk.timeout"], [], []]
    assert [one.kind for one in disks.controller("nvme0", "dead", 70_000)] == ["disk.failed"]


def test_a_disk_hangs_that_completes_nothing_it_was_asked() -> None:
    def stat(done: int, underway: int) -> str:
        return f"{done} 0 0 0 0 0 0 0 {underway} 0 0 0 0 0 0 0 0"

    disks = disk_files.Disks()
    looks = [(stat(5, 2), 0), (stat(5, 2), 10_000), (stat(5, 2), 40_000), (stat(5, 2), 50_000), (stat(6, 2), 60_000)]
    found = [[(one.kind, one.advice) for one in disks.requests("sda", "sda", *look)] for look in looks]
    assert found == [[], [], [("disk.timeout", Action.WATCH)], [], []]
    idle = disk_files.Disks()
    assert [list(idle.requests("sda", "sda", stat(5, 0), at)) for at in (0, 60_000, 120_000)] == [[], [], []]


def test_a_health_log_tells_what_is_new() -> None:
    disks = disk_files.Disks()
    assert list(disks.health("nvme0", {"critical_warning": 0, "media_errors": 12})) == []
    found = list(disks.health("nvme0", {"critical_warning": 8, "media_errors": 13}))
    assert [one.kind for one in found] == ["disk.failed", "disk.io_error"]
    assert list(disks.health("nvme0", {"critical_warning": 8, "media_errors": 13})) == []
    assert disk_files.smart_log('{"critical_warning": {"value": 4}, "media_errors": "7"}') == {
        "critical_warning": 4,
        "media_errors": 7,
    }


@given(st.text(max_size=200), st.text(max_size=60))
def test_any_text_of_disks_and_memory_tells_no_fault_at_first_sight(text: str, state: str) -> None:
    disks, memory = disk_files.Disks(), memory_files.Memory()
    assert [one.kind for one in disks.controller("nvme0", state, 0) if state != "dead"] == []
    assert list(disks.requests("sda", "sda", text, 0)) == []
    disk_files.smart_log(text)
    assert list(memory.events({"mc0": {"ue_count": text, "dimm0/dimm_ce_count": state}}, 0)) == []
    assert list(memory.checks(text)) == []


def test_connections_of_a_client_are_told_as_they_change() -> None:
    clients, folder = storage_files.Clients(), "scr1-OST0012-osc-ffff8f0012345678"
    kinds = [
        [one.kind for one in clients.connection(folder, f"import:\n    state: {state}\n")]
        for state in ("IDLE", "FULL", "DISCONN", "DISCONN", "EVICTED", "FULL")
    ]
    lost, evicted, back = "connection_lost", "client_evicted", "connection_restored"
    assert [one for told in kinds for one in told] == [f"filesystem.{what}" for what in (lost, evicted, back)]


@given(st.text(max_size=300), st.text(max_size=60))
def test_any_text_of_storage_gives_numbers_or_nothing(text: str, folder: str) -> None:
    told = storage_files.nfs(f"device n:/x mounted on /x with fstype nfs4\n{text}")
    told |= storage_files.lustre({folder: text}, {folder: text}, {folder: text})
    assert all(cell.keys() <= set(TABLES["filesystem"].names) for cell in told.values())
    list(storage_files.Clients().connection(folder, text))


@given(st.dictionaries(st.sampled_from(host_files.FILES), st.text(max_size=120)))
def test_any_text_of_proc_gives_columns_or_nothing(texts: dict[str, str]) -> None:
    told = host_files.columns(texts)
    assert told.keys() <= set(TABLES["host"].names)
    assert all(math.isfinite(value) for value in told.values())


# --- versions


def test_versions_that_change_are_told_and_those_of_a_boot_are_dated_by_it() -> None:
    before = versions.Known("b1", {"kernel": "5.15", "driver x": "550", "package p": "1", "package q": "1"})
    after = versions.Known(
        "b2", versions.merged(before.versions, {"kernel": "6.8", "driver x": ""}, {"package p": "2"})
    )
    told = [(one.what, one.old, one.new, one.at_ms) for one in versions.changes(before, after, "n1", 9_000, 5_000)]
    assert told == [
        ("boot", "b1", "b2", 5_000),
        ("kernel", "5.15", "6.8", 5_000),
        ("package p", "1", "2", 5_000),
        ("package q", "1", "", 5_000),
    ]


def test_a_first_look_tells_no_change() -> None:
    assert list(versions.changes(versions.Known(), versions.Known("b", {"kernel": "6.8"}), "n1", 1, 1)) == []


@given(st.lists(st.text(max_size=60)), st.binary(max_size=60))
def test_any_list_of_packages_and_any_memory_of_them_is_read(rows: list[str], place: bytes) -> None:
    assert all(name.startswith("package lib") for name in versions.installed(rows, ("lib",)))
    assert versions.remembered(place).boot is not None


# --- modules


def readings(**lanes: list[float]) -> dict[str, float]:
    receive, send = (dict(enumerate(lanes[way], 1)) for way in ("receive", "send"))
    return optic_readings.columns(optic_readings.Reading(41.0, 3.3, receive, send))


def test_lanes_without_use_say_nothing() -> None:
    dark = -math.inf
    assert readings(receive=[-1.0, -2.0, dark, dark], send=[0.0, 0.5, dark, dark])["rx_power_dbm"] == -2.0


def test_a_lane_that_lost_its_light_stands_at_the_floor() -> None:
    assert readings(receive=[-1.0, -math.inf], send=[0.0, 0.0])["rx_power_dbm"] == -40.0


def test_a_module_that_receives_nothing_while_it_sends_stands_at_the_floor() -> None:
    told = readings(receive=[-40.0, -math.inf], send=[0.0, 0.0])
    assert (told["rx_power_dbm"], told["tx_power_dbm"]) == (-40.0, 0.0)
    assert readings(receive=[-1.0, -2.0], send=[-math.inf, -40.0])["tx_power_dbm"] == -40.0


def test_a_module_that_is_dark_both_ways_tells_no_power() -> None:
    assert not {"rx_power_dbm", "tx_power_dbm"} & set(readings(receive=[-40.0], send=[-math.inf]))


def test_the_memory_of_a_cable_tells_nothing() -> None:
    assert optic_readings.columns(optic_readings.Reading(0.0, 0.0)) == {}


def eeprom(identifier: int, size: int, words: dict[int, int], texts: dict[int, bytes] | None = None) -> bytes:
    raw = bytearray(size)
    raw[0] = identifier
    for at, word in words.items():
        raw[at : at + 2] = word.to_bytes(2)
    for at, text in (texts or {}).items():
        raw[at : at + len(text)] = text
    return bytes(raw)


def test_the_pages_of_a_cmis_module_are_read_where_they_stand() -> None:
    lanes = 5 * 128
    words = {14: 40 * 256, 16: 33_000, lanes + 26: 10_000, lanes + 42: 3_500, lanes + 58: 5_000, lanes + 60: 1_000}
    words |= {3 * 128: 75 * 256, 3 * 128 + 66: 1_000}  # thresholds: temperature high, received power low
    raw = bytearray(eeprom(0x19, 768, words, {129: b"ACME", 148: b"OS-400", 166: b"SN7"}))
    raw[2 * 128 + 32] = 1 << 3  # the bias counts double
    module = optic_eeprom.decode(bytes(raw))
    assert module is not None
    assert (module.vendor, module.model, module.serial) == ("ACME", "OS-400", "SN7")
    assert (module.temperature, module.supply, module.bias[1], module.send[1]) == (40.0, 3.3, 14.0, 0.0)
    assert module.receive[2] == -10.0
    assert module.limits["receive_low_alarm"] == -10.0
    assert module.limits["temperature_high_alarm"] == 75.0


def test_a_short_dump_tells_its_lower_page_only() -> None:
    module = optic_eeprom.decode(eeprom(0x18, 256, {14: 40 * 256, 16: 33_000}))
    assert module is not None
    assert (module.temperature, module.receive, module.limits) == (40.0, {}, {})


def test_json_of_ethtool_is_read_like_its_text() -> None:
    told = {
        "identifier": 25, "vendor_sn": "SN7", "module_temperature": 41.5, "module_voltage": 3.3,
        "laser_tx_bias_current": [7.5, 7.0], "transmit_avg_optical_power": [1.0, 0.5],
        "rx_power": {"values": [0.1, 1.0], "type": "Rcvr signal avg optical power"},
    }  # fmt: skip
    module = optic_readings.read(json.dumps([told]))
    assert module is not None
    row_of = optic_readings.columns(module)
    assert row_of["rx_power_dbm"] == -10.0
    assert row_of["tx_power_dbm"] == pytest.approx(-3.0103)
    assert row_of["bias_milliamperes"] == 7.5
    assert module.serial == "SN7"


@pytest.mark.slow
@given(st.binary(max_size=800), st.sampled_from([0x0D, 0x11, 0x18, 0x19, 0x1E]))
def test_any_memory_gives_numbers_or_nothing(raw: bytes, identifier: int) -> None:
    module = optic_eeprom.decode(bytes([identifier]) + raw)
    assert module is None or all(math.isfinite(value) for value in optic_readings.columns(module).values())


@given(st.one_of(st.text(max_size=300), st.text(max_size=200).map(lambda text: f"\tIdentifier : 0x19\n\t{text}")))
def test_any_text_of_a_module_gives_numbers_or_nothing(text: str) -> None:
    module = optic_readings.read(text)
    assert module is None or all(math.isfinite(value) for value in optic_readings.columns(module).values())


JSONS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5
)
KEYS = st.sampled_from(["rx_power", "module_temperature", "laser_tx_bias_current", "transmit_avg_optical_power", "x"])


@given(st.dictionaries(KEYS, JSONS))
def test_any_json_of_a_module_gives_numbers_or_nothing(told: dict[str, object]) -> None:
    module = optic_readings.read(json.dumps([told | {"identifier": 25}]))
    assert module is not None
    assert all(math.isfinite(value) for value in optic_readings.columns(module).values())
