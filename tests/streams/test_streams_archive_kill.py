"""Two real archivers at the same archive, one of them killed again and again, while the log grows."""

import random
import time
from pathlib import Path

import polars as pl
import pytest

from sickbay.log.sqlite import SqliteLog
from sickbay.topics import FEATURES
from streams.archive import Archive
from tests.streams.archive_child import Child, serving
from tests.streams.archive_kit import SMALL, Writer, expected, stored

KILLS = 24
TOPICS = ("sickbay.events.v1", FEATURES, "sickbay.incidents.v1")


@pytest.mark.slow
def test_no_row_is_lost_or_doubled_however_often_an_archiver_is_killed(tmp_path: Path) -> None:
    chance, log, server = random.Random(5), SqliteLog(tmp_path / "log", SMALL), serving()
    writer = Writer(log)
    children = [Child(server, tmp_path, number, TOPICS) for number in range(2)]
    rounds: list[tuple[int, int]] = []
    behind = 0
    try:
        for number in range(KILLS):
            writer.some(100)
            child = children.pop(0)
            child.ready()
            time.sleep(chance.uniform(0.0, 0.2))
            rounds += child.kill()
            behind += _rows(tmp_path / "archive") < sum(map(len, expected(log, TOPICS).values()))
            children.append(Child(server, tmp_path, number + 2, TOPICS))
    finally:
        for child in children:
            child.process.kill()
            child.process.join(10)
    assert behind >= KILLS // 3  # most died with work in hand
    assert sum(rows for rows, _ in rounds) > 100
    assert sum(beaten for _, beaten in rounds) > 0  # they did get in each other's way
    Archive(log, tmp_path / "archive", topics=TOPICS).drain()
    assert stored(tmp_path / "archive") == expected(log, TOPICS)
    log.close()


def _rows(folder: Path) -> int:
    logs = folder.glob("*/_delta_log")
    return sum(pl.scan_delta(str(log.parent)).select(pl.len()).collect().item() for log in logs)
