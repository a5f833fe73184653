"""`sickbay up` and `sickbay poll` with several sources at once, as processes: devices away, ends in order, SIGKILL."""

import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from sickbay.log.sqlite import SqliteLog
from sickbay.messages import AnyMessage, Edge, Event, decode
from sickbay.seal import opened
from sickbay.topics import EVENTS, TOPOLOGY
from tests.collectors.test_facility_redfish import CDU, site
from tests.process.kit import await_true, everything
from tests.services.process import Child, free_ports
from tests.services.recorded_https import HANG, Recorded, recorded_https

pytestmark = [pytest.mark.slow, pytest.mark.service]

SICKBAY = Path(sys.executable).with_name("sickbay")
RACKS = "host,rack,pdu_a,cdu\nh1,r1,p1,c1\nh2,r1,p1,c1\n"
ROPE = f"{CDU}/LeakDetection/LeakDetectors/Rope"
AWAY = "https://127.0.0.1:9"  # nobody listens there


@pytest.fixture
def units(tmp_path: Path) -> Iterator[Recorded]:
    with recorded_https(tmp_path) as told:
        told.answers = site()
        yield told


def written(folder: Path, units: Recorded, *redfish: str, more: str = "") -> Path:
    """The settings file."""
    (folder / "racks.csv").write_text(RACKS)
    targets = ", ".join(f'"{one}"' for one in (f"cdu:c1={units.url}", *redfish))
    (folder / "sickbay.toml").write_text(
        f"""
[log]
engine = "sqlite"
path = "{folder}/log"
[windows]
width_s = 1
lateness_s = 1
[facility]
redfish = [{targets}]
ca_file = "{units.ca_file}"
poll_s = 1
timeout_s = 2
[inventory]
files = ["{folder}/racks.csv"]
poll_s = 10
{more}"""
    )
    return folder / "sickbay.toml"


def run(folder: Path, *arguments: str) -> Child:
    command = [str(SICKBAY), *arguments, f"--config={folder / 'sickbay.toml'}"]
    return Child(command, folder, folder / "said", {"PYTHONUNBUFFERED": "1"}).start()


def ready(port: int) -> tuple[int, str]:
    """Status and words of /ready; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def told(log: SqliteLog, topic: str) -> list[AnyMessage]:
    return [decode(opened(one.value).payload) for one in everything(log, topic) if one.value]


def events(log: SqliteLog) -> list[tuple[str, str]]:
    return [(one.component, one.kind) for one in told(log, EVENTS) if isinstance(one, Event)]


def away(words: str) -> set[str]:
    return {line.partition(":")[0] for line in words.splitlines()}


def test_up_with_four_sources_and_a_dead_one_starts_says_and_ends(units: Recorded, tmp_path: Path) -> None:
    metrics, syslog, listen, snmp = free_ports(4)
    key = tmp_path / "server.key"
    (tmp_path / "tokens.toml").write_text("")
    (tmp_path / "community").write_text("public\n")
    more = f"""
[syslog]
listen = "127.0.0.1:{syslog}"
senders = ["leaf1=127.0.0.1"]
[gnmi]
targets = ["leaf9=127.0.0.1:9"]
timeout_s = 1
[snmp]
targets = ["leaf8=127.0.0.1:{snmp}"]
community_file = "{tmp_path}/community"
timeout_s = 1
poll_s = 2
[listen]
address = "127.0.0.1:{listen}"
certificate_file = "{units.ca_file}"
private_key_file = "{key}"
tokens_file = "{tmp_path}/tokens.toml"
[metrics]
listen = "127.0.0.1:{metrics}"
"""
    written(tmp_path, units, f"cdu:c9={AWAY}", more=more)
    child = run(tmp_path, "up")
    log = SqliteLog(tmp_path / "log")
    try:
        assert await_true(lambda: ("monitor:c9/redfish", "monitor.blind") in events(log), 25), child.tail()
        assert await_true(lambda: "gnmi" in ready(metrics)[1] and "snmp" in ready(metrics)[1], 15), ready(metrics)
        assert ready(metrics)[0] == 503
        assert await_true(lambda: away(ready(metrics)[1]) == {"poll gnmi", "poll snmp"}, 30), ready(metrics)
        with socket.create_connection(("127.0.0.1", syslog), 3) as line:
            line.sendall(b"<187>Ethernet4: link down\n")
        with socket.create_connection(("127.0.0.1", listen), 3):
            pass
        units.answers[ROPE]["DetectorState"] = "Critical"
        assert await_true(lambda: ("cdu:c1", "cdu.leak") in [(c, k) for c, k in events(log)], 15), events(log)
        units.answers[CDU] = HANG
        time.sleep(4)
        assert child.alive()
        began = time.monotonic()
        child.stop()
        assert time.monotonic() - began < 15
        assert child.status == 0, child.tail()
        words = (tmp_path / "said").read_text()
        assert "left behind" not in words
        assert "Traceback" not in words
    finally:
        child.kill()
        log.close()


def test_poll_killed_and_started_again_ends_what_ended_and_nothing_else(units: Recorded, tmp_path: Path) -> None:
    written(tmp_path, units)
    log = SqliteLog(tmp_path / "log")
    units.answers[ROPE]["DetectorState"] = "Critical"
    child = run(tmp_path, "poll", "facility", "inventory")
    try:
        assert await_true(lambda: told(log, TOPOLOGY) and ("cdu:c1", "cdu.leak") in events(log), 20), child.tail()
        before = [one for one in told(log, TOPOLOGY) if isinstance(one, Edge)]
        child.kill()
        (tmp_path / "racks.csv").write_text(RACKS.replace("h2,r1,p1,c1", "h2,r1,p1,c2"))  # moved meanwhile
        child.start()
        ended = "h2 leaves c1"
        assert await_true(lambda: any(one.to_ms for one in told(log, TOPOLOGY) if isinstance(one, Edge)), 20), ended
        time.sleep(3)
        edges = [one for one in told(log, TOPOLOGY) if isinstance(one, Edge)]
        assert {(one.child, one.parent) for one in edges if one.to_ms} == {("host:h2", "cdu:c1")}
        newest = {(one.child, one.parent, one.relation): one for one in edges}
        assert sum(one.to_ms is None for one in newest.values()) == len({(e.child, e.parent) for e in before})
        leaks = [one for one in told(log, EVENTS) if isinstance(one, Event) and one.kind == "cdu.leak"]
        assert {one.component for one in leaks} == {"cdu:c1"}
        child.stop()
        assert child.status == 0
    finally:
        child.kill()
        log.close()
