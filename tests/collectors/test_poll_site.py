"""Facility and inventory through the poller into a log: what a strict reader lets in, and a start from it."""

from pathlib import Path

import pytest

from collectors.cluster import facility_redfish, inventory
from collectors.cluster.asking import Target
from collectors.cluster.poll import CATALOGUE, WANTED, Poller, sources, wanted
from collectors.cluster.redfish_get import Told
from collectors.http_get import HttpError
from sickbay.admission import Admission
from sickbay.app.running.poller import _told as told_to
from sickbay.layouts import Schemas, decoded
from sickbay.log import Record, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.messages import Edge, Event
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config
from sickbay.source_settings import Facility, Inventory
from sickbay.topics import EVENTS, SCHEMAS, TELEMETRY, TOPOLOGY

KEY = b"k" * 32
PDU = {
    "/redfish/v1/P": {"@odata.type": "#PowerDistribution.v1_6_0.PowerDistribution", "Status": {"Health": "OK"}},
    "/redfish/v1/P/Mains/1": {
        "@odata.type": "#Circuit.v1_9_0.Circuit", "CircuitType": "Mains", "BreakerState": "Tripped",
        "PowerWatts": {"Reading": 0},
    },
}  # fmt: skip


def records(log: MemoryLog, topic: str) -> list[Record]:
    return [one for task in tasks_of(log.topics, [topic]) for one in log.reader().read(task, 0)]


def test_a_strict_reader_lets_in_what_the_facility_tells() -> None:
    def ask(target: Target) -> Told:
        if target.name == "cdu:c1":
            raise HttpError("no whole answer within 1 s")
        return Told(PDU)

    log = MemoryLog()
    units = [Target("pdu:p1", "https://a"), Target("cdu:c1", "https://b")]
    source = facility_redfish.of(ask, units, Facility(poll_s=10))
    said: list[str] = []
    Poller([source], log.appender(), SelfMetrics(), said.append, KEY).step(1000)
    admission, schemas = Admission(KEY, require_signed=True), Schemas()
    for one in records(log, SCHEMAS):
        schemas.learn(decoded(one.value or b""))
    events = [admission.message(one).message for one in records(log, EVENTS)]
    assert sorted(one.kind for one in events if isinstance(one, Event)) == ["monitor.blind", "pdu.tripped"]
    (frame,) = [admission.frame(one, schemas) for one in records(log, TELEMETRY)]
    assert (frame.host, [table.names for table in frame.tables]) == ("p1", [("pdu:p1",)])
    assert said == []


def test_a_poller_that_starts_anew_ends_what_left_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text("host,rack\nh1,r1\nh2,r1\n", "utf-8")
    settings = Config(inventory=Inventory(files=(str(tmp_path / "hosts.csv"),)))
    log = MemoryLog()
    for rows, now_ms in (("h1,r1\nh2,r1\n", 1000), ("h1,r1\n", 2000)):
        (tmp_path / "hosts.csv").write_text(f"host,rack\n{rows}", "utf-8")
        (source,) = inventory.sources(settings)
        assert source.remembered is not None
        source.state = source.remembered(told_to(log, source.remembers))
        Poller([source], log.appender(), SelfMetrics(), print).step(now_ms)
    edges = [one for one in told_to(log, TOPOLOGY) if isinstance(one, Edge)]
    assert [(one.child, one.to_ms) for one in edges if one.to_ms] == [("host:h2", 2000)]


@pytest.mark.parametrize("entry", ["inventory", "facility"])
def test_entries_are_wanted_where_the_settings_name_something(entry: str, tmp_path: Path) -> None:
    assert not WANTED[entry](Config())
    settings = Config(inventory=Inventory(files=("x",)), facility=Facility(redfish=("pdu:p1=https://a",)))
    assert entry in wanted(settings)
    assert entry in CATALOGUE
    assert len(sources([entry], settings)) == 1
