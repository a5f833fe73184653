"""What is asked of an archive after a night, by us and by another engine; and its records, read back for replay."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from sickbay import messages, packs, post_mortem, wire
from sickbay.admission import Admission
from sickbay.app.archiving.archive_frames import ArchiveFrames
from sickbay.history import History, NoArchive
from sickbay.layouts import Schemas, layout_of
from sickbay.log import Record
from sickbay.log.memory import MemoryLog
from sickbay.messages import Change, Edge, Event, Placement, RankPlace, Relation, Step
from sickbay.schema import TABLES, Samples
from sickbay.seal import Seal, opened, sealed
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import CHANGES, EVENTS, FEATURES, PLACEMENT, SCHEMAS, STEPS, TELEMETRY, TOPOLOGY
from streams.archive import Archive
from streams.archive_read import records
from streams.feature_record import encode_frame
from tests.streams.archive_full_kit import SMALL, START

MINUTE_MS = 60_000
SEEN = (EVENTS, PLACEMENT, TOPOLOGY, CHANGES, TELEMETRY)
CARD = "accelerator:n1/0000:cb:00"


class Night:
    """Two hosts, a job on the first, a flapping link, a change before it all."""

    def __init__(self, folder: Path) -> None:
        self.now, self.folder = START, folder
        self.log = MemoryLog(SMALL, clock=lambda: self.now)
        self.appender, self.sequence = self.log.appender(), 0

    def put(self, topic: str, key: str, message: messages.AnyMessage, host: str = "") -> None:
        payload = messages.encode(message)
        if host:
            self.sequence += 1
            payload = sealed(payload, Seal(host=host, incarnation=3, sequence=self.sequence), b"k" * 16)
        self.appender.append(topic, (host or key).encode(), payload)

    def facts(self) -> None:
        self.put(CHANGES, "host:n1", Change(target="host:n1", what="driver", at_ms=START - 5, who="ann", new="580"))
        self.put(CHANGES, "host:n9", Change(target="host:n9", what="driver", at_ms=START - 5))
        ranks = (RankPlace(rank=0, host="n1", component=CARD), RankPlace(rank=1, host="n1"))
        job = Placement(job="77", hosts=("n1",), ranks=ranks, from_ms=START, to_ms=START + 20 * MINUTE_MS)
        self.put(PLACEMENT, "77", job)
        self.put(TOPOLOGY, "e", Edge(child="port:n1/p0", parent="port:leaf1/7", relation=Relation.LINK_END))

    def run(self) -> None:
        self.facts()
        for minute in range(20):
            for host in ("n1", "n2"):
                self.frame(host, 300.0 if host == "n2" or minute < 15 else 90.0)
            self.now += MINUTE_MS
            self.window(minute)
        self.put(EVENTS, "n1", Event(component=CARD, kind="accelerator.off_bus", at_ms=self.now, code="79"), "n1")
        self.put(EVENTS, "n2", Event(component="host:n2", kind="kernel.panic", at_ms=self.now), "n2")

    def frame(self, host: str, watts: float, key: str = "") -> bytes:
        cards = [f"accelerator:{host}/0000:{bus}:00" for bus in ("cb", "cc")]
        at_ms = np.array([self.now + 10_000, self.now + 10_000])
        told = [
            Samples("accelerator", cards, at_ms, {"power_watts": np.array([watts, np.nan])}),
            Samples("port", [f"port:{host}/p0"], at_ms[:1], {"link_downed_total": np.array([float(self.now % 7)])}),
        ]
        for one in told:
            layout = layout_of(TABLES[one.table], one.values)
            self.appender.append(SCHEMAS, layout.key, layout.encoded())
        self.sequence += 1
        frame = wire.encode(host, told, sequence=self.sequence, incarnation=3, sent_ms=self.now)
        self.appender.append(TELEMETRY, host.encode(), frame)
        return frame

    def window(self, minute: int) -> None:
        told = {"component": ["port:n1/p0", "port:n2/p0"], "link_downed_total__increase": [float(minute % 3 == 0), 0.0]}
        frame = pl.DataFrame(told).with_columns(end_ms=pl.lit(self.now), n=pl.lit(10), covered_ms=pl.lit(10_000))
        self.appender.append(FEATURES, b"port/0", encode_frame("port", self.now, frame))

    def history(self) -> History:
        frames = ArchiveFrames(self.log, Admission(), SelfMetrics())
        Archive(self.log, self.folder, frames=frames).drain()
        return History(self.folder)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Night, History]:
    made = Night(tmp_path_factory.mktemp("archive"))
    made.run()
    return made, made.history()


@pytest.mark.slow
def test_what_hit_my_ranks(night: tuple[Night, History]) -> None:
    hits = post_mortem.hits(night[1], "77")
    assert hits.select("attempt", "host", "ranks", "component", "code").rows() == [(0, "n1", [0], CARD, "79")]
    with pytest.raises(NoArchive, match="no placement of job '78'"):
        post_mortem.hits(night[1], "78")


@pytest.mark.slow
def test_a_hosts_day(night: tuple[Night, History]) -> None:
    day = post_mortem.host_day(night[1], "n1", datetime.fromtimestamp(START / 1000, UTC).date())
    assert set(day) == {"accelerator", "port", "events", "changes"}
    assert set(day["accelerator"]["component"]) == {CARD, "accelerator:n1/0000:cc:00"}
    assert day["port"].height == 20
    assert day["events"]["code"].to_list() == ["79"]


@pytest.mark.slow
def test_which_link_flapped_most(night: tuple[Night, History]) -> None:
    flaps = post_mortem.flaps(night[1], START, START + 3_600_000)
    assert flaps.select("component", "downs", "other_end").rows() == [("port:n1/p0", 7.0, "port:leaf1/7")]
    assert flaps["last"][0] - flaps["first"][0] == timedelta(minutes=18)


@pytest.mark.slow
def test_power_before_the_hang(night: tuple[Night, History]) -> None:
    power = post_mortem.power_before(night[1], ["n1"], START + 20 * MINUTE_MS)
    assert set(power["component"]) == {CARD}
    assert power["power_watts"].to_list() == [300.0] * 5 + [90.0] * 5
    many = [f"m{number}" for number in range(20)]
    assert post_mortem.power_before(night[1], [*many, "n1"], START + 20 * MINUTE_MS).rows() == power.rows()


@pytest.mark.slow
def test_what_left_its_own_course(tmp_path: Path) -> None:
    night = Night(tmp_path)
    for _ in range(6 * 20):
        night.now += 10_000
        minute = (night.now - START - 1) // MINUTE_MS
        light = {"a": -2.0, "b": -2.0 - 0.1 * minute, "c": -2.0 if minute < 19 else -9.0}
        frame = pl.DataFrame({"component": [f"optic:n1/{one}" for one in light], "rx_power_dbm": [*light.values()]})
        frame = frame.with_columns(end_ms=pl.lit(night.now), n=pl.lit(10), covered_ms=pl.lit(10_000))
        night.appender.append(FEATURES, b"optic/0", encode_frame("optic", night.now, frame))
    history, until = night.history(), START + 20 * MINUTE_MS + 1
    drift = post_mortem.drift(history, "optic", "rx_power_dbm", START + 1, until, floor=0.1)
    assert drift["component"].to_list() == ["optic:n1/c", "optic:n1/b", "optic:n1/a"]
    assert drift["deviation"].to_list() == pytest.approx([-70.0, -1.0 / (1.4826 * 0.5), 0.0], rel=1e-3)
    assert drift["earlier"].to_list() == [19] * 3
    assert drift["slope_per_hour"][1] == pytest.approx(-6.0, rel=1e-4)
    wide = history.wide_features("optic", START + MINUTE_MS, START + 3 * MINUTE_MS).collect()
    assert set(wide["end_ms"]) == {START + MINUTE_MS, START + 2 * MINUTE_MS}
    assert set(wide["n"]) == {60}


@pytest.mark.slow
def test_how_fast_a_job_was(tmp_path: Path) -> None:
    night = Night(tmp_path)
    for step in range(3):
        for rank in range(4):
            at_ms = START + 5_000 * step + rank
            told = Step(step=step, job="77", rank=rank, at_ms=at_ms, duration_ms=100.0 + rank, work=10.0)
            night.put(STEPS, "n1", told, f"n{rank}")
    night.put(STEPS, "n1", Step(step=0, job="78", rank=0, at_ms=START, duration_ms=1.0), "n1")
    found = night.history().step_series("77").collect()
    assert found["step"].to_list() == [0, 1, 2]
    assert found.select("ranks", "median_ms", "slowest_rank", "per_work_ms").row(2) == (
        4,
        101.5,
        3,
        pytest.approx(10.15),
    )


@pytest.mark.slow
def test_what_changed_on_these_hosts_before(night: tuple[Night, History]) -> None:
    changes = post_mortem.changes_before(night[1], ["n1", "n2"], START)
    assert changes.select("target", "who", "new").rows() == [("host:n1", "ann", "580")]


@pytest.mark.slow
def test_another_engine_reads_the_same_files(night: tuple[Night, History]) -> None:
    files = night[1].files("telemetry_accelerator")
    question = """
        SELECT component, count(*) AS n, avg(power_watts) AS watts
        FROM read_parquet(?, hive_partitioning = true, union_by_name = true)
        WHERE day = ? AND hour = ? AND component >= 'accelerator:n1/' AND component < 'accelerator:n10'
        GROUP BY component ORDER BY component
    """
    begin = datetime.fromtimestamp(START / 1000, UTC)
    with duckdb.connect() as engine:
        rows = engine.execute(question, [files, begin.date(), begin.hour]).fetchall()
    assert rows == [(CARD, 20, pytest.approx(247.5)), ("accelerator:n1/0000:cc:00", 20, None)]


@pytest.mark.slow
def test_records_come_back_in_the_order_of_the_log(night: tuple[Night, History]) -> None:
    made, history = night
    found = list(records(history, START - 1, made.now + 1))
    wanted = sorted(
        (record for topic in SEEN for record in _all(made.log, topic)),
        key=lambda one: (one.append_ms, one.topic, one.partition, one.offset),
    )
    assert [one.record._replace(value=None) for one in found] == [record._replace(value=None) for record in wanted]
    schemas = Schemas()
    for kept, record in zip(found, wanted, strict=True):
        if record.topic == TELEMETRY:
            for layout in kept.layouts:
                schemas.learn(layout)
            assert _rows(kept.record.value or b"", schemas) == _rows(record.value or b"", schemas)
        else:
            ours, theirs = opened(kept.record.value or b""), opened(record.value or b"")
            assert ours.payload == theirs.payload
            assert (ours.seal is None) == (theirs.seal is None)
            assert kept.proved is (False if record.topic == EVENTS else None)


@pytest.mark.slow
def test_a_pack_comes_back_as_a_pack(tmp_path: Path) -> None:
    made = Night(tmp_path)
    frames = [made.frame(host, 5.0) for host in ("n1", "n2")]
    made.appender.append(TELEMETRY, b"pod", packs.pack(frames))
    found = [one.record for one in records(made.history(), START, START + 1, [TELEMETRY]) if one.record.key == b"pod"]
    schemas = Schemas()
    for columns in (("power_watts",), ("link_downed_total",)):
        schemas.learn(layout_of(TABLES["accelerator" if "power" in columns[0] else "port"], columns))
    told = packs.unpack(found[0].value or b"")
    assert [_rows(member, schemas) for member in told] == [_rows(frame, schemas) for frame in frames]


def _rows(payload: bytes, schemas: Schemas) -> list[object]:
    frame = wire.decode(payload, schemas)
    rows = [
        (matrix.layout.table, matrix.names[int(matrix.device[at])], int(matrix.at_ms[at]), str(matrix.gauges[at]),
         str(matrix.counters[at]))
        for matrix in frame.tables for at in range(len(matrix.at_ms))
    ]  # fmt: skip
    return [frame.host, frame.sequence, frame.incarnation, sorted(rows)]


def _all(log: MemoryLog, topic: str) -> Iterator[Record]:
    reader = log.reader()
    for partition in range(log.topics[topic].partitions):
        yield from reader.read(Record(topic, partition, 0, 0, b"", b"").task, 0, 10_000)
