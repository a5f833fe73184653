"""An agent and a real broker: one that is not there yet, one that dies in between; nothing is lost and order stays."""

import time
from pathlib import Path

import pytest

from collectors.agent import start
from sickbay.log import wall_ms
from sickbay.log.opened import open_appender, open_log
from sickbay.settings import LogSettings
from tests.collectors.agent_kit import XID, events, kernel_log, settings, told, wait_for, write
from tests.services.kafka import running

RECONNECTED_S = 5.0


@pytest.mark.service
@pytest.mark.slow
def test_it_starts_without_a_broker_and_outlives_one(tmp_path: Path) -> None:
    config = settings(tmp_path)
    path = kernel_log(config)
    with running(tmp_path / "kafka") as cluster:
        spine = LogSettings(engine="kafka", brokers=cluster.brokers, replication=1)
        open_log(spine).close()  # makes the topics
        cluster.kill()
        agent = start(config, lambda: open_appender(spine))
        try:

            def stepped(entries: int) -> bool:
                agent.step(wall_ms(), 0.05)
                return agent.waiting == "" if entries == 0 else agent._spools.disk.held.entries >= entries

            time.sleep(0.5)
            for place, code in enumerate((31, 43, 48), 1):
                write(path, f"[1.1] {XID.replace('79', str(code))}\n")
                wait_for(lambda place=place: stepped(place))
            cluster.start()
            began = time.monotonic()
            wait_for(lambda: stepped(0) and agent._spools.disk.held.entries == 0, 60)
            first_s = time.monotonic() - began
            cluster.kill()
            write(path, f"[1.1] {XID}\n")
            wait_for(lambda: stepped(1))
            time.sleep(1.0)
            cluster.start()
            began = time.monotonic()
            wait_for(lambda: stepped(0) and agent._spools.disk.held.entries == 0, 60)
            again_s = time.monotonic() - began
        finally:
            agent.close()
        log = open_log(spine)
        try:
            codes = [event.code for event in events(log)]
            numbers = [one.seal.sequence for one in told(log) if one.seal]
        finally:
            log.close()
    assert list(dict.fromkeys(codes)) == ["Xid 31", "Xid 43", "Xid 48", "Xid 79"]
    assert sorted(set(numbers)) == [1, 2, 3, 4]
    assert first_s < RECONNECTED_S
    assert again_s < RECONNECTED_S
