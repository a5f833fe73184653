"""Switches and power units over SNMP against Debian's own agent: real clocks and interfaces, composed tables beside."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.cluster import switch_snmp
from collectors.cluster.asking import Target
from collectors.cluster.poll import Outgoing, PollFailed, Source, sources
from collectors.cluster.snmp_walk import Device
from sickbay.config import ConfigError
from sickbay.messages import Change, Edge, Event, Relation
from sickbay.settings import Config
from sickbay.source_settings import Snmp
from tests.services import snmp

pytestmark = pytest.mark.service

_SENSOR, _ENTITY, _LLDP = "1.3.6.1.2.1.99.1.1.1", "1.3.6.1.2.1.47.1.1.1.1", "1.0.8802.1.1.2.1"
ROWS = {
    f"{_SENSOR}.1.7": ("integer", "8"),
    f"{_SENSOR}.2.7": ("integer", "9"),
    f"{_SENSOR}.3.7": ("integer", "1"),
    f"{_SENSOR}.4.7": ("integer", "415"),
    f"{_SENSOR}.5.7": ("integer", "1"),
    f"{_SENSOR}.1.9": ("integer", "6"),
    f"{_SENSOR}.4.9": ("integer", "640"),
    f"{_SENSOR}.5.9": ("integer", "1"),
    f"{_ENTITY}.2.7": ("string", "board temperature"),
    f"{_ENTITY}.2.9": ("string", "Inlet power"),
    f"{_LLDP}.3.7.1.3.2": ("string", "eth0"),
    f"{_LLDP}.4.1.1.6.0.2.1": ("integer", "5"),
    f"{_LLDP}.4.1.1.7.0.2.1": ("string", "eth2"),
    f"{_LLDP}.4.1.1.9.0.2.1": ("string", "gpu07.dc"),
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snmp.Agent]:
    with snmp.running(tmp_path_factory.mktemp("snmp"), ROWS) as served:
        yield served


class Site:
    """Devices, asked; what was told."""

    def __init__(self, agent: snmp.Agent, *names: str, community: str = snmp.COMMUNITY) -> None:
        wanted = [Target(name, agent.address) for name in names]
        host, port = switch_snmp.address_of(agent.address)
        settings = Snmp(timeout_s=4.0)
        self.source: Source[int] = switch_snmp.source(wanted, lambda _: Device(host, port, community, 1.0), settings)
        self.told: list[Outgoing] = []
        self.rows: dict[str, dict[str, float]] = {}

    def poll(self, now_ms: int | None = None) -> None:
        polled = self.source.poll(self.source.state, now_ms or round(time.time() * 1000))
        self.source.state = polled.state
        self.told += polled.told
        for samples in polled.samples:
            for place, component in enumerate(samples.component):
                row = {name: float(values[place]) for name, values in samples.values.items()}
                self.rows[component] = {name: value for name, value in row.items() if value == value}

    def kinds(self) -> list[str]:
        return [one.message.kind for one in self.told if isinstance(one.message, Event)]


def test_interfaces_sensors_cables_and_power_of_a_real_agent(agent: snmp.Agent) -> None:
    site = Site(agent, "leaf9", "pdu:p1")
    site.poll()
    assert "port:leaf9/lo" not in site.rows, "a loopback has no cable"
    assert site.rows["switch:leaf9"] == {"up": 1.0, "temperature_celsius": 41.5, "power_watts": 640.0}
    assert site.rows["pdu:p1"] == {"up": 1.0, "power_watts": 640.0}
    edges = [one.message for one in site.told if isinstance(one.message, Edge)]
    links = [(one.child, one.parent) for one in edges if one.relation is Relation.LINK_END]
    assert links == [("port:gpu07/eth2", "port:leaf9/eth0")]
    ports = {component: row for component, row in site.rows.items() if component.startswith("port:")}
    used = {component for component, row in ports.items() if row.get("up") == 1.0}
    assert {one.child for one in edges if one.relation is Relation.PART_OF} == used
    assert all(row["rx_bytes_total"] >= 0 for row in ports.values() if "rx_bytes_total" in row)
    assert site.kinds() == []


def test_a_new_agent_on_a_machine_that_went_on_is_no_restart_of_the_switch(agent: snmp.Agent) -> None:
    site = Site(agent, "leaf9")
    site.poll()
    agent.restart()
    site.poll()
    assert [one.message.code for one in site.told if isinstance(one.message, Event)] == ["agent restarted"]
    assert not [one for one in site.told if isinstance(one.message, Change)]


def test_a_device_that_falls_silent_is_told_once_and_answers_again(agent: snmp.Agent) -> None:
    site = Site(agent, "leaf9", "pdu:p1")
    now_ms = round(time.time() * 1000)
    site.poll(now_ms)
    agent.child.pause()
    try:
        site.poll(now_ms + 30_000)
    finally:
        agent.child.resume()
    assert site.kinds() == ["monitor.blind"]
    assert site.rows["switch:leaf9"] == site.rows["pdu:p1"] == {"up": 0.0}
    site.poll()
    assert site.kinds() == ["monitor.blind", "monitor.notice"]
    assert site.rows["switch:leaf9"]["up"] == 1.0


def test_a_wrong_community_is_a_failure_that_says_so(agent: snmp.Agent) -> None:
    site = Site(agent, "leaf9", community="strangers")
    with pytest.raises(PollFailed, match="no device has answered yet: leaf9: "):
        site.poll()


def test_no_device_was_ever_told_to_set_anything(agent: snmp.Agent) -> None:
    site = Site(agent, "leaf9")
    site.poll()
    assert not (agent.folder / "rows.set").exists()


def test_settings_that_cannot_work_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "community").write_text("readers\n")
    wrong = (
        (Snmp(), "targets: name the devices"),
        (Snmp(targets=("leaf1",), community_file="x"), "must be name=address"),
        (Snmp(targets=("a=h",)), "community_file: name a file"),
        (Snmp(targets=("a=h",), community_file=str(tmp_path / "none")), "No such file"),
        (Snmp(targets=("a=h",), community_file=str(tmp_path / "empty")), "empty"),
        (Snmp(targets=("a=h:x",), community_file=str(tmp_path / "community")), "host or host:port"),
    )
    for settings, text in wrong:
        with pytest.raises(ConfigError, match=text):
            sources(["snmp"], Config(snmp=settings))
    (made,) = sources(["snmp"], Config(snmp=Snmp(targets=("a=h",), community_file=str(tmp_path / "community"))))
    assert made.name == "snmp"
