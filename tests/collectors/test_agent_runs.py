"""The whole agent: what its collectors see reaches the log, sealed and in order, whatever fails in between."""

import ast
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from collectors.agent import agent as agent_module
from collectors.agent import courier
from collectors.agent.agent import Agent, start
from collectors.agent.catalogue import CATALOGUE, sources_of
from collectors.agent.source import Collected, Collector, Host
from collectors.agent.states import State
from sickbay import wire
from sickbay.config import ConfigError
from sickbay.frames import Frame
from sickbay.layouts import Schemas, decoded
from sickbay.log import wall_ms
from sickbay.log.memory import MemoryLog
from sickbay.log.sqlite import SqliteLog
from sickbay.messages import Identity, Severity
from sickbay.messages import decode as decode_message
from sickbay.seal import host_key, opened
from sickbay.selfmetrics import PROBE_FAILED, SelfMetrics
from sickbay.settings import Config, Security
from tests.collectors.agent_kit import (
    EVENTS,
    TELEMETRY,
    XID,
    Gate,
    events,
    exporter_page,
    kernel_log,
    page,
    records,
    serving,
    settings,
    told,
    wait_for,
    write,
)
from tests.collectors.outage_kit import process, whole

CLUSTER_KEY = bytes(range(32))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "RETRY_S", (0.05, 0.1))


class Running:
    """An agent whose steps are made while something is waited for."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def until(self, what: Callable[[], object], timeout_s: float = 8.0) -> object:
        def stepped() -> object:
            self.agent.step(wall_ms(), 0.02)
            return what()

        return wait_for(stepped, timeout_s)


@contextmanager
def running(config: Config, gate: Gate, metrics: SelfMetrics | None = None) -> Iterator[Running]:
    agent = start(config, gate.connect, metrics=metrics)
    try:
        yield Running(agent)
    finally:
        agent.close()


def test_the_catalogue_lists_every_file_that_holds_a_collector() -> None:
    folder = Path(agent_module.__file__).parents[1] / "host"
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == "collectors":
                found.add(path.stem)
    own = {"second_look"}  # the agent's own: it looks after what the others told
    assert found | own == set(CATALOGUE)
    assert all(where == f"collectors.host.{name}:collectors" for name, where in CATALOGUE.items() if name not in own)


@pytest.mark.slow
def test_a_line_of_the_kernel_log_is_in_the_log_within_a_second(tmp_path: Path) -> None:
    config, gate = settings(tmp_path), Gate()
    path = kernel_log(config)
    with running(config, gate) as one:
        one.until(lambda: one.agent._queue.empty)
        time.sleep(0.3)
        began = time.monotonic()
        write(path, f"[912344.1] {XID}\n")
        one.until(lambda: events(gate.log, "accelerator.off_bus"))
        assert time.monotonic() - began < 1.0
    (event,) = events(gate.log, "accelerator.off_bus")
    assert event.component == "accelerator:n1/0000:cb:00"
    assert event.host == "n1"
    assert abs((event.at_ms or 0) - wall_ms()) < 60_000
    (record,) = records(gate.log, EVENTS)
    assert record.key == b"n1"
    assert opened(record.value or b"").seal is not None


def frames_of(log: MemoryLog, key: bytes | None = None) -> list[Frame]:
    schemas = Schemas()
    for record in records(log, "sickbay.schemas.v1"):
        schemas.learn(decoded(record.value or b""))
    return [wire.decode(record.value or b"", schemas, key=key) for record in records(log, TELEMETRY)]


@pytest.mark.slow
def test_a_scrape_becomes_signed_frames_and_identities(tmp_path: Path) -> None:
    key = host_key(CLUSTER_KEY, "n1")
    (tmp_path / "key").write_text(key.hex())
    with serving(page(exporter_page())) as url:
        base = settings(tmp_path, exporters=(url,), kernel_log="", sample_s=0.2, frame_s=0.5)
        config, gate = Config(agent=base.agent, security=Security(key_file=str(tmp_path / "key"))), Gate()
        with running(config, gate) as one:
            one.until(lambda: len(records(gate.log, TELEMETRY)) >= 2)
    frames = frames_of(gate.log, key)
    assert [frame.sequence for frame in frames] == list(range(1, len(frames) + 1))
    assert all(frame.verified and frame.host == "n1" for frame in frames)
    names = {name for frame in frames for matrix in frame.tables for name in matrix.names}
    assert names == {"accelerator:n1/0000:cb:00", "accelerator:n1/0000:cc:00", "host:n1"}
    rows = [decode_message(record.value or b"") for record in records(gate.log, "sickbay.topology.v1")]
    assert {(row.host, row.index, row.pci) for row in rows if isinstance(row, Identity)} == {
        ("n1", "0", "0000:cb:00"),
        ("n1", "1", "0000:cc:00"),
    }
    assert told(gate.log) == []  # nothing was wrong


@pytest.mark.slow
def test_events_are_signed_with_the_host_key_only(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(host_key(CLUSTER_KEY, "n1").hex() + "\n")
    base = settings(tmp_path)
    config, gate = Config(agent=base.agent, security=Security(key_file=str(tmp_path / "key"))), Gate()
    path = kernel_log(config)
    with running(config, gate) as one:
        one.until(lambda: one.agent._crew.watches[0].busy_since is None)
        time.sleep(0.3)
        write(path, f"[1.1] {XID}\n")
        one.until(lambda: events(gate.log))
    (record,) = records(gate.log, EVENTS)
    assert opened(record.value or b"", lambda host: host_key(CLUSTER_KEY, host)).proved


def test_an_index_in_the_log_becomes_the_address_that_the_exporter_told(tmp_path: Path) -> None:
    with serving(page(exporter_page())) as url:
        config, gate = settings(tmp_path, exporters=(url,)), Gate()
        with running(config, gate) as one:
            one.until(lambda: records(gate.log, "sickbay.topology.v1"))
    path = kernel_log(config)
    with running(config, gate) as one:  # a new run, whose exporter hangs: what was told is known
        one.until(lambda: one.agent._crew.watches[0].busy_since is None)
        assert one.agent._composer.cards.names.canonical("accelerator:?/1", "n1") == "accelerator:n1/0000:cc:00"
        assert path.exists()


@pytest.mark.slow
def test_while_the_log_is_away_events_are_kept_and_delivered_in_order(tmp_path: Path) -> None:
    config, gate = settings(tmp_path), Gate()
    gate.open = False
    path = kernel_log(config)
    with running(config, gate) as one:
        one.until(lambda: one.agent.waiting and gate.tried == 0)
        time.sleep(0.3)
        waiting = list[int]()
        for code in (31, 43, 48):
            waiting.append(code)
            write(path, f"[1.1] {XID.replace('79', str(code))}\n")
            one.until(lambda: one.agent._spools.disk.held.entries == len(waiting))
        one.until(lambda: gate.tried >= 2)
        assert "no broker" in one.agent.waiting
    assert events(gate.log) == []
    gate.open = True
    with running(config, gate) as one:
        one.until(lambda: len(events(gate.log)) == 3)
        one.until(lambda: not one.agent.waiting)
    assert [event.code for event in events(gate.log)] == ["Xid 31", "Xid 43", "Xid 48"]
    assert [one.seal.sequence for one in told(gate.log) if one.seal] == [1, 2, 3]


@pytest.mark.slow
def test_layouts_are_told_before_their_frames_and_again_by_every_run(tmp_path: Path) -> None:
    config, gate = settings(tmp_path, kernel_log="", sample_s=0.2, frame_s=0.5), Gate()
    order: list[str] = []
    append = gate.append

    def noted(topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> object:
        order.append(topic)
        return append(topic, key, value, partition=partition)

    gate.append = noted  # type: ignore[method-assign, assignment]
    with serving(page(exporter_page())) as url:
        config = settings(tmp_path, kernel_log="", sample_s=0.2, frame_s=0.5, exporters=(url,))
        for _ in range(2):
            with running(config, gate) as one:
                one.until(lambda: TELEMETRY in order)
            assert order.index("sickbay.schemas.v1") < order.index(TELEMETRY)
            order.clear()


class Stuck:
    """A collector that hangs, or raises, or would end its thread."""

    interval_s, asks_driver = 0.05, False

    def __init__(self, name: str, hangs: bool) -> None:
        self.name, self.hangs = name, hangs

    def collect(self, now_ms: int) -> Collected:
        if self.hangs:
            time.sleep(20)
        if self.name == "ends":
            raise SystemExit
        raise RuntimeError("broken in itself")

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.slow
def test_a_collector_that_hangs_or_raises_is_told_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sources_of

    def more(host: Host) -> tuple[list[Collector], list[State]]:
        collectors, left = made(host)
        return [Stuck("hangs", True), Stuck("raises", False), Stuck("ends", False), *collectors], left

    monkeypatch.setattr(agent_module, "sources_of", more)
    monkeypatch.setattr(agent_module, "END_S", 0.3)
    config, gate, metrics = settings(tmp_path, timeout_s=0.1), Gate(), SelfMetrics()
    path = kernel_log(config)
    with running(config, gate, metrics) as one:
        time.sleep(0.3)
        write(path, f"[1.1] {XID}\n")
        one.until(lambda: events(gate.log, "accelerator.off_bus"))
        blind = one.until(lambda: len(events(gate.log, "monitor.blind")) == 3 and events(gate.log, "monitor.blind"))
        assert isinstance(blind, list)
        assert {(event.component, event.severity) for event in blind} == {
            ("monitor:n1/hangs", Severity.WARNING),
            ("monitor:n1/raises", Severity.WARNING),
            ("monitor:n1/ends", Severity.WARNING),
        }
        why = ("takes over", "broken in itself", "SystemExit")
        assert all(any(words in one.message for words in why) for one in blind)
        assert "hangs: a collection takes over" in one.agent.waiting
    assert (metrics.value(PROBE_FAILED, source="raises") or 0) > 1
    assert metrics.value(PROBE_FAILED, source="hangs") == 1


@pytest.mark.slow
def test_an_exporter_that_goes_and_comes_back_is_told_twice(tmp_path: Path) -> None:
    well, good = [True], page(exporter_page())
    with serving(lambda connection: good(connection) if well[0] else None) as url:
        config = settings(tmp_path, kernel_log="", exporters=(url,), sample_s=0.1, frame_s=0.5)
        gate = Gate()
        with running(config, gate) as one:
            one.until(lambda: records(gate.log, TELEMETRY))
            well[0] = False
            one.until(lambda: events(gate.log, "monitor.blind"))
            well[0] = True
            one.until(lambda: events(gate.log, "monitor.notice"))
    assert [event.kind for event in events(gate.log)] == ["monitor.blind", "monitor.notice"]


@pytest.mark.slow
def test_frames_come_every_second_while_an_event_is_fresh(tmp_path: Path) -> None:
    config, gate = settings(tmp_path, frame_s=30), Gate()
    path = kernel_log(config)
    with running(config, gate) as one:
        time.sleep(0.3)
        now, agent = wall_ms(), one.agent
        one.until(lambda: agent._composer.next_frame_ms)
        assert (agent._composer.next_frame_ms or 0) - now <= 30_000
        write(path, f"[1.1] {XID}\n")
        one.until(lambda: events(gate.log))
        agent.step(wall_ms())
        assert (agent._composer.next_frame_ms or 0) - wall_ms() <= 1_000


@pytest.mark.slow
def test_several_hosts_on_one_machine_in_one_log(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log")
    configs = [settings(tmp_path, host) for host in ("n1", "n2", "n3")]
    paths = [kernel_log(config) for config in configs]
    agents = [start(config, log.appender) for config in configs]
    try:
        time.sleep(0.3)
        for path in paths:
            write(path, f"[1.1] {XID}\n")

        def done() -> bool:
            for agent in agents:
                agent.step(wall_ms(), 0.02)
            return len(events(log)) == 3

        wait_for(done)
    finally:
        for agent in agents:
            agent.close()
    assert {event.component for event in events(log)} == {f"accelerator:n{at}/0000:cb:00" for at in (1, 2, 3)}
    assert {record.key for record in records(log, EVENTS)} == {b"n1", b"n2", b"n3"}
    log.close()


def test_a_damaged_spool_is_told(tmp_path: Path) -> None:
    config, gate = settings(tmp_path, kernel_log=""), Gate()
    Path(config.agent.spool).mkdir()
    (Path(config.agent.spool) / "spool.sqlite").write_bytes(b"not a database, whatever it is" * 100)
    with running(config, gate) as one:
        one.until(lambda: events(gate.log, "monitor.lines_lost"))
    (event,) = events(gate.log)
    assert (event.component, event.message[:15]) == ("monitor:n1/spool", "1 spool was dam")


def test_what_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    gate = Gate()
    for config, why in (
        (settings(tmp_path, exporters=("ftp://x",)), r"\[agent\] exporters: 'ftp://x' is no address"),
        (settings(tmp_path, host=""), r"\[agent\] host: no name is known"),
        (Config(agent=settings(tmp_path).agent, security=Security(key_file=str(tmp_path / "no"))), "key_file"),
    ):
        with pytest.raises(ConfigError, match=why):
            start(config, gate.connect)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    children = []
    (tmp_path / "sickbay.toml").write_text(
        '[log]\nengine = "sqlite"\npath = "log"\n[agent]\nhost = "n1"\nroot = "%s"\n'
        'kernel_log = "var/log/kern.log"\nspool = "spool"\n' % (tmp_path / "n1"),
        encoding="utf-8",
    )

    def begun(*arguments: str) -> "subprocess.Popen[bytes]":
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        line = [sys.executable, "-m", "sickbay", "agent", "--config", str(tmp_path / "sickbay.toml"), *arguments]
        children.append(subprocess.Popen(line, env=environment, stderr=subprocess.PIPE))
        return children[-1]

    yield begun
    for child in children:
        child.kill()
        child.wait(10)
        assert child.stderr is not None
        child.stderr.close()


def _looked(spool: Path) -> bool:
    """Whether the agent of this spool has looked at its kernel log."""
    if not spool.exists():
        return False
    with closing(sqlite3.connect(spool)) as db:
        try:
            return bool(db.execute("SELECT count(*) FROM places").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return False


@pytest.mark.slow
def test_the_command_survives_a_kill_and_ends_well_on_a_signal(
    tmp_path: Path, command: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    path = kernel_log(settings(tmp_path))
    log = SqliteLog(tmp_path / "log")
    child = command()
    wait_for(lambda: _looked(tmp_path / "spool/spool.sqlite"), 20)
    write(path, f"[1.1] {XID.replace('79', '31')}\n")
    wait_for(lambda: events(log), 20)
    time.sleep(1.5)  # the place in the log is kept once nothing waits for details
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    write(path, f"[1.1] {XID.replace('79', '48')}\n")
    child = command()
    wait_for(lambda: len(events(log)) >= 2, 20)
    child.send_signal(signal.SIGTERM)
    assert child.wait(15) == 0
    codes = [event.code for event in events(log)]
    assert codes == ["Xid 31", "Xid 48"]
    assert [one.seal.sequence for one in told(log) if one.seal] == [1, 2]
    log.close()


@pytest.mark.slow
def test_wrong_settings_end_the_command_with_2(command: Callable[..., "subprocess.Popen[bytes]"]) -> None:
    child = command("--host", "")
    child.kill()
    child = command("--nonsense")
    assert child.wait(20) == 2


_LIGHT = """
import json, sys
from pathlib import Path
from collectors.agent.agent import start
from sickbay.log import wall_ms
from sickbay.log.memory import MemoryLog
from sickbay.settings import Agent, Config
folder = Path(sys.argv[1])
config = Config(agent=Agent(host="n1", root=str(folder), kernel_log="kern.log", spool=str(folder / "spool"),
                            exporters=("http://127.0.0.1:9/",), job_logs=("*.out",), steps_socket="steps.sock",
                            alerts="http://127.0.0.1:9/", alerts_after_s=1.0, flight_recorders=("dumps/*",)))
(folder / "kern.log").touch()
agent = start(config, MemoryLog().appender)
for _ in range(20):
    agent.step(wall_ms(), 0.05)
    with (folder / "kern.log").open("a") as file:
        file.write("[1.0] NVRM: Xid (PCI:0000:cb:00): 79, pid=1, GPU has fallen off the bus.\\n")
agent.close()
import sickbay.app.running.exposition
import sickbay.commands.agent
import sickbay.log.kafka_appender
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.slow
def test_it_loads_nothing_heavy(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    output = subprocess.run(
        [sys.executable, "-c", _LIGHT, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(output.stdout)}
    assert not loaded & {
        "polars",
        "pyarrow",
        "sklearn",
        "pandas",
        "kubernetes",
        "grpc",
        "pysnmp",
        "confluent_kafka",
        "deltalake",
        "altair",
        "streams",
        "diagnosis",
    }


@pytest.mark.slow
def test_a_hangup_makes_it_read_its_settings_again(tmp_path: Path) -> None:
    with serving(page(exporter_page())) as url, process(tmp_path, "sample_s = 0.2\nframe_s = 0.5") as one:
        log = SqliteLog(tmp_path / "log")
        child = one.start()
        wait_for(lambda: _looked(tmp_path / "spool/spool.sqlite"), 20)
        one.settle("sample_s = 0.2\nframe_s = 0.5\nnonsense = 1")
        child.send_signal(signal.SIGHUP)
        wait_for(lambda: "goes on with the settings it has" in one.said)
        one.settle(f'sample_s = 0.2\nframe_s = 2.0\nexporters = ["{url}"]')
        child.send_signal(signal.SIGHUP)
        wait_for(lambda: "only a new start takes up [agent] frame_s" in one.said)
        wait_for(lambda: whole(log)[0])
        one.say()
        wait_for(lambda: [event for event in events(log) if event.code == "Xid 31"])
        assert one.kill(signal.SIGTERM) == 0
        assert one.waiting() == 0
        log.close()
