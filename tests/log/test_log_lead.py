"""What every engine does for a group that is led: one member holds all tasks, the others stand by."""

import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sickbay.log import Ends, Fenced, LogError, LogInUse, Output, Position, Record, Replaced, Task, TaskLog, tasks_of
from sickbay.log.kafka import KafkaLog
from sickbay.log.kafka_lead import KafkaLead, lock_of
from sickbay.log.kafka_tasks import Patience
from sickbay.log.kafka_transactions import Lost, Transactions
from sickbay.log.memory import MemoryLog
from sickbay.topics import EVIDENCE
from sickbay.topics import TOPICS as DECLARED
from tests.log.engines import ENGINES, TOPICS, Engine, KafkaEngine, Patient, done, drained, kafka, told

IN = Task("in", 0)
BOTH = ["in", "fast"]
ALL = set(tasks_of(TOPICS, BOTH))
ROOT = Path(__file__).parents[2]
service = pytest.mark.service


@pytest.fixture(params=[*sorted(ENGINES), pytest.param("kafka", marks=service)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "kafka":
        yield from kafka(request.getfixturevalue("kafka_broker").brokers)
    else:
        yield from ENGINES[request.param](tmp_path)


@pytest.fixture
def shared(engine: Engine) -> Engine:
    """An engine whose groups may have several members."""
    if not engine.shares:
        pytest.skip("one member per group here")
    return engine


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaEngine]:
    yield from kafka(request.getfixturevalue("kafka_broker").brokers)


def output_of(record: Record) -> Output:
    return Output("out", record.key, b"%d %d" % (record.partition, record.offset), 0)


def quiet(member: TaskLog, rounds: int = 3) -> bool:
    """Whether some polls tell nothing."""
    if isinstance(member, Patient):  # it would wait for tasks
        return not any(any(member._member.poll(timeout_s=0.2)) for _ in range(rounds))
    return not any(any(member.poll()) for _ in range(rounds))


def values(engine: Engine, topic: str) -> list[bytes]:
    return [record.value or b"" for record in engine.all(topic)]


def test_a_leader_holds_all_tasks_of_all_topics_from_its_first_poll_on(engine: Engine) -> None:
    engine.put("in", b"0")
    engine.put("fast", b"1", partition=1)
    leader = engine.log.lead("group", BOTH, "one")
    assert set(leader.poll().assigned) == ALL == leader.assignment()
    assert {record.value for record in drained(leader)} == {b"0", b"1"}


def test_a_leader_commits_seeks_and_finds_its_positions(engine: Engine) -> None:
    engine.put("in", b"0", b"1")
    leader = engine.log.lead("group", BOTH, "one")
    record = drained(leader)[0]
    leader.commit([output_of(record)], {IN: Position(1, "mark"), Task("fast", 1): Position(0, "other")})
    assert leader.committed(IN) == Position(1, "mark")
    assert leader.committed(Task("fast", 1)) == Position(0, "other")
    assert engine.log.reader().committed("group", IN) == Position(1, "mark")
    assert values(engine, "out") == [b"0 0"]
    leader.seek(IN, 0)
    assert [one.value for one in drained(leader)] == [b"0", b"1"]


def test_a_leader_that_comes_again_goes_on_where_it_was(engine: Engine) -> None:
    engine.put("in", b"0", b"1", b"2")
    leader = engine.log.lead("group", BOTH, "one")
    leader.commit([], done(drained(leader)[0]))
    leader.close()
    with pytest.raises(LogError):
        leader.commit([], {IN: Position(2)})
    again = engine.log.lead("group", BOTH, "one")
    assert [record.value for record in drained(again)] == [b"1", b"2"]


def test_a_leader_of_the_same_name_replaces_and_fences_the_first(engine: Engine) -> None:
    engine.put("in", b"0")
    zombie = engine.log.lead("group", BOTH, "one")
    record = drained(zombie)[0]
    fresh = engine.log.lead("group", BOTH, "one")
    assert set(told(fresh).assigned) == ALL
    with pytest.raises(Replaced):
        zombie.commit([output_of(record)], done(record))
    fresh.commit([output_of(record)], done(record))
    assert values(engine, "out") == [b"0 0"]


def test_an_engine_that_does_not_share_refuses_a_second_one(engine: Engine) -> None:
    if engine.shares:
        pytest.skip("a second one stands by here")
    engine.log.lead("group", BOTH, "one")
    with pytest.raises(LogInUse):
        engine.log.lead("group", BOTH, "two")


def test_a_standby_gets_nothing_and_can_commit_nothing(shared: Engine) -> None:
    shared.put("in", b"0")
    leader = shared.log.lead("group", BOTH, "one")
    record = drained(leader)[0]
    standby = shared.log.lead("group", BOTH, "two")
    assert quiet(standby)
    assert standby.assignment() == frozenset()
    assert standby.committed(IN) is None
    for attempt in (lambda: standby.commit([output_of(record)], done(record)), lambda: standby.seek(IN, 0)):
        with pytest.raises(Fenced):
            attempt()
    with pytest.raises(Fenced):
        standby.commit([output_of(record)], {})
    leader.commit([output_of(record)], done(record))
    until = time.monotonic() + 20
    while standby.committed(IN) is None and time.monotonic() < until:  # of which a commit that is just made is no part
        time.sleep(0.05)
    assert standby.committed(IN) == Position(1)
    assert values(shared, "out") == [b"0 0"]


def test_a_standby_that_comes_and_goes_does_not_disturb_the_leader(shared: Engine) -> None:
    shared.put("in", *(b"%d" % number for number in range(20)))
    leader = shared.log.lead("group", BOTH, "one")
    told(leader)
    found: list[Record] = []
    for number in range(3):
        standby = shared.log.lead("group", BOTH, f"standby-{number}")
        for _ in range(4):
            assert quiet(standby, 1)
            batch = leader.poll(2, timeout_s=0.1)
            assert not batch.revoked
            assert not batch.assigned
            for record in batch.records:
                leader.commit([output_of(record)], done(record))
            found += batch.records
        standby.close()
    assert [record.offset for record in found] == list(range(len(found)))
    assert len(found) > 10
    assert values(shared, "out") == [b"0 %d" % number for number in range(len(found))]


def test_a_standby_takes_over_at_once_when_the_leader_leaves(shared: Engine) -> None:
    shared.put("in", b"0", b"1")
    leader = shared.log.lead("group", BOTH, "one")
    leader.commit([], done(drained(leader)[0], "mark"))
    standby = shared.log.lead("group", BOTH, "two")
    assert quiet(standby)
    leader.close()
    assert set(told(standby).assigned) == ALL
    assert standby.committed(IN) == Position(1, "mark")
    assert [record.value for record in drained(standby)] == [b"1"]


def test_a_silent_leader_is_deposed_and_commits_nothing(shared: Engine) -> None:
    shared.put("in", b"0")
    sleeper = shared.log.lead("group", BOTH, "one")
    record = drained(sleeper)[0]
    standby = shared.log.lead("group", BOTH, "two")
    shared.after(3_600_000)  # on a broker the poll interval passes while the other waits
    assert set(told(standby).assigned) == ALL
    with pytest.raises(Fenced):
        sleeper.commit([output_of(record)], {})
    with pytest.raises(Fenced):
        sleeper.commit([output_of(record)], done(record))
    standby.commit([output_of(record)], done(record))
    assert set(told(sleeper).revoked) == ALL
    assert sleeper.assignment() == frozenset()
    assert quiet(sleeper)
    standby.commit([], {IN: Position(1, "still leads")})
    assert values(shared, "out") == [b"0 0"]


def test_a_group_is_either_joined_or_led() -> None:
    log = MemoryLog(TOPICS)
    log.lead("group", BOTH, "one")
    with pytest.raises(ValueError, match="joined or led"):
        log.join("group", BOTH, "two")


def test_the_lock_is_evidence_and_where_that_is_missing_the_first_topic_of_one_partition() -> None:
    assert lock_of(DECLARED) == EVIDENCE
    assert lock_of(TOPICS) == "state"
    with pytest.raises(LogError, match="one partition"):
        lock_of({"in": TOPICS["in"]})


@service
def test_the_broker_itself_refuses_the_generation_of_a_deposed_leader(broker: KafkaEngine) -> None:
    """Whatever the client knows, and whoever writes: the tasks are none that the group's assignment speaks of."""
    broker.put("in", b"0", b"1")
    leader = broker.log.lead("group", BOTH, "one")
    records = drained(leader)
    generation = leader._membership.consumer_group_metadata()  # type: ignore[attr-defined]
    writer = Transactions(broker.log.settings, TOPICS, "somebody")  # type: ignore[attr-defined]
    writer.commit([output_of(records[0])], done(records[0]), generation)
    standby = broker.log.lead("group", BOTH, "two")
    quiet(standby)
    leader.close()
    told(standby)
    with pytest.raises(Lost, match=r"MEMBER|GENERATION|FENCED"):
        writer.commit([output_of(records[1])], done(records[1]), generation)
    assert standby.committed(IN) == Position(1)
    assert values(broker, "out") == [b"0 0"]


@service
def test_a_leader_that_dies_inside_a_commit_holds_nobody_up(broker: KafkaEngine) -> None:
    """Its transaction is ended by the next leader, not by the broker after its time-out."""
    broker.put("in", b"0")
    dead = broker.log.lead("group", BOTH, "one")
    record = drained(dead)[0]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Transactions, "_settle", lambda *_: None)
        dead.commit([Output("out", b"k", b"from the dead", 0)], {IN: Position(1, "from the dead")})
    out = Task("out", 0)
    assert broker.log.reader().ends([out]) == {out: Ends(0, 1)}
    standby = broker.log.lead("group", BOTH, "two")
    quiet(standby)
    dead._membership.close()  # type: ignore[attr-defined]  # as one that was killed: it says nothing
    began = time.monotonic()
    told(standby)
    assert [one.value for one in drained(standby)] == [b"0"]
    standby.commit([output_of(record)], done(record))
    assert time.monotonic() - began < 5
    assert values(broker, "out") == [b"0 0"]


LEADER = """
import os, sys, threading
from sickbay.log import *
from sickbay.log.opened import open_log
from sickbay.settings import LogSettings
from tests.log.engines import TOPICS
brokers, prefix, name, session = sys.argv[1:]
settings = LogSettings(engine="kafka", brokers=brokers, prefix=prefix, replication=1, lead_session_s=float(session))
log = open_log(settings, TOPICS)
member = log.lead("group", ["in", "fast"], name)
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
while not stop.is_set():
    batch = member.poll(3, timeout_s=0.05)
    if batch.assigned:
        print("leads", flush=True)
    if batch.revoked:
        print("deposed", flush=True)
    if batch.records:
        outputs = [Output("out", b"k", b"%d %d" % (r.partition, r.offset), 0) for r in batch.records]
        try:
            member.commit(outputs, {r.task: Position(r.offset + 1) for r in batch.records})
        except Fenced:
            print("fenced", flush=True)
member.close()
print("left", flush=True)
"""


class Process:
    """A member in a process of its own; `lines` are read until one that is waited for."""

    def __init__(self, engine: KafkaEngine, name: str, session_s: float) -> None:
        settings = engine.log.settings  # type: ignore[attr-defined]
        command = [sys.executable, "-c", LEADER, settings.brokers, settings.prefix, name, str(session_s)]
        self.name = name
        self.child = subprocess.Popen(command, stdin=-1, stdout=-1, text=True, cwd=ROOT)

    def until(self, word: str) -> float:
        """When it said so."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.strip() == word:
                return time.monotonic()
        raise AssertionError(f"{self.name} ended without saying {word!r}")

    def leave(self) -> None:
        """Asks it to end in good order."""
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def end(self) -> None:
        """By force, and collected."""
        self.child.kill()
        self.child.communicate()


def fed(engine: KafkaEngine) -> Iterator[None]:
    """A record more each time."""
    for number in itertools.count():
        engine.put("in", b"%d" % number, partition=number % 3)
        yield


@service
@pytest.mark.slow
@pytest.mark.parametrize("way", ["kill", "stop", "leave"])
def test_another_process_leads_within_seconds_and_nothing_is_lost_or_doubled(broker: KafkaEngine, way: str) -> None:
    rounds = int(os.environ.get("SICKBAY_TAKEOVERS", "2"))
    leader, taken, feed = Process(broker, "p-0", 3.0), list[float](), fed(broker)
    open_ones = [leader]
    try:
        leader.until("leads")
        for number in range(1, rounds + 1):
            standby = Process(broker, f"p-{number}", 3.0)
            open_ones.append(standby)
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                next(feed)
                time.sleep(0.01)
            began = time.monotonic()
            gone(leader, way)
            taken.append(standby.until("leads") - began)
            if way == "stop":
                next(feed)
                leader.child.send_signal(signal.SIGCONT)
                leader.until("deposed")
                for _ in range(20):
                    next(feed)
                leader.end()
            leader = standby
        print(f"\n{way}: n={rounds} min {min(taken):.2f} median {statistics.median(taken):.2f} max {max(taken):.2f} s")
        assert max(taken) < (2.0 if way == "leave" else 5.0), taken
        settled(broker)
    finally:
        for one in open_ones:
            one.end()
    wanted = [b"%d %d" % (record.partition, record.offset) for index in range(3) for record in broker.all("in", index)]
    assert sorted(values(broker, "out")) == sorted(wanted)


def gone(leader: Process, way: str) -> None:
    if way == "leave":
        leader.leave()
    else:
        leader.child.send_signal(signal.SIGKILL if way == "kill" else signal.SIGSTOP)


def settled(engine: KafkaEngine) -> None:
    """Until the group has committed all that there is."""
    tasks, reader = tasks_of(TOPICS, ["in"]), engine.log.reader()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if all((reader.committed("group", task) or Position(0)).offset >= reader.bounds(task).end for task in tasks):
            return
        time.sleep(0.1)
    raise AssertionError("the leader does not come to the end")


@service
def test_a_session_that_the_brokers_do_not_allow_is_told(broker: KafkaEngine) -> None:
    settings = msgspec.structs.replace(broker.log.settings, lead_session_s=0.5)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(KafkaLead, "HEARTBEATS", 1)
        log = KafkaLog(settings, TOPICS)
        log._lead_patience = Patience(300, 4000)  # shorter than the test's broker allows
        leader = log.lead("group", BOTH, "one")
        with pytest.raises(LogError, match=r"group\.min\.session\.timeout\.ms=1000.*lead_session_s"):
            told(leader)
        log.close()
