"""Telemetry that came too late for windows is kept as it was measured, each value once."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sickbay import selfmetrics, wire
from sickbay.app.archiving.archiver import Archiver
from sickbay.app.running.service import Context
from sickbay.history import History
from sickbay.layouts import layout_of
from sickbay.log.memory import MemoryLog
from sickbay.schema import TABLES, Samples
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Archive, Config
from sickbay.topics import BACKFILL, SCHEMAS, TELEMETRY
from tests.streams.archive_kit import SMALL, START


def samples(at_ms: int, temperature: float) -> list[Samples]:
    cards = ["accelerator:n1/0000:cb:00", "accelerator:n1/0000:cc:00"]
    values = {"temperature_celsius": np.array([temperature, np.nan]), "energy_joules": np.array([5.0, np.nan])}
    known = {name: column for name, column in values.items() if name in TABLES["accelerator"].names}
    host = Samples("host", ["host:n1"], np.array([at_ms], np.int64), {"up": np.ones(1)})
    return [Samples("accelerator", cards, np.full(2, at_ms, np.int64), known), host]


@pytest.mark.slow
def test_late_frames_become_tables_of_telemetry(tmp_path: Path) -> None:
    log, metrics, said = MemoryLog(SMALL, clock=lambda: START), SelfMetrics(), list[str]()
    config = Config(archive=Archive(path=str(tmp_path), every_s=60.0))
    stage = Archiver(Context(config, log, metrics, said.append, lambda: START))
    appender = log.appender()
    for sequence in (7, 8, 8):  # the last one was sent again
        at_ms = START - 600_000 + sequence * 5_000
        tables = samples(at_ms, 40.0 + sequence)
        for table in tables:
            layout = layout_of(TABLES[table.table], table.values)
            appender.append(SCHEMAS, layout.key, layout.encoded())
        frame = wire.encode("n1", tables, sequence=sequence, incarnation=3, sent_ms=at_ms)
        appender.append(BACKFILL, b"n1", frame)
        appender.append(TELEMETRY, b"n1", wire.emptied(frame))
    appender.append(BACKFILL, b"n2", wire.encode("n1", tables, sequence=9, incarnation=3, sent_ms=START))
    appender.append(BACKFILL, b"n1", b"nonsense")
    while stage.step(START):
        pass
    stage.close()
    history = History(tmp_path)
    assert {"telemetry_accelerator", "telemetry_host"} <= set(history.tables)
    assert history.scan("telemetry_host").collect()["topic"].to_list() == [BACKFILL] * 3
    rows = history.telemetry("accelerator").sort("sequence", "component").collect()
    assert rows["sequence"].to_list() == [7, 7, 8, 8]
    assert rows["sender"].unique().to_list() == ["n1"]
    assert rows["at_ms"].to_list()[::2] == [START - 565_000, START - 560_000]
    assert rows["time"].dt.epoch("ms").to_list() == rows["at_ms"].to_list()
    column = next(name for name in ("temperature_celsius", "energy_joules") if name in rows.columns)
    assert rows[column].is_null().to_list() == [False, True, False, True]
    assert rows.schema[column] == pl.Float32
    assert metrics.value(selfmetrics.ARCHIVE_DAMAGED, topic=TELEMETRY) == 2
