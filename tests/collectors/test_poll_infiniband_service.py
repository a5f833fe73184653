"""A real subnet in a simulator, asked with the real tools: three switches and sixteen hosts, and what is done to them.

What reaches the log is read back: topology from the topic, events, and what diagnosis makes of them.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster import fabric_infiniband as entry
from collectors.cluster.fabric_edges import GONE_MS
from collectors.cluster.fabric_tools import Tools
from collectors.cluster.poll import Poller, Source
from diagnosis.engine import diagnose
from sickbay.log import Record, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.log.opened import open_log
from sickbay.messages import Edge, Event, decode
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import LogSettings
from sickbay.source_settings import Fabric
from sickbay.topology import Topology
from tests.collectors.fabric_kit import MINUTE, T
from tests.diagnosis.kit import case
from tests.services import ibsim

pytestmark = pytest.mark.service

LEAVES, HOSTS, UPLINK = 2, 8, 20


def net() -> str:
    rows: list[str] = []
    for leaf in range(1, LEAVES + 1):
        rows += [f'Switch 24 "S-leaf{leaf}" # "leaf{leaf}"']
        rows += [f'[{host}] "H-{leaf}-{host}"[1]' for host in range(1, HOSTS + 1)]
        rows += [f'[{UPLINK}] "S-spine"[{leaf}]', ""]
    rows += ['Switch 24 "S-spine" # "spine"', *(f'[{n}] "S-leaf{n}"[{UPLINK}]' for n in range(1, LEAVES + 1)), ""]
    for leaf in range(1, LEAVES + 1):
        for host in range(1, HOSTS + 1):
            rows += [f'Hca 1 "H-{leaf}-{host}" # "h{leaf}-{host} mlx5_0"', f'[1] "S-leaf{leaf}"[{host}]', ""]
    return "\n".join(rows) + "\n"


class Site:
    """The subnet, polled to a log in memory, a sweep a minute."""

    def __init__(self, fabric: ibsim.Fabric) -> None:
        self.fabric, self.log, self.said, self.now_ms = fabric, MemoryLog(), list[str](), T
        wrapper = shutil.which("ibsim-run")
        assert wrapper
        ask = Tools(Fabric(timeout_s=20), {**os.environ, **fabric.env}, (wrapper,))
        self.sources: list[Source[Any]] = entry.of(ask, Fabric(sweep_s=60, counters_s=60))
        appender = self.log.appender()
        self.pollers = [Poller([one], appender, SelfMetrics(), self.said.append) for one in self.sources]

    def minute(self, minutes: int = 1, *, counters: bool = False) -> list[Event]:
        """One more sweep, and reading of the counters; the events that they told."""
        before = len(self.events())
        self.now_ms += minutes * MINUTE
        for poller in self.pollers[: 1 + counters]:
            poller.step(self.now_ms)
        return self.events()[before:]

    def records(self, topic: str) -> list[Record]:
        reader = self.log.reader()
        return [record for task in tasks_of(self.log.topics, [topic]) for record in reader.read(task, 0)]

    def events(self) -> list[Event]:
        told = [decode(record.value or b"") for record in self.records("sickbay.events.v1")]
        return sorted((one for one in told if isinstance(one, Event)), key=lambda one: one.seen_ms or 0)

    def topology(self) -> Topology:
        told = [decode(record.value or b"") for record in self.records("sickbay.topology.v1")]
        return Topology(one for one in told if isinstance(one, Edge))

    def until_swept(self, kind: str) -> list[Event]:
        """Sweeps until an event of that kind comes: the simulator takes its console's lines when it gets to them."""
        for _ in range(40):
            events = self.minute()
            if kind in {one.kind for one in events}:
                return events
        raise AssertionError(f"no {kind}; said {self.said}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ibsim.running(tmp_path, net()) as fabric:
        site = Site(fabric)
        assert site.minute() == []
        yield site


def test_the_log_answers_who_is_at_the_other_end_and_who_hangs_on_it(site: Site) -> None:
    view = site.topology().at(site.now_ms)
    assert view.other_end("port:h2-3/mlx5_0/1") == "port:leaf2/3"
    assert view.other_end("port:leaf1/20") == "port:spine/1"
    assert view.hosts_under("switch:leaf2") == tuple(f"h2-{n}" for n in range(1, 9))
    assert len(view.hosts_under("switch:spine")) == 16


def test_a_link_that_is_taken_down_is_told_at_that_link_and_no_other(site: Site) -> None:
    site.fabric.console('Unlink "S-leaf2"[3]')
    ends = {"port:leaf2/3", "port:h2-3/mlx5_0/1"}
    assert {(one.kind, one.component) for one in site.until_swept("port.down")} == {("port.down", one) for one in ends}
    assert site.minute() == []
    (incident,) = diagnose(case(site.events(), [], list(site.topology())))
    assert (incident.component in ends, incident.action) == (True, "check_link")
    site.fabric.console('ReLink "S-leaf2"[3]')
    assert {one.component for one in site.until_swept("port.up")} == ends


def test_a_host_that_is_gone_is_learnt_after_ten_minutes(site: Site) -> None:
    site.fabric.console('Unlink "H-2-5"')
    site.until_swept("port.down")
    assert "h2-5" in site.topology().at(site.now_ms).hosts_under("switch:leaf2")
    for _ in range(GONE_MS // MINUTE + 2):
        assert site.minute() == []
    assert "h2-5" not in site.topology().at(site.now_ms).hosts_under("switch:leaf2")
    assert "h2-5" in site.topology().at(T + MINUTE).hosts_under("switch:leaf2")


def test_half_of_the_fabric_that_answers_nobody_is_a_notice_and_no_incident(site: Site) -> None:
    site.fabric.console('Error "S-leaf2" 100')
    (notice, *rest) = site.until_swept("monitor.partial_sweep")
    assert {one.kind for one in (notice, *rest)} == {"monitor.partial_sweep"}
    for _ in range(2):
        assert {one.kind for one in site.minute(6)} <= {"monitor.partial_sweep"}
    assert len([one for one in site.records("sickbay.topology.v1") if _ends(one)]) == 0
    view = site.topology().at(site.now_ms)
    assert len(view.hosts_under("switch:leaf2")) == 8
    assert view.ancestors("host:h2-1") == ("switch:leaf2", "switch:spine")
    assert diagnose(case(site.events(), [], list(site.topology()))) == ()


def _ends(record: Record) -> bool:
    edge = decode(record.value or b"")
    return isinstance(edge, Edge) and edge.to_ms is not None


def test_packets_that_are_lost_make_no_port_look_down(site: Site) -> None:
    site.fabric.console('Error "S-leaf1" 40')
    told = {one.kind for _ in range(6) for one in site.minute(6)}
    assert told <= {"monitor.partial_sweep"}
    assert not any(_ends(one) for one in site.records("sickbay.topology.v1"))
    assert len(site.topology().at(site.now_ms).hosts_under("switch:spine")) == 16


def test_without_a_subnet_manager_sweeps_are_parts_and_counters_are_blind(site: Site) -> None:
    site.fabric.manager.stop(5.0)
    (notice,) = site.minute(counters=True)
    assert (notice.kind, notice.message) == ("monitor.partial_sweep", "no subnet manager answers")
    assert "infiniband_counters: no switch told its counters" in site.said[-1]
    assert len(site.topology().at(site.now_ms).hosts_under("switch:spine")) == 16


def test_counters_of_switch_ports_rise_and_are_never_cleared(site: Site) -> None:
    first = site.sources[1].poll(site.sources[1].state, site.now_ms).samples[0]
    site.fabric.console('PerformanceSet "S-leaf2"[4] PortCounters.SymbolErrorCounter=41')
    site.fabric.console('PerformanceSet "S-leaf2"[5] PortCounters.LinkDownedCounter=255')
    for _ in range(40):
        polled = site.sources[1].poll(site.sources[1].state, site.now_ms)
        again = polled.samples[0]
        row = again.component.index("port:leaf2/4")
        if again.values["symbol_errors_total"][row] == 41 and polled.told:
            break
    assert again.values["symbol_errors_total"][row] == 41
    grown = again.values["rx_bytes_total"] - first.values["rx_bytes_total"]
    assert (grown >= 0).all()
    assert grown.max() > 0
    assert [one.message.kind for one in polled.told if isinstance(one.message, Event)] == ["port.counters_blind"]
    assert "port:leaf2/5" in repr(polled.told)


def test_the_command_polls_the_fabric_into_the_log_and_ends_when_it_is_told(tmp_path: Path) -> None:
    with ibsim.running(tmp_path, net()) as fabric:
        tools = tmp_path / "bin"
        tools.mkdir()
        wrapper = shutil.which("ibsim-run")
        for name in ("sminfo", "iblinkinfo", "perfquery"):
            (tools / name).write_text(f'#!/bin/sh\nexec {wrapper} /usr/sbin/{name} "$@"\n')
            (tools / name).chmod(0o755)
        path = tmp_path / "log.db"
        settings = tmp_path / "sickbay.toml"
        settings.write_text(
            f'[log]\nengine = "sqlite"\npath = "{path}"\n[fabric]\nbin = "{tools}"\ndevice = "ibsim0"\ncounters_s = 1\n'
        )
        command = [sys.executable, "-m", "sickbay", "poll", "infiniband", "--config", str(settings)]
        env = {**os.environ, **fabric.env}
        with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                until(lambda: counted(path) >= 6, 60.0)
            finally:
                process.send_signal(signal.SIGTERM)
                said = process.communicate(timeout=30)[1]
        assert process.returncode == 0, said
        log = open_log(LogSettings(engine="sqlite", path=str(path)))
        reader = log.reader()
        told = [one for task in tasks_of(log.topics, ["sickbay.topology.v1"]) for one in reader.read(task, 0, 10_000)]
        edges = [edge for one in told if isinstance(edge := decode(one.value or b""), Edge)]
        assert Topology(edges).at().other_end("port:h2-3/mlx5_0/1") == "port:leaf2/3"
        log.close()


def counted(path: Path) -> int:
    """Records of telemetry that the log holds."""
    if not path.exists():
        return 0
    log = open_log(LogSettings(engine="sqlite", path=str(path)))
    try:
        reader = log.reader()
        return sum(len(reader.read(task, 0)) for task in tasks_of(log.topics, ["sickbay.telemetry.v1"]))
    finally:
        log.close()


def until(holds: Callable[[], bool], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.2)
