"""A second look at hard events: what it says of each, that it is in time, and that its evidence is bounded."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from collectors.agent import courier
from collectors.agent.agent import start
from collectors.agent.evidence import Evidence
from collectors.agent.second_look import SecondLook, last_messages
from collectors.agent.source import Collected, Host, Shared
from collectors.formats.events import event as made
from collectors.formats.second_look import confirmed, is_hard
from sickbay.log import wall_ms
from sickbay.messages import Event, Severity, replace
from sickbay.schema import Samples
from sickbay.settings import Agent, Config
from tests.collectors.agent_kit import XID, Gate, events, wait_for, write

NOW = 1_790_000_000_000
WIDE = {"current_link_width": "16", "max_link_width": "16"}
NARROW = {"current_link_width": "8", "max_link_width": "16"}
GONE = {"current_link_width": "63", "max_link_width": "255"}
SENSORS = {"card": 0, "values": {"power": 70_000}}
LOST = {"card": 0, "error": [15, "GPU is lost"]}


def hard(kind: str = "accelerator.off_bus", component: str = "accelerator:n1/0000:cb:00", **fields: Any) -> Event:
    return replace(made(kind, component, code="Xid 79", **fields), at_ms=NOW)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("device", "card", "stands"),
    [
        (None, None, "yes"), (None, SENSORS, "yes"), (GONE, None, "yes"), (WIDE, LOST, "yes"),
        (WIDE, SENSORS, "no"), (WIDE, None, "unknown"), (WIDE, {"card": 0, "values": {}}, "unknown"),
        (WIDE, {"card": 0, "error": [999, "Unknown Error"]}, "unknown"), ({}, None, "unknown"),
    ],
)  # fmt: skip
def test_a_card_is_gone_or_there_only_by_what_was_read_of_it(device: Any, card: Any, stands: str) -> None:
    assert confirmed(hard(), device, {}, {}, card)[0] == stands


@pytest.mark.parametrize(
    ("device", "above", "stands"),
    [
        (NARROW, {}, "yes"),
        (WIDE, {}, "no"),
        (WIDE, {"max_link_width": "8"}, "no"),
        (GONE, {}, "unknown"),
        (None, {}, "unknown"),
    ],
)
def test_a_width_is_held_against_what_both_ends_allow(device: Any, above: Any, stands: str) -> None:
    assert confirmed(hard("pcie.degraded", "pcie:n1/0000:cb:00.0"), device, above, {}, None)[0] == stands


@pytest.mark.parametrize(
    ("port", "stands"),
    [
        ({"state": "1: DOWN"}, "yes"), ({"state": "4: ACTIVE"}, "no"), ({"operstate": "down"}, "yes"),
        ({"operstate": "up"}, "no"), ({"state": "2: INIT"}, "yes"), ({}, "unknown"),
    ],
)  # fmt: skip
def test_a_link_is_down_or_up(port: Any, stands: str) -> None:
    assert confirmed(hard("port.down", "port:n1/mlx5_0/1"), None, {}, port, None)[0] == stands


@pytest.mark.parametrize(("action", "stands"), [(1, "yes"), (0, "no"), ("N/A", "unknown"), (None, "unknown")])
def test_a_recovery_action_is_what_the_driver_says_now(action: Any, stands: str) -> None:
    card = {"card": 0, "values": {"recovery_action": action}}
    assert confirmed(hard("accelerator.recovery_action"), WIDE, {}, {}, card)[0] == stands
    assert confirmed(hard("accelerator.recovery_action"), WIDE, {}, {}, None)[0] == "unknown"


def test_only_hard_events_of_own_hardware_of_now_are_looked_after() -> None:
    assert is_hard(hard(), "n1", NOW)
    assert is_hard(hard("accelerator.recovery_action"), "n1", NOW)
    assert not is_hard(hard(), "n2", NOW)
    assert not is_hard(hard(), "n1", NOW + 3_600_000)  # an old log
    assert not is_hard(hard("accelerator.program_error"), "n1", NOW)
    assert not is_hard(hard("job.node_failed", "job:4711", severity=Severity.FATAL), "n1", NOW)
    assert not is_hard(hard("monitor.error", "monitor:n1/x", severity=Severity.FATAL), "n1", NOW)
    assert not is_hard(hard("rank.collective_timeout", "rank:4711/3", severity=Severity.ERROR), "n1", NOW)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A card at 0000:cb:00 behind a port, and an InfiniBand port."""
    top = tmp_path / "root"
    device = top / "sys/devices/pci0000:c9/0000:c9:01.0/0000:cb:00.0"
    device.mkdir(parents=True)
    for file, text in (
        NARROW | {"class": "0x030200", "vendor": "0x10de", "current_link_speed": "32.0 GT/s PCIe"}
    ).items():
        (device / file).write_text(f"{text}\n")
    (device.parent / "max_link_width").write_text("16\n")
    (top / "sys/bus/pci/devices").mkdir(parents=True)
    (top / "sys/bus/pci/devices/0000:cb:00.0").symlink_to(device)
    port = top / "sys/class/infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    (port / "state").write_text("1: DOWN\n")
    (port / "counters/link_downed").write_text("3\n")
    (top / "var/log").mkdir(parents=True)
    (top / "var/log/kern.log").write_text("\n".join(f"line {number}" for number in range(20_000)) + "\n")
    return top


def looking(root: Path, **told: Any) -> SecondLook:
    agent = Agent(root=str(root), spool=str(root.parent / "spool"), kernel_log="var/log/kern.log", **told)
    return SecondLook(Host("n1", agent, shared=Shared()))


def told(collected: Collected) -> list[Event]:
    return [one.record for one in collected.seen if isinstance(one.record, Event)]


def test_the_bus_is_read_at_once_and_the_driver_is_heard_within_three_seconds(root: Path) -> None:
    source = looking(root)
    shared = source._host.shared
    shared.look_after(hard())
    first = source.collect(NOW)
    (samples,) = [one.record for one in first.seen if isinstance(one.record, Samples)]
    assert samples.component == ["accelerator:n1/0000:cb:00"]
    assert (samples.values["bus_width_lanes"][0], samples.values["bus_width_max_lanes"][0]) == (8.0, 16.0)
    assert (told(first), shared.reread_ms) == ([], NOW)
    shared.driver = (NOW + 700, [{"card": 3, "pci": "00000000:CB:00.0", "values": {"power": 70_000}}])
    reread, saved = told(source.collect(NOW + 800))
    assert (reread.kind, reread.code, reread.attributes["confirmed"]) == ("monitor.reread", "no", "no")
    assert reread.attributes["about"] == "accelerator:n1/0000:cb:00"
    assert (saved.kind, saved.component) == ("monitor.evidence_saved", "monitor:n1/second_look")
    bundle = Path(saved.attributes["path"])
    readings = json.loads((bundle / "readings.json").read_text())
    assert readings["device"]["current_link_width"] == "8"
    assert readings["driver"]["values"] == {"power": 70_000}
    assert readings["event"]["code"] == "Xid 79"
    kernel = (bundle / "kernel.txt").read_text()
    assert kernel.endswith("line 19999\n")
    assert len(kernel) <= 64 << 10
    assert bundle.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("hangs", ["", "a call of the driver hangs at card 0000:cb:00"])
def test_a_driver_that_says_nothing_is_waited_for_no_longer(root: Path, hangs: str) -> None:
    source = looking(root)
    source._host.shared.hangs = hangs
    source._host.shared.driver = (NOW - 500, [LOST | {"pci": "0000:cb:00.0"}])  # of before the event: says nothing
    source._host.shared.look_after(hard())
    assert told(source.collect(NOW)) == []
    assert told(source.collect(NOW + 1_900)) == []
    reread, saved = told(source.collect(NOW + 2_400))
    assert reread.attributes["confirmed"] == "unknown"
    assert json.loads((Path(saved.attributes["path"]) / "readings.json").read_text())["driver"] == (
        hangs or "no answer of the driver since"
    )


def test_without_driver_calls_nothing_is_waited_for(root: Path) -> None:
    source = looking(root, driver_calls=False)
    source._host.shared.look_after(hard())
    assert [one.kind for one in told(source.collect(NOW))] == ["monitor.reread", "monitor.evidence_saved"]


def test_a_port_is_read_with_its_counters(root: Path) -> None:
    source = looking(root)
    source._host.shared.look_after(hard("port.down", "port:n1/mlx5_0/1"))
    reread, saved = told(source.collect(NOW))
    assert (reread.attributes["confirmed"], reread.message) == ("yes", "port:n1/mlx5_0/1: the port's state is 1: DOWN")
    readings = json.loads((Path(saved.attributes["path"]) / "readings.json").read_text())
    assert readings["port"] == {"state": "1: DOWN", "counters/link_downed": "3"}


@pytest.mark.parametrize(
    ("event", "stands"),
    [
        (hard("nic.gone", "nic:n1/0000:cb:00.0"), "unknown"),  # the bus has it
        (hard("nic.gone", "nic:n1/0000:5e:00.0"), "yes"),
        (hard("nic.gone", "nic:n1/eth7"), "unknown"),  # wherever that was
        (hard(component="accelerator:n1/GPU-1234"), "unknown"),
    ],
)
def test_only_a_device_whose_place_is_known_is_gone_from_it(root: Path, event: Event, stands: str) -> None:
    source = looking(root, driver_calls=False)
    source._host.shared.look_after(event)
    assert told(source.collect(NOW))[0].attributes["confirmed"] == stands


def test_a_storm_is_looked_after_a_few_times_and_the_rest_is_counted(root: Path) -> None:
    source = looking(root)
    for number in range(30):
        source._host.shared.look_after(hard(component=f"accelerator:n1/0000:{number:02x}:00"))
        source._host.shared.look_after(hard(component=f"accelerator:n1/0000:{number:02x}:00"))
    assert source.collect(NOW).lost == 44
    assert len(told(source.collect(NOW + 2_400))) == 16
    for _ in range(200):
        source._host.shared.look_after(hard())  # more than wait in line: nothing grows
    source._host.shared.look_after(hard())


def test_no_evidence_is_kept_where_none_may_be(root: Path) -> None:
    source = looking(root, evidence_max_bytes=0)
    source._host.shared.look_after(hard("port.down", "port:n1/mlx5_0/1"))
    assert [one.kind for one in told(source.collect(NOW))] == ["monitor.reread"]
    assert not (root.parent / "spool-evidence").exists()


def test_evidence_that_cannot_be_kept_is_a_trouble_and_the_look_is_told(root: Path) -> None:
    (root.parent / "spool-evidence").write_text("a file in its place")
    source = looking(root)
    source._host.shared.look_after(hard("port.down", "port:n1/mlx5_0/1"))
    collected = source.collect(NOW)
    assert [one.kind for one in told(collected)] == ["monitor.reread"]
    assert collected.problem.startswith("evidence cannot be kept")


def test_the_oldest_bundles_are_given_up_first(tmp_path: Path) -> None:
    evidence = Evidence(tmp_path / "evidence", 10_000)
    paths = [evidence.save(f"event {number}", NOW + number, {"readings.json": b"x" * 3_000}) for number in range(6)]
    assert [path.exists() for path in paths if path] == [False, False, False, True, True, True]
    assert evidence.size == 9_000
    assert evidence.save("large", NOW + 10, {"a": b"x" * 20_000}) is None
    assert evidence.save("../../strange\x00name/", NOW + 11, {"../a b": b"y"}).parent == tmp_path / "evidence"  # type: ignore[union-attr]
    assert [one.name for one in tmp_path.iterdir()] == ["evidence"]


@pytest.mark.parametrize("place", ["missing", "folder", "fifo"])
def test_the_kernels_last_messages_are_empty_where_there_are_none(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    if place == "folder":
        path.mkdir()
    elif place == "fifo":
        os.mkfifo(path)
    assert last_messages(path, 1_000) == b""


@pytest.mark.slow
def test_the_whole_agent_looks_again_within_three_seconds_of_its_own_event(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "RETRY_S", (0.05, 0.1))
    told = Agent(
        host="n1", root=str(root), spool=str(tmp_path / "spool"), kernel_log="var/log/kern.log", driver_calls=False,
        collectors=("kernel_log", "second_look"),
    )  # fmt: skip
    gate = Gate()
    agent = start(Config(agent=told), gate.connect)
    try:
        wait_for(lambda: agent.step(wall_ms(), 0.05) or True)
        time.sleep(0.5)
        began = time.monotonic()
        write(root / "var/log/kern.log", f"[912344.1] {XID}\n")
        wait_for(lambda: (agent.step(wall_ms(), 0.02), events(gate.log, "monitor.evidence_saved"))[1], 5.0)
        assert time.monotonic() - began < 3.0
        (reread,) = events(gate.log, "monitor.reread")
        assert (reread.attributes["about"], reread.attributes["confirmed"]) == ("accelerator:n1/0000:cb:00", "unknown")
    finally:
        agent.close()
