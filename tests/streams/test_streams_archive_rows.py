"""The archive holds what the log held: every row once, whatever the batches, the crashes and the company."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from unittest.mock import patch

import deltalake
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sickbay import messages
from sickbay.log import Log, Task
from sickbay.log.memory import MemoryLog
from sickbay.log.sqlite import SqliteLog
from sickbay.messages import Event
from streams.archive import Archive
from streams.archive_table import ArchiveTable, Beaten, app_id
from tests.conftest import FACTOR
from tests.streams.archive_kit import SMALL, START, Writer, expected, stored

EVENTS, FEATURES = "sickbay.events.v1", "sickbay.features.v1"
FEW = (EVENTS, FEATURES)


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    made: Log = MemoryLog(SMALL) if request.param == "memory" else SqliteLog(tmp_path / "log", SMALL)
    yield made
    made.close()


@pytest.mark.slow
def test_the_archive_holds_every_readable_record_of_the_log_once(log: Log, tmp_path: Path) -> None:
    writer = Writer(log)
    writer.some(400)
    archive = Archive(log, tmp_path / "archive")
    archive.drain()
    assert stored(tmp_path / "archive") == expected(log)
    assert len(expected(log)) == 14  # every table had something to hold
    writer.some(200)
    archive.drain()
    assert stored(tmp_path / "archive") == expected(log)
    assert Archive(log, tmp_path / "archive").drain() == {}


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.mark.slow
@settings(max_examples=5 * FACTOR, suppress_health_check=[HealthCheck.too_slow])
@given(
    plan=st.lists(st.sampled_from(["write", "write", "round", "other", "settle", "restart"]), min_size=4, max_size=14),
    batch=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_batches_restarts_and_a_second_archiver_change_nothing(plan: list[str], batch: int, seed: int) -> None:
    log = MemoryLog(SMALL, seed=seed)
    writer = Writer(log, seed)
    with folder() as path, patch("streams.archive.BATCH_RECORDS", batch), patch("streams.archive.READ_RECORDS", 7):
        archive, other = Archive(log, path, topics=FEW), Archive(log, path, topics=FEW)
        for what in plan:
            if what == "write":
                writer.some(20)
            elif what == "restart":
                archive = Archive(log, path, topics=FEW)
            elif what == "settle":
                with suppress(Beaten):
                    archive.settle()
            else:
                (other if what == "other" else archive).step()
        archive.drain()
        assert stored(path) == expected(log, FEW)


class Crash(Exception):
    """Stands for the death of the process."""


@pytest.mark.slow
def test_a_crash_before_or_after_any_commit_loses_and_doubles_nothing(tmp_path: Path) -> None:
    log = MemoryLog(SMALL)
    writer, write, calls = Writer(log, 3), deltalake.write_deltalake, [0]

    def dying(*arguments: object, **named: object) -> None:
        calls[0] += 1
        if calls[0] % 5 == 0:
            raise Crash
        write(*arguments, **named)  # type: ignore[call-overload]
        if calls[0] % 5 == 3:
            raise Crash

    crashes = 0
    for _ in range(12):
        writer.some(30)
        try:
            with patch.object(deltalake, "write_deltalake", dying), patch("streams.archive.BATCH_RECORDS", 10):
                Archive(log, tmp_path, topics=FEW).drain()
        except Crash:
            crashes += 1
    assert crashes >= 8
    Archive(log, tmp_path, topics=FEW).drain()
    assert stored(tmp_path) == expected(log, FEW)


def test_a_transaction_that_another_archiver_made_is_refused(tmp_path: Path) -> None:
    schema, task = pl.Schema({"day": pl.Date(), "a": pl.Int64()}), Task("t", 0)
    row = pl.DataFrame([(None, 1)], schema=schema, orient="row")
    first, second = (ArchiveTable(tmp_path, "t", schema) for _ in range(2))
    first.begin({task: 0})
    second.begin({task: 0})
    first.append(row, {task: 5}, {})
    with pytest.raises(Beaten):
        second.append(row, {task: 5}, {})
    assert second.at == {task: 5}
    second.append(row, {task: 6}, {})
    with pytest.raises(Beaten):
        first.append(row, {task: 6}, {})
    table = deltalake.DeltaTable(tmp_path / "t")
    assert (table.count(), table.transaction_version(app_id(task))) == (2, 6)


@pytest.mark.slow
def test_a_table_ahead_of_its_sibling_is_not_set_back(tmp_path: Path) -> None:
    log = MemoryLog(SMALL)
    writer = Writer(log, 1)
    for number in range(1, 41):
        writer.window(number)
    archive = Archive(log, tmp_path, topics=[FEATURES])
    port = next(table for table in archive.feeds[FEATURES].tables if table.name == "features_port")
    with pytest.raises(Crash), patch.object(port, "append", side_effect=Crash):
        archive.step()  # accelerators have their rows, ports do not
    for number in range(41, 61):
        writer.window(number)
    with patch("streams.archive.BATCH_RECORDS", 22), patch("streams.archive.READ_RECORDS", 4):
        Archive(log, tmp_path, topics=[FEATURES]).drain()
    assert stored(tmp_path) == expected(log, [FEATURES])


def test_positions_that_were_only_passed_by_are_written_down_at_last(tmp_path: Path) -> None:
    log = MemoryLog(SMALL)
    writer = Writer(log)
    for _ in range(40):
        writer.appender.append(EVENTS, b"", b"", partition=1)
    archive = Archive(log, tmp_path, topics=[EVENTS])
    archive.step()
    assert archive.feeds[EVENTS].tables[0].owed == 40
    with patch("streams.archive.OWED_OFFSETS", 20):
        archive.step()
    archive.settle()
    again = Archive(log, tmp_path, topics=[EVENTS]).feeds[EVENTS].tables[0]
    assert (again.at[Task(EVENTS, 1)], again.owed) == (40, 0)


def test_small_files_are_joined_and_nothing_else_changes(tmp_path: Path) -> None:
    log = MemoryLog(SMALL, clock=lambda: START)
    appender = log.appender()
    archive = Archive(log, tmp_path, topics=[EVENTS])
    table = archive.feeds[EVENTS].tables[0]
    with patch("streams.archive_table.COMPACT_COMMITS", 5):
        for number in range(11):
            appender.append(EVENTS, b"n1", messages.encode(Event(component="host:n1", kind="k", code=str(number))))
            archive.step()
            assert table.tidy(date(2026, 3, 11))
    assert len(deltalake.DeltaTable(tmp_path / "events").file_uris()) <= 5
    assert stored(tmp_path) == expected(log)
    assert Archive(log, tmp_path, topics=[EVENTS]).drain() == {}
