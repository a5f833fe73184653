"""Switches followed over gNMI with TLS: a real server of the public protocol, and all that a connection may suffer."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from collectors.cluster import gnmi_stream, switch_gnmi
from collectors.cluster.asking import Target
from collectors.cluster.gnmi_access import Access
from collectors.cluster.gnmi_stream import Streams
from collectors.cluster.poll import CATALOGUE, Outgoing, Poller, PollFailed, Source, sources
from sickbay import topics
from sickbay.config import ConfigError
from sickbay.log import tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.log.reading import records
from sickbay.messages import Change, Edge, Event, Relation
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config
from sickbay.source_settings import Gnmi
from tests.services import gnmi

pytestmark = pytest.mark.service

PORT = "/interfaces/interface[name=Ethernet4]"
NEAR = "/lldp/interfaces/interface[name=Ethernet4]/neighbors/neighbor[id=1]/state"
STATE: dict[str, object] = {
    f"{PORT}/state/oper-status": "UP",
    f"{PORT}/state/admin-status": "UP",
    f"{PORT}/state/counters/in-octets": 1000,
    f"{NEAR}/system-name": "gpu07.dc",
    f"{NEAR}/port-id": "eth2",
    "/components/component[name=Ethernet4]/transceiver/state/present": "PRESENT",
    "/components/component[name=board]/state/temperature/instant": 41.5,
    "/system/state/hostname": "leaf1.dc",
}
QUESTIONS = 7
WAIT_S = 10.0


class Site:
    """Switches, followed; what was told, in order."""

    def __init__(self, *switches: gnmi.Switch, clock: Callable[[], float] = time.time, timeout_s: float = 1.0) -> None:
        roots = (switches[0].folder / "switch.crt").read_bytes()
        access = Access(0.5, timeout_s, "reader", "secret", roots, certificate_name="localhost")
        wanted = [Target(f"leaf{place}", switch.address) for place, switch in enumerate(switches, 1)]
        self.streams = Streams(wanted, access, clock, pause_s=0.1)
        self.source: Source[int] = switch_gnmi.source(self.streams)
        self.told: list[Outgoing] = []
        self.rows: dict[str, dict[str, float]] = {}
        self.skipped = 0

    def poll(self) -> None:
        polled = self.source.poll(self.source.state, round(time.time() * 1000))
        self.source.state = polled.state
        self.told += polled.told
        self.skipped += polled.unparsed
        for samples in polled.samples:
            for place, component in enumerate(samples.component):
                self.rows.setdefault(component, {}).update({
                    name: float(values[place]) for name, values in samples.values.items()
                })  # fmt: skip

    def until(self, check: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with suppress(PollFailed):
                self.poll()
            if check():
                return
            time.sleep(0.05)
        pytest.fail(f"{what}; told {[one.message for one in self.told][-10:]}")

    def events(self, component: str = "") -> list[str]:
        found = [one.message for one in self.told if isinstance(one.message, Event)]
        return [one.kind for one in found if not component or one.component == component]

    def links(self) -> list[tuple[str, str]]:
        edges = [one.message for one in self.told if isinstance(one.message, Edge)]
        return [(one.child, one.parent) for one in edges if one.relation is Relation.LINK_END]

    def words(self) -> list[str]:
        return [one.message.message for one in self.told if isinstance(one.message, Event)]

    def end(self) -> None:
        self.source.close()


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[gnmi.Switch]:
    with gnmi.running(tmp_path) as served:
        served.state = dict(STATE)
        yield served


@pytest.fixture
def followed(switch: gnmi.Switch) -> Iterator[Site]:
    site = Site(switch)
    site.until(lambda: switch.streams == QUESTIONS and len(site.rows) >= 2, "followed")
    yield site
    site.end()


def test_states_counters_cables_and_names(switch: gnmi.Switch, followed: Site) -> None:
    followed.until(followed.links, "a cable")
    assert followed.links() == [("port:gpu07/eth2", "port:leaf1/Ethernet4")]
    switch.tell({f"{PORT}/state/counters/in-octets": "2000", f"{PORT}/state/counters/in-errors": 3})
    followed.until(lambda: followed.rows["port:leaf1/Ethernet4"].get("rx_bytes_total") == 2000, "counters")
    assert followed.rows["port:leaf1/Ethernet4"] == {"up": 1.0, "rx_bytes_total": 2000.0, "rx_errors_total": 3.0}
    assert followed.rows["switch:leaf1"] == {"up": 1.0, "temperature_celsius": 41.5}
    assert switch.users == {("reader", "secret")}
    assert set(switch.calls) == {"Capabilities", "Subscribe"}


def test_a_link_goes_down_and_a_port_is_closed(switch: gnmi.Switch, followed: Site) -> None:
    switch.tell({f"{PORT}/state/oper-status": "DOWN"})
    followed.until(lambda: followed.events("port:leaf1/Ethernet4") == ["port.down"], "down")
    assert followed.rows["port:leaf1/Ethernet4"]["up"] == 0.0
    switch.tell({f"{PORT}/state/oper-status": "UP"})
    followed.until(lambda: followed.events("port:leaf1/Ethernet4")[-1] == "port.up", "up")
    switch.tell({f"{PORT}/state/oper-status": "DOWN", f"{PORT}/state/admin-status": "DOWN"})
    followed.until(lambda: followed.events("port:leaf1/Ethernet4")[-1] == "port.admin_down", "closed")
    changes = [one for one in followed.told if isinstance(one.message, Change)]
    assert [(one.key, one.message.what) for one in changes if isinstance(one.message, Change)] == [
        ("port:leaf1/Ethernet4", "port closed")
    ]
    assert followed.events("port:leaf1/Ethernet4") == ["port.down", "port.up", "port.admin_down"]


def test_a_module_that_is_deleted_is_unplugged_and_a_deleted_port_is_no_fault(
    switch: gnmi.Switch, followed: Site
) -> None:
    followed.until(lambda: followed.streams.followed[0].switch.modules, "its modules")
    switch.delete("/components/component[name=Ethernet4]/transceiver")
    followed.until(lambda: "optic.unplugged" in followed.events("optic:leaf1/Ethernet4"), "unplugged")
    switch.delete(PORT)
    followed.until(lambda: not followed.streams.followed[0].switch.ports, "taken away")
    assert followed.events("port:leaf1/Ethernet4") == []


def test_after_a_restart_of_its_server_it_is_followed_again_and_what_changed_meanwhile_is_told(
    switch: gnmi.Switch, followed: Site
) -> None:
    switch.stop()
    followed.until(lambda: followed.events("monitor:leaf1/gnmi") == ["monitor.blind"], "silent")
    followed.until(lambda: followed.rows["switch:leaf1"]["up"] == 0.0, "its row")
    switch.state[f"{PORT}/state/oper-status"] = "DOWN"
    switch.start(int(switch.address.rpartition(":")[2]))
    followed.until(lambda: followed.events("port:leaf1/Ethernet4") == ["port.down"], "down")
    assert followed.events("monitor:leaf1/gnmi") == ["monitor.blind", "monitor.notice"]


def test_a_switch_that_answers_half_takes_nothing_away(switch: gnmi.Switch) -> None:
    site = Site(switch, timeout_s=0.5)
    site.until(lambda: site.streams.followed[0].switch.ports, "its ports")
    switch.half, switch.state = True, {f"{PORT[:-2]}8]/state/oper-status": "UP"}
    switch.restart()
    site.until(lambda: any("first answer" in text for text in site.words()), "half an answer")
    assert set(site.streams.followed[0].switch.ports) == {"Ethernet4", "Ethernet8"}
    assert "optic.unplugged" not in site.events()
    site.end()


def test_a_question_that_is_refused_costs_no_other(switch: gnmi.Switch) -> None:
    switch.refuses = ("lldp", "transceiver]")
    site = Site(switch)
    site.until(lambda: "port:leaf1/Ethernet4" in site.rows, "its ports")
    site.until(lambda: "monitor.notice" in site.events("monitor:leaf1/gnmi"), "refusal")
    assert site.streams.followed[0].refused == {"neighbours"}
    site.end()


def test_one_dead_switch_holds_up_no_other_and_a_wrong_certificate_is_no_switch(
    switch: gnmi.Switch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with gnmi.running(other) as stranger:
        site = Site(switch, stranger)
        # the other's certificate is not among the roots
        site.until(lambda: "port:leaf1/Ethernet4" in site.rows, "the first")
        site.until(lambda: site.rows.get("switch:leaf2") == {"up": 0.0}, "the other")
        assert stranger.calls == []
        site.end()


def test_nobody_has_answered_yet_is_a_failure_with_the_reason(switch: gnmi.Switch) -> None:
    switch.stop()
    site = Site(switch)
    deadline = time.monotonic() + WAIT_S
    failure = ""
    while not failure and time.monotonic() < deadline:
        try:
            site.poll()
            time.sleep(0.05)
        except PollFailed as error:
            failure = str(error)
    assert failure.startswith("no switch has answered yet: leaf1: ")
    site.end()


def test_hostile_updates_are_counted_and_the_stream_goes_on(switch: gnmi.Switch, followed: Site) -> None:
    switch.tell({
        f"{PORT}/state/counters/in-octets": "-1",
        f"{PORT}/state/counters/out-octets": {"a": {"b": ["c"]}},
        f"/interfaces/interface[name={'x' * 4000}]/state/counters/in-octets": 7,
        "/interfaces/interface[name=Ethernet4]/state/counters/in-discards": "9" * 300,
    })  # fmt: skip
    switch.tell({f"{PORT}/state/counters/in-errors": 11})
    followed.until(lambda: followed.rows["port:leaf1/Ethernet4"].get("rx_errors_total") == 11, "it goes on")
    assert followed.skipped >= 1
    assert followed.rows["port:leaf1/Ethernet4"]["rx_bytes_total"] == 1000.0


def test_samples_that_stop_end_the_connection_and_questions_without_an_answer_do_not(
    switch: gnmi.Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gnmi_stream, "QUIET_SAMPLES", 1)
    site = Site(switch, timeout_s=0.5)
    site.until(lambda: switch.streams == QUESTIONS and "switch:leaf1" in site.rows, "followed")
    time.sleep(2.0)
    site.poll()
    assert not any("silent" in text for text in site.words()), "nothing flowed: silence says nothing"
    switch.tell({f"{PORT}/state/counters/in-octets": 2000})
    site.until(lambda: any("counters: silent" in text for text in site.words()), "silent")
    site.end()


def test_sonic_s_databases_are_asked_by_their_targets(switch: gnmi.Switch) -> None:
    switch.models = ("sonic-db",)
    switch.state = {
        "/PORT_TABLE": {"Ethernet0": {"oper_status": "up", "admin_status": "up"}},
        "/COUNTERS/Ethernet*": {"Ethernet0": {"SAI_PORT_STAT_IF_IN_OCTETS": "7"}},
    }
    site = Site(switch)
    site.until(lambda: site.rows.get("port:leaf1/Ethernet0") == {"up": 1.0, "rx_bytes_total": 7.0}, "its ports")
    switch.tell({"/PORT_TABLE/Ethernet0": {"oper_status": "down"}}, target="APPL_DB")
    site.until(lambda: site.events("port:leaf1/Ethernet0") == ["port.down"], "down")
    site.end()


def test_settings_that_cannot_work_are_told(tmp_path: Path) -> None:
    assert CATALOGUE["gnmi"] == "collectors.cluster.switch_gnmi:sources"
    wrong = (
        (Gnmi(), "targets: name the switches"),
        (Gnmi(targets=("leaf1",)), "must be name=address"),
        (Gnmi(targets=("a=h:1",), ca_file=str(tmp_path / "none")), "ca_file"),
    )
    for settings, text in wrong:
        with pytest.raises(ConfigError, match=text):
            sources(["gnmi"], Config(gnmi=settings))


def test_the_stage_writes_frames_and_sealed_events_under_the_switch(switch: gnmi.Switch) -> None:
    log, site = MemoryLog(), Site(switch)
    site.source.every_s = 0.05
    poller = Poller([site.source], log.appender(), SelfMetrics(), lambda text: None, b"k" * 32)
    reader = log.reader()
    deadline, keys = time.monotonic() + WAIT_S, dict[str, set[bytes]]()
    while time.monotonic() < deadline and not {topics.TELEMETRY, topics.EVENTS, topics.TOPOLOGY} <= keys.keys():
        poller.step(round(time.time() * 1000))
        if topics.TELEMETRY in keys:
            switch.tell({f"{PORT}/state/oper-status": "DOWN"})
        for topic in (topics.TELEMETRY, topics.EVENTS, topics.TOPOLOGY):
            for task in tasks_of(log.topics, [topic]):
                keys.setdefault(topic, set()).update(record.key for record in records(reader, task))
            if not keys[topic]:
                del keys[topic]
        time.sleep(0.05)
    poller.close()
    assert keys[topics.TELEMETRY] == keys[topics.EVENTS] == {b"leaf1"}
    children = {key.split()[0] for key in keys[topics.TOPOLOGY]}
    assert b"port:leaf1/Ethernet4" in children


SHOUTS = """
import socket, sys, threading, time
from collectors.cluster.poll import PollFailed, sources
from sickbay.config import parse

server = socket.create_server(("127.0.0.1", 0))

def answer():
    while True:
        connection, _ = server.accept()
        connection.sendall(b"HTTP/1.1 400 no TLS here\\r\\n\\r\\n")
        connection.close()

threading.Thread(target=answer, daemon=True).start()
told = f'[gnmi]\\ntargets = ["leaf1=127.0.0.1:{server.getsockname()[1]}"]'
(source,) = sources(["gnmi"], parse(told.encode(), "test"))
until, failed = time.monotonic() + 20, False
while not failed and time.monotonic() < until:
    time.sleep(0.1)
    try:
        source.poll(source.state, 0)
    except PollFailed:
        failed = True
source.close()
sys.exit(not failed)
"""


@pytest.mark.slow
def test_a_switch_without_tls_writes_no_lines_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", SHOUTS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
