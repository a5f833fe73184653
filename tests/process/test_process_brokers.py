"""Three brokers, one of which dies while windows are made of what its partitions hold: the same comes out."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from sickbay.app.running.live import WINDOWS_GROUP, window_maker
from sickbay.config import load
from sickbay.log import Log, LogBusy, Task, wall_ms
from sickbay.log.kafka import KafkaLog
from sickbay.log.memory import MemoryLog
from sickbay.log.opened import open_log
from sickbay.topics import partition_of
from streams.feature_record import is_clock
from streams.runner import Runner
from tests.process.kit import DEADLETTER, FEATURES, INPUTS, KEY, SCHEMAS, TELEMETRY, Agent, await_true, everything, only
from tests.process.test_process_kill import SETTINGS, process
from tests.services.kafka import running

pytestmark = [
    pytest.mark.service,
    pytest.mark.slow,
    # kafka-python 3.0 leaves the sockets of refused connections to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
HOSTS = [f"n{number}" for number in range(4)]


class Feed(threading.Thread):
    """Hosts that send a frame each 0.2 s, and send what got no answer again, as their spools do."""

    def __init__(self, log: Log) -> None:
        super().__init__(daemon=True)
        self._appender = log.appender()
        self._agents = [Agent(host, self._appender) for host in HOSTS]
        self.over, self.sent = threading.Event(), 0

    def run(self) -> None:
        while not self.over.wait(0.2):
            frames = [(agent.host.encode(), agent.sample(wall_ms())) for agent in self._agents]
            while not self._arrived():
                for host, frame in frames:
                    self._appender.append(TELEMETRY, host, frame)
            self.sent += 1

    def _arrived(self) -> bool:
        try:
            self._appender.flush()
        except LogBusy:
            return False
        return True


def test_the_leader_of_telemetry_dies_in_mid_run_and_windows_are_as_if_it_had_not(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY.hex())
    with running(tmp_path / "brokers", 3, quick=True) as cluster:
        told = f'engine = "kafka"\nbrokers = "{cluster.brokers}"\nprefix = "brokers-{os.getpid()}."\nreplication = 3'
        (tmp_path / "sickbay.toml").write_text(SETTINGS.format(log=told))
        log = open_log(load(tmp_path / "sickbay.toml").log)
        feed = Feed(log)
        feed.start()
        with process(tmp_path, "ticker", "windows") as child:
            assert await_true(lambda: _told(log) > 8, 60), _said(tmp_path)
            cluster.nodes[_leader(log, Task(TELEMETRY, partition_of(HOSTS[0].encode(), 16))) - 1].kill()
            before = feed.sent
            assert await_true(lambda: feed.sent > before + 40, 60), _said(tmp_path)
            feed.over.set()
            feed.join()
            time.sleep(5)  # the last windows
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == 0, _said(tmp_path)
        found, right = _rows(log), _oracle(log)
        assert len(found) == len({*found}) > 60  # none twice
        for place in {one[:2] for one in right}:
            mine, theirs = ([one for one in rows if one[:2] == place] for rows in (found, right))
            assert mine == theirs[: len(mine)]
            assert len(theirs) - len(mine) <= 2  # the oracle knows of a tick that the process was too late for
        assert not only(log, DEADLETTER)
        log.close()


def _said(folder: Path) -> str:
    return (folder / "stderr").read_text(errors="replace")


def _leader(log: Log, task: Task) -> int:
    assert isinstance(log, KafkaLog)
    name = log.settings.prefix + task.topic
    return int(log.declared.admin.list_topics(name, timeout=10).topics[name].partitions[task.partition].leader)


def _told(log: Log) -> int:
    """How many windows there are; 0 while brokers still agree on who leads."""
    try:
        return len(_rows(log))
    except LogBusy:
        return 0


def _rows(log: Log) -> list[tuple[int, bytes, bytes]]:
    """Partition, key, value; of one key in their order. Between keys of a partition there is none."""
    return [
        (one.partition, one.key, one.value or b"")
        for one in everything(log, FEATURES)
        if not one.is_tick and not is_clock(one.key)
    ]


def _oracle(log: Log) -> list[tuple[int, bytes, bytes]]:
    """The windows of the same inputs, with the same append times, taken by one process that nothing disturbs."""
    clock, chance = [0], random.Random(3)
    quiet = MemoryLog(log.topics, clock=lambda: clock[0])
    runner = Runner(
        quiet.join(WINDOWS_GROUP, [TELEMETRY], "m"), window_maker(quiet, width_ms=1000, lateness_ms=1000),
        group=WINDOWS_GROUP,
    )  # fmt: skip
    appender = quiet.appender()
    inputs = sorted(everything(log, *INPUTS), key=lambda one: (one.append_ms, one.topic, one.partition, one.offset))
    for one in sorted(inputs, key=lambda one: one.topic != SCHEMAS):  # a layout is there before the frame that needs it
        clock[0] = max(clock[0], one.append_ms if one.topic != SCHEMAS else inputs[0].append_ms)
        appender.append(one.topic, one.key, one.value, partition=one.partition)
        if chance.random() < 0.05:
            runner.drain()
    runner.drain()
    return _rows(quiet)
