"""Telemetry at full rate: every row once, then minutes in their place, whatever was late, packed, newer or killed."""

from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from sickbay.history import History
from sickbay.log.memory import MemoryLog
from sickbay.topics import TELEMETRY
from streams.archive import Archive
from streams.archive_table import ArchiveTable, Keeping
from streams.archive_upkeep import hours_of
from tests.streams.archive_full_kit import (
    HOUR_MS,
    SMALL,
    START,
    Cluster,
    archive,
    expected,
    minutes,
    stored,
    stored_minutes,
    upkeep,
)  # fmt: skip

DAY = date(2026, 12, 1)
HOUR = START // HOUR_MS


class Site:
    """A cluster, its log and its archive."""

    def __init__(self, path: Path, keeping: Keeping | None = None) -> None:
        self.now, self.path = START, path
        self.log = MemoryLog(SMALL, clock=lambda: self.now)
        self.cluster = Cluster(self.log)
        self.keeping = keeping or Keeping(full_rate_hours=24)

    def pass_time(self, minutes_: int, **told: int) -> None:
        for _ in range(minutes_ * 2):
            self.now += 30_000
            self.cluster.send(self.now, 6, step_ms=5_000, **told)

    def idle(self, to_ms: int) -> None:
        self.now = to_ms
        self.cluster.tick()

    def archived(self) -> Archive:
        made = archive(self.log, self.path)
        made.drain()
        return made

    def keep(self) -> list[str]:
        """All upkeep there is; what was done to accelerators."""
        made, done = self.archived(), []
        complete_ms = made.feeds[TELEMETRY].complete_ms()
        for name, one in upkeep(made, self.path, self.keeping).items():
            while what := one.step(complete_ms, DAY):
                done += [what] if name == "accelerator" else []
        return done


@pytest.mark.slow
def test_every_row_is_there_once_with_all_that_was_told(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pass_time(3)
    made = site.archived()
    site.cluster.pack(site.now)
    site.pass_time(2, late_ms=2 * HOUR_MS)
    site.pass_time(1)
    made.drain()
    wanted = expected(site.log)
    assert set(wanted) == {"accelerator", "port"}
    for table, rows in wanted.items():
        assert stored(tmp_path, table) == rows
    columns = pl.scan_delta(str(tmp_path / "telemetry_accelerator")).collect_schema()
    assert [columns[name] for name in ("aura_ratio", "sparks_total")] == [pl.Float32(), pl.Int64()]
    assert archive(site.log, tmp_path).drain() == {}


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1_000_000, 700])
def test_old_hours_become_minutes_and_lose_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("streams.archive_upkeep.CHUNK_ROWS", chunk)
    site = Site(tmp_path)
    site.pass_time(130)
    site.idle(site.now + 3 * HOUR_MS)
    site.pass_time(2, late_ms=4 * HOUR_MS)  # late, but before its hour is made
    rows = expected(site.log)
    site.idle(START + 26 * HOUR_MS - 1)
    assert site.keep() == ["minutes"]  # hour 0 is 25 h old: hour 1 needs its rows
    assert stored(tmp_path, "accelerator") == rows["accelerator"]
    site.idle(START + 27 * HOUR_MS - 1)
    assert site.keep() == ["minutes", "removed"]
    site.idle(START + 40 * HOUR_MS)
    assert site.keep() == ["minutes", "removed", "removed"]
    assert site.keep() == []
    for table in ("accelerator", "port"):
        assert stored(tmp_path, table) == []
        found = stored_minutes(tmp_path, table)
        wanted: dict[tuple[str, int], dict[str, float]] = {}
        for hour in range(HOUR - 2, HOUR + 4):
            wanted |= minutes(rows[table], hour)
        assert found.keys() == wanted.keys()
        for key, told in wanted.items():
            assert found[key] == pytest.approx(told, rel=1e-6), key


def test_what_comes_days_late_stays_as_it_is(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pass_time(1)
    site.idle(START + 40 * HOUR_MS)
    site.keep()
    site.pass_time(1, late_ms=40 * HOUR_MS)
    site.idle(START + 80 * HOUR_MS)
    site.keep()
    late = [row for row in expected(site.log)["port"] if row[0] != TELEMETRY]
    assert late
    assert stored(tmp_path, "port") == late
    assert {hour.stray for hour in hours_of(site.archived().feeds[TELEMETRY].tables[1])} == {True}
    told = History(tmp_path).telemetry("port", START - HOUR_MS, START + HOUR_MS).collect()
    assert told.height == len(late)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1_000_000, 700])
def test_an_hour_that_is_over_is_sorted_into_few_files_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("streams.archive_upkeep.CHUNK_ROWS", chunk)
    site = Site(tmp_path)
    for _ in range(10):
        site.pass_time(5)
        site.archived()
    site.idle(site.now + 30 * 60_000)
    assert site.keep() == ["sorted"]
    made = site.archived().feeds[TELEMETRY].tables[0]
    assert [(hour.files, hour.number) for hour in hours_of(made)] == [(1, HOUR)]
    assert stored(tmp_path, "accelerator") == expected(site.log)["accelerator"]
    names = pl.read_parquet(History(tmp_path).files("telemetry_accelerator"))["component"]
    assert names.rle().len() == names.n_unique()  # chunks may change places


@pytest.mark.slow
def test_the_best_of_both_has_each_moment_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pass_time(70)
    site.idle(START + 25 * HOUR_MS + 1)
    site.keep()
    history = History(tmp_path)
    best = history.telemetry_over("accelerator", START, START + 2 * HOUR_MS).collect()
    assert set(best["step_ms"]) == {0, 60_000}
    edge = datetime.fromtimestamp((START + HOUR_MS) / 1000, UTC)
    assert best.filter(pl.col("step_ms") > 0)["time"].max() == edge
    assert best.filter(pl.col("step_ms") == 0)["time"].min() == edge
    assert best.select("component", "time", "step_ms").is_unique().all()
    assert {"power_watts", "power_watts__min", "bus_replays_total__increase"} <= set(best.columns)


@pytest.mark.slow
def test_tables_that_an_older_version_began_go_on(tmp_path: Path) -> None:
    old = {"day": pl.Date(), "time": pl.Datetime("us", "UTC"), "component": pl.String(), "at_ms": pl.Int64(),
           "up": pl.Float64(), "rx_bytes_total": pl.Float64()}  # fmt: skip
    ArchiveTable(tmp_path, "telemetry_port", pl.Schema(old))
    site = Site(tmp_path)
    site.pass_time(70)
    site.idle(START + 40 * HOUR_MS)
    assert "minutes" in site.keep()  # of other tables
    history = History(tmp_path)
    rows = history.telemetry("port", START, START + HOUR_MS // 2).collect()
    assert rows.height == 3 * 2 * 60 * 6
    assert rows.schema["rx_bytes_total"] == pl.Float64()
    assert history.minutes("port").collect().height == 0
    assert history.scan("telemetry_port").collect().height == len(expected(site.log)["port"])
