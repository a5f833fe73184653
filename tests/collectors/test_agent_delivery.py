"""How an agent's records get into the log: live before backlog, whatever the log and the clock do."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collectors.agent import courier as courier_module
from collectors.agent.agent import Agent, live_ms, start
from collectors.agent.composing import Composer, Work
from collectors.agent.courier import Courier
from collectors.agent.source import Collected, Seen
from collectors.agent.spool import Draft, Rank, Spool
from sickbay import wire
from sickbay.config import ConfigError
from sickbay.log import Appender, Outcome, Receipt, wall_ms
from sickbay.messages import MAX_MESSAGE, Blame, Event, Severity
from sickbay.schema import Samples
from sickbay.seal import host_key
from sickbay.selfmetrics import FRAMES_SENT, LOG_AWAY, SPOOL_AGE, SelfMetrics
from sickbay.settings import Config, Windows
from sickbay.topics import BACKFILL, EVENTS, TELEMETRY
from tests.collectors.agent_kit import (
    XID,
    Gate,
    events,
    exporter_page,
    kernel_log,
    page,
    records,
    serving,
    settings,
    wait_for,
    write,
)
from tests.collectors.outage_kit import frames, numbers, whole

KEY = host_key(bytes(range(32)), "n1")
NOW = 1_796_000_000_000


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier_module, "RETRY_S", (0.05, 0.1))


def frame(key: bytes | None = None) -> Draft:
    def build(incarnation: int, sequence: int) -> bytes:
        import numpy as np

        samples = Samples("host", ["host:n1"], np.array([NOW], np.int64), {"up": np.ones(1)})
        return wire.encode("n1", [samples], sequence=sequence, incarnation=incarnation, sent_ms=NOW, key=key)

    return Draft(TELEMETRY, b"n1", Rank.TELEMETRY, build)


def event() -> Draft:
    return Draft(EVENTS, b"n1", Rank.EVENTS, lambda incarnation, sequence: b'{"type":"event"}')


class Way:
    """A courier over a spool in memory, with a clock that the test moves."""

    def __init__(self, connect: Callable[[], Appender], key: bytes | None = None) -> None:
        self.now_ms, self.metrics, self.said = NOW, SelfMetrics(), list[str]()
        self.spool = Spool(None, "n1", 64 << 20)
        self.courier = Courier(
            [self.spool], connect, lambda: self.now_ms, self.metrics, self.said.append, live_ms=20_000, key=key
        )

    def send(self) -> None:
        while self.courier._send() and not self.courier.trouble:
            pass


def test_old_frames_go_to_the_backfill_topic_and_leave_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    way = Way(gate.connect, KEY)
    way.spool.add([frame(KEY), event()], NOW - 25_000)
    way.spool.add([frame(KEY)], NOW - 19_000)
    way.send()
    assert [record.value for record in records(gate.log, BACKFILL)] == [
        wire.encode("n1", _tables(), sequence=1, incarnation=way.spool.incarnation, sent_ms=NOW, key=KEY)
    ]
    empty = [record.value or b"" for record in records(gate.log, TELEMETRY)]
    from sickbay.layouts import Schemas

    told = wire.decode(empty[1], Schemas(), key=KEY)
    assert (told.sequence, told.incarnation, told.verified, told.tables) == (1, way.spool.incarnation, True, ())
    assert len(empty) == 2
    assert len(records(gate.log, EVENTS)) == 1  # live at any age
    assert way.spool.held.entries == 0
    assert way.metrics.value(FRAMES_SENT, way="live") == 1
    assert way.metrics.value(FRAMES_SENT, way="backfill") == 1


def _tables() -> list[Samples]:
    import numpy as np

    return [Samples("host", ["host:n1"], np.array([NOW], np.int64), {"up": np.ones(1)})]


def test_a_backlog_goes_some_frames_a_second_and_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    gate = Gate()
    way = Way(gate.connect)
    way.spool.add([frame() for _ in range(50)], NOW - 60_000)
    way.send()
    assert len(records(gate.log, BACKFILL)) == courier_module.OLD_AT_ONCE
    way.spool.add([frame() for _ in range(30)] + [event()], NOW)
    way.send()
    assert len(records(gate.log, TELEMETRY)) == courier_module.OLD_AT_ONCE + 30
    for _ in range(5):
        now[0] += 1.0
        way.send()
    assert len(records(gate.log, BACKFILL)) == courier_module.OLD_AT_ONCE + 5 * courier_module.OLD_PER_S
    assert way.courier.why == "nothing was sent yet" or not way.courier.trouble


def test_what_is_no_frame_holds_up_no_other_and_is_told() -> None:
    gate = Gate()
    way = Way(gate.connect)
    way.spool.add([Draft(TELEMETRY, b"n1", Rank.TELEMETRY, lambda *_: b"damaged"), frame()], NOW - 60_000)
    way.send()
    assert len(records(gate.log, BACKFILL)) == 1
    assert way.courier.trouble == ""
    (gone,) = way.spool.dropped()
    assert (gone.topic, gone.first, gone.last, gone.lost) == (TELEMETRY, 1, 1, 1)


def test_the_age_at_which_windows_give_up_is_that_of_the_settings() -> None:
    assert live_ms(Config()) == 20_000 == courier_module.LIVE_MS
    assert live_ms(Config(windows=Windows(width_s=30, lateness_s=5))) == 35_000


def test_a_clock_that_is_set_back_or_forward_changes_no_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "n1", 64 << 20)
    spool.add([frame()], NOW + 3_600_000)  # the clock was an hour ahead
    spool.add([frame()], NOW)
    spool.add([frame()], NOW + 1_000)
    assert [one.sequence for one in spool.take(9, 1 << 20, NOW - 20_000)] == [1, 2, 3]
    assert spool.since_ms() == NOW
    spool.settle([], spool.take(9, 1 << 20, 0))
    spool.close()
    spool = Spool(tmp_path, "n1", 64 << 20)
    live = spool.take(9, 1 << 20, NOW + 60_000, old_frames=9)
    assert [(one.sequence, one.live) for one in live] == [(1, False), (2, False), (3, False)]
    spool.close()


class Silent(Gate):
    """A log that takes records and never tells what became of them."""

    def append(self, topic: str, key: bytes, value: bytes | None, *, partition: int | None = None) -> Outcome:
        super().append(topic, key, value, partition=partition)
        return self

    def done(self) -> bool:
        return False

    def result(self) -> Receipt:
        raise AssertionError("nobody may wait for it")

    def flush(self, limit_s: float | None = None) -> None:
        time.sleep(0.05)


def test_a_log_that_never_answers_is_told_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    gate = Silent()
    way = Way(gate.connect)
    way.spool.add([event()], NOW)
    assert way.courier.away_s == 0.0
    way.courier._send()
    assert "no outcome in time" in way.courier.trouble
    monkeypatch.setattr(time, "monotonic", lambda: now[0] + time.perf_counter())
    assert way.courier.away_s > 0
    assert way.spool.held.entries == 1
    assert way.spool.held.flying == set()


@pytest.mark.slow
def test_a_client_that_hangs_is_told_in_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier_module, "SILENT_S", 0.2)

    def hangs() -> Appender:
        time.sleep(1.5)
        raise AssertionError("too late")

    way = Way(hangs)
    way.spool.add([event()], NOW)
    way.courier.start()
    wait_for(lambda: "has not answered" in way.courier.why or "nothing was sent" in way.courier.why)
    way.courier.trouble = ""
    wait_for(lambda: "has not answered" in way.courier.why, 3)
    way.courier.close(3)


@contextmanager
def running(config: Config, gate: Gate, metrics: SelfMetrics | None = None) -> Iterator[Agent]:
    agent = start(config, gate.connect, metrics=metrics)
    try:
        yield agent
    finally:
        agent.close()


def until(agent: Agent, what: Callable[[], object], clock: Callable[[], int] = wall_ms) -> object:
    def stepped() -> object:
        agent.step(clock(), 0.02)
        return what()

    return wait_for(stepped, 8)


@pytest.mark.slow
def test_the_backlog_of_an_agent_is_known_from_its_metrics(tmp_path: Path) -> None:
    gate, metrics = Gate(), SelfMetrics()
    gate.open = False
    config = settings(tmp_path)
    path = kernel_log(config)
    with running(config, gate, metrics) as agent:
        time.sleep(0.3)
        write(path, f"[1.1] {XID}\n")
        until(agent, lambda: (metrics.value(SPOOL_AGE) or 0) > 0.5 and (metrics.value(LOG_AWAY) or 0) > 0.5)
        gate.open = True
        until(agent, lambda: metrics.value(SPOOL_AGE) == 0 and metrics.value(LOG_AWAY) == 0)


@pytest.mark.slow
def test_hung_collectors_and_losses_are_told_also_after_the_clock_was_set_back(tmp_path: Path) -> None:
    gate = Gate()
    with running(settings(tmp_path), gate) as agent:
        agent.step(wall_ms())
        agent._composer.lose(3, "kernel_log", "lines")
        until(agent, lambda: events(gate.log, "monitor.lines_lost"))
        agent._composer.lose(4, "kernel_log", "lines")
        until(agent, lambda: len(events(gate.log, "monitor.lines_lost")) == 2, lambda: wall_ms() - 3_600_000)


def test_hostile_text_of_megabytes_costs_no_more_than_a_line() -> None:
    composer, work = Composer("n1", 5.0), Work()
    hostile = Event(
        component="accelerator:n1/0000:cb:00",
        kind="accelerator.off_bus",
        severity=Severity.FATAL,
        blame=Blame.HARDWARE,
        message="{{%<!channel>\x1b\u202e" * 400_000,
        attributes={"text": "y" * (4 << 20)},
    )
    composer.take("kernel_log", Collected([Seen(hostile, NOW)]), NOW, work)
    spool = Spool(None, "n1", 64 << 20)
    spool.add(work.drafts, NOW)
    (entry,) = spool.take(9, 64 << 20, 0)
    assert len(entry.payload) < 16 << 10
    assert len(work.alarming) == 1
    assert len(work.alarming[0].message) <= MAX_MESSAGE


@pytest.mark.slow
def test_a_reload_takes_up_new_sources_and_goes_on_where_the_old_ones_stopped(tmp_path: Path) -> None:
    config, gate = settings(tmp_path), Gate()
    path = kernel_log(config)
    with running(config, gate) as agent, serving(page(exporter_page())) as url:
        time.sleep(0.3)
        write(path, f"[1.1] {XID.replace('79', '31')}\n")
        until(agent, lambda: len(events(gate.log)) == 1)
        after = settings(tmp_path, exporters=(url,), sample_s=0.2, spool_max_bytes=1 << 22)
        assert agent.reload(after) == ["[agent] spool_max_bytes"]
        write(path, f"[1.1] {XID.replace('79', '43')}\n")
        until(agent, lambda: len(events(gate.log)) == 2)
        until(agent, lambda: len(records(gate.log, "sickbay.topology.v1")) >= 2)
        assert [one.code for one in events(gate.log)] == ["Xid 31", "Xid 43"]
        with pytest.raises(ValueError, match="is no address"):
            agent.reload(settings(tmp_path, exporters=("ftp://x",)))
        with pytest.raises(ConfigError, match="there is none called"):
            agent.reload(settings(tmp_path, collectors=("nothing",)))
        write(path, f"[1.1] {XID.replace('79', '48')}\n")
        until(agent, lambda: len(events(gate.log)) == 3)
        agent.reload(settings(tmp_path, kernel_log=""))
        assert all(watch.collector.name != "kernel_log" for watch in agent._crew.watches)
    assert numbers(gate.log, TELEMETRY) == set(range(1, len(frames(gate.log, TELEMETRY)) + 1))
    assert whole(gate.log)[1] == set()
