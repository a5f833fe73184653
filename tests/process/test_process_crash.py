"""Both stages over one log, stepped in any order, crashed at any commit: the same incidents, each claim once."""

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sickbay import actions
from sickbay.app.asking.incidents_topic import told
from sickbay.app.running.service import Context, Stage
from sickbay.app.running.stages import Diagnosis, Ticker, Windows
from sickbay.log import Fenced, OutcomeUnknown
from sickbay.log.memory import MemoryLog
from sickbay.messages import Incident, encode
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config
from sickbay.settings import Windows as WindowSettings
from sickbay.topics import INCIDENTS
from tests.process.kit import EVIDENCE, SMALL, Agent, features, incidents, lost_card, only

START, SECONDS = 1_796_000_000_000, 40
LOSSES = {9: "n1", 17: "n2", 18: "n3"}  # second: the host whose card goes


class Crash(Exception):
    """The process ends here."""


def _run(seed: int, crashes: dict[int, tuple[str, type[Exception]]]) -> MemoryLog:
    now, commits, due, chance = [START], [0], dict(crashes), random.Random(seed)

    def hook(moment: str) -> None:
        commits[0] += moment == "commit:before"
        if due.get(commits[0], ("",))[0] == moment:
            raise due.pop(commits[0])[1]("now")

    log = MemoryLog(SMALL, clock=lambda: now[0], seed=seed, hook=hook)
    context = Context(Config(windows=WindowSettings(width_s=2, lateness_s=1)), log, SelfMetrics(), lambda text: None)
    agents = [Agent(f"n{number}", log.appender(), key=None) for number in range(4)]
    ticker = Ticker(context)
    running: dict[str, Stage] = {}
    for second in range(SECONDS):
        now[0] = START + second * 1000
        for agent in agents:
            agent.sample(now[0])
            if LOSSES.get(second) == agent.host:
                agent.say(lost_card(agent.host, now[0]))
        ticker.step(now[0])
        order = ["windows", "diagnosis"] * 4
        chance.shuffle(order)
        calm = second > SECONDS - 6  # in the end everything gets its turn
        for name in order if calm else order[: chance.randint(0, 8)]:
            if name not in running:
                running[name] = Windows(context) if name == "windows" else Diagnosis(context)
            try:
                running[name].step(now[0])
            except Crash:
                del running[name]
    return log


@cache
def _calm() -> MemoryLog:
    return _run(0, {})


def _words(log: MemoryLog) -> list[bytes]:
    """Every record of an incident, in order."""
    found = [told(one.value) for one in only(log, INCIDENTS) if one.key != actions.JUDGED_KEY]
    return [encode(one) for one in found if isinstance(one, Incident)]


crash = st.tuples(
    st.sampled_from(("commit:before", "commit:after")), st.sampled_from((Crash, Crash, OutcomeUnknown, Fenced))
)


@pytest.mark.slow
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), crashes=st.dictionaries(st.integers(1, 80), crash, max_size=6))
def test_any_order_and_any_crash_give_the_same(seed: int, crashes: dict[int, tuple[str, type[Exception]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sickbay.app.running.stages.POLL_S", 0.0)
        patch.setattr("sickbay.app.running.stages.TROUBLE_S", 0.0)
        calm, other = _calm(), _run(seed, crashes)
    assert len(incidents(calm)) == len(LOSSES)
    assert incidents(other) == incidents(calm)
    assert features(other) == features(calm)
    claims = [one.key for one in only(other, EVIDENCE)]
    assert len(claims) == len(set(claims))
    words = _words(other)
    assert len(words) == len(set(words))
