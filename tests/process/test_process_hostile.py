"""What the live stages do with hostile and damaged records: no crash, no silence, nobody else is touched."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from sickbay import messages
from sickbay.app.alerting.lag import Lag
from sickbay.app.asking.incidents_topic import current
from sickbay.app.diagnosing.card_screen import CardScreen
from sickbay.app.diagnosing.horizon import Horizon
from sickbay.app.diagnosing.judge import MOST_OPEN, Judge
from sickbay.app.diagnosing.window_clocks import AHEAD_MS, WindowClocks
from sickbay.app.running.live import Pipeline
from sickbay.app.running.service import Context, Service
from sickbay.log.memory import MemoryLog
from sickbay.messages import AnyMessage, Change, Edge, Placement, RankPlace, Relation
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config
from sickbay.topics import CHANGES, PLACEMENT, STATE, STEPS, TOPICS, TOPOLOGY
from streams.dead_letters import decode
from streams.feature_record import Block, Clock, clock_key, encode, encode_clock
from tests.process.kit import DEADLETTER, EVENTS, FEATURES, SMALL, TELEMETRY, Agent, card, incidents, lost_card, only

START = 1_796_000_000_000
JUNK = (b"{}", b"[]", b"null", b"\xff\x00\xfe", b"1" * 99, b"[" * 5000, b'{"type":"judged"}', b'{"type":"incident"}')


@dataclass
class Site:
    """Two honest hosts, all stages, and a clock."""

    now: int = START
    log: MemoryLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = MemoryLog(SMALL, clock=lambda: self.now)
        self.put = self.log.appender()
        self.agents = [Agent(f"n{number}", self.put, None) for number in range(2)]
        self.pipeline = Pipeline(self.log)

    def run(self, seconds: int, hostile: Callable[[], object] = lambda: None) -> None:
        for _ in range(seconds):
            self.now += 1000
            for agent in self.agents:
                agent.sample(self.now - 500)
            hostile()
            self.pipeline.second(self.now)

    def letters(self, topic: str = "") -> list[str]:
        told = [decode(one.value or b"") for one in only(self.log, DEADLETTER)]
        return [one.reason for one in told if topic in ("", one.topic)]

    def behind_ms(self) -> int:
        judged = current(self.log.reader())[1]
        assert judged is not None
        assert not judged.behind
        return self.now - judged.as_of_ms


def test_junk_on_every_topic_is_counted_and_stops_nobody() -> None:
    site = Site()
    site.run(25)

    def hostile() -> None:
        for topic in TOPICS:
            for place, junk in enumerate(JUNK if topic not in (DEADLETTER, STATE) else ()):
                key = (b"n0", b"clock/0", b"clock/x", b"", b"\xff\n")[place % 5]
                site.put.append(topic, key, junk, partition=place % SMALL[topic].partitions)

    site.run(2, hostile)
    site.run(25)
    assert site.behind_ms() <= 5_000
    for topic in (TELEMETRY, EVENTS, FEATURES, STEPS, TOPOLOGY, PLACEMENT, CHANGES):
        assert site.letters(topic), topic
    assert not incidents(site.log)


@pytest.mark.parametrize("name", ["x", "", "a/b", "gadget:n0/1", "host:", "host:a\nb", "port:n0/" + "p" * 300])
def test_what_speaks_of_no_component_is_a_dead_letter_and_not_the_end_of_diagnosis(name: str) -> None:
    site = Site()
    site.run(5)
    site.agents[0].say(lost_card("n0", site.now, component=name))
    others: dict[str, AnyMessage] = {
        TOPOLOGY: Edge(child=name, parent="host:n0", relation=Relation.PART_OF, source="s"),
        CHANGES: Change(target=name, what="w", at_ms=site.now),
    }
    ranks = (RankPlace(rank=0, host="n0", component=name),) if name else ()
    others[PLACEMENT] = Placement(job="7", hosts=("n0",), ranks=ranks, from_ms=START)
    for topic, message in others.items():
        site.put.append(topic, b"k", messages.encode(message))
    site.agents[1].say(lost_card("n1", site.now))
    site.run(20)
    assert site.behind_ms() <= 5_000
    assert len(site.letters()) == 4 - (not name)
    assert [word[1] for word in incidents(site.log).values()] == [card("n1")]


def test_what_spoils_a_case_stops_no_process_and_does_not_look_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.run(20)
    as_of = current(site.log.reader())[1]
    whole = Horizon.case

    def spoilt(*_: object, **__: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(Horizon, "case", spoilt)
    site.run(20)
    diagnoser = site.pipeline.diagnoser
    assert "a fault of ours" in diagnoser.waiting
    judged = current(site.log.reader())[1]
    assert judged is not None
    assert as_of is not None
    assert judged.as_of_ms <= as_of.as_of_ms + 10_000
    monkeypatch.setattr(Horizon, "case", whole)
    site.run(20)
    assert diagnoser.waiting == ""
    assert site.behind_ms() <= 5_000


def test_a_damaged_state_is_gone_without_and_its_incident_stands() -> None:
    site = Site()
    site.run(5)
    site.agents[0].say(lost_card("n0", site.now))
    site.run(20)
    before = incidents(site.log)
    (id_,) = before
    last = SMALL[STATE].partitions - 1
    for key in (
        b"diagnosis/known/x",
        b"diagnosis/known/1/0",
        b"diagnosis/incident/y",
        f"diagnosis/incident/{id_}".encode(),
    ):
        for junk in (b"junk", b'{"type":"incident"', b'["a"]', b"{}"):
            site.put.append(STATE, key, junk, partition=last)
    site.pipeline.diagnoser.close()
    site.pipeline.windows.log.close()
    site.pipeline = Pipeline(site.log)
    site.run(20)
    assert site.behind_ms() <= 5_000
    assert incidents(site.log) == before
    assert [one.id for one in site.pipeline.diagnoser.incidents] == [id_]


def test_a_clock_from_the_future_says_no_more_than_the_moment_it_was_told() -> None:
    clocks = WindowClocks(1, 2)
    clocks.heard(0, START, Clock(0, 1 << 62))
    clocks.heard(0, START, Clock(7, 1 << 62))  # there is no such upstream
    clocks.heard(0, START + 10, Clock(1, START))
    assert clocks.by(START + 10) == START
    clocks.heard(0, START + 60_000, Clock(1, START + 60_000))
    assert clocks.by(START + 60_000) == START + AHEAD_MS


def test_windows_and_clocks_that_nobody_could_have_told_are_no_memory_for_ever() -> None:
    site = Site()
    site.run(25)
    for number in range(20):
        block = Block("accelerator", (1 << 62) - number, (card("n0"),), ("power_watts",), np.ones((1, 1), np.float32))
        site.put.append(FEATURES, b"accelerator/0", encode(block), partition=0)
    for upstream in (0, 1, 99):
        site.put.append(FEATURES, clock_key(upstream), encode_clock(Clock(upstream, 1 << 62)), partition=0)
    site.run(25)
    assert len(site.letters(FEATURES)) == 20
    assert site.behind_ms() <= 5_000


def test_a_log_whose_time_is_ahead_of_the_machine_is_told() -> None:
    site, said = Site(), list[str]()
    lag = Lag(Context(Config(), site.log, SelfMetrics(), said.append))

    def run(seconds: int) -> None:
        for _ in range(seconds):
            site.run(1)
            lag.step(site.now)

    run(5)
    site.now += 3_600_000
    run(5)
    site.now -= 3_600_000  # the clock was set ahead, and back
    real = site.log.clock
    site.log.clock = lambda: max(real(), START + 3_610_000)  # as engines do: the times of a log never run back
    run(60)
    assert "ahead of this machine's clock" in site.pipeline.diagnoser.waiting
    site.pipeline.diagnoser.close()
    site.pipeline.windows.log.close()
    site.pipeline = Pipeline(site.log)  # a restart helps nobody, and hides nothing
    run(5)
    assert "ahead of this machine's clock" in site.pipeline.diagnoser.waiting
    assert any("ahead of this machine's clock" in line for line in said)


def test_a_heartbeat_fits_its_topic_however_many_incidents_stand() -> None:
    judge = Judge()
    one = next(iter(_incident()))
    judge.incidents = tuple(messages.replace(one, id=f"{number:016x}") for number in range(MOST_OPEN + 10_000))
    output = judge.beat(START, behind=False)
    assert len(output.value or b"") <= TOPICS[output.topic].max_bytes


def _incident() -> list[messages.Incident]:
    site = Site()
    site.run(3)
    site.agents[0].say(lost_card("n0", site.now))
    site.run(5)
    return list(site.pipeline.diagnoser.incidents)


def test_many_placements_at_once_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.run(40)
    for number in range(1_500):
        told = Placement(job=str(number), hosts=(f"n{number % 2}",), from_ms=START)
        site.put.append(PLACEMENT, str(number).encode(), messages.encode(told))
    looks: list[int] = []
    again = CardScreen._again

    def counted(*what: Any) -> None:
        looks.append(1)
        again(*what)

    monkeypatch.setattr(CardScreen, "_again", counted)
    site.run(15)
    assert 0 < len(looks) < 50
    assert site.behind_ms() <= 5_000


class Panics:
    waiting = ""

    def step(self, now_ms: int) -> bool:
        raise BaseException("a library's panic")

    def close(self) -> None:
        pass


def test_a_panic_of_a_library_ends_the_process_and_not_the_thread_alone() -> None:
    said: list[str] = []
    context = Context(Config(), MemoryLog(SMALL), SelfMetrics(), said.append)
    service = Service(context, {"archive": lambda _: Panics()})
    assert service.run(signals=()) == 4
    assert any("a library's panic" in line for line in said)


def test_events_of_any_time_are_judged_by_when_they_came() -> None:
    site = Site()
    site.run(5)
    for at_ms in (0, 2**62, -(2**62), site.now + 120_000, site.now - 3_600_000):
        site.agents[0].say(lost_card("n0", at_ms))
    site.run(20)
    assert {word[1] for word in incidents(site.log).values()} == {card("n0")}
    newest = max(at for at, _ in site.pipeline.diagnoser.horizon.events)
    assert newest <= site.now


def test_an_event_of_a_component_that_a_newer_version_knows_can_be_put_back() -> None:
    site = Site()
    site.run(3)
    payload = site.agents[0].say(lost_card("n0", site.now, component="gadget:n0/1"))
    site.run(5)
    (letter,) = [decode(one.value or b"") for one in only(site.log, DEADLETTER)]
    assert letter.whole
    assert letter.value == payload
