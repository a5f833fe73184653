"""One process on the embedded log, killed over and over at random points: the log holds what the oracle computes."""

import os
from pathlib import Path

import pytest

from sickbay.log.sqlite import SqliteLog
from tests.chaos import trial
from tests.chaos.site import SMALL
from tests.chaos.storm import Member

STAGES = ("ticker", "windows", "explicit", "diagnosis", "archive")
KILLS, SECONDS = 115, 300.0  # seconds at most


@pytest.mark.slow
def test_a_process_killed_at_any_point_leaves_what_the_oracle_says(tmp_path: Path) -> None:
    kills, seconds = int(os.environ.get("CHAOS_KILLS", KILLS)), float(os.environ.get("CHAOS_SECONDS", SECONDS))
    seed = trial.seeded(os.environ.get("CHAOS_SEED", ""))
    print(f"CHAOS_SEED={seed}")
    trial.prepared(tmp_path, 'path = "log"')
    log = SqliteLog(tmp_path / "log", SMALL)
    with trial.storm(tmp_path, "sqlite", [Member("one", STAGES)], seed, (0.4, 1.6)) as storm:
        site, speaker = trial.speaking(log, seed, seconds)
        storm.rage(lambda: storm.kills.total() < kills and not site.over.is_set())
        site.over.set()
        site.join(10)
        speaker.flush()
        with storm.calm():
            trial.settled(log, site, lambda: storm.all_said)
        right = trial.judge(log, tmp_path)
        print(dict(site.said), dict(right.counts), len(right.incidents), len(right.evidence))
        assert storm.kills.total() >= kills, storm.summary
    log.close()
