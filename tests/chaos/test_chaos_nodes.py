"""Three brokers, one of which dies while two processes work: everything that the log and the archive hold is right."""

import os
import time
from pathlib import Path

import pytest

from sickbay.config import load
from sickbay.log import Log, Task
from sickbay.log.kafka import KafkaLog
from sickbay.topics import TELEMETRY
from tests.chaos import trial
from tests.chaos.child import opened
from tests.chaos.storm import Member
from tests.chaos.test_chaos_kafka import LOG, ONE, OTHER
from tests.services.kafka import running

pytestmark = [pytest.mark.slow, pytest.mark.service]


def _leader(log: Log, task: Task) -> int:
    """The number of the node that leads a partition."""
    assert isinstance(log, KafkaLog)
    name = log.settings.prefix + task.topic
    return int(log.declared.admin.list_topics(name, timeout=10).topics[name].partitions[task.partition].leader)


def test_a_leader_lost_in_mid_run_loses_and_doubles_nothing(tmp_path: Path) -> None:
    seed = trial.seeded(os.environ.get("CHAOS_SEED", ""))
    print(f"CHAOS_SEED={seed}")
    with running(tmp_path / "brokers", 3, quick=True) as cluster:
        told = LOG.format(brokers=cluster.brokers, prefix=f"nodes-{os.getpid()}-{time.time_ns()}")
        trial.prepared(tmp_path, told.replace("replication = 1", "replication = 3"))
        log = opened(load(tmp_path / "sickbay.toml"))
        members = [Member("a", ONE), Member("b", OTHER)]
        try:
            with trial.storm(tmp_path, "kafka", members, seed, (600.0, 600.0)) as storm:
                site, speaker = trial.speaking(log, seed, 600)
                begun = time.monotonic()
                storm.rage(lambda: time.monotonic() < begun + 20)
                cluster.nodes[_leader(log, Task(TELEMETRY, 0)) - 1].kill()
                storm.others["leader killed"] += 1
                storm.rage(lambda: time.monotonic() < begun + 45)
                site.over.set()
                site.join(60)
                speaker.flush()
                with storm.calm():
                    trial.settled(log, site, lambda: storm.all_said)
                right = trial.judge(log, tmp_path, clocks=False)
                print(dict(site.said), dict(right.counts), len(right.incidents), len(right.evidence))
        finally:
            log.close()
