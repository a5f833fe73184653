"""A member that is killed while it hands a task over, and is back before anybody missed it: nobody would be given that
task, as the broker hands the old shares out again without a word to the others."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sickbay.log import TaskLog
from tests.log.engines import KafkaEngine, kafka
from tests.services.kafka import Addresses

pytestmark = [pytest.mark.service, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
DIES = """
import os, sys
from sickbay.log.kafka_tasks import KafkaTasks
from sickbay.log.opened import open_log
from sickbay.settings import LogSettings
from tests.log.engines import TOPICS
settings = LogSettings(engine="kafka", brokers=sys.argv[1], prefix=sys.argv[2], replication=1, session_s=2)
KafkaTasks._revoked = lambda self, consumer, partitions: os._exit(9)
member = open_log(settings, TOPICS).join("group", ["in"], "first")
while True:
    if member.poll(timeout_s=0.1).assigned:
        print(len(member.assignment()), flush=True)
"""


@pytest.fixture
def engine(kafka_broker: Addresses) -> Iterator[KafkaEngine]:
    yield from kafka(kafka_broker.brokers)


def test_a_task_that_nobody_was_given_is_found_and_shared_out(engine: KafkaEngine) -> None:
    settings = engine.log.settings  # type: ignore[attr-defined]
    command = [sys.executable, "-c", DIES, settings.brokers, settings.prefix]
    with subprocess.Popen(command, stdout=-1, text=True, cwd=ROOT) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == "3\n"
            other = engine.log.join("group", ["in"], "other")
            while first.poll() is None:
                other.poll(timeout_s=0.1)
            assert first.returncode == 9  # it was just asked to give a task up
        finally:
            first.kill()
    again = engine.log.join("group", ["in"], "first")
    assert all_held([other, again])


def all_held(members: list[TaskLog]) -> bool:
    """Whether every task has a holder in the end, and goes on having one."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        for member in members:
            member.poll(timeout_s=0.1)
        if len(frozenset.union(*(member.assignment() for member in members))) == 3:
            return True
    return False
