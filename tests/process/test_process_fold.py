"""What diagnosis says is a function of its log: any batches, interleavings, crashes and takeovers say the same."""

import random
from collections.abc import Callable, Iterable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay import actions, messages
from sickbay.actions import Control, Judged
from sickbay.app.asking.incidents_topic import told
from sickbay.app.diagnosing.diagnoser import Diagnoser
from sickbay.app.diagnosing.diagnosis_fold import KEPT, PATIENCE_MS, WATCHED, DiagnosisFold
from sickbay.app.diagnosing.diagnosis_state import Memory
from sickbay.app.diagnosing.task_read import Stand
from sickbay.app.running.live import WINDOWS_GROUP, window_maker
from sickbay.log import Fenced, LogBusy, OutcomeUnknown, Output, Record, driving, tick
from sickbay.log.memory import MemoryLog
from sickbay.messages import Edge, Event, Incident, Placement, Relation, Severity
from sickbay.topics import CONTROL, PLACEMENT, TOPOLOGY
from streams.runner import Runner
from tests.process.kit import (
    DEADLETTER,
    EVENTS,
    EVIDENCE,
    INCIDENTS,
    SMALL,
    TELEMETRY,
    Agent,
    card,
    everything,
    lost_card,
    only,
)

pytestmark = pytest.mark.slow

START, SECONDS = 1_796_000_000_000, 130
WIDTHS = {"window_ms": 5_000, "lateness_ms": 2_000}
PAUSE = range(60, 105)  # seconds without anybody who computes windows
OUTPUTS = (EVIDENCE, INCIDENTS, DEADLETTER, "sickbay.state.v1")


class Crash(Exception):
    """The process ends here."""


@cache
def inputs() -> tuple[Record, ...]:
    """A site's log: two partitions a topic, three hosts, losses, facts, damage; windows that pause for a while."""
    now, chance = [START], random.Random(5)
    log = MemoryLog(SMALL, clock=lambda: now[0], seed=5)
    put = log.appender()
    make = window_maker(log, width_ms=5_000, lateness_ms=2_000)
    windows = Runner(log.join(WINDOWS_GROUP, [TELEMETRY], "w"), make, group=WINDOWS_GROUP)
    agents = [Agent(f"n{number}", put, key=None) for number in range(3)]
    put.append(
        TOPOLOGY,
        b"host:n0 rack:r1",
        messages.encode(Edge(child="host:n0", parent="rack:r1", relation=Relation.PART_OF)),
    )
    for second in range(SECONDS):
        now[0] = START + second * 1000 + chance.randint(0, 60)
        tick(put, SMALL, driving(SMALL))
        for agent in agents:
            now[0] += chance.randint(0, 200)
            agent.sample(now[0])
        _happens(second, agents, now[0], put.append)
        if second not in PAUSE:
            now[0] += chance.randint(0, 200)
            windows.drain()
    found = everything(log, *WATCHED, *KEPT)
    return tuple(sorted(found, key=lambda one: (one.append_ms, one.topic, one.partition, one.offset)))


def _happens(second: int, agents: list[Agent], now_ms: int, append: Callable[..., object]) -> None:
    if second in (9, 40, 80, 118):
        agents[second % 3].say(lost_card(f"n{second % 3}", now_ms))
    if second in (20, 81):
        agents[1].say(
            Event(component="port:n1/eth2", kind="port.down", at_ms=now_ms, severity=Severity.ERROR, host="n1")
        )
    if second == 25:
        append(EVENTS, b"n1", b"{]")
    if second == 30:
        append(PLACEMENT, b"7", messages.encode(Placement(job="7", hosts=("n1", "n2"), from_ms=now_ms)))
        declared = Control(
            kind="maintenance", target="host:n1", by="c", at_ms=now_ms, from_ms=now_ms, until_ms=now_ms + 60_000
        )
        append(CONTROL, b"maintenance:host:n1:a", actions.encode(declared))
    if second == 45:
        agents[0].numbers[EVENTS] -= 1
        agents[0].say(lost_card("n0", now_ms))  # again under a number that was there


Words = dict[str, list[tuple[bytes, bytes | None]]]


@cache
def oracle() -> Words:
    """The fold over the whole log in order."""
    fold = DiagnosisFold(SMALL, **WIDTHS)  # type: ignore[arg-type]
    for record in inputs():
        fold.take(record)
    fold.inputs.facts_ms = fold.inputs.newest_ms - 1000
    fold.begin(Stand(), Memory())
    outputs = [output for look in fold.looks() for output in look.outputs]
    return _words(outputs)


def _words(found: Iterable[Output | Record]) -> Words:
    words: Words = {topic: [] for topic in OUTPUTS}
    for one in found:
        words[one.topic].append((one.key, one.value))
    return words


def _said(log: MemoryLog) -> Words:
    return _words(only(log, EVIDENCE) + only(log, INCIDENTS) + only(log, DEADLETTER) + only(log, "sickbay.state.v1"))


def _run(seed: int, crashes: dict[int, tuple[str, type[Exception]]], members: int = 1, busy: float = 0.02) -> MemoryLog:
    """Diagnosers over the same records at the same append times, stepped at random, dead at any commit."""
    now, commits, due, chance = [START], [0], dict(crashes), random.Random(seed)

    def hook(moment: str) -> None:
        commits[0] += moment == "commit:before"
        if due.get(commits[0], ("",))[0] == moment:
            raise due.pop(commits[0])[1]("now")

    log = MemoryLog(SMALL, clock=lambda: now[0], seed=seed, session_ms=3_000, hook=hook)
    put, running, born = log.appender(), dict[int, Diagnoser](), 0

    def step(place: int) -> None:
        nonlocal born
        if place not in running:
            running[place] = Diagnoser(log, member=f"m{born}", **WIDTHS)  # type: ignore[arg-type]
            born += 1
        try:
            running[place].step(now[0])
        except Crash:
            del running[place]  # without a word

    for record in inputs():
        now[0] = record.append_ms
        put.append(record.topic, record.key, record.value, partition=record.partition)
        while chance.random() < busy:
            step(chance.randrange(members))
    for _ in range(60):  # in the end everybody gets a turn
        now[0] += 100
        for place in range(members):
            step(place)
    return log


crash = st.tuples(
    st.sampled_from(("commit:before", "commit:after")), st.sampled_from((Crash, Crash, OutcomeUnknown, Fenced, LogBusy))
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sickbay.app.diagnosing.diagnoser.FOLLOW_S", 0.0)
    monkeypatch.setattr("sickbay.app.diagnosing.diagnoser.FOLLOWED_S", 0.0)


def test_the_fold_finds_what_happened_and_waits_for_windows_only_so_long() -> None:
    found = [told(value) for _, value in oracle()[INCIDENTS]]
    incidents = {one.component for one in found if isinstance(one, Incident)}
    assert {card("n0"), card("n1"), card("n2")} <= incidents
    beats = [one for one in found if isinstance(one, Judged)]
    assert {one.behind for one in beats} == {True, False}
    stands = [one.as_of_ms for one in beats if one.behind]
    assert len(set(stands)) == 1  # where the windows stood
    assert PATIENCE_MS < (SECONDS - 60) * 1000
    assert not beats[-1].behind
    assert len(oracle()[DEADLETTER]) == 1
    claims = [key for key, _ in oracle()[EVIDENCE]]
    assert len(claims) == len(set(claims))


def test_one_that_reads_in_any_order_says_the_same() -> None:
    assert _said(_run(1, {})) == oracle()


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6), crashes=st.dictionaries(st.integers(1, 60), crash, max_size=6),
    busy=st.sampled_from((0.002, 0.02, 0.2)),
)  # fmt: skip
def test_any_batches_and_any_crash_say_the_same(
    seed: int, crashes: dict[int, tuple[str, type[Exception]]], busy: float
) -> None:
    assert _said(_run(seed, crashes, busy=busy)) == oracle()


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), crashes=st.dictionaries(st.integers(1, 60), crash, max_size=6))
def test_any_takeover_says_the_same(seed: int, crashes: dict[int, tuple[str, type[Exception]]]) -> None:
    assert _said(_run(seed, crashes, members=2, busy=0.1)) == oracle()
