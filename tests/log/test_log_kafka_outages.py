"""Brokers that die, hang and come back, processes that are stopped: nothing lost, nothing twice, nothing for ever."""

import contextlib
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sickbay.log import Fenced, LogBusy, LogError, OutcomeUnknown, Output, Position, Record, Task, TaskLog
from sickbay.log import kafka_transactions as transactions
from sickbay.log.kafka import KafkaLog
from sickbay.log.kafka_appender import KafkaAppender, KafkaOutcome
from sickbay.settings import LogSettings
from tests.log.engines import TOPICS, KafkaEngine, done, drained, kafka, told
from tests.services.kafka import Cluster, running

pytestmark = [
    pytest.mark.service,
    # kafka-python 3.0 leaves the sockets of refused connections to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
IN = Task("in", 0)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a test left is collected here, not in the next one."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that these tests may stop."""
    with running(tmp_path_factory.mktemp("own")) as cluster:
        yield cluster


@pytest.fixture
def engine(own: Cluster) -> Iterator[KafkaEngine]:
    yield from kafka(own.brokers)


def output_of(record: Record) -> Output:
    return Output("out", record.key, b"%d %d" % (record.partition, record.offset))


class Worker:
    """A processor of single records, which survives everything that the protocol says may happen."""

    def __init__(self, member: TaskLog) -> None:
        self.member = member
        self.errors: list[str] = []

    def step(self) -> bool:
        """One batch; whether there was one."""
        try:
            batch = self.member.poll(20, timeout_s=0.2)
        except LogBusy as error:
            self.errors.append(str(error))
            return True
        if not batch.records:
            return bool(batch.assigned or batch.revoked)
        positions = {record.task: Position(record.offset + 1) for record in batch.records}
        outputs = [output_of(record) for record in batch.records]
        while True:
            try:
                self.member.commit(outputs, positions)
                return True
            except LogBusy as error:
                self.errors.append(str(error))  # nothing was committed: once more
            except (Fenced, OutcomeUnknown) as error:
                self.errors.append(str(error))  # the next poll tells what is to be done anew
                return True


def fed(engine: KafkaEngine, count: int, pause_s: float) -> threading.Thread:
    """Appends in the background, repeating what did not get through."""

    def feed() -> None:
        for number in range(count):
            while True:
                try:
                    engine.appender.append("in", b"%d" % number, b"%d" % number).result()
                    break
                except LogBusy:
                    continue
            time.sleep(pause_s)

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    return thread


def worked_off(worker: Worker, feeder: threading.Thread) -> None:
    """Until nothing came for a while to a member that holds all tasks."""
    deadline = time.monotonic() + 90
    idle = 0
    while idle < 5:
        assert time.monotonic() < deadline, worker.errors
        busy = worker.step() or feeder.is_alive() or len(worker.member.assignment()) < 3
        idle = 0 if busy else idle + 1


def exactly_once(engine: KafkaEngine, numbers: int) -> None:
    records = [record for index in range(3) for record in engine.all("in", index)]
    outputs = [record.value for index in range(2) for record in engine.all("out", index)]
    assert {record.value for record in records} == {b"%d" % number for number in range(numbers)}
    assert sorted(outputs) == sorted(output_of(record).value for record in records)  # type: ignore[type-var]


def test_a_broker_that_restarts_in_mid_work_costs_nothing(own: Cluster, engine: KafkaEngine) -> None:
    """In good order: a lone broker that is killed may forget the end of a transaction (docs/adr/0002)."""
    worker = Worker(engine.log.join("group", ["in"], "m"))
    told(worker.member)
    feeder = fed(engine, 150, 0.01)
    until = time.monotonic() + 0.7
    while time.monotonic() < until:
        worker.step()
    own.stop()
    starting = threading.Thread(target=own.start)
    starting.start()
    worked_off(worker, feeder)
    starting.join()
    exactly_once(engine, 150)


def test_a_lone_broker_killed_inside_a_transaction_of_a_dead_process_holds_nobody_up(
    own: Cluster, engine: KafkaEngine
) -> None:
    """Both die before the commit was asked for: the next life ends what is open, and does the work anew."""
    engine.put("in", b"0", b"1", b"2", b"3")
    code = """
import os, sys
from sickbay.log import *
from sickbay.log import kafka_transactions
from sickbay.log.opened import open_log
from sickbay.settings import LogSettings
from tests.log.engines import TOPICS
settings = LogSettings(engine="kafka", brokers=sys.argv[1], prefix=sys.argv[2], replication=1, session_s=1)
member = open_log(settings, TOPICS).join("group", ["in"], "m")
while not (records := member.poll(timeout_s=1).records):
    pass
outputs = [Output("out", r.key, b"%d %d" % (r.partition, r.offset)) for r in records]
member.commit(outputs[:1], {records[0].task: Position(1)})
kafka_transactions.Transactions._settle = lambda *_: os.kill(os.getpid(), 9)
member.commit(outputs[1:3], {records[0].task: Position(3)})
"""
    prefix = engine.log.settings.prefix  # type: ignore[attr-defined]
    command = [sys.executable, "-c", code, own.brokers, prefix]
    assert subprocess.run(command, cwd=ROOT, timeout=60).returncode == -signal.SIGKILL
    own.nodes[0].kill()
    own.start()
    worker = Worker(engine.log.join("group", ["in"], "m"))
    try:
        worked_off(worker, fed(engine, 0, 0))
    except AssertionError:
        own.forgave(str(worker.errors[-1:]))
        raise
    exactly_once(engine, 4)


def test_a_commit_on_a_broker_that_hangs_ends_in_time_and_is_made_up(
    own: Cluster, engine: KafkaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.put("in", b"0")
    monkeypatch.setattr(transactions, "COMMIT_S", 3.0)
    member = engine.log.join("group", ["in"], "m")
    (record,) = drained(member)
    own.nodes[0].pause()
    began = time.monotonic()
    try:
        with pytest.raises((LogBusy, OutcomeUnknown), match=r"127\.0\.0\.1"):
            member.commit([output_of(record)], done(record))
        assert time.monotonic() - began < 12
    finally:
        own.nodes[0].resume()
    monkeypatch.setattr(transactions, "COMMIT_S", 6.0)
    worker = Worker(member)
    member.seek(IN, 0)
    deadline = time.monotonic() + 30  # a session that ended meanwhile is begun anew first
    while not any(engine.all("out", index) for index in range(2)) and time.monotonic() < deadline:
        worker.step()
    assert [r.value for index in range(2) for r in engine.all("out", index)] == [b"0 0"]


def test_a_broker_that_hangs_holds_appends_up_and_gets_all_that_was_taken(own: Cluster, engine: KafkaEngine) -> None:
    settings = LogSettings(engine="kafka", brokers=own.brokers, prefix=engine.log.settings.prefix)  # type: ignore[attr-defined]
    appender = KafkaAppender(settings, TOPICS, waiting_bytes=64 * 1024, patience_s=0.3)
    appender.append("in", b"k", b"first", partition=0).result()
    outcomes: list[KafkaOutcome] = []
    own.nodes[0].pause()
    try:
        with pytest.raises(LogBusy, match=r"bytes wait for 127\.0\.0\.1:\d+.*nothing was appended; try again later"):
            outcomes.extend(endless(appender))
        assert 20 < len(outcomes) < 64
        assert not any(outcome.done() for outcome in outcomes)
    finally:
        own.nodes[0].resume()
    appender.flush()
    offsets = [outcome.result().offset for outcome in outcomes]
    assert offsets == sorted(set(offsets))
    kept = [(record.value or b"").strip() for record in engine.all("in")]
    assert kept == [b"first", *(b"%d" % number for number in range(len(outcomes)))]
    appender.close()


def endless(appender: KafkaAppender) -> Iterator[KafkaOutcome]:
    for number in itertools.count():
        yield appender.append("in", b"k", b"%d" % number + b" " * 1000, partition=0)


def test_an_append_whose_time_is_over_is_told(own: Cluster, engine: KafkaEngine) -> None:
    settings = LogSettings(engine="kafka", brokers=own.brokers, prefix=engine.log.settings.prefix)  # type: ignore[attr-defined]
    appender = KafkaAppender(settings, TOPICS, delivery_s=1.5)
    appender.append("in", b"k", b"first", partition=0).result()
    own.nodes[0].pause()
    try:
        began = time.monotonic()
        outcome = appender.append("in", b"k", b"late", partition=0)
        with pytest.raises(LogBusy, match=r"no answer from 127\.0\.0\.1"):
            outcome.result()
        with pytest.raises(LogBusy):
            appender.flush()
        assert time.monotonic() - began < 10
    finally:
        own.nodes[0].resume()
    appender.append("in", b"k", b"next", partition=0).result()
    appender.close()


def test_a_log_whose_brokers_are_gone_is_closed_in_time(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        log = KafkaLog(LogSettings(engine="kafka", brokers=cluster.brokers, replication=1), TOPICS)
        member, appender = log.join("group", ["in"], "m"), log.appender()
        appender.append("in", b"k", b"x").result()
        told(member)
    began = time.monotonic()
    with pytest.raises(LogBusy, match=r"no answer from 127\.0\.0\.1.*check that the brokers run"):
        polled_until(member, began + 40)  # silence of the log and a log that is away do not look alike
    closing = time.monotonic()
    log.close()
    assert time.monotonic() - closing < 15


def polled_until(member: TaskLog, deadline: float) -> None:
    while time.monotonic() < deadline:
        member.poll(timeout_s=0.5)


def test_a_process_that_was_stopped_and_wakes_commits_nothing(engine: KafkaEngine) -> None:
    engine.put("in", b"0", b"1")
    code = """
import sys, time
from sickbay.log import *
from sickbay.log.opened import open_log
from sickbay.settings import LogSettings
from tests.log.engines import TOPICS
settings = LogSettings(engine="kafka", brokers=sys.argv[1], prefix=sys.argv[2], replication=1, session_s=1)
member = open_log(settings, TOPICS).join("group", ["in"], "sleeper")
while not (records := member.poll(timeout_s=1).records):
    pass
print("holds", flush=True)
sys.stdin.readline()
try:
    member.commit([Output("out", b"k", b"twice", 0)], {records[0].task: Position(1)})
    print("committed", flush=True)
except LogError as error:
    print(type(error).__name__, flush=True)
while not (batch := member.poll(timeout_s=1)).revoked:
    pass
print(len(batch.revoked), flush=True)
"""
    prefix = engine.log.settings.prefix  # type: ignore[attr-defined]
    command = [sys.executable, "-c", code, engine.log.settings.brokers, prefix]  # type: ignore[attr-defined]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, cwd=ROOT) as sleeper:
        assert sleeper.stdin is not None
        assert sleeper.stdout is not None
        try:
            assert sleeper.stdout.readline() == "holds\n"
            os.kill(sleeper.pid, signal.SIGSTOP)
            other = engine.log.join("group", ["in"], "other")
            assert len(told(other).assigned) == 3
            for record in drained(other):
                other.commit([output_of(record)], done(record))
            os.kill(sleeper.pid, signal.SIGCONT)
            sleeper.stdin.write("\n")
            sleeper.stdin.flush()
            assert sleeper.stdout.readline() == "Fenced\n"
            other.poll(timeout_s=0.1)
            assert sleeper.stdout.readline() == "3\n"
        finally:
            sleeper.kill()
    assert sorted(r.value or b"" for index in range(2) for r in engine.all("out", index)) == [b"0 0", b"0 1"]


@pytest.mark.slow
def test_three_brokers_lose_one_and_then_say_that_copies_are_too_few(tmp_path: Path) -> None:
    with running(tmp_path, 3, quick=True) as cluster:
        for engine in kafka(cluster.brokers, replication=3):
            worker = Worker(engine.log.join("group", ["in"], "m"))
            told(worker.member)
            feeder = fed(engine, 150, 0.02)
            until = time.monotonic() + 1
            while time.monotonic() < until:
                worker.step()
            cluster.nodes[0].kill()
            worked_off(worker, feeder)
            patiently(lambda one: exactly_once(one, 150), engine)
            cluster.nodes[1].kill()
            with pytest.raises(LogError):
                appended(engine.log.settings)  # type: ignore[attr-defined]
            cluster.start()


def patiently(check: Callable[[KafkaEngine], None], engine: KafkaEngine, limit_s: float = 30) -> None:
    """Asks again where the brokers are busy choosing who leads."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return check(engine)
        except LogBusy:
            if time.monotonic() > deadline:
                raise


def appended(settings: LogSettings) -> None:
    """One record, which is not waited for long."""
    appender = KafkaAppender(settings, TOPICS, delivery_s=3)
    try:
        appender.append("in", b"k", b"x").result()
    finally:
        with contextlib.suppress(LogError):
            appender.close()
