"""Telemetry read back by columns makes the same windows as its frames did, one by one."""

import random
from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sickbay.admission import Admission
from sickbay.app.running.live import FrameReader
from sickbay.history import History
from sickbay.log import Output, Record, Task
from sickbay.log.memory import MemoryLog
from sickbay.topics import FEATURES, TELEMETRY
from streams.archive_read import full_rate
from streams.feature_record import decode, is_clock
from streams.replay import Batch, Pieces, wanted
from streams.runner import Mark
from streams.window_task import WindowTask
from tests.streams.archive_full_kit import SMALL, START, Cluster, archive

WIDTHS = {"width_ms": 10_000, "lateness_ms": 5_000}
TABLES = ("accelerator", "port")
Words = dict[tuple[object, ...], str]


def told(folder: Path, seed: int) -> tuple[list[Record], FrameReader, History]:
    """Half a minute and more of frames: late ones, backlogs, some told twice, some of a clock that is ahead, packs."""
    chance, now = random.Random(seed), [START]
    log = MemoryLog(SMALL, clock=lambda: now[0])
    cluster, made = Cluster(log, seed), archive(log, folder)
    recent: deque[tuple[bytes, bytes]] = deque(maxlen=8)
    for _ in range(60):
        now[0] += chance.randint(1, 1_500)
        host = chance.choice(cluster.hosts)
        what = chance.random()
        if what < 0.1:
            cluster.pack(now[0])
        elif what < 0.25 and recent:
            key, frame = chance.choice(recent)
            cluster.appender.append(TELEMETRY, key, frame)
        else:
            late_ms = chance.choice((0, 0, 0, 4_000, 12_000, 90_000, -9_000))
            frame = cluster.frame(host, now[0] - late_ms, chance.randint(1, 6), 1_000)
            recent.append((host.encode(), frame))
            cluster.appender.append(TELEMETRY, host.encode(), frame)
        if chance.random() < 0.2:
            made.drain()
    made.drain()
    records: list[Record] = []
    for partition in range(SMALL[TELEMETRY].partitions):
        records += log.reader().read(Task(TELEMETRY, partition), 0, 10_000)
    records.sort(key=lambda one: (one.append_ms, one.partition, one.offset))
    return records, FrameReader(log, Admission()), History(folder)


def _run(inputs: list[tuple[Record, object]]) -> Words:
    found: Words = {}
    for partition in range(SMALL[TELEMETRY].partitions):
        now: list[object] = [None]
        task = WindowTask(Task(TELEMETRY, partition), Mark(), lambda record, now=now: now[0], partitions=1, **WIDTHS)  # type: ignore[arg-type,misc]
        mine = [one for one in inputs if one[0].partition == partition]
        at_ms = START
        for record, now[0] in mine:
            while at_ms + 1_000 <= record.append_ms:
                at_ms += 1_000
                _keep(found, partition, task.take(Record(TELEMETRY, partition, 0, at_ms, b"", b"")))
            _keep(found, partition, task.take(record))
        for second in range(60):
            _keep(found, partition, task.take(Record(TELEMETRY, partition, 0, at_ms + 1_000 * (second + 1), b"", b"")))
    return found


def _keep(found: Words, partition: int, outputs: Iterable[Output]) -> None:
    for one in outputs:
        if one.topic != FEATURES or is_clock(one.key):
            continue
        block = decode(one.value or b"")
        for place, column in enumerate(block.columns):
            for row, name in enumerate(block.names):
                value = block.values[place, row]
                if not np.isnan(value):
                    key = (partition, block.table, block.end_ms, name, column)
                    assert key not in found
                    found[key] = value.tobytes().hex()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_windows_of_columns_are_those_of_frames(tmp_path: Path, seed: int) -> None:
    records, reader, history = told(tmp_path, seed)
    cuts = sorted(random.Random(seed).sample(range(1, 60), 4))
    edges = [START, *(START + one * 1_000 for one in cuts), START + 600_000]
    cutter, batches = Pieces(), list[Batch]()
    for begin, end in pairwise(edges):
        tables = {name: full_rate(history, name, begin, end, wanted(name)) for name in TABLES}
        batches += cutter.cut({name: rows for name, rows in tables.items() if rows.height})
    times = [one.record.append_ms // 1_000 for one in batches]
    assert times == sorted(times)
    mine, theirs = _run([(one.record, one.told) for one in batches]), _run([(one, reader(one)) for one in records])
    assert len(theirs) > 200
    assert mine == theirs


def test_rows_that_tell_nothing_known_still_count() -> None:
    rows = pl.DataFrame(
        {
            "append_ms": [START, START], "topic": [TELEMETRY] * 2, "partition": [0, 0], "offset": [1, 1],
            "key": ["n1"] * 2, "sender": ["n1"] * 2, "incarnation": [1, 1], "sequence": [1, 1],
            "component": ["accelerator:n1/0", "accelerator:n1/1"], "at_ms": [START, START + 9_000],
        }
    )  # fmt: skip
    life, batch = Pieces().cut({"accelerator": rows})
    assert (life.told.host, list(life.told.tables)) == ("n1", [])
    (matrix,) = batch.told.tables
    assert matrix.layout.gauges == matrix.layout.counters == ()
    assert matrix.at_ms.tolist() == [START, START + 2_000]
    assert matrix.gauges.shape == matrix.counters.shape == (2, 0)
    assert list(Pieces().cut({})) == []
