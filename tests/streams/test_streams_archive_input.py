"""What may come: bytes that nobody can read, parts of a newer version, retention that was faster, another log."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from unittest.mock import patch

import deltalake
import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sickbay import messages
from sickbay.admission import Admission
from sickbay.log import Record, Task, tick
from sickbay.log.memory import MemoryLog
from sickbay.messages import Event
from sickbay.seal import Seal, host_key, sealed
from streams.archive import Archive, ArchiveError, Feed
from streams.archive_rows import TOPICS, Damaged, Reading, Row, frame_of, tables_of
from streams.archive_table import ArchiveTable
from streams.feature_record import encode_frame as encode_features
from tests.streams.archive_kit import DAMAGED, SMALL, START

EVENTS, INCIDENTS, FEATURES = "sickbay.events.v1", "sickbay.incidents.v1", "sickbay.features.v1"
EVENT = Event(component="host:n1", kind="kernel.panic", at_ms=START, message="Kernel panic")
COLUMNS = {name: schema for topic in TOPICS for name, schema in tables_of(topic).items()}


def record(value: bytes | None, topic: str = EVENTS, key: bytes = b"n1", append_ms: int = START) -> Record:
    return Record(topic, 0, 7, append_ms, key, value)


def frame(value: bytes, topic: str = EVENTS, append_ms: int = START) -> pl.DataFrame:
    row = Reading().row(record(value, topic, append_ms=append_ms))
    assert row is not None
    return frame_of([row], COLUMNS[row.table])[0]


@given(topic=st.sampled_from(TOPICS), value=st.binary(max_size=300) | st.sampled_from(DAMAGED))
def test_any_bytes_are_a_row_or_damaged_and_never_an_error(topic: str, value: bytes) -> None:
    row = None
    with suppress(Damaged):
        row = Reading().row(record(value, topic))
    assert row is None or isinstance(row, Row)


@pytest.mark.slow
@given(
    st.fixed_dictionaries(
        {"type": st.just("event"), "component": st.just("host:n1"), "kind": st.just("k")},
        optional={
            name: st.none() | st.integers() | st.text(max_size=9) | st.floats() | st.lists(st.integers(), max_size=2)
            for name in (*Event.__struct_fields__[2:], "new_field")
        },
    )
)
def test_whatever_a_field_holds_the_batch_around_it_is_kept(fields: dict[str, object]) -> None:
    rows = [Reading().row(record(messages.encode(EVENT)))] * 3
    try:
        rows.insert(1, Reading().row(record(msgspec.json.encode(fields))))
    except Damaged:
        return
    made, lost = frame_of([row for row in rows if row], COLUMNS["events"])
    assert made.height + lost == 4
    assert made["message"].to_list().count("Kernel panic") == 3


def test_a_value_that_fits_no_column_costs_its_own_row_only() -> None:
    good, bad = (Reading().row(record(messages.encode(EVENT))) for _ in range(2))
    assert good is not None
    assert bad is not None
    assert isinstance(bad.values, dict)
    bad.values["count"] = 2**80
    made, lost = frame_of([good, bad, good, good], COLUMNS["events"])
    assert (made.height, lost) == (3, 1)


def test_members_of_a_newer_version_are_kept_in_the_record_and_nowhere_else() -> None:
    told = msgspec.json.decode(messages.encode(EVENT)) | {"rack": "r1"}
    row = frame(msgspec.json.encode(told)).to_dicts()[0]
    assert (row["component"], row["message"]) == ("host:n1", "Kernel panic")
    assert '"rack":"r1"' in row["record"]
    incident = {
        "type": "incident", "id": "i", "verdict": "job", "component": "job:7", "fault": "f", "severity": "info",
        "probability": 0.5, "action": "watch", "suspects": [{"component": "job:7", "probability": 0.5, "rank": 3}],
        "evidence": [{"type": "evidence", "id": "e", "detector": "d", "version": "1", "component": "job:7",
                      "fault": "f", "llr": 1.0, "cites": [{"path": "p", "column": 4}]}],
    }  # fmt: skip
    row = frame(msgspec.json.encode(incident), INCIDENTS).to_dicts()[0]
    assert row["suspects"] == '[{"component":"job:7","probability":0.5}]'
    assert '"rank":3' in row["record"]


@pytest.mark.parametrize(
    ("at_ms", "time_ms"), [(START - 5, START - 5), (START + 86_400_000, START + 2_000), (-(2**62), 0), (None, START)]
)
def test_time_is_the_sources_own_unless_its_clock_is_ahead(at_ms: int | None, time_ms: int) -> None:
    row = frame(messages.encode(messages.replace(EVENT, at_ms=at_ms))).to_dicts()[0]
    assert row["time"] == datetime.fromtimestamp(time_ms / 1000, UTC)
    assert row["day"] == date(2026, 3, 11)
    assert row["at_ms"] == at_ms


def test_seals_are_taken_off_and_checked_as_everywhere_else() -> None:
    cluster, payload = b"c" * 32, messages.encode(EVENT)
    seal = Seal(host="n1", incarnation=3, sequence=9)
    signed, unsigned = sealed(payload, seal, host_key(cluster, "n1")), sealed(payload, seal)
    row = frame(signed).to_dicts()[0]
    assert (row["sender"], row["incarnation"], row["sequence"], row["proved"]) == ("n1", 3, 9, False)
    assert row["record"] == payload.decode()
    strict = Reading(Admission(cluster, require_signed=True))
    proved = strict.row(record(signed))
    assert proved is not None
    assert isinstance(proved.values, dict)
    assert proved.values["proved"]
    for wrong in (unsigned, payload, sealed(payload, seal, host_key(cluster, "n2"))):
        with pytest.raises(Damaged):
            strict.row(record(wrong))
    with pytest.raises(Damaged, match="n1 speaks under"):
        Reading().row(record(signed, key=b"n2"))
    other = sealed(messages.encode(messages.replace(EVENT, component="host:n2")), seal, host_key(cluster, "n1"))
    with pytest.raises(Damaged, match="n1 speaks for n2"):
        strict.row(record(other))


def window(columns: dict[str, float], end_ms: int = START) -> bytes:
    made = pl.DataFrame({"component": ["host:n1"], "end_ms": [end_ms], "n": [10], "covered_ms": [10_000], **columns})
    return encode_features("host", end_ms, made)


@pytest.mark.slow
def test_new_columns_are_added_and_the_strange_ones_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog(SMALL, clock=lambda: START)
    appender = log.appender()
    archive = Archive(log, tmp_path, topics=[FEATURES])
    for columns in ({"load_1m": 1.0}, {"load_1m": 2.0, "newer_ratio": 0.5}, {"offset": 3.0, "Load-1m": 1.0, "n2": 1.0}):
        appender.append(FEATURES, b"host", window(columns), partition=0)
        archive.step()
    rows = pl.scan_delta(str(tmp_path / "features_host")).sort("offset").collect()
    assert rows["load_1m"].to_list() == [1.0, 2.0, None]
    assert rows["newer_ratio"].to_list() == [None, 0.5, None]
    assert rows["offset"].to_list() == [0, 1, 2]
    assert "Load-1m" not in rows.columns
    monkeypatch.setattr("streams.archive_table.MAX_COLUMNS", len(rows.columns) + 1)
    appender.append(FEATURES, b"host", window({f"made_up_{number}": 1.0 for number in range(50)}), partition=0)
    archive.step()
    assert len(pl.scan_delta(str(tmp_path / "features_host")).collect_schema()) == len(rows.columns) + 1
    table = next(table for table in archive.feeds[FEATURES].tables if table.name == "features_host")
    assert len(table.dropped) == 49


class Retention:
    """A log that forgets after a minute, and its archive."""

    def __init__(self, path: Path) -> None:
        self.now, self.path = START, path
        topics = {name: replace(topic, keep_ms=60_000) for name, topic in SMALL.items() if name == EVENTS}
        self.log = MemoryLog(topics, clock=lambda: self.now)
        self.appender = self.log.appender()

    def events(self, count: int) -> None:
        for _ in range(count):
            self.appender.append(EVENTS, b"n1", messages.encode(EVENT), partition=0)

    def forget(self) -> None:
        self.now += 120_000
        self.events(1)
        while self.log.sweep():
            pass

    def archive(self) -> Archive:
        return Archive(self.log, self.path, clock=lambda: self.now, topics=[EVENTS])

    def gaps(self) -> list[tuple[int, int]]:
        return (
            pl.scan_delta(str(self.path / "gaps"))
            .sort("from_offset")
            .select("from_offset", "to_offset")
            .collect()
            .rows()
        )


def test_what_retention_removed_unread_is_a_row_of_its_own(tmp_path: Path) -> None:
    kept = Retention(tmp_path)
    archive = kept.archive()
    kept.events(3)
    archive.step()
    kept.events(5)
    kept.forget()
    assert archive.step()[0].lost == 5
    assert archive.step()[0].lost == 0
    assert kept.gaps() == [(3, 8)]
    assert pl.scan_delta(str(tmp_path / "events")).collect().height == 4


def test_a_gap_is_written_once_however_often_the_archive_dies_in_it(tmp_path: Path) -> None:
    kept = Retention(tmp_path)
    kept.archive()
    kept.events(4)
    kept.forget()
    noted = Feed._noted

    def dying(feed: Feed, table: ArchiveTable, task: Task, to: int) -> int:
        noted(feed, table, task, to)
        raise KeyboardInterrupt  # the gap was written, the table did not go on

    for _ in range(3):
        archive = kept.archive()
        with patch.object(Feed, "_noted", dying), pytest.raises(KeyboardInterrupt):
            archive.step()
    kept.forget()
    kept.archive().drain()
    assert kept.gaps() == [(0, 4), (4, 5)]
    assert pl.scan_delta(str(tmp_path / "events")).collect()["offset"].to_list() == [5]


def test_an_archive_of_another_log_is_refused_with_what_to_do(tmp_path: Path) -> None:
    kept = Retention(tmp_path)
    kept.events(3)
    kept.archive().drain()
    fresh = Retention(tmp_path)
    with pytest.raises(ArchiveError, match="another log; name another folder"):
        fresh.archive()
    fresh.now += 5_000
    fresh.events(7)  # by now it is longer than the old one
    with pytest.raises(ArchiveError, match=r"another log.*events.v1\[0\] 2 is another record"):
        fresh.archive().drain()


def test_the_log_is_still_known_after_what_was_archived_last_is_gone(tmp_path: Path) -> None:
    kept = Retention(tmp_path)
    kept.events(3)
    kept.archive().drain()
    kept.events(2)
    kept.forget()
    kept.events(1)
    assert kept.archive().drain() == {"events": 2}


def test_a_gap_that_could_not_be_written_is_not_taken_for_written(tmp_path: Path) -> None:
    kept = Retention(tmp_path)
    archive = kept.archive()
    kept.events(4)
    kept.forget()
    for _ in range(2):
        full = patch.object(deltalake, "write_deltalake", side_effect=OSError("disk full"))
        with full, pytest.raises(OSError, match="disk"):
            archive.step()
        archive.feeds[EVENTS].reload()
    archive.step()
    assert kept.gaps() == [(0, 4)]


def test_ticks_removed_keys_and_heartbeats_are_no_rows(tmp_path: Path) -> None:
    log = MemoryLog(SMALL, clock=lambda: START)
    appender = log.appender()
    tick(appender, log.topics, [EVENTS])
    appender.append(INCIDENTS, b"i1", None)
    appender.append(INCIDENTS, b"judged", b'{"type":"judged","as_of_ms":5,"open":[]}')
    done = Archive(log, tmp_path, topics=[EVENTS, INCIDENTS]).step()
    assert [(written.rows, written.damaged) for written in done] == [({}, 0)] * 2


def test_damaged_records_are_counted_with_a_reason(tmp_path: Path) -> None:
    log = MemoryLog(SMALL, clock=lambda: START)
    appender = log.appender()
    appender.append(EVENTS, b"n1", b"\xff", partition=0)
    appender.append(EVENTS, b"n1", messages.encode(EVENT), partition=0)
    appender.append(EVENTS, b"n1", b'{"type":"step","step":1}', partition=0)
    written = Archive(log, tmp_path, topics=[EVENTS]).step()[0]
    assert (written.rows, written.damaged) == ({"events": 1}, 2)
    assert "sickbay.events.v1[0] 2: a message of type 'step' does not belong here" in written.reason
