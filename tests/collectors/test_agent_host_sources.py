"""Collectors of a host's own files: missing is nothing, unreadable is told, nothing hangs others."""

import os
import queue
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from collectors.agent.agent import start
from collectors.agent.catalogue import CATALOGUE, collectors_of
from collectors.agent.composing import Composer, Work
from collectors.agent.source import Collected, Collector, Host
from collectors.agent.watching import Crew, Done
from collectors.host import tool
from collectors.host.host_disk import HostDisk
from collectors.host.host_load import HostLoad
from collectors.host.host_memory_errors import HostMemoryErrors
from collectors.host.host_pcie import HostPcie
from collectors.host.host_storage import HostStorage
from collectors.host.host_versions import HostVersions
from collectors.host.nic_sysfs import NicSysfs
from collectors.host.optic_ethtool import OpticEthtool
from sickbay import wire
from sickbay.config import ConfigError
from sickbay.layouts import Schemas
from sickbay.layouts import decoded as layout
from sickbay.log import wall_ms
from sickbay.messages import Change, Event, Identity, decode
from sickbay.schema import Samples
from sickbay.settings import Agent, Config
from sickbay.topics import CHANGES, SCHEMAS, TELEMETRY
from tests.collectors.agent_kit import Gate, wait_for
from tests.collectors.agent_kit import records as records_of
from tests.collectors.recorded import answers, lay_out

RECORDED = Path(__file__).parent / "hosts" / "eight-accelerators"
LISTING = (RECORDED / "root.txt").read_text(encoding="utf-8")
FILES = sorted(line.partition(": ")[0] for line in LISTING.splitlines() if ": " in line)
SOURCES = (
    HostDisk, HostLoad, HostMemoryErrors, HostPcie, HostStorage, HostVersions, NicSysfs, OpticEthtool,
)  # fmt: skip
EIO = "/proc/self/mem"  # reading its beginning fails, also for root


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "ask", answers((RECORDED / "tools.txt").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded host that tests leave as it is."""
    return lay_out(LISTING, tmp_path_factory.mktemp("host"))


def host(root: Path) -> Host:
    return Host("n7", Agent(root=str(root)))


def made(root: Path) -> list[Collector]:
    """All collectors of the host's own files."""
    return [one for make in SOURCES for one in _collectors(make.__module__, root)]


def _collectors(module: str, root: Path) -> Sequence[Collector]:
    return __import__(module, fromlist=["collectors"]).collectors(host(root))  # type: ignore[no-any-return]


def records(collected: Collected) -> Iterator[object]:
    return (seen.record for seen in collected.seen)


def columns(collected: Collected, table: str, component: str) -> dict[str, float]:
    """What one collection tells of a component."""
    found: dict[str, float] = {}
    for one in records(collected):
        if isinstance(one, Samples) and one.table == table and component in one.component:
            row = one.component.index(component)
            found |= {name: float(values[row]) for name, values in one.values.items() if values[row] == values[row]}
    return found


def test_all_are_in_the_catalogue() -> None:
    assert {f"{one.__module__}:collectors" for one in SOURCES} <= set(CATALOGUE.values())


def test_a_host_without_files_tells_nothing(tmp_path: Path) -> None:
    for source in made(tmp_path):
        assert [(one.seen, one.problem) for one in (source.collect(1_000), source.collect(90_000))] == [([], "")] * 2


@pytest.mark.parametrize(
    ("make", "file"),
    [
        (HostDisk, "sys/class/nvme/nvme0/state"),
        (HostLoad, "proc/loadavg"),
        (HostMemoryErrors, "sys/devices/system/edac/mc/mc0/ue_count"),
        (HostPcie, "sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0/current_link_width"),
        (HostStorage, "proc/self/mountstats"),
        (HostVersions, "var/lib/dpkg/status"),
        (NicSysfs, "sys/class/infiniband/mlx5_2/ports/1/counters/symbol_error"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_stated_trouble_until_it_can(
    make: type[Collector], file: str, tmp_path: Path
) -> None:
    source = next(one for one in made(lay_out(LISTING, tmp_path)) if isinstance(one, make))
    assert source.collect(1_000).problem == ""
    kept = (tmp_path / file).rename(tmp_path / "kept")
    (tmp_path / file).symlink_to(EIO)
    problem = source.collect(100_000).problem
    assert file.rpartition("/")[2] in problem
    assert "error" in problem
    (tmp_path / file).unlink()
    kept.rename(tmp_path / file)
    assert source.collect(200_000).problem == ""


@pytest.mark.slow
@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(FILES), raw=st.one_of(st.binary(max_size=200), st.just(b"9" * 5000), st.just(b"-1")))
def test_any_bytes_in_any_file_are_survived(file: str, raw: bytes, tree: Path) -> None:
    place = tree / file
    before = place.read_bytes()
    place.write_bytes(raw)
    try:
        for source in made(tree):
            for now_ms in (1_000, 40_000):
                for record in records(source.collect(now_ms)):
                    assert not isinstance(record, Event) or record.severity.value != "fatal" or file.endswith("/state")
    finally:
        place.write_bytes(before)


def test_names_of_one_adapter_are_joined(tree: Path) -> None:
    told = [one for one in records(NicSysfs(host(tree)).collect(1_000)) if isinstance(one, Identity)]
    joined = {one.index: (one.name, one.pci) for one in told if one.index}
    for device, port, pair in (
        ("mlx5_0", "mlx5_0/1", ("ib0", "0000:1a:00.0")),
        ("mlx5_8", "mlx5_8/1", ("ens108np0", "0000:82:00.0")),
    ):
        assert joined[device] == joined[port] == pair
    assert {one.name for one in told if not one.index} == set()  # eno1 and eno2 have one address: it names neither


def test_each_link_is_told_up_under_one_name(tree: Path) -> None:
    told = NicSysfs(host(tree)).collect(1_000)
    assert columns(told, "port", "port:?/mlx5_0/1")["up"] == 1.0
    assert columns(told, "port", "port:?/mlx5_8/1")["up"] == 1.0  # its interface tells it
    assert columns(told, "port", "port:?/mlx5_8/1")["retransmits_total"] == 7.0
    assert "up" not in columns(told, "port", "port:?/eno2")  # a person closed it
    for other in ("ib0", "lo", "docker0", "ens108np0"):
        assert columns(told, "port", f"port:?/{other}") == {}


def test_a_device_of_a_guest_is_no_port(tmp_path: Path) -> None:
    lay_out(LISTING, tmp_path)
    (tmp_path / "sys/devices/pci0000:80/0000:80:01.0/0000:82:00.0/physfn").symlink_to("../0000:82:00.1")
    told = NicSysfs(host(tmp_path)).collect(1_000)
    assert columns(told, "port", "port:?/ens108np0") == columns(told, "port", "port:?/mlx5_8/1") == {}


def test_ports_that_come_and_go_are_followed(tmp_path: Path) -> None:
    lay_out(LISTING, tmp_path)
    source = NicSysfs(host(tmp_path))
    source.collect(1_000)
    (tmp_path / "sys/class/infiniband/mlx5_1").rename(tmp_path / "gone")
    assert columns(source.collect(2_000), "port", "port:?/mlx5_1/1") == {}
    (tmp_path / "gone").rename(tmp_path / "sys/class/infiniband/mlx5_1")
    assert columns(source.collect(40_000), "port", "port:?/mlx5_1/1")["up"] == 1.0


def test_a_narrow_accelerator_is_measured_and_a_narrow_adapter_told(tree: Path) -> None:
    told = HostPcie(host(tree)).collect(1_000)
    narrow = columns(told, "accelerator", "accelerator:?/0000:c3:00")
    assert (narrow["bus_width_lanes"], narrow["bus_width_max_lanes"]) == (8.0, 16.0)
    kinds = {one.component: one.attributes["device"] for one in records(told) if isinstance(one, Event)}
    assert kinds == {"pcie:?/0000:31:00.0": "nic", "pcie:?/0000:cc:00.0": "nic"}


def test_only_fabric_ports_are_asked_one_at_a_time(tree: Path) -> None:
    asked: list[str] = []

    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        asked.append(" ".join(command[1:]))
        return b""

    source = OpticEthtool(host(tree), ask)
    for now_ms in range(0, 60_000, 1_000):
        before = len(asked)
        source.collect(now_ms)
        assert len(asked) <= before + 1
    assert sorted(one for one in asked if one.startswith("-m")) == ["-m ens108np0", *(f"-m ib{n}" for n in range(8))]
    assert asked.count("-S ens108np0") == 2
    assert not any("eno" in one for one in asked)


def test_a_missing_tool_and_a_module_that_falls_silent_are_troubles(tree: Path) -> None:
    replies: dict[str, Exception | bytes] = {}

    def ask(command: Sequence[str], timeout_s: float) -> bytes:
        reply = replies.get(command[1], tool.ToolMissing("ethtool is not installed"))
        if isinstance(reply, Exception):
            raise reply
        return reply

    source = OpticEthtool(host(tree), ask)
    assert source.collect(0).problem == "ethtool is not installed"
    replies["-m"] = replies["-S"] = tool.ToolFailed("Input/output error")
    assert {source.collect(now_ms).problem for now_ms in range(60_000, 130_000, 1_000)} == {""}  # empty cages
    replies["-m"] = replies["-S"] = b""
    assert {source.collect(now_ms).problem for now_ms in range(130_000, 200_000, 1_000)} == {""}
    replies["-m"] = tool.ToolFailed("Input/output error")
    assert "Input/output error" in [source.collect(now_ms) for now_ms in range(200_000, 265_000, 1_000)][-1].problem


def test_a_change_is_told_after_a_restart_and_reaches_its_topic(tmp_path: Path) -> None:
    lay_out(LISTING, tmp_path)
    first = HostVersions(host(tmp_path)).collect(1_789_999_000_000)
    assert (first.seen, first.problem) == ([], "")
    (tmp_path / "sys/module/nvidia/version").write_text("570.1\n")
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("another\n")
    again = HostVersions(Host("n7", Agent(root=str(tmp_path)), places=lambda source: first.place))
    composer, work = Composer("n7", 5.0), Work()
    composer.take("host_versions", again.collect(1_790_000_000_000), 1_790_000_000_000, work)
    told = [decode(draft.build(1, 1)) for draft in work.drafts if draft.topic == CHANGES]
    assert all(isinstance(one, Change) and one.target == "host:n7" for one in told)
    assert [(one.what, one.new, one.at_ms) for one in told if isinstance(one, Change)] == [
        ("boot", "another", 1_789_990_000_000),
        ("driver nvidia", "570.1", 1_789_990_000_000),
    ]
    assert {draft.key for draft in work.drafts} == {b"host:n7"}


@pytest.mark.slow
def test_a_file_that_hangs_holds_up_its_own_collector_only(tmp_path: Path) -> None:
    lay_out(LISTING, tmp_path)
    (tmp_path / "proc/self/mountstats").unlink()
    os.mkfifo(tmp_path / "proc/self/mountstats")
    out: queue.Queue[Done] = queue.Queue(64)
    crew = Crew(made(tmp_path), out, lambda: 1_000, 0.3)
    try:
        hanging = wait_for(lambda: [crew.relieve()] and [one for one in crew.watches if one.trouble])
        assert [one.collector.name for one in hanging] == ["host_storage"]
        told = set[str]()

        def others() -> bool:
            told.update(done.source for done in (out.get_nowait() for _ in range(out.qsize())))
            crew.relieve()
            return {"host_load", "nic_sysfs"} <= told

        wait_for(others, 2.0)
    finally:
        with (tmp_path / "proc/self/mountstats").open("w"):  # lets the reader go
            pass
        assert crew.end(5.0) == []


@pytest.mark.slow
def test_what_the_whole_agent_sees_and_what_changed_while_it_was_off_reach_the_log(tmp_path: Path) -> None:
    root = lay_out(LISTING, tmp_path / "root")
    told = Agent(host="n7", root=str(root), spool=str(tmp_path / "spool"), frame_s=0.5, sample_s=0.2)
    gate = Gate()

    def run(until: Callable[[], object]) -> None:
        agent = start(Config(agent=told), gate.connect)
        try:
            wait_for(lambda: agent.step(wall_ms(), 0.05) is None or until(), 20.0)
        finally:
            agent.close()

    run(lambda: {"port", "host", "accelerator", "filesystem"} <= {table for table, _ in tables(gate)})
    assert ("port", "port:n7/mlx5_0/1") in tables(gate)
    assert records_of(gate.log, CHANGES) == []
    (root / "sys/class/infiniband/mlx5_0/fw_ver").write_text("28.42.1000\n", encoding="ascii")
    run(lambda: records_of(gate.log, CHANGES))
    (change,) = [decode(record.value or b"") for record in records_of(gate.log, CHANGES)]
    assert isinstance(change, Change)
    assert (change.target, change.what, change.old, change.new) == (
        "host:n7", "firmware mlx5_0", "28.39.1002", "28.42.1000",
    )  # fmt: skip


def tables(gate: Gate) -> set[tuple[str, str]]:
    """(table, component) of all frames in the log."""
    schemas = Schemas()
    for record in records_of(gate.log, SCHEMAS):
        schemas.learn(layout(record.value or b""))
    frames = [wire.decode(record.value or b"", schemas) for record in records_of(gate.log, TELEMETRY)]
    return {(one.layout.table, name) for frame in frames for one in frame.tables for name in one.names}


def test_the_settings_choose_collectors(tmp_path: Path) -> None:
    chosen = Host("n7", Agent(root=str(tmp_path), collectors=("host_load", "nic_sysfs")))
    assert [one.name for one in collectors_of(chosen)] == ["host_load", "nic_sysfs"]
    wrong = Config(agent=Agent(host="n7", root=str(tmp_path), spool=str(tmp_path / "spool"), collectors=("nick",)))
    with pytest.raises(ConfigError, match="there is none called nick"):
        start(wrong, Gate().connect)


def test_a_tool_is_bounded_in_time_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert tool.ask(("echo", "told"), 5.0) == b"told\n"
    with pytest.raises(tool.ToolFailed, match="no whole answer within"):
        tool.ask(("sleep", "60"), 0.2)
    with pytest.raises(tool.ToolMissing, match="is not installed"):
        tool.ask(("no-such-tool-anywhere",), 1.0)
    with pytest.raises(tool.ToolFailed, match="No such file"):
        tool.ask(("ls", "/no/such/place"), 5.0)
    assert shutil.which("head")
    assert len(tool.ask(("head", "-c", "1000000", "/dev/zero"), 5.0)) == 1_000_000
    with pytest.raises(tool.ToolFailed, match="prints more than"):  # a part of it would look like all of it
        tool.ask(("head", "-c", "1500000", "/dev/zero"), 5.0)
