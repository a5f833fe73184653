"""Tools of the host: what each tells, what its absence is, and that none is asked where no driver may be called."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.agent.catalogue import CATALOGUE, sources_of
from collectors.agent.composing import Composer, Work
from collectors.agent.source import Collected, Host
from collectors.agent.states import State
from collectors.formats import link_readings, management_sensors
from collectors.formats.nvml_answers import Cards
from collectors.host import accelerator_nvml, tool
from collectors.host.child import Child, Line
from collectors.host.disk_health import DiskHealth
from collectors.host.host_management import HostManagement
from collectors.host.host_versions import HostVersions
from collectors.host.nic_sysfs import NicSysfs
from collectors.host.optic_mlxlink import MISSING, OpticMlxlink
from sickbay.messages import Change, Event, Identity, Severity
from sickbay.schema import Samples
from sickbay.settings import Agent
from tests.collectors.recorded import RecordedLibrary, answers, lay_out
from tests.collectors.test_agent_host_sources import LISTING

NOW = 1_790_000_000_000
SENSORS = """\
CPU1 Temp        | 01h | ok  |  3.1 | 54 degrees C
Inlet Temp       | 04h | ok  |  7.1 | 23 degrees C
Exhaust Temp     | 05h | ns  |  7.1 | No Reading
FAN1             | 41h | ok  | 29.1 | 9100 RPM
FAN2             | 42h | {fan} | 29.2 | {rpm} RPM
Pwr Consumption  | 77h | ok  |  7.1 | 5230 Watts
PS1 Status       | C8h | ok  | 10.1 | Presence detected
PS2 Status       | C9h | ok  | 10.2 | {supply}
Intrusion        | 73h | ok  |  7.1 |
nonsense | zz
"""
WELL = SENSORS.format(fan="ok ", rpm=9000, supply="Presence detected")
BAD = SENSORS.format(fan="cr ", rpm=0, supply="Presence detected, Power Supply AC lost")


def host(root: Path, **told: Any) -> Host:
    return Host("n1", Agent(root=str(root), **told))


def records(told: Collected) -> list[Any]:
    return [one.record for one in told.seen]


def row(told: Collected, table: str) -> dict[str, float]:
    found = [one for one in records(told) if isinstance(one, Samples) and one.table == table]
    return {key: float(values[0]) for one in found for key, values in one.values.items()}


def always(answer: str | Exception) -> Callable[[Sequence[str], float], bytes]:
    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        if isinstance(answer, Exception):
            raise answer
        return answer.encode()

    return ask


# --- the management controller


@pytest.fixture
def controller(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/ipmi0").touch()
    return tmp_path


def test_air_and_power_are_columns_and_what_fails_is_told_once(controller: Path) -> None:
    source = HostManagement(host(controller), always(WELL))
    told = source.collect(NOW)
    assert row(told, "host") == {"inlet_temperature_celsius": 23.0, "power_watts": 5230.0}
    assert [one for one in records(told) if isinstance(one, Event)] == []
    source._ask = always(BAD)
    found = [one for one in records(source.collect(NOW)) if isinstance(one, Event)]
    assert [(one.kind, one.component, one.code, one.attributes["sensor"]) for one in found] == [
        ("host.environment", "host:n1", "beyond its critical limit", "FAN2"),
        ("host.power_event", "host:n1", "AC lost", "PS2 Status"),
    ]
    assert [one for one in records(source.collect(NOW)) if isinstance(one, Event)] == []
    source._ask = always(WELL)
    back = [one for one in records(source.collect(NOW)) if isinstance(one, Event)]
    assert [(one.kind, one.code, one.severity) for one in back] == [
        ("host.environment", "well again", Severity.INFO), ("host.power_event", "well again", Severity.INFO),
    ]  # fmt: skip


def test_a_sensor_without_a_reading_says_nothing() -> None:
    sensors = management_sensors.read(
        "Inlet Temp | 04h | ns | 7.1 | No Reading\nInlet Temp | 05h | ok | 7.1 | Disabled\n"
    )
    assert management_sensors.columns(sensors) == {}
    assert [*management_sensors.Sensors("n1").events(sensors)] == []


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (tool.ToolMissing("ipmitool is not installed"), "absent"),
        (tool.ToolFailed("Could not open device at /dev/ipmi0: Permission denied"), "absent"),
        (tool.ToolFailed("ipmitool sdr elist: no whole answer within 20 s"), "blind"),
    ],
)
def test_a_controller_that_cannot_be_asked_is_one_clear_state(controller: Path, error: Exception, state: str) -> None:
    told = HostManagement(host(controller), always(error)).collect(NOW)
    assert (bool(told.problem), bool(told.absent)) == (state == "blind", state == "absent")


def test_a_host_without_a_controller_is_asked_nothing(tmp_path: Path) -> None:
    assert HostManagement(host(tmp_path), always(AssertionError())).collect(NOW).absent.startswith("no management")


# --- error ratios of ports

LINK = """{"status": {"code": 0}, "result": {"output": {
 "Operational Info": {"State": "Active", "Physical state": "LinkUp", "Speed": "NDR", "Width": "4x"},
 "Physical Counters and BER Info": {"Time Since Last Clear [Min]": "912.4", "Raw Physical BER": "%s",
  "Effective Physical BER": "15E-255", "Symbol Errors": "0", "Raw Errors Per Lane": {"values": ["7", "9"]}},
 "Module Info": {"Temperature [C]": "41 [-10..80]", "Voltage [mV]": "3276.8 [3135..3465]",
  "Cable Type": "Optical Module (separated)",
  "Bias Current [mA]": "7.5,7.4 [6..9]",
  "Rx Power Current [dBm]": ["-0.5", "-1.5"], "Tx Power Current [dBm]": "0.1,0.2 [-3..4]",
  "Vendor Serial Number": "MT1", "Vendor Part Number": "OS-400"}}}}"""


def fabric(root: Path, *, interface: bool) -> Path:
    """An InfiniBand port of an adapter of the driver that the tool knows."""
    device = root / "sys/class/infiniband/mlx5_0"
    (device / "ports/1").mkdir(parents=True)
    (device / "ports/1/link_layer").write_text("InfiniBand\n")
    (device / "device").mkdir()
    (root / "sys/bus/pci/drivers/mlx5_core").mkdir(parents=True)
    (device / "device/driver").symlink_to(root / "sys/bus/pci/drivers/mlx5_core")
    if interface:
        (device / "device/net/ib0").mkdir(parents=True)
    return root


def test_a_port_tells_its_error_ratio_and_what_no_other_tool_reads(tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []

    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        asked.append(command)
        return (LINK % "3E-9").encode()

    alone = OpticMlxlink(host(fabric(tmp_path, interface=False)), ask)
    told = alone.collect(NOW)
    assert row(told, "optic") == {
        "errors_before_correction_ratio": 3e-9, "rx_power_dbm": -1.5, "tx_power_dbm": 0.1, "bias_milliamperes": 7.5,
        "temperature_celsius": 41.0, "supply_volts": 3.2768, "temperature_alarm_celsius": 80.0,
    }  # fmt: skip
    assert [one.serial for one in records(told) if isinstance(one, Identity)] == ["MT1"]
    assert alone.collect(NOW + 1_000).seen == ()
    assert asked == [("mlxlink", "-d", "mlx5_0", "-p", "1", "-m", "-c", "--json")]


def test_a_module_that_another_tool_reads_is_not_told_twice(tmp_path: Path) -> None:
    told = OpticMlxlink(host(fabric(tmp_path, interface=True)), always(LINK % "15E-255")).collect(NOW)
    assert row(told, "optic") == {"errors_before_correction_ratio": 0.0}
    assert [one for one in records(told) if isinstance(one, Identity)] == []


def test_a_tool_that_is_not_there_is_absence_and_one_that_falls_silent_is_blindness(tmp_path: Path) -> None:
    source = OpticMlxlink(host(fabric(tmp_path, interface=True)), always(tool.ToolMissing("mlxlink is not installed")))
    told = source.collect(NOW)
    assert (told.absent, told.problem) == (MISSING, "")
    source.ask = always(LINK % "3E-9")
    assert source.collect(NOW + 60_000).seen
    source.ask = always(tool.ToolFailed("mlxlink: device is busy"))
    assert source.collect(NOW + 120_000).problem == "mlxlink: device is busy"


@pytest.mark.parametrize(
    "said",
    [
        tool.ToolFailed("mlxlink -d mlx5_0: -E- Permission denied"),
        tool.ToolFailed("mlxlink: Failed to open device: mlx5_0"),
        '{"status": {"code": 1, "message": "Permission denied"}}',
    ],
)
def test_a_missing_right_is_blindness_from_the_first_answer_on(tmp_path: Path, said: Exception | str) -> None:
    told = OpticMlxlink(host(fabric(tmp_path, interface=True)), always(said)).collect(NOW)
    assert told.problem
    assert "as root" in State("optic_mlxlink", "blind", told.problem).help


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("netlink error: Operation not permitted", True), ("You must be root", True), ("This requires root", True),
        ("Could not open device at /dev/ipmi0 or /dev/ipmi/0", True), ("EACCES: insufficient permissions", True),
        ("Operation not supported", False), ("No such device", False), ("root hub: no module", False),
    ],
)  # fmt: skip
def test_tools_say_in_many_ways_that_a_right_is_missing(words: str, refused: bool) -> None:
    assert tool.is_refused(tool.ToolFailed(words)) is refused


def test_a_tool_that_complains_where_its_answer_should_be_is_heard() -> None:
    with pytest.raises(tool.ToolFailed, match="Permission denied"):
        tool.ask(("sh", "-c", "echo Permission denied; exit 1"), 5.0)


@pytest.mark.parametrize(
    ("ratio", "told"), [("N/A", None), ("1.5e-254", 0.0), ("2E-5", 2e-5), ("7", None), ("9E9", None), ("x" * 999, None)]
)
def test_ratios_are_numbers_or_missing(ratio: str, told: float | None) -> None:
    assert link_readings.read((LINK % ratio).encode())[0].get("errors_before_correction_ratio") == told


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"result": 7}', b'{"result": {"output": {"a": {"Temperature [C]": {}}}}}']
)
def test_answers_that_are_none_tell_nothing(raw: bytes) -> None:
    assert link_readings.read(raw)[0] == {}


# --- health logs of disks


def test_a_disk_tells_its_health_and_its_absence_is_no_blindness(tmp_path: Path) -> None:
    assert DiskHealth(host(tmp_path), always("")).collect(NOW).absent == "no NVMe disk"
    (tmp_path / "sys/class/nvme/nvme0").mkdir(parents=True)
    (event,) = records(DiskHealth(host(tmp_path), always('{"critical_warning": 8}')).collect(NOW))
    assert (event.kind, event.component) == ("disk.failed", "disk:?/nvme0")
    missing = DiskHealth(host(tmp_path), always(tool.ToolMissing("nvme is not installed"))).collect(NOW)
    refused = DiskHealth(host(tmp_path), always(tool.ToolFailed("nvme: Permission denied"))).collect(NOW)
    assert (missing.problem, refused.problem) == ("", "")
    assert "nvme-cli" in missing.absent
    assert "CAP_SYS_ADMIN" in refused.absent
    silent = DiskHealth(host(tmp_path), always(tool.ToolFailed("no whole answer within 3 s"))).collect(NOW)
    assert silent.problem == "nvme0: no whole answer within 3 s"


# --- adapters of other makers


def test_counters_of_every_family_of_adapters_are_read_and_their_gauges_are_not(tmp_path: Path) -> None:
    families = {
        "bnxt_re0": {
            "to_retransmits": 5, "seq_err_naks_rcvd": 9, "max_retry_exceeded": 2, "rx_roce_discards": 3,
            "active_qps": 77, "recoverable_errors": 4_000, "rx_bytes": 1000,
        },
        "irdma0": {"RetransSegs": 4, "RxECNMrkd": 6, "ip4InDiscards": 7, "RNR sent": 8, "cnpHandled": 1},
        "rdmap0s6": {"rx_bytes": 500, "tx_bytes": 600, "rx_drops": 2, "no_completion_cmds": 0, "lifespan": 12},
    }  # fmt: skip
    for device, counters in families.items():
        folder = tmp_path / f"sys/class/infiniband/{device}/ports/1/hw_counters"
        folder.mkdir(parents=True)
        for counter, value in counters.items():
            (folder / counter).write_text(f"{value}\n")
    told = NicSysfs(host(tmp_path)).collect(NOW)
    (samples,) = [one for one in records(told) if isinstance(one, Samples)]
    found = {
        name: {key: values[at] for key, values in samples.values.items() if values[at] == values[at]}
        for at, name in enumerate(samples.component)
    }
    assert found == {
        "port:?/bnxt_re0/1": {
            "retransmits_total": 9,
            "retries_exceeded_total": 2,
            "rx_discards_total": 3,
            "rx_bytes_total": 1000,
        },
        "port:?/irdma0/1": {"retransmits_total": 4, "congestion_marked_total": 6, "rx_discards_total": 7},
        "port:?/rdmap0s6/1": {"rx_bytes_total": 500, "tx_bytes_total": 600, "rx_discards_total": 2},
    }


# --- packages where rpm keeps the list


def test_a_package_that_rpm_lists_is_told_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "var/lib/rpm").mkdir(parents=True)
    database = tmp_path / "var/lib/rpm/rpmdb.sqlite"
    database.touch()
    listed = "nvidia-driver 570.86-1\nkernel-core 5.14.0-503\nkernel-core 5.14.0-427\nvim-minimal 8.2-1\n"
    first = HostVersions(host(tmp_path), always(listed)).collect(NOW)
    after = Host("n1", Agent(root=str(tmp_path)), places=lambda source: first.place)
    again = HostVersions(after, always(listed.replace("570.86", "570.99").replace("kernel-core 5.14.0-427\n", "")))
    told = [one for one in records(again.collect(NOW + 60_000)) if isinstance(one, Change)]
    assert [(one.what, one.old, one.new) for one in told] == [
        ("package kernel-core", "5.14.0-427, 5.14.0-503", "5.14.0-503"),
        ("package nvidia-driver", "570.86-1", "570.99-1"),
    ]
    refused = HostVersions(host(tmp_path), always(tool.ToolFailed("rpm: no whole answer within 3 s"))).collect(NOW)
    assert refused.problem == "rpm: no whole answer within 3 s"


# --- one switch for "no driver calls at all"

CALLING = {
    "accelerator_amd_smi", "accelerator_nvml", "disk_health", "host_management",
    "host_management_log", "optic_ethtool", "optic_mlxlink",
}  # fmt: skip


def test_every_collector_says_whether_it_calls_a_driver(tmp_path: Path) -> None:
    everything = {
        "exporters": ("http://127.0.0.1:9400/metrics",), "job_logs": ("*.out",), "steps_socket": "run/steps.sock",
        "collective_status": ("127.0.0.1:28028",), "flight_recorders": ("dumps/*",),
    }  # fmt: skip
    made, left = sources_of(host(tmp_path, **everything))
    assert {one.name for one in made} >= CATALOGUE.keys() - {one.source for one in left}
    assert {one.name for one in made if one.asks_driver} == CALLING
    quiet, off = sources_of(host(tmp_path, driver_calls=False, **everything))
    assert {one.name for one in quiet} == {one.name for one in made} - CALLING
    assert {one.source for one in off if one.word == "off"} == CALLING


@pytest.mark.slow
def test_without_driver_calls_no_tool_is_asked_and_no_process_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = lay_out(LISTING, tmp_path / "root")
    (root / "dev/ipmi0").touch()
    asked: list[str] = []
    begun: list[str] = []

    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        asked.append(command[0])
        return answers("")(command, timeout_s)

    def began(self: Child, question: str, timeout_s: float) -> tuple[list[Line], bool]:
        begun.append(question)
        return [], False

    monkeypatch.setattr(tool, "ask", ask)
    monkeypatch.setattr(Child, "ask", began)
    for calls in (False, True):
        made, _ = sources_of(host(root, driver_calls=calls, journal=False))
        for now_ms in range(NOW, NOW + 90_000, 5_000):
            for one in made:
                one.collect(now_ms)
        for one in made:
            one.close()
        if not calls:
            assert (asked, begun) == ([], [])
    assert begun
    assert {"ethtool", "nvme", "ipmitool", "mlxlink"} <= set(asked)


# --- states and what to do


@pytest.mark.parametrize(
    ("state", "help"),
    [
        (State("kernel_log", "blind", "/dev/kmsg: Operation not permitted"), "CAP_SYSLOG"),
        (State("accelerator_exporter_1", "blind", "http://127.0.0.1:9400: Connection refused"), "start the exporter"),
        (
            State("accelerator_bus", "blind", "8 accelerators, and no exporter is set in [agent] exporters"),
            "[agent] exporters",
        ),
        (State("optic_ethtool", "blind", "ethtool is not installed"), "install ethtool"),
        (State("host_storage", "hangs", "a collection takes over 4 s"), "does not answer"),
        (State("accelerator_exporter", "blind", "http://h: no whole answer within 3 s"), "by hand"),
        (State("accelerator_exporter", "blind", "http://h: values of 90 s ago: it no longer asks"), "log"),
        (State("accelerator_nvml", "blind", "the driver tells of 7 of its 8 cards on the bus"), "lspci"),
        (State("job_ras_1", "blind", "foo: [agent] collective_status: write host:port, such as 127.0.0.1:28028"), ""),
        (State("job_ras", "blind", "127.0.0.1:1: what answers is no status service"), "collective_status"),
        (State("second_look", "blind", "evidence cannot be kept: No space left on device"), "evidence_max_bytes"),
        (State("host_management", "blind", "ipmitool sdr elist: prints more than 1024 KiB"), "by hand"),
        (State("nic_sysfs", "ok"), ""),
        (State("disk_health", "absent", "no NVMe disk"), ""),
    ],
)
def test_a_state_says_what_to_do(state: State, help: str) -> None:
    assert help in state.help
    assert bool(help) == bool(state.help)


def test_a_tool_that_cannot_be_ended_is_not_asked_again() -> None:
    process = subprocess.Popen(["sleep", "60"])
    asked: list[Sequence[str]] = []

    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        asked.append(command)
        raise tool.ToolHangs("no whole answer within 3 s", process)

    careful = tool.Careful(ask)
    try:
        with pytest.raises(tool.ToolFailed, match="no whole answer"):
            careful(("amd-smi", "list"), 3.0)
        with pytest.raises(tool.ToolFailed, match="hangs and cannot be ended"):
            careful(("amd-smi", "metric"), 3.0)
        assert len(asked) == 1
    finally:
        process.kill()
        process.wait(5)
    with pytest.raises(tool.ToolFailed, match="no whole answer"):
        careful(("amd-smi", "list"), 3.0)
    assert len(asked) == 2


ROWS = st.from_regex(r"[A-Z][a-z 0-9]{1,12}\| C8h \| (ok|cr|ns) \| 1\.1 \| .{0,40}", fullmatch=True)


@given(st.text(max_size=400) | ROWS)
def test_no_answer_of_a_controller_raises_or_invents(text: str) -> None:
    sensors = management_sensors.read(text)
    management_sensors.columns(sensors)
    assert all(one.component == "host:n1" for one in management_sensors.Sensors("n1").events(sensors))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
KEYS = st.sampled_from(["card", "pci", "values", "failed", "error", "power", "recovery_action", "nvlink.sent_kib"])


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON, max_size=4), max_size=6), max_size=6))
def test_no_answer_of_a_driver_raises_or_invents(lines: list[dict[str, Any]]) -> None:
    cards = Cards()
    for now_ms in (1_000, 2_000):
        told, _ = cards.read(lines, now_ms)
        for one in told:
            if isinstance(one, Samples):
                assert all(bool(((values == values) & (values < 0)).sum() == 0) for values in one.values.values())


def of_port(told: object) -> bytes:
    return msgspec.json.encode({"result": {"output": {"a": {"Temperature [C]": str(told), "Raw Physical BER": told}}}})


@given(st.binary(max_size=300) | JSON.map(of_port))
def test_no_answer_about_a_port_raises(raw: bytes) -> None:
    link_readings.read(raw)


@pytest.mark.parametrize(("recorded", "blind"), [("plain", ""), ("eight-accelerators", "ethtool is not installed")])
def test_what_is_absent_keeps_no_agent_from_being_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: str, blind: str
) -> None:
    monkeypatch.setattr(tool, "ask", always(tool.ToolMissing("ethtool is not installed")))
    monkeypatch.setattr(accelerator_nvml, "child", lambda: RecordedLibrary('{"card": 0, "pci": "0000:1b:00.0"}'))
    listing = (Path(__file__).parent / "hosts" / recorded / "root.txt").read_text(encoding="utf-8")
    composer, work = Composer("n1", 5.0), Work()
    made, _ = sources_of(host(lay_out(listing, tmp_path)))
    for source in made:
        composer.take(source.name, source.collect(NOW), NOW, work)
        source.close()
    assert composer.blind.trouble == (f"optic_ethtool: {blind}" if blind else "")
