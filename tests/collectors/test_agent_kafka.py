"""An agent and a real broker: one that is not there yet, one that stands still; nothing is lost."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sickbay.log.opened import open_log
from sickbay.settings import LogSettings
from tests.collectors.agent_kit import XID, events, kernel_log, settings, told, wait_for, write
from tests.services.kafka import running

RECONNECTED_S = 5.0


@contextmanager
def agent_of(folder: Path, brokers: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The command at work."""
    path = folder / "sickbay.toml"
    path.write_text(
        f'[log]\nengine = "kafka"\nbrokers = "{brokers}"\n[agent]\nhost = "n1"\nroot = "{folder / "n1"}"\n'
        'kernel_log = "var/log/kern.log"\nspool = "spool"\n',
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, "-m", "sickbay", "agent", "--config", str(path)], env=environment)
    try:
        yield process
    finally:
        process.terminate()
        status = process.wait(30)
    assert status == 0


def count(spool: Path, table: str) -> int:
    """Rows in a table of the spool, 0 where there is none yet."""
    if not spool.exists():
        return 0
    with closing(sqlite3.connect(spool)) as db:
        try:
            return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return 0


@pytest.mark.service
@pytest.mark.slow
def test_it_starts_without_a_broker_and_waits_for_one(tmp_path: Path) -> None:
    path, spool = kernel_log(settings(tmp_path)), tmp_path / "spool" / "spool.sqlite"
    with running(tmp_path / "kafka") as cluster:
        spine = LogSettings(engine="kafka", brokers=cluster.brokers, replication=1)
        open_log(spine).close()  # makes the topics
        cluster.kill()
        with agent_of(tmp_path, cluster.brokers):
            wait_for(lambda: count(spool, "places"), 30)
            for code in (31, 43, 48):
                write(path, f"[1.1] {XID.replace('79', str(code))}\n")
                time.sleep(0.5)
            wait_for(lambda: count(spool, "entries") >= 3)
            cluster.start()
            began = time.monotonic()
            wait_for(lambda: count(spool, "entries") == 0, 60)
            waited_s = time.monotonic() - began
            cluster.nodes[0].pause()
            write(path, f"[1.1] {XID}\n")
            wait_for(lambda: count(spool, "entries") >= 1)
            cluster.nodes[0].resume()
            wait_for(lambda: count(spool, "entries") == 0, 60)
        log = open_log(spine)
        numbers = [one.seal.sequence for one in told(log) if one.seal]
        codes = {event.code for event in events(log)}
        log.close()
    assert sorted(set(numbers)) == list(range(1, max(numbers) + 1))
    assert {"Xid 31", "Xid 43", "Xid 48", "Xid 79"} <= codes
    assert waited_s < RECONNECTED_S
