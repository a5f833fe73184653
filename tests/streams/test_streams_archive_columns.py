"""What frames may tell: strange columns, kinds that contradict each other, clocks that are wrong, numbers too great."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sickbay.app.remediating.remediator import _folder
from sickbay.archive_place import NAMES, coarse, place, telemetry
from sickbay.config import placed
from sickbay.frames import Frame, Matrix
from sickbay.layouts import Layout
from sickbay.log import Record
from sickbay.schema import TABLES
from sickbay.settings import Archive, Config
from streams.archive import GAPS
from streams.archive_minutes import shape
from streams.archive_rows import TOPICS, tables_of
from streams.archive_telemetry import SCHEMA, Telemetry, Unpacked, schemas

NOW = 1_796_000_400_000
HOUR_MS = 3_600_000


def frame(layout: Layout, at_ms: Sequence[int], sequence: int = 1, value: float = 2.0) -> Frame:
    rows = len(at_ms)
    matrix = Matrix(
        layout,
        ("accelerator:n1/0",),
        np.zeros(rows, np.uint16),
        np.array(at_ms, np.int64),
        np.full((rows, len(layout.gauges)), value, np.float32),
        np.full((rows, len(layout.counters)), int(value), np.int64),
    )
    return Frame("n1", sequence, 1, NOW, None, False, (matrix,))


def rows(*frames: Frame, append_ms: int = NOW) -> tuple[pl.DataFrame, Telemetry]:
    told = iter(frames)
    records = [Record("sickbay.telemetry.v1", 0, at, append_ms, b"n1", b"x") for at in range(len(frames))]
    read = Telemetry(records, lambda record: Unpacked([next(told)]))
    return read.frame("telemetry_accelerator", SCHEMA, defaultdict(int))[0], read


def test_columns_that_no_table_can_have_are_left_out() -> None:
    layout = Layout(
        "accelerator", ("day", "Power", "power_watts", "component"), ("offset", "x" * 200, "bus_replays_total")
    )
    told, _ = rows(frame(layout, [NOW]))
    assert set(told.columns) - set(SCHEMA) == {"power_watts", "bus_replays_total"}
    assert told["component"].to_list() == ["accelerator:n1/0"]
    assert told["offset"].to_list() == [0]


def test_a_column_that_is_told_as_both_kinds_keeps_the_first() -> None:
    told, _ = rows(
        frame(Layout("accelerator", ("sparks",), ()), [NOW]), frame(Layout("accelerator", (), ("sparks",)), [NOW + 1])
    )
    assert told.schema["sparks"] == pl.Float32()
    assert told["sparks"].to_list() == [2.0, 2.0]


def test_missing_is_null_and_never_a_value() -> None:
    layout = Layout("accelerator", ("power_watts",), ("bus_replays_total",))
    told, _ = rows(_absent(layout))
    assert told.select("power_watts", "bus_replays_total").rows() == [(None, None)]


def _absent(layout: Layout) -> Frame:
    made = frame(layout, [NOW])
    matrix = made.tables[0]
    matrix.gauges[:], matrix.counters[:] = np.nan, -1
    return made


@pytest.mark.parametrize(
    ("at_ms", "day", "hour", "time_ms"),
    [
        (NOW, date(2026, 11, 30), 1, NOW),
        (NOW + 10 * HOUR_MS, date(2026, 11, 30), 1, NOW + 2_000),  # a clock ahead
        (NOW - 24 * HOUR_MS, date(2026, 11, 29), 1, NOW - 24 * HOUR_MS),
        (NOW - 26 * HOUR_MS, date(2026, 11, 30), 24, NOW - 26 * HOUR_MS),  # a stray
        (0, date(2026, 11, 30), 24, 0),
    ],
)
def test_rows_lie_where_they_were_measured_or_with_the_strays(at_ms: int, day: date, hour: int, time_ms: int) -> None:
    told, _ = rows(frame(Layout("accelerator", ("power_watts",), ()), [at_ms]))
    assert told.select("day", "hour", pl.col("time").dt.epoch("ms"), "at_ms").rows() == [(day, hour, time_ms, at_ms)]


def test_a_number_that_no_column_holds_is_damage() -> None:
    told, read = rows(frame(Layout("accelerator", ("power_watts",), ()), [NOW], sequence=1 << 63))
    assert told.height == 0
    assert read.damaged == 1
    assert read.reason == "sickbay.telemetry.v1[0] 0: its number is too great"


def test_every_table_has_a_name_that_a_store_is_asked_for() -> None:
    told = {name for topic in TOPICS for name in tables_of(topic)} | set(schemas()) | {coarse(name) for name in TABLES}
    assert set(NAMES) == told | {GAPS}


def test_minutes_tell_of_known_columns_and_of_newer_ones() -> None:
    types = dict(SCHEMA) | {"power_watts": pl.Float64(), "bus_replays_total": pl.Float64(), "sparks_total": pl.Int64(),
                            "aura": pl.Float32(), "a__b": pl.Float32(), "word": pl.String()}  # fmt: skip
    told = shape("accelerator", types)
    assert told.gauges == ("power_watts", "aura")
    assert told.counters == ("bus_replays_total", "sparks_total")


def test_a_bucket_is_no_folder(tmp_path: Path) -> None:
    config = placed(Config(archive=Archive(path="s3://bucket/site")), tmp_path)
    assert config.archive.path == "s3://bucket/site"
    assert _folder(config) is None
    config = placed(Config(archive=Archive(path="archive")), tmp_path)
    assert _folder(config) == tmp_path / "archive" / "bundles"
    assert place(config.archive.path).table(telemetry("port")) == str(tmp_path / "archive" / "telemetry_port")
