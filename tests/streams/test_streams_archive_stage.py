"""The archive stage: writes when it is time, goes on after a failure, and tells what it could not do."""

from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake.exceptions import DeltaError

from sickbay import messages, selfmetrics
from sickbay.app.archiving.archiver import Archiver
from sickbay.app.running.service import Context
from sickbay.config import ConfigError
from sickbay.history import History
from sickbay.log import LogBusy
from sickbay.log.memory import MemoryLog
from sickbay.messages import Event
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Archive, Config
from streams.archive_table import ArchiveTable
from tests.streams.archive_full_kit import Cluster
from tests.streams.archive_kit import SMALL, START, Writer, expected, stored

EVENTS = "sickbay.events.v1"


class Stage:
    """The stage over a log in memory, with a clock that the test moves."""

    def __init__(self, path: Path) -> None:
        self.now, self.said, self.metrics, self.path = START, list[str](), SelfMetrics(), path
        self.log = MemoryLog(SMALL, clock=lambda: self.now)
        config = Config(archive=Archive(path=str(path), every_s=60.0))
        self.stage = Archiver(Context(config, self.log, self.metrics, self.said.append, lambda: self.now))

    def round(self, after_ms: int = 0) -> int:
        """Steps until it has nothing to do; how many did something."""
        self.now += after_ms
        steps = 0
        while self.stage.step(self.now):
            steps += 1
        return steps

    def event(self) -> None:
        event = Event(component="host:n1", kind="kernel.panic", at_ms=START)
        self.log.appender().append(EVENTS, b"n1", messages.encode(event))

    def value(self, metric: selfmetrics.Metric, **labels: str) -> float | None:
        return self.metrics.value(metric, **labels)


@pytest.mark.slow
def test_it_writes_in_its_own_time_and_all_that_is_left_at_the_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.event()
    assert stage.round() > 0
    assert stage.value(selfmetrics.ARCHIVED, table="events") == 1
    assert stage.value(selfmetrics.ARCHIVE_SINCE) == START / 1000
    stage.event()
    assert stage.round(59_000) == 0
    assert stage.round(1_000) > 0
    assert stage.value(selfmetrics.ARCHIVED, table="events") == 2
    Writer(stage.log).some(100)
    stage.log.appender().append(EVENTS, b"n1", b"\xff")
    stage.stage.close()
    assert stored(tmp_path) == expected(stage.log)
    assert all(table.owed == 0 for table in stage.stage.archive.tables)
    assert (stage.value(selfmetrics.ARCHIVE_DAMAGED, topic=EVENTS) or 0) >= 1
    assert stage.said
    assert all(line.startswith("archive: ") for line in stage.said)


@pytest.mark.slow
@pytest.mark.parametrize("error", [DeltaError("disk full"), OSError("disk full"), LogBusy("try again")])
def test_a_failure_is_told_once_a_minute_counted_and_tried_again(tmp_path: Path, error: Exception) -> None:
    stage = Stage(tmp_path)
    stage.event()
    with patch.object(ArchiveTable, "append", side_effect=error):
        for _ in range(3):
            stage.round(60_000)
        stage.now -= 119_000
        stage.stage._next_ms = 0
        stage.round()
    assert stage.value(selfmetrics.ARCHIVE_ERRORS, kind=type(error).__name__) == 4
    assert len(stage.said) == 3
    assert str(error) in stage.said[0]
    before = stage.value(selfmetrics.ARCHIVE_SINCE)
    stage.round(600_000)
    assert before is None  # never
    assert stage.value(selfmetrics.ARCHIVE_SINCE) == stage.now / 1000
    assert stored(tmp_path) == expected(stage.log)


def test_no_folder_is_an_error_at_the_start() -> None:
    context = Context(Config(), MemoryLog(SMALL), SelfMetrics(), lambda line: None)
    with pytest.raises(ConfigError, match="name a folder"):
        Archiver(context)


@pytest.mark.slow
def test_telemetry_is_kept_and_grows_old(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    cluster = Cluster(stage.log)
    for _ in range(3):
        stage.now += 30_000
        cluster.send(stage.now, 6, step_ms=5_000)
    stage.round()
    rows = stage.value(selfmetrics.ARCHIVED, table="telemetry_accelerator")
    assert rows == 3 * 3 * 2 * 6
    stage.now += 51 * 3_600_000
    cluster.tick()
    stage.round()
    done = {
        what: stage.value(selfmetrics.ARCHIVE_UPKEEP, table="accelerator", what=what) for what in ("minutes", "removed")
    }
    assert done == {"minutes": 1, "removed": 1}
    assert History(tmp_path).minutes("accelerator").collect()["n"].sum() == rows
    assert stage.said == []
    stage.stage.close()


def test_telemetry_can_be_left_out(tmp_path: Path) -> None:
    log, metrics = MemoryLog(SMALL), SelfMetrics()
    config = Config(archive=Archive(path=str(tmp_path), telemetry=False))
    stage = Archiver(Context(config, log, metrics, lambda line: None))
    assert not {name for name in History(tmp_path).tables if name.startswith("telemetry")}
    stage.close()


@pytest.mark.parametrize("table", ["events", "telemetry_accelerator"])
def test_a_damaged_table_is_told_and_waited_for_and_stops_nobody_beside_it(tmp_path: Path, table: str) -> None:
    Stage(tmp_path).stage.close()
    broken = max((tmp_path / table / "_delta_log").glob("*.json"))
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    stage = Stage(tmp_path)
    for _ in range(3):
        assert stage.round(60_000) == 0
        assert "DeltaError" in stage.stage.waiting
    assert len(stage.said) == 4
    assert not any("\n" in line for line in stage.said)
    assert not stage.value(selfmetrics.ARCHIVE_SINCE)
    broken.write_bytes(whole)
    assert stage.round(60_000) > 0
    assert stage.stage.waiting == ""
    stage.stage.close()
