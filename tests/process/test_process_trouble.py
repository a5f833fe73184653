"""A log that is away: told once and when it is over, waited for, never healthy-looking; no heap of ticks after it."""

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from sickbay import selfmetrics
from sickbay.app.alerting.lag import Lag
from sickbay.app.running.opening import awaited_log
from sickbay.app.running.service import Context, Service
from sickbay.app.running.stages import Diagnosis, Ticker
from sickbay.log import LogBusy, LogError, Outcome, Position, Task, driving, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config, LogSettings
from sickbay.trouble import Trouble
from streams.runner import Mark, write_mark
from tests.process.kit import SMALL, everything

START = 1_796_000_000_000


def test_a_trouble_is_told_once_again_after_a_minute_and_when_it_is_over() -> None:
    said: list[str] = []
    now = [0.0]
    trouble = Trouble("lag", said.append, lambda: now[0])
    trouble.over()
    for second in range(100):
        now[0] = float(second)
        trouble.failed(LogBusy("no answer") if second % 2 == 0 else LogError("strange"))
    assert trouble.now == "strange"
    trouble.over()
    trouble.over()
    assert said == [
        "lag: no answer", "lag: strange (for 1 s now)", "lag: no answer (for 60 s now)",
        "lag: strange (for 61 s now)", "lag: goes on after 99.0 s",
    ]  # fmt: skip
    assert trouble.now == ""


@dataclass
class Away:
    """A memory log whose brokers may be away: appends stay under way, questions are not answered."""

    away: bool = False
    now: int = START
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log: Any = MemoryLog(SMALL, clock=lambda: self.now)
        self.metrics = SelfMetrics()
        self.context = Context(Config(), self, self.metrics, self.said.append)
        self.topics = self.log.topics
        self.waiting: list[tuple[Any, ...]] = []

    def appender(self) -> Any:
        return _Appender(self, self.log.appender())

    def reader(self) -> Any:
        return _Reader(self, self.log.reader())

    def join(self, *which: Any) -> Any:
        self.answer()
        return self.log.join(*which)

    def lead(self, *which: Any) -> Any:
        self.answer()
        return self.log.lead(*which)

    def close(self) -> None:
        self.log.close()

    def answer(self) -> None:
        if self.away:
            raise LogBusy("no answer")


class _Reader:
    def __init__(self, site: Away, reader: Any) -> None:
        self._site, self._reader = site, reader

    def __getattr__(self, name: str) -> Any:
        self._site.answer()
        return getattr(self._reader, name)


@dataclass
class _Waits:
    append: Any
    outcome: Outcome | None = None

    def done(self) -> bool:
        return self.outcome is not None


class _Appender:
    def __init__(self, site: Away, appender: Any) -> None:
        self._site, self._appender = site, appender
        self._waiting: list[_Waits] = []

    def append(self, *what: Any, **more: Any) -> Any:
        self._waiting.append(_Waits(lambda: self._appender.append(*what, **more)))
        return self._waiting[-1]

    def flush(self, limit_s: float | None = None) -> None:
        assert limit_s is not None
        assert limit_s < 5
        self._site.answer()
        for one in self._waiting:
            one.outcome = one.append()
        self._waiting.clear()


def test_ticks_do_not_heap_up_while_the_log_is_away() -> None:
    site = Away()
    ticker = Ticker(site.context)
    for second in range(10):
        site.away = 2 <= second < 8
        ticker.step(START + second * 1000)
        assert bool(ticker.waiting) == site.away
    tasks = tasks_of(site.topics, driving(site.topics))
    assert len(list(everything(site.log, *driving(site.topics)))) == 4 * len(tasks)  # 2, the one that waited, 1
    assert [line.split(" after")[0] for line in site.said] == ["ticker: no answer", "ticker: goes on"]


def test_lag_grows_while_nothing_can_be_asked() -> None:
    site = Away()
    member = site.log.join("diagnosis", ["sickbay.events.v1"], "m")
    member.poll()
    member.commit([], {Task("sickbay.events.v1", 0): Position(0, write_mark(Mark(clock_ms=START)))})
    lag = Lag(site.context)
    lag.step(START + 1000)
    site.away = True
    lag.step(START + 61_000)
    assert lag.waiting == "no answer"
    told = site.metrics.text().decode()
    row = next(line for line in told.splitlines() if line.startswith(selfmetrics.LOG_LAG.name + "{"))
    assert float(row.split()[-1]) == 61.0


def test_a_stage_is_made_once_the_log_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sickbay.app.running.service.AGAIN_S", 0.05)
    site = Away(away=True)
    service = Service(site.context, {"diagnosis": Diagnosis})
    thread = threading.Thread(target=lambda: service.run(signals=()), daemon=True)
    thread.start()
    until = time.monotonic() + 5
    while not site.said and time.monotonic() < until:
        time.sleep(0.02)
    assert service.troubles() == {"diagnosis": "starting"}
    site.away = False
    while "diagnosis" not in service.beats and time.monotonic() < until:
        time.sleep(0.02)
    service.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert service.failed == ""
    assert [line.split(" after")[0] for line in site.said] == ["diagnosis: no answer", "diagnosis: goes on"]


def test_waiting_for_the_log_ends_with_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(settings: LogSettings) -> Any:
        raise LogBusy("no answer")

    monkeypatch.setattr("sickbay.app.running.opening.open_log", away)
    said: list[str] = []
    of_the_run = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        assert awaited_log(LogSettings(), said.append) is None
        timer.join()
        assert said == ["waits for the log: no answer"]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, of_the_run)
