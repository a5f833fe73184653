"""Stages at work on a log: what they put out, what they tell, and how a service runs and ends them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from sickbay import actions, selfmetrics
from sickbay.actions import Judged
from sickbay.app.alerting.lag import Lag
from sickbay.app.asking.incidents_topic import current, told
from sickbay.app.running.service import Context, Stage
from sickbay.app.running.stages import STAGES, Diagnosis, Imported, Ticker, Windows, chosen
from sickbay.log import LogBusy, Replaced, Task, driving, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.messages import encode
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Alerts, Config, Security
from sickbay.topics import INCIDENTS
from streams import dead_letters
from tests.process.kit import (
    DEADLETTER,
    EVENTS,
    EVIDENCE,
    KEY,
    SMALL,
    TELEMETRY,
    Agent,
    everything,
    features,
    incidents,
    lost_card,
    only,
)  # fmt: skip

START = 1_796_000_000_000


@dataclass
class Site:
    """Stages over a memory log whose clock the test moves."""

    now: int = START
    config: Config = field(default_factory=Config)
    said: list[str] = field(default_factory=list)
    metrics: SelfMetrics = field(default_factory=SelfMetrics)
    hook: Callable[[str], None] = lambda moment: None

    def __post_init__(self) -> None:
        self.log = MemoryLog(SMALL, clock=lambda: self.now, hook=lambda moment: self.hook(moment))
        self.context = Context(self.config, self.log, self.metrics, self.said.append, lambda: self.now)

    def run(self, stages: list[Stage], seconds: float, each: Callable[[int], object] = lambda now: None) -> None:
        for _ in range(round(seconds * 2)):
            self.now += 500
            each(self.now)
            for stage in stages:
                for _ in range(3):
                    stage.step(self.now)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sickbay.app.running.stages.POLL_S", 0.0)
    monkeypatch.setattr("sickbay.app.running.stages.TROUBLE_S", 0.0)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "key").write_text(KEY.hex())
    return Site(config=Config(security=Security(key_file=str(tmp_path / "key"), require_signed=True)))


def test_a_lost_card_becomes_evidence_an_incident_and_a_heartbeat_in_one_commit(site: Site) -> None:
    stages: list[Stage] = [Ticker(site.context), Windows(site.context), Diagnosis(site.context)]
    agent = Agent("n1", site.log.appender())
    site.run(stages, 5)
    agent.say(lost_card("n1", site.now))
    site.run(stages, 1)
    known, judged = current(site.log.reader())
    (incident,) = known.values()
    assert incident.component == "accelerator:n1/0000:00:00"
    assert judged is not None
    assert judged.open == (incident.id,)
    assert START < judged.as_of_ms <= site.now
    assert {one.id.encode() for one in incident.evidence} <= {one.key for one in only(site.log, EVIDENCE)}
    assert site.metrics.value(selfmetrics.INCIDENTS_OPEN, verdict=incident.verdict) == 1


def test_the_heartbeat_comes_every_five_seconds_and_never_from_the_past(site: Site) -> None:
    stages: list[Stage] = [Ticker(site.context), Windows(site.context), Diagnosis(site.context)]
    site.run(stages, 30)
    beats = [one.as_of_ms for one in (told(r.value) for r in only(site.log, INCIDENTS)) if isinstance(one, Judged)]
    assert 5 <= len(beats) <= 7
    assert beats == sorted(beats)
    assert all(now - before >= 5000 for before, now in pairwise(beats))


def test_where_windows_stand_still_explicit_faults_are_still_judged_but_nothing_is_called_fresh(site: Site) -> None:
    ticker, windows, diagnosis = Ticker(site.context), Windows(site.context), Diagnosis(site.context)
    agent = Agent("n1", site.log.appender())
    site.run([ticker, windows, diagnosis], 20, agent.sample)
    before = site.now
    site.run([ticker, diagnosis], 60, agent.sample)
    agent.say(lost_card("n1", site.now))
    site.run([ticker, diagnosis], 2)
    known, judged = current(site.log.reader())
    assert [one.fault for one in known.values()] == ["accelerator_off_bus"]
    assert judged is not None
    assert judged.as_of_ms <= before
    site.run([ticker, windows, diagnosis], 8)
    caught_up = current(site.log.reader())[1]
    assert caught_up is not None
    assert caught_up.as_of_ms > before + 50_000


def test_a_partition_without_ticks_is_told_and_waited_for_no_longer_than_half_a_minute(site: Site) -> None:
    diagnosis, agent = Diagnosis(site.context), Agent("n1", site.log.appender())
    tasks = tasks_of(site.log.topics, driving(site.log.topics))
    mute = next(task for task in tasks if task.topic == EVENTS)

    def tick(now: int, but: Task | None = None) -> None:
        for task in tasks:
            if now % 1000 == 0 and task != but:
                site.log.appender().append(task.topic, b"", b"", partition=task.partition)

    site.run([diagnosis], 5, tick)
    site.run([diagnosis], 2, lambda now: tick(now, mute))
    agent.say(lost_card("n1", site.now))
    site.run([diagnosis], 25, lambda now: tick(now, mute))
    assert not incidents(site.log)
    assert "events" in diagnosis.waiting
    site.run([diagnosis], 10, lambda now: tick(now, mute))
    assert len(incidents(site.log)) == 1
    assert f"no ticks in {EVENTS}[{mute.partition}]" in diagnosis.waiting
    assert any(f"{EVENTS}[{mute.partition}]: no ticks" in line for line in site.said)
    site.run([diagnosis], 3, tick)
    assert not diagnosis.waiting


def test_without_any_ticks_nothing_is_judged_and_nothing_called_read(site: Site) -> None:
    diagnosis, agent = Diagnosis(site.context), Agent("n1", site.log.appender())
    agent.say(lost_card("n1", site.now))
    site.run([diagnosis], 10)
    assert not incidents(site.log)
    assert diagnosis.waiting
    assert current(site.log.reader())[1] is None  # no clock, no heartbeat


@pytest.mark.slow
def test_a_backlog_is_judged_as_it_would_have_been_and_is_not_called_ready(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sickbay.app.diagnosing.diagnoser.LIMIT", 20)
    ticker, windows = Ticker(site.context), Windows(site.context)
    agents = [Agent(f"n{number}", site.log.appender()) for number in range(4)]

    def each(now: int) -> None:
        for place, agent in enumerate(agents):
            if now % 20_000 == place * 500:
                agent.say(lost_card(agent.host, now))

    site.run([ticker, windows], 120, each)
    diagnosis, steps = Diagnosis(site.context), 0
    while diagnosis.waiting or not steps:
        judged = current(site.log.reader())[1]
        assert judged is None or judged.as_of_ms < site.now - 1000
        diagnosis.step(site.now)
        steps += 1
    assert steps > 10
    site.run([ticker, windows, diagnosis], 2)
    assert len(incidents(site.log)) == 4
    detected = sorted(one.detected_ms or 0 for one in current(site.log.reader())[0].values())
    assert [at_ms - START for at_ms in detected] == [1000, 1000, 2000, 20_000]  # whenever it was read


def test_a_backlog_longer_than_memory_is_judged_on_the_way(site: Site) -> None:
    ticker, agent = Ticker(site.context), Agent("n1", site.log.appender())
    diagnosis = Diagnosis(site.context)
    site.run([ticker, diagnosis], 3)
    agent.say(lost_card("n1", site.now))
    for _ in range(50):  # minutes, with a tick each
        site.now += 60_000
        ticker.step(site.now)
    site.run([ticker, diagnosis], 60)
    assert [word[2] for word in incidents(site.log).values()] == ["accelerator_off_bus"]


def test_dead_letters_of_all_kinds_are_told_once_and_stop_nothing(site: Site) -> None:
    stages: list[Stage] = [Ticker(site.context), Windows(site.context), Diagnosis(site.context)]
    appender = site.log.appender()
    good, forged = Agent("n1", appender), Agent("n1", appender, key=bytes(32))
    frame = good.sample(site.now)
    forged.sample(site.now)
    appender.append(TELEMETRY, b"n1", frame[:-5])
    appender.append(EVENTS, b"n1", b'{"type":"event"')
    appender.append(EVENTS, b"n1", encode(lost_card("n1", site.now)))
    good.say(lost_card("n9", site.now))
    site.run(stages, 20, good.sample)
    letters = [dead_letters.decode(one.value or b"") for one in only(site.log, DEADLETTER)]
    assert sorted((one.topic, one.reason.split()[0]) for one in letters) == [
        (EVENTS, "n1"), (EVENTS, "unsigned:"), (EVENTS, "unsigned:"), (TELEMETRY, "says"), (TELEMETRY, "the"),
    ]  # fmt: skip
    assert not incidents(site.log)
    again: list[Stage] = [Windows(site.context), Diagnosis(site.context)]  # reads its horizon again
    site.run([stages[0], *again], 10)
    assert len(only(site.log, DEADLETTER)) == len(letters)
    assert "dead_letter" in site.metrics.text().decode()


def test_a_frame_of_an_unknown_layout_is_a_letter_and_its_like_are_read_once_it_is_known(site: Site) -> None:
    stages: list[Stage] = [Ticker(site.context), Windows(site.context)]
    agent = Agent("n1", site.log.appender())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.process.kit.SCHEMAS", "sickbay.changes.v1")  # goes astray
        agent.sample(site.now)
    site.run(stages, 2)
    (letter,) = [dead_letters.decode(one.value or b"") for one in only(site.log, DEADLETTER)]
    assert "layout" in letter.reason
    agent.told.clear()
    site.run(stages, 30, agent.sample)
    assert [key for _, key, _ in features(site.log) if key.startswith(b"accelerator/")]
    assert len(only(site.log, DEADLETTER)) == 1


def test_duplicates_are_dropped_and_gaps_counted(site: Site) -> None:
    stages: list[Stage] = [Ticker(site.context), Windows(site.context), Diagnosis(site.context)]
    agent = Agent("n1", site.log.appender())
    agent.say(lost_card("n1", site.now))
    agent.numbers[EVENTS] -= 1
    agent.say(lost_card("n1", site.now))
    agent.numbers[EVENTS] += 3
    agent.say(lost_card("n1", site.now, line=8))
    site.run(stages, 3)
    assert site.metrics.value(selfmetrics.LOG_DUPLICATE, topic=EVENTS) == 1
    assert site.metrics.value(selfmetrics.LOG_MISSED, topic=EVENTS) == 3


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["commit:before", "commit:after"])
def test_a_commit_of_unknown_outcome_repeats_nothing_and_loses_nothing(site: Site, moment: str) -> None:
    stages: list[Stage] = [Ticker(site.context), Windows(site.context), Diagnosis(site.context)]
    agent, count = Agent("n1", site.log.appender()), [0]

    def hook(at: str) -> None:
        count[0] += at == moment
        if at == moment and count[0] % 3 == 0:
            raise LogBusy("the log is away")

    site.hook = hook
    site.run(stages, 4, agent.sample)
    agent.say(lost_card("n1", site.now))
    site.run(stages, 20, agent.sample)
    assert len(incidents(site.log)) == 1
    claims = [one.key for one in only(site.log, EVIDENCE)]
    assert len(claims) == len(set(claims)) > 0
    kept = [told(one.value) for one in only(site.log, INCIDENTS) if one.key != actions.JUDGED_KEY]
    assert len(kept) == len({encode(one) for one in kept if one})  # type: ignore[arg-type]


def test_a_replaced_diagnosis_stops(site: Site) -> None:
    first = Diagnosis(site.context)
    first.step(site.now)
    Diagnosis(site.context).step(site.now)
    with pytest.raises(Replaced):
        first.step(site.now)


def test_lag_is_seen_from_outside_and_grows_where_a_stage_stands_still(site: Site) -> None:
    ticker, windows, lag = Ticker(site.context), Windows(site.context), Lag(site.context)
    site.run([ticker, windows], 10)
    site.run([ticker, lag], 60)
    seen = site.metrics.value(selfmetrics.LOG_LAG, group="streams.windows", topic=TELEMETRY, partition="0")
    assert seen is not None
    assert 55 <= seen <= 65
    assert site.metrics.value(selfmetrics.LOG_LAG, group="diagnosis", topic=EVENTS, partition="0") is None


def test_a_lost_log_is_counted_and_the_ticker_goes_on(site: Site) -> None:
    ticker = Ticker(site.context)
    site.run([ticker], 3)
    assert len(list(everything(site.log, EVENTS))) == 4 * SMALL[EVENTS].partitions


def test_readers_tell_incidents_from_heartbeats_and_survive_anything() -> None:
    assert told(None) is told(b"") is told(b"rubbish") is told(b'{"type":"judged"}') is None
    assert told(encode(lost_card("n1", START))) is None
    assert isinstance(told(actions.encode(Judged(as_of_ms=1))), Judged)


def test_stages_without_anything_to_do_are_left_out_unless_named() -> None:
    assert list(chosen((), Config())) == ["ticker", "windows", "explicit", "diagnosis", "lag"]
    assert "alerts" in chosen((), Config(alerts=Alerts(url="http://127.0.0.1:9093")))
    assert list(chosen(("alerts",), Config())) == ["alerts"]
    for name, make in STAGES.items():
        if isinstance(make, Imported):
            import importlib

            module, _, attribute = make.where.partition(":")
            assert hasattr(importlib.import_module(module), attribute), name
