"""What stands still is told from outside, once, while it lasts; nothing is that had no time yet or nothing to do."""

import time

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remediation.notify.alertmanager import alert
from remediation.notify.standing import Standing
from sickbay import messages, selfmetrics
from sickbay.app.alerting.lag import NEEDED, Lag
from sickbay.app.alerting.standstill import Frontier, Hidden, found, is_ours, told
from sickbay.app.asking.incidents_topic import IncidentsView
from sickbay.app.running.service import Context
from sickbay.log import Log, Position, Task, driving, tick
from sickbay.log.kafka import KafkaLog
from sickbay.log.memory import MemoryLog
from sickbay.messages import Action, Incident, Verdict
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config, LogSettings
from sickbay.settings import Metrics as MetricsSettings
from sickbay.topics import EVENTS, FEATURES, INCIDENTS, STEPS, TELEMETRY
from streams.runner import Mark, write_mark
from tests.process.kit import SMALL

LIMIT = 30_000
NOW = 1_800_000_000_000
GROUPS = {"streams.windows": [TELEMETRY], "diagnosis": [FEATURES, EVENTS, STEPS], "diagnosis.explicit": [EVENTS]}


class Site:
    """Groups that commit their clocks each second, unless they stand; ticks; and the lag stage."""

    def __init__(self) -> None:
        self.now = NOW
        self.log = MemoryLog(SMALL, clock=lambda: self.now)
        self.said: list[str] = []
        self.metrics = SelfMetrics()
        context = Context(Config(), self.log, self.metrics, self.said.append, lambda: self.now)
        self.lag, self._ticker = Lag(context), self.log.appender()
        self.members = {group: self.log.join(group, topics, "m") for group, topics in GROUPS.items()}
        for member in self.members.values():
            member.poll()

    def run(self, seconds: int, *, stand: tuple[str, ...] = (), ticks: bool = True) -> None:
        for _ in range(seconds):
            self.now += 1000
            if ticks:
                tick(self._ticker, SMALL, driving(SMALL))
            for group in set(self.members) - {*stand}:
                self._commit(group)
            self.lag.step(self.now)

    def _commit(self, group: str) -> None:
        member = self.members[group]
        while records := member.poll().records:
            marks = {one.task: (one.offset + 1, write_mark(Mark(clock_ms=one.append_ms))) for one in records}
            member.commit([], {task: Position(*mark) for task, mark in marks.items()})

    def incidents(self) -> list[Incident]:
        view = IncidentsView(self.log.reader())
        view.read()
        return list(view.incidents.values())

    def open(self) -> list[str]:
        return sorted(one.component for one in self.incidents() if one.state == "open")


def test_a_group_that_stands_still_is_told_once_and_withdrawn_when_it_goes_on() -> None:
    site = Site()
    site.run(60)
    assert site.incidents() == []
    site.run(29, stand=("diagnosis",))
    assert site.incidents() == []
    site.run(30, stand=("diagnosis",))
    (one,) = site.incidents()
    assert (one.component, one.fault, one.verdict) == ("monitor:sickbay/diagnosis", "monitor_fault", Verdict.COMPONENT)
    assert (one.action, one.plan, one.state) == (Action.ESCALATE, (), "open")  # nothing that anybody could act on
    assert "diagnosis has not read what waits for it" in one.summary
    assert is_ours(one)
    site.run(10)
    (over,) = site.incidents()
    assert (over.id, over.state) == (one.id, "closed")
    assert len(site.said) == 2
    assert len([1 for task in [Task(INCIDENTS, 0)] for _ in site.log.reader().read(task, 0)]) == 2


def test_it_is_alerted_while_it_stands() -> None:
    site = Site()
    site.run(40)
    site.run(45, stand=("diagnosis",))
    standing = Standing()
    for record in site.log.reader().read(Task(INCIDENTS, 0), 0):
        standing.take(record.key, messages.decode(record.value or b""), record.append_ms)
    (story,) = standing.worth_telling()
    told_people = alert(story, "c", site.now, 60)
    assert told_people["labels"]["component"] == "monitor:sickbay/diagnosis"
    site.run(10)
    for record in site.log.reader().read(Task(INCIDENTS, 0), 1):
        standing.take(record.key, messages.decode(record.value or b""), record.append_ms)
    assert standing.worth_telling() == ()


def test_a_windows_stage_that_stands_still_is_told_and_not_who_waits_for_it() -> None:
    site = Site()
    site.run(40)
    site.run(45, stand=("streams.windows", "diagnosis"))
    assert site.open() == ["monitor:sickbay/streams.windows"]
    site.run(40, stand=("streams.windows", "diagnosis"))  # longer than it waits for windows
    assert site.open() == ["monitor:sickbay/diagnosis", "monitor:sickbay/streams.windows"]


def test_a_dead_ticker_is_told_and_not_every_group_that_has_nothing_to_read() -> None:
    site = Site()
    site.run(40)
    site.run(60, ticks=False)
    assert site.open() == ["monitor:sickbay/ticker"]
    site.run(10)
    assert site.open() == []


def test_nothing_is_told_in_the_first_seconds_however_old_all_is() -> None:
    site = Site()
    site.run(40)
    site.now += 3_600_000  # the whole site was off
    site.run(25, stand=("diagnosis", "streams.windows"))
    site.run(40)
    assert site.incidents() == []


def test_a_group_that_is_needed_and_never_read_anything_is_told() -> None:
    site = Site()
    del site.members["diagnosis"]
    site.run(30)
    assert site.incidents() == []
    site.run(40)
    assert site.open() == ["monitor:sickbay/diagnosis"]


def test_topics_that_nobody_feeds_and_groups_that_are_not_needed_raise_nothing() -> None:
    site = Site()
    site.run(40)
    view = site.log.join("remediation", [INCIDENTS], "m")
    view.poll()
    view.commit([], {Task(INCIDENTS, 0): Position(0)})
    site.run(120)
    assert site.incidents() == []


def test_a_second_lag_stage_and_a_restarted_one_know_what_stands() -> None:
    site = Site()
    site.run(40)
    site.run(60, stand=("diagnosis",))
    site.lag = Lag(Context(Config(), site.log, site.metrics, site.said.append, lambda: site.now))
    site.run(60, stand=("diagnosis",))
    assert len(site.incidents()) == 1
    site.run(20)
    assert site.open() == []


tasks = st.builds(Task, st.sampled_from([TELEMETRY, EVENTS]), st.integers(0, 3))
frontiers = st.lists(
    st.builds(Frontier, st.sampled_from(NEEDED), tasks, st.integers(NOW - 100_000, NOW), st.booleans()), max_size=12
)
hiddens = st.lists(st.builds(Hidden, tasks, st.integers(NOW - 100_000, NOW)), max_size=5)


@given(frontiers, hiddens)
def test_something_is_told_exactly_where_something_is_late(rows: list[Frontier], hidden: list[Hidden]) -> None:
    stands = found(rows, hidden, [TELEMETRY, EVENTS], NOW, LIMIT)
    since = [one.since_ms for one in rows] + [one.since_ms for one in hidden]
    late = [at for at in since if NOW - at > LIMIT]
    assert bool(stands) == bool(late)
    assert len({one.component for one in stands}) == len(stands)
    begun = told([], stands, stands, NOW)
    assert [one.component for one in begun] == [one.component for one in stands]
    assert told(begun, stands, stands, NOW) == []
    assert [one.state for one in told(begun, [], [], NOW)] == ["closed"] * len(begun)
    assert told(begun, [], stands, NOW) == []  # not well below the limit yet


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("kafka_broker").brokers)


@pytest.mark.service
@pytest.mark.slow
def test_an_open_transaction_of_a_dead_process_is_told(brokers: str) -> None:
    settings = LogSettings(engine="kafka", brokers=brokers, prefix=f"hidden-{time.time_ns()}.", replication=1)
    log: Log = KafkaLog(settings, SMALL)
    metrics, said, clock = SelfMetrics(), list[str](), [int(time.time() * 1000)]
    config = replace(Config(), metrics=MetricsSettings(behind_s=10))
    lag = Lag(Context(config, log, metrics, said.append))
    named = {"bootstrap.servers": brokers, "transactional.id": settings.prefix, "transaction.timeout.ms": 60_000}
    dead = Producer(named | {"log_level": 0})
    dead.init_transactions()
    dead.begin_transaction()
    dead.produce(settings.prefix + FEATURES, b"v", b"k", partition=1)
    dead.flush()

    hidden = f"monitor:sickbay/{FEATURES}"

    def looks(number: int) -> None:
        for _ in range(number):
            clock[0] += 5_000
            lag.step(clock[0])

    try:
        looks(5)
        assert lag.waiting == ""
        assert metrics.value(selfmetrics.LOG_HIDDEN, topic=FEATURES, partition="1") == 20.0
        assert {one.component: one.state for one in _incidents(log)} == {hidden: "open"}
        dead.abort_transaction()
        time.sleep(0.5)
        looks(1)
        assert {one.component: one.state for one in _incidents(log)}[hidden] == "closed"
        assert metrics.value(selfmetrics.LOG_HIDDEN, topic=FEATURES, partition="1") is None
    finally:
        log.close()
    assert [line.split(": ")[1].split()[1] for line in said if f" {FEATURES} " in line] == ["open", "closed"]


def _incidents(log: Log) -> list[Incident]:
    view = IncidentsView(log.reader())
    view.read()
    return list(view.incidents.values())
