"""A real `sickbay process` on an embedded log, killed at random moments while agents speak: the same comes out."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sickbay.app.asking.incidents_topic import current
from sickbay.config import load
from sickbay.log import Log, wall_ms
from sickbay.log.opened import open_log
from sickbay.log.sqlite import SqliteLog
from sickbay.schema import LIVENESS
from tests.process.kit import (
    DEADLETTER,
    EVIDENCE,
    KEY,
    Agent,
    await_true,
    calm,
    everything,
    features,
    incidents,
    lost_card,
    only,
)
from tests.services.kafka import Addresses

SETTINGS = """
[log]
{log}
[windows]
width_s = 1
lateness_s = 1
[security]
key_file = "key"
require_signed = true
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "sickbay.toml").write_text(SETTINGS.format(log='path = "log"'))
    (tmp_path / "key").write_text(KEY.hex())
    return tmp_path


@contextmanager
def process(site: Path, *stages: str) -> Iterator[subprocess.Popen[bytes]]:
    with (site / "stderr").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "sickbay", "process", *stages], cwd=site, stderr=log,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait(20)


class Cluster(threading.Thread):
    """Hosts that send a frame each 0.2 s, and lose a card, one host after the other."""

    def __init__(self, log: Log, hosts: int = 4) -> None:
        super().__init__(daemon=True)
        self._appender = log.appender()
        self._agents = [Agent(f"n{number}", self._appender) for number in range(hosts)]
        self.over = threading.Event()
        self.lost: list[str] = []

    def run(self) -> None:
        beats = 0
        while not self.over.wait(0.2):
            now, beats = wall_ms(), beats + 1
            for agent in self._agents:
                agent.sample(now)
            self._appender.flush()
            if beats % 15 == 5 and len(self.lost) < len(self._agents):
                agent = self._agents[len(self.lost)]
                agent.say(lost_card(agent.host, now))
                agent.numbers["sickbay.events.v1"] -= 1  # and again: no answer came in time
                agent.say(lost_card(agent.host, now))
                self._appender.flush()
                self.lost.append(agent.host)


def _said(site: Path) -> str:
    return (site / "stderr").read_text(errors="replace")


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(site: Path) -> None:
    log = SqliteLog(site / "log")
    _killed(site, log, kills=5, lives_s=(1.2, 3.2))
    log.close()


@pytest.mark.service
@pytest.mark.slow
def test_kills_change_nothing_on_kafka_either(site: Path, kafka_broker: Addresses) -> None:
    told = f'engine = "kafka"\nbrokers = "{kafka_broker.brokers}"\nprefix = "kill-{os.getpid()}."\nreplication = 1'
    (site / "sickbay.toml").write_text(SETTINGS.format(log=told))
    log = open_log(load(site / "sickbay.toml").log)
    _killed(site, log, kills=2, lives_s=(6.0, 9.0))
    log.close()


def _killed(site: Path, log: Log, kills: int, lives_s: tuple[float, float]) -> None:
    """Processes that die one after the other, and one that ends in good order: as if none had died."""
    cluster, chance = Cluster(log), random.Random(11)
    cluster.start()
    for _ in range(kills):
        with process(site) as child:
            time.sleep(chance.uniform(*lives_s))
            assert child.poll() is None, _said(site)
            child.kill()
    with process(site) as child:
        assert await_true(lambda: len(cluster.lost) == 4, 40)
        cluster.over.set()
        cluster.join()
        assert await_true(lambda: len(incidents(log)) == 4, 40), _said(site)
        settled(log)
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0, _said(site)
    quiet = calm(log, width_ms=1000, lateness_ms=1000)
    assert features(log)
    _same_features(features(log), features(quiet))
    assert incidents(log) == incidents(quiet)
    assert {str(word[1]) for word in incidents(log).values()} == {f"accelerator:{h}/0000:00:00" for h in cluster.lost}
    claims = Counter(one.key for one in only(log, EVIDENCE))
    assert len(claims) >= 4
    assert max(claims.values()) <= 3  # once at once, again where its sender repeats it after a kill, and by diagnosis
    assert not only(log, DEADLETTER)


def settled(log: Log, timeout_s: float = 60.0) -> None:
    """The last windows are closed: for three seconds nothing has come but how long hosts are silent by now."""
    before, until = -1, time.monotonic() + timeout_s
    while before != (before := len(_of_samples(features(log)))):
        assert time.monotonic() < until, "windows without samples"
        time.sleep(3)


def _of_samples(told: list[tuple[int, bytes, bytes]]) -> list[tuple[int, bytes, bytes]]:
    return [one for one in told if not one[1].startswith(LIVENESS.name.encode() + b"/")]


def _same_features(found: list[tuple[int, bytes, bytes]], right: list[tuple[int, bytes, bytes]]) -> None:
    """The two may end elsewhere: a calm run with the last record of the log, a process with its last tick."""
    for partition in {one[0] for one in right}:
        mine = [one for one in found if one[0] == partition]
        theirs = [one for one in right if one[0] == partition]
        assert mine[: len(theirs)] == theirs[: len(mine)]
        assert abs(len(_of_samples(mine)) - len(_of_samples(theirs))) <= 1


@pytest.mark.slow
def test_an_explicit_event_is_an_incident_within_two_seconds_and_the_heartbeat_goes_on(site: Path) -> None:
    log = SqliteLog(site / "log")
    agent = Agent("n1", log.appender())
    reader = log.reader()
    with process(site) as child:
        assert await_true(lambda: current(reader)[1] is not None), _said(site)
        began = time.monotonic()
        agent.say(lost_card("n1", wall_ms()))
        agent.appender.flush()
        assert await_true(lambda: bool(current(reader)[0]), 5.0), _said(site)
        assert time.monotonic() - began < 2.0
        known, judged = current(reader)
        assert judged is not None
        assert judged.open == tuple(known)
        assert await_true(lambda: (now := current(reader)[1]) is not None and now.as_of_ms > judged.as_of_ms + 4000)
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0, _said(site)
    assert len(list(everything(log, EVIDENCE))) > 0
    log.close()


@pytest.mark.slow
def test_a_second_process_is_refused_with_a_clear_word(site: Path) -> None:
    log = SqliteLog(site / "log")
    log.join("diagnosis", ["sickbay.events.v1"], "somebody")
    with process(site, "diagnosis") as child:
        assert child.wait(20) == 4
    assert "held by another process" in _said(site)
    log.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["nonsense"], "no stage 'nonsense'"), (["--config", "missing.toml"], "missing.toml: No such file")],
)
def test_bad_usage_says_what_would_be_right(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from sickbay.cli import main

    assert main(["process", *arguments]) == 2
    assert says in capsys.readouterr().err
