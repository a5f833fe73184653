"""Sources of the whole cluster, live on the embedded log: from real devices' answers to one incident and its plan."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sickbay.actions import Mode
from sickbay.app.asking.incidents_topic import current
from sickbay.app.running import up
from sickbay.app.running.poller import limits
from sickbay.app.running.service import Context, Service
from sickbay.commands.change import change
from sickbay.commands.maintenance import maintenance
from sickbay.commands.report import report
from sickbay.components import host_of
from sickbay.log import wall_ms
from sickbay.log.sqlite import SqliteLog
from sickbay.messages import Incident, Relation, Verdict
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Agent as AgentSettings
from sickbay.settings import Config, LogSettings, Remediation, Windows
from sickbay.source_settings import Facility, Gnmi, Inventory
from sickbay.topics import TOPOLOGY
from tests.collectors.test_facility_redfish import CDU, site
from tests.process.kit import Agent, await_true, everything, lost_card
from tests.process.live_site import LiveSite
from tests.services import gnmi
from tests.services.recorded_https import Recorded, recorded_https

pytestmark = [pytest.mark.slow, pytest.mark.service]

HOSTS = ("h1", "h2", "h3", "h4")
RACKS = "host,rack,pdu_a,cdu\nh1,r1,p1,c1\nh2,r1,p1,c1\nh3,r2,p2,c2\nh4,r2,p2,c2\n"
FORBIDDEN = {"drain_host", "isolate_device", "isolate_port", "reset_device", "reboot_host", "power_cycle"}


@pytest.fixture
def units(tmp_path: Path) -> Iterator[Recorded]:
    with recorded_https(tmp_path) as told:
        told.answers = site()
        yield told


def facility(units: Recorded, folder: Path) -> Config:
    """A coolant unit that is asked, and the list of who hangs on it."""
    (folder / "racks.csv").write_text(RACKS)
    return Config(
        facility=Facility(redfish=(f"cdu:c1={units.url}",), ca_file=units.ca_file, poll_s=5.0, timeout_s=5.0),
        inventory=Inventory(files=(str(folder / "racks.csv"),), poll_s=10.0),
        windows=Windows(width_s=5, lateness_s=2),
        log=LogSettings(engine="sqlite", path=str(folder / "log")),
    )


class Cooled(LiveSite):
    """The site with hosts whose agents speak."""

    agents: tuple[Agent, ...] = ()

    def run(self, seconds: int, each: Callable[[int], None] = lambda second: None) -> None:
        self.agents = self.agents or tuple(Agent(host, self.put, key=None) for host in self.hosts)
        for second in range(seconds):
            each(second)
            if self.now_ms % 5000 == 0:
                for agent in self.agents:
                    agent.sample(self.now_ms)
            self.second()


def flow(units: Recorded, litres: float, celsius: float) -> None:
    """What the unit's connector tells from now on."""
    connector = units.answers[f"{CDU}/SecondaryCoolantConnectors/1"]
    connector["FlowLitersPerMinute"]["Reading"], connector["SupplyTemperatureCelsius"]["Reading"] = litres, celsius


def test_a_coolant_unit_degrades(units: Recorded, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    live = Cooled(tmp_path, facility(units, tmp_path), ("facility", "inventory"), HOSTS)
    live.run(90)
    assert live.incidents() == []
    live.run(150, lambda second: flow(units, max(240.0, 400.0 - 4 * second), min(37.0, 29.0 + second / 8)))
    (one,) = live.incidents()
    assert (one.verdict, one.component, one.fault) == (Verdict.SHARED, "cdu:c1", "cooling_lost")
    assert ("page_owner", "owner:facility") in {(step.do, step.target) for step in one.plan}
    assert FORBIDDEN.isdisjoint(step.do for step in one.plan)
    assert live.scheduler.writes == []
    assert {line.mode for line in live.acts()} <= {Mode.OBSERVE}
    assert live.letters() == 0
    assert {asked.verb for asked in units.asked} == {"GET"}
    assert set(live.diagnoser.horizon.topology.at(None).hosts_under("cdu:c1")) == {"h1", "h2"}
    live.close()
    (tmp_path / "sickbay.toml").write_text(f'[log]\nengine = "sqlite"\npath = "{tmp_path / "log"}"\n')
    assert report(one.id, config=tmp_path / "sickbay.toml", json=True) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert told["incident"]["component"] == "cdu:c1"


PORT = "/interfaces/interface[name=Ethernet4]/state"
NEAR = "/lldp/interfaces/interface[name=Ethernet4]/neighbors/neighbor[id=1]/state"
STATE: dict[str, object] = {
    f"{PORT}/oper-status": "UP", f"{PORT}/admin-status": "UP", f"{PORT}/counters/in-octets": 1000,
    f"{NEAR}/system-name": "h1.dc", f"{NEAR}/port-id": "eth2", "/system/state/hostname": "leaf1.dc",
}  # fmt: skip
CABLES = "host,port,switch,switch_port\nh1,eth2,leaf1,Ethernet4\nh2,eth2,leaf1,Ethernet8\nh3,eth2,leaf1,Ethernet12\n"


class Interface:
    """A host's interface and its RDMA port as its kernel shows them, and the kernel's log."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "sys/class/net/eth2"
        (self.folder / "statistics").mkdir(parents=True)
        address = root / "sys/devices/pci0000:40/0000:41:00.0"
        address.mkdir(parents=True)
        (self.folder / "device").symlink_to("../../../devices/pci0000:40/0000:41:00.0")
        rdma = root / "sys/class/infiniband/mlx5_0"
        (rdma / "ports/1/counters").mkdir(parents=True)
        (rdma / "device").symlink_to("../../../devices/pci0000:40/0000:41:00.0")
        (address / "net/eth2").mkdir(parents=True)
        (rdma / "ports/1/link_layer").write_text("Ethernet\n")
        (rdma / "ports/1/counters/port_rcv_data").write_text("7\n")
        self.log = root / "var/log/kern.log"
        self.log.parent.mkdir(parents=True)
        self.log.touch()
        for file, text in (("type", "1"), ("flags", "0x1003"), ("speed", "400000"), ("statistics/rx_bytes", "5")):
            (self.folder / file).write_text(f"{text}\n")
        self.changes = 1
        self.say(up=True)

    def say(self, *, up: bool) -> None:
        """The carrier comes or goes."""
        self.changes += 1
        (self.folder / "operstate").write_text("up\n" if up else "down\n")
        (self.folder / "carrier_changes").write_text(f"{self.changes}\n")
        with self.log.open("a") as file:
            now = datetime.now(UTC).isoformat()
            file.write(f"{now} h1 kernel: mlx5_core 0000:41:00.0 eth2: Link {'up' if up else 'down'}\n")


@contextmanager
def served(config: Config, agents: tuple[Config, ...] = ()) -> Iterator[tuple[SqliteLog, Service, list[str]]]:
    """What `sickbay up` runs, in this process."""
    log, said, status = SqliteLog(Path(config.log.path)), list[str](), list[int]()
    made = up.stages(config, agents)
    service = Service(Context(config, log, SelfMetrics(), said.append), made, longer=limits(made))
    thread = threading.Thread(target=lambda: status.append(service.run(signals=())), daemon=True)
    thread.start()
    try:
        yield log, service, said
    finally:
        service.stop()
        thread.join(30)
        assert status == [0], said
        log.close()


def standing(log: SqliteLog) -> list[Incident]:
    return [one for one in current(log.reader())[0].values() if one.state == "open"]


def links(log: SqliteLog) -> set[bytes]:
    return {record.key for record in everything(log, TOPOLOGY) if b'"link_end"' in (record.value or b"")}


def test_a_port_of_a_switch_and_its_peer(tmp_path: Path) -> None:
    (tmp_path / "cables.csv").write_text(CABLES)
    interface = Interface(tmp_path / "h1")
    with gnmi.running(tmp_path) as switch:
        switch.state = dict(STATE)
        config = Config(
            gnmi=Gnmi(
                targets=(f"leaf1={switch.address}",), ca_file=str(tmp_path / "switch.crt"), sample_s=1.0,
                certificate_name="localhost",
            ),
            inventory=Inventory(files=(str(tmp_path / "cables.csv"),), poll_s=10.0),
            windows=Windows(width_s=1, lateness_s=1),
            log=LogSettings(engine="sqlite", path=str(tmp_path / "log")),
        )  # fmt: skip
        agent = Config(
            agent=AgentSettings(
                host="h1", root=str(tmp_path / "h1"), spool=str(tmp_path / "spool"), kernel_log="var/log/kern.log",
                collectors=("nic_sysfs", "kernel_log"),
            )
        )  # fmt: skip
        with served(config, (agent,)) as (log, service, said):
            assert await_true(lambda: not service.troubles() and len(links(log)) >= 3, 15), (service.troubles(), said)
            interface.say(up=False)
            switch.tell({f"{PORT}/oper-status": "DOWN", f"{PORT}/admin-status": "DOWN"})
            time.sleep(5)
            assert standing(log) == []  # a person closed it
            switch.tell({f"{PORT}/oper-status": "UP", f"{PORT}/admin-status": "UP"})
            interface.say(up=True)
            time.sleep(7)
            assert standing(log) == []
            interface.say(up=False)
            switch.tell({f"{PORT}/oper-status": "DOWN"})
            assert await_true(lambda: standing(log), 15), said
            time.sleep(5)
            (one,) = standing(log)
            assert one.fault == "link_down"
            # Its kernel, the switch and the list of cables call it eth2: it is one part, with one incident.
            assert (one.verdict, one.component) == (Verdict.COMPONENT, "port:h1/mlx5_0/1")
            told = {claim.component for claim in one.evidence}
            assert {"port:h1/mlx5_0/1", "port:leaf1/Ethernet4"} <= told
            assert FORBIDDEN.isdisjoint(step.do for step in one.plan)


def test_changes_and_planned_work_reach_every_judgement(tmp_path: Path) -> None:
    (tmp_path / "racks.csv").write_text(RACKS)
    config = Config(
        inventory=Inventory(files=(str(tmp_path / "racks.csv"),), poll_s=10.0),
        windows=Windows(width_s=5, lateness_s=2),
        remediation=Remediation(mode="act", scheduler="simulated"),
        log=LogSettings(engine="sqlite", path=str(tmp_path / "log")),
    )
    settings = tmp_path / "sickbay.toml"
    settings.write_text(f'[log]\nengine = "sqlite"\npath = "{tmp_path / "log"}"\n')
    live = Cooled(tmp_path, config, ("inventory",), HOSTS, now_ms=wall_ms() // 5000 * 5000)
    live.run(20)
    assert change("post", "h3", "driver", config=settings, old="550.54", new="560.28", who="carol") == 0
    assert maintenance("add", ["rack:r1"], config=settings, until="2h", by="carol", note="new pumps") == 0
    live.run(10)
    for agent in live.agents[:3:2]:  # h1 stands in the rack that is worked on, h3 does not
        agent.say(lost_card(agent.host, live.now_ms))
    live.run(40)
    case = live.diagnoser.horizon.case(live.now_ms)
    assert [(one.target, one.what, one.new, one.who) for one in case.changes] == [
        ("host:h3", "driver", "560.28", "carol")
    ]
    assert case.topology.at(None).parents("host:h3", Relation.RUNS) == ("cohort:driver/560.28",)
    told = {host_of(one.component): one.verdict for one in live.incidents()}
    assert told == {"h1": Verdict.MAINTENANCE, "h3": Verdict.COMPONENT}
    assert live.scheduler.writes == [("drain", "h3")]
    live.close()
