"""Two archivers of telemetry at one archive, one of them killed again and again, while rows come, are sorted, become
minutes and are removed."""

import random
import time
from pathlib import Path

import pytest

from sickbay.log.sqlite import SqliteLog
from tests.streams.archive_child import Child, keep, serving
from tests.streams.archive_full_kit import (
    HOUR_MS,
    SMALL,
    START,
    Cluster,
    archive,
    expected,
    minutes,
    pieces,
    stored,
    stored_minutes,
)

KILLS = 24


@pytest.mark.slow
def test_no_row_and_no_minute_is_lost_or_doubled_however_often_an_archiver_is_killed(tmp_path: Path) -> None:
    chance, now, server = random.Random(5), [START], serving()
    log = SqliteLog(tmp_path / "log", SMALL, clock=lambda: now[0])
    cluster = Cluster(log, hosts=2)
    children = [Child(server, tmp_path, number, (), keep) for number in range(2)]
    told: list[tuple[int, int]] = []
    try:
        for number in range(KILLS):
            for _ in range(8):
                now[0] += HOUR_MS // 5
                cluster.send(now[0], 4, late_ms=chance.choice((0, 0, 0, 2 * HOUR_MS, 26 * HOUR_MS)), step_ms=20_000)
            cluster.appender.flush()
            child = children.pop(0)
            child.ready()
            time.sleep(chance.uniform(0.0, 0.7))
            told += child.kill()
            children.append(Child(server, tmp_path, number + 2, (), keep))
    finally:
        for child in children:
            child.process.kill()
            child.process.join(10)
    assert sum(rows for rows, _ in told) > 0
    assert sum(done for _, done in told) > 0
    made = archive(log, tmp_path / "archive")
    made.drain()
    list(pieces(made, tmp_path / "archive"))
    last = (now[0] - 24 * HOUR_MS) // HOUR_MS  # hours before this one are minutes
    wanted = expected(log)
    log.close()
    for table, rows in wanted.items():
        full = [row for row in rows if _stray(row) or row[8] // HOUR_MS >= last - 1]
        assert stored(tmp_path / "archive", table) == full
        made_of: dict[tuple[str, int], dict[str, float]] = {}
        for hour in range(START // HOUR_MS - 27, last):
            made_of |= minutes(rows, hour)
        found = stored_minutes(tmp_path / "archive", table)
        assert found.keys() == made_of.keys()
        for key, row in made_of.items():
            assert found[key] == pytest.approx(row, rel=1e-6), key


def _stray(row: tuple[str, int, int, int, str, str, int, str, int, str]) -> bool:
    return row[3] >= (row[8] // HOUR_MS + 1) * HOUR_MS + 24 * HOUR_MS
