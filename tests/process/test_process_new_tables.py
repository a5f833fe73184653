"""Tables whose rows are of no host, from a poller's samples to detectors and the archive, step by step."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest

from collectors.cluster.poll import Polled, Poller, Source
from collectors.rows import samples
from diagnosis.engine import evidence_of
from sickbay import messages
from sickbay.admission import Admission, Refused
from sickbay.app.archiving.archive_frames import ArchiveFrames
from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.app.running.live import WINDOWS_GROUP, window_maker
from sickbay.components import Kind, name
from sickbay.log import driving, tick
from sickbay.log.memory import MemoryLog
from sickbay.messages import Edge, Relation
from sickbay.schema import TABLES, WINDOWED
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import TELEMETRY, TOPOLOGY
from streams.archive_rows import Reading
from streams.archive_telemetry import SCHEMA, Telemetry
from streams.runner import Runner
from tests.process.kit import DEADLETTER, FEATURES, KEY, SMALL, everything, incidents, only

NOW = 1_796_000_000_000
WIDTH_MS = 10_000
HOSTS = ("h1", "h2")
Rows = dict[str, dict[str, dict[str, float]]]  # table -> component -> column -> value

WELL: Rows = {
    "switch": {"switch:leaf1": {"up": 1, "temperature_celsius": 41}},
    "pdu": {"pdu:r1a": {"up": 1, "power_watts": 9000, "current_amperes": 40}},
    "cdu": {"cdu:c1": {"up": 1, "flow_litres_per_minute": 400, "supply_temperature_celsius": 29, "leak": 0}},
    "port": {"port:leaf1/Ethernet4": {"up": 1, "rx_bytes_total": 1e9}, "port:h1/eth2": {"up": 1}},
    "optic": {
        "optic:leaf1/Ethernet4": {"rx_power_dbm": 0.5, "tx_power_dbm": 1.0},
        "optic:h1/eth2": {"rx_power_dbm": 0.4, "tx_power_dbm": 1.1},
    },
}
EDGES = (
    *(Edge(child=f"host:{host}", parent="pdu:r1a", relation=Relation.POWERED_BY, from_ms=1) for host in HOSTS),
    *(Edge(child=f"host:{host}", parent="cdu:c1", relation=Relation.COOLED_BY, from_ms=1) for host in HOSTS),
    Edge(child="port:h1/eth2", parent="port:leaf1/Ethernet4", relation=Relation.LINK_END, from_ms=1),
    Edge(child="port:h1/eth2", parent="host:h1", relation=Relation.PART_OF, from_ms=1),
    Edge(child="port:leaf1/Ethernet4", parent="switch:leaf1", relation=Relation.PART_OF, from_ms=1),
)


def merged(*told: Rows) -> Rows:
    found: Rows = {}
    for rows in told:
        for table, parts in rows.items():
            for component, values in parts.items():
                own = found.setdefault(table, {}).setdefault(component, {})
                own.update(values)
    return found


@dataclass
class Site:
    """A log with a clock, a poller that tells what the test says, and the stages; signatures are required."""

    rows: Rows = field(default_factory=lambda: merged(WELL))
    now_ms: int = NOW

    def __post_init__(self) -> None:
        self.log = MemoryLog(SMALL, clock=lambda: self.now_ms)
        self.put, admission = self.log.appender(), Admission(KEY, require_signed=True)
        source: Source[int] = Source("facts", 5.0, 0, self._poll)
        self.said: list[str] = []
        self.poller = Poller([source], self.log.appender(), SelfMetrics(), self.said.append, KEY)
        make = window_maker(self.log, admission, width_ms=WIDTH_MS)
        self.windows = Runner(self.log.join(WINDOWS_GROUP, [TELEMETRY], "w"), make, group=WINDOWS_GROUP)
        self.diagnoser = Diagnoser(self.log, admission=admission, window_ms=WIDTH_MS)
        for edge in EDGES:
            self.put.append(TOPOLOGY, f"{edge.child} {edge.parent}".encode(), messages.encode(edge))

    def _poll(self, state: int, now_ms: int) -> Polled[int]:
        told = [one for table, rows in self.rows.items() for one in samples(table, rows, now_ms)]
        return Polled(state, samples=told)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_ms += 1000
            self.poller.step(self.now_ms)
            if self.now_ms % 5000 == 0:
                tick(self.put, self.log.topics, driving(self.log.topics))
                self.windows.drain()
                self.diagnoser.drain(self.now_ms)

    def told(self) -> set[tuple[object, ...]]:
        return {(verdict, component, fault) for verdict, component, fault, _ in incidents(self.log).values()}

    def case(self) -> Any:
        return self.diagnoser.horizon.case(self.now_ms)


@pytest.fixture(scope="module")
def calm() -> Site:
    site = Site()
    site.run(60)
    return site


@pytest.mark.slow
def test_every_row_becomes_windows_under_its_own_name(calm: Site) -> None:
    assert calm.said == []
    assert only(calm.log, DEADLETTER) == []
    found = {table: set(frame["component"]) for table, frame in calm.case().features.items() if frame.height}
    senders = {name(Kind.HOST, told) for told in ("leaf1", "r1a", "c1", "h1")}  # under whose name frames come
    assert found == {table: set(rows) for table, rows in WELL.items()} | {"liveness": senders}
    keys = {record.key for record in everything(calm.log, TELEMETRY) if not record.is_tick}
    assert keys == {b"leaf1", b"r1a", b"c1", b"h1"}
    assert calm.told() == set()


def test_windows_keep_the_values(calm: Site) -> None:
    frame = calm.case().features["cdu"]
    assert frame["flow_litres_per_minute"].to_list() == pytest.approx([400] * frame.height)
    assert frame.height >= 4
    assert calm.case().features["switch"]["temperature_celsius"].to_list()[0] == pytest.approx(41)


def test_the_archive_keeps_them_at_full_rate_too(calm: Site) -> None:
    admission = Admission(KEY, require_signed=True)
    told = [Reading(admission).row(record) for record in everything(calm.log, FEATURES)]
    assert {f"features_{table}" for table in WELL} <= {row.table for row in told if row}
    frames = ArchiveFrames(calm.log, admission, SelfMetrics())
    full = Telemetry(everything(calm.log, TELEMETRY), frames)
    rows = {table: full.frame(f"telemetry_{table}", SCHEMA, defaultdict(int))[0] for table in TABLES}
    assert full.damaged == 0
    assert {table for table, frame in rows.items() if frame.height} == set(WELL)
    assert set(rows["cdu"]["sender"]) == {"c1"}
    assert set(rows["optic"]["sender"]) == {"leaf1", "h1"}


def test_nobody_speaks_for_anothers_part() -> None:
    admission = Admission(KEY)
    for component in ("cdu:c1", "pdu:r1a", "switch:leaf1", "port:leaf1/Ethernet4", "host:h2"):
        with pytest.raises(Refused, match="h1 speaks for"):
            admission._own("h1", (component,))
    for sender, component in (("c1", "cdu:c1"), ("r1a", "pdu:r1a"), ("leaf1", "port:leaf1/Ethernet4")):
        admission._own(sender, (component,))


GONE: Rows = {"pdu": {"pdu:r1a": {"power_watts": 0.0, "current_amperes": 0.0}}}
WARM: Rows = {"cdu": {"cdu:c1": {"flow_litres_per_minute": 250.0, "supply_temperature_celsius": 38.0}}}
WET: Rows = {"cdu": {"cdu:c1": {"leak": 1.0}}}
DARK: Rows = {"optic": {"optic:h1/eth2": {"rx_power_dbm": -6.0}}}
FADES: Rows = {"optic": {"optic:leaf1/Ethernet4": {"tx_power_dbm": -6.0}, "optic:h1/eth2": {"rx_power_dbm": -7.0}}}
DOWN: Rows = {"port": {"port:leaf1/Ethernet4": {"up": 0.0}, "port:h1/eth2": {"up": 0.0}}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "component", "fault"),
    [
        (GONE, "pdu:r1a", "power_lost"),
        (WARM, "cdu:c1", "cooling_lost"),
        (WET, "cdu:c1", "cooling_lost"),
        (DARK, "link:h1/eth2~leaf1/Ethernet4", "link_attenuated"),
        (FADES, "optic:leaf1/Ethernet4", "optic_fault"),
        (DOWN, "port:h1/eth2", "link_down"),
    ],
)
def test_what_goes_wrong_is_one_incident(change: Rows, component: str, fault: str) -> None:
    site = Site()
    site.run(60)
    site.rows = merged(WELL, change)
    site.run(110)
    claims = evidence_of(site.case())
    assert (component, fault) in {(one.component, one.fault) for one in claims}
    told = site.told()
    assert len(told) == 1, told
    ((_, blamed, named),) = told
    assert (blamed, named) == (component, fault)


def test_a_row_of_every_table_of_the_schema_passes_admission_and_windows() -> None:
    """Whoever adds a table finds here whether it comes through: one sender, one row, one window."""
    site = Site(rows={})
    for table in TABLES.values():
        part = "x" if table.component in (Kind.HOST, Kind.SWITCH, Kind.PDU, Kind.CDU) else "x/p"
        column = next(one.name for one in table.columns if one.type == "gauge")
        site.rows[table.name] = {name(Kind(table.component), *part.split("/")): {column: 1.0}}
    site.run(40)
    found = {table for table, frame in site.case().features.items() if frame.height}
    assert found == set(WINDOWED)
    assert only(site.log, DEADLETTER) == []
