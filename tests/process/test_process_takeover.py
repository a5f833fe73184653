"""Two processes of diagnosis on Kafka: one leads, the other stands by with the same memory and goes on when it dies."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sickbay.app.asking.incidents_topic import current
from sickbay.config import load
from sickbay.log import Log, LogBusy, wall_ms
from sickbay.log.opened import open_log
from tests.process.kit import KEY, Agent, await_true, incidents, lost_card
from tests.process.test_process_kill import SETTINGS, process
from tests.services.kafka import Addresses

pytestmark = [pytest.mark.slow, pytest.mark.service]
TAKEN_S = 5.0


@pytest.fixture
def site(tmp_path: Path, kafka_broker: Addresses) -> Path:
    told = f'engine = "kafka"\nbrokers = "{kafka_broker.brokers}"\nprefix = "over-{os.getpid()}."\nreplication = 1'
    (tmp_path / "sickbay.toml").write_text(SETTINGS.format(log=told))
    (tmp_path / "key").write_text(KEY.hex())
    return tmp_path


@pytest.fixture
def log(site: Path) -> Iterator[Log]:
    found = open_log(load(site / "sickbay.toml").log)
    yield found
    found.close()


def _said(site: Path) -> str:
    return (site / "stderr").read_text(errors="replace")


def _beats(log: Log, since_ms: int) -> bool:
    try:
        judged = current(log.reader())[1]
    except LogBusy:  # topics that are just being made
        return False
    return judged is not None and judged.as_of_ms > since_ms


def test_a_standby_goes_on_within_five_seconds(site: Path, log: Log) -> None:
    agent = Agent("n1", log.appender())
    with process(site, "ticker", "windows"), process(site, "diagnosis") as leader:
        assert await_true(lambda: _beats(log, 0), 40), _said(site)
        with process(site, "diagnosis") as standby:
            time.sleep(8.0)  # reads along by now
            assert leader.poll() is None, _said(site)
            assert standby.poll() is None, _said(site)
            agent.say(lost_card("n1", wall_ms()))
            agent.appender.flush()
            assert await_true(lambda: len(incidents(log)) == 1, 10), _said(site)
            leader.kill()
            killed_ms = wall_ms()
            agent.say(lost_card("n1", wall_ms(), component="accelerator:n1/0000:07:00"))
            agent.appender.flush()
            assert await_true(lambda: len(incidents(log)) == 2, 20), _said(site)
            taken_s = (wall_ms() - killed_ms) / 1000
            assert taken_s < TAKEN_S + 1.0, taken_s  # and a second until the look
            assert await_true(lambda: _beats(log, killed_ms + 5_000), 15), _said(site)
            print(f"taken over after {taken_s:.1f} s", killed_ms, _said(site))
