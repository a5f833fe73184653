"""Hardware codes go straight to Alertmanager while the log is away: severe ones, once, without holding anybody up."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.agent import alarms
from collectors.agent.agent import Agent, start
from collectors.agent.alarms import ALERTNAME, LASTS_MS, MAX_HELD, Alarms, Target, alert, is_alarming
from collectors.http_get import Address, HttpError
from sickbay.config import ConfigError
from sickbay.log import wall_ms
from sickbay.messages import Blame, Event, Severity
from sickbay.selfmetrics import DIRECT_ALERTS, SelfMetrics
from tests.collectors.agent_kit import XID, Gate, events, kernel_log, serving, settings, wait_for, write
from tests.services import alertmanager
from tests.services.alertmanager import Alertmanager

NOW = 1_796_000_000_000
CARD = "accelerator:n1/0000:cb:00"


def lost(component: str = CARD, code: str = "Xid 79", **more: object) -> Event:
    told = {"severity": Severity.FATAL, "blame": Blame.HARDWARE, "at_ms": NOW, **more}
    return Event(component=component, kind="accelerator.off_bus", code=code, **told)  # type: ignore[arg-type]


class Outside:
    """What surrounds alarms: a log that is away, a clock, an Alertmanager that takes notes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.away_s, self.now_ms, self.now_s = 0.0, NOW, 1000.0
        self.posts: list[list[dict[str, dict[str, str]]]] = []
        self.fails = False
        self.metrics = SelfMetrics()
        monkeypatch.setattr(alarms, "post", self.post)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        target = Target("http://127.0.0.1:9093/prefix", 60.0, "n1", "c1")
        self.alarms = Alarms(target, lambda: self.away_s, lambda: self.now_ms, self.metrics)

    def post(self, address: Address, body: bytes, timeout_s: float, **more: object) -> bytes:
        assert address.path == "/prefix/api/v2/alerts"
        if self.fails:
            raise HttpError("answered 503")
        self.posts.append(json.loads(body))
        return b""

    def look(self, after_s: float = 1.0) -> None:
        self.now_s += after_s
        self.now_ms += round(after_s * 1000)
        self.away_s += after_s if self.away_s else 0.0
        self.alarms.look(self.now_s)

    @property
    def told(self) -> list[str]:
        return [one["labels"]["component"] for post in self.posts for one in post]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Outside:
    return Outside(monkeypatch)


def test_a_code_is_told_once_when_the_log_was_away_for_long_enough(outside: Outside) -> None:
    outside.away_s = 1.0
    outside.alarms.offer([lost()])
    outside.look(50)
    assert outside.told == []
    for _ in range(5):
        outside.look(15)
        outside.alarms.offer([lost(), lost(at_ms=outside.now_ms)])
    assert outside.told == [CARD]
    outside.alarms.offer([lost("accelerator:n1/0000:cc:00"), lost(code="Xid 48")])  # not the same
    outside.look()
    assert len(outside.posts) == 2
    assert len(outside.posts[1]) == 2
    outside.look(LASTS_MS / 1000)
    outside.alarms.offer([lost(at_ms=outside.now_ms)])  # that alert has ended
    outside.look()
    assert len(outside.posts) == 3
    assert outside.metrics.value(DIRECT_ALERTS, status="sent") == 4


def test_what_the_log_takes_is_not_told(outside: Outside) -> None:
    outside.alarms.offer([lost()])
    outside.look(10)
    outside.away_s = 61.0
    outside.look()
    assert outside.told == []


def test_a_log_that_goes_away_just_after_an_event_loses_no_code(outside: Outside) -> None:
    outside.alarms.offer([lost()])
    outside.look(2)
    outside.away_s = 2.0
    outside.look(60)
    assert outside.told == [CARD]


@pytest.mark.parametrize(
    "event",
    [
        lost(severity=Severity.WARNING),
        lost(blame=Blame.EITHER),
        lost(blame=Blame.APPLICATION),
        Event(component="monitor:n1/spool", kind="monitor.lines_lost"),
    ],
)
def test_only_severe_events_that_blame_hardware_alarm(outside: Outside, event: Event) -> None:
    assert not is_alarming(event)
    outside.away_s = 100.0
    outside.alarms.offer([event])
    outside.look()
    assert outside.told == []


def test_what_happened_long_ago_is_no_alarm(outside: Outside) -> None:
    outside.away_s = 100.0
    outside.alarms.offer([lost(at_ms=NOW - 2 * LASTS_MS)])
    outside.look()
    assert outside.told == []


def test_an_alertmanager_that_is_away_is_tried_again_and_counted(outside: Outside) -> None:
    outside.away_s, outside.fails = 100.0, True
    outside.alarms.offer([lost()])
    for _ in range(20):
        outside.look(1)
    failed = outside.metrics.value(DIRECT_ALERTS, status="failed") or 0
    assert 4 <= failed <= 10  # every 2 to 5 s
    assert "503" in outside.alarms.trouble
    outside.fails = False
    outside.look(5)
    assert outside.told == [CARD]
    assert outside.alarms.trouble == ""


def test_a_storm_is_bounded_and_what_is_left_out_is_counted(outside: Outside) -> None:
    outside.away_s = 100.0
    outside.alarms.offer([lost(code=f"Xid {number}") for number in range(MAX_HELD + 7)])
    outside.look()
    assert len(outside.told) == MAX_HELD
    assert outside.metrics.value(DIRECT_ALERTS, status="dropped") == 7


def test_in_a_storm_the_worst_is_told(outside: Outside) -> None:
    outside.away_s = 100.0
    outside.alarms.offer([lost(code=f"Xid {code}", severity=Severity.ERROR) for code in range(10_000)])
    outside.alarms.offer([lost(code="Xid 99999")])
    outside.look()
    codes = [one["labels"]["code"] for one in outside.posts[0]]
    assert len(codes) == MAX_HELD
    assert "Xid 99999" in codes


def test_a_clock_that_is_set_back_silences_no_code_for_long(outside: Outside) -> None:
    outside.away_s = 100.0
    outside.alarms.offer([lost()])
    outside.look()
    outside.now_ms -= 30 * LASTS_MS
    outside.alarms.offer([lost(at_ms=outside.now_ms)])
    outside.look()
    assert outside.told == [CARD, CARD]


def test_the_text_of_logs_is_nothing_but_text() -> None:
    event = lost(message='{{ template "x" }} <!channel> \x1b[31m\u202e "quoted" ' + "y" * 400, code="79\n{{.}}")
    made = alert(event, Target("http://x", 60.0, "n1", "c1"), NOW, 61.0)
    text = json.dumps(made, ensure_ascii=False)
    assert "{{" not in text
    assert "<!" not in text
    assert not any(ord(one) < 32 or one == "\u202e" for part in ("labels", "annotations") for one in str(made[part]))
    assert made["labels"]["alertname"] == ALERTNAME


@pytest.mark.slow
def test_whatever_alertmanager_does_nobody_waits_for_it() -> None:
    def silent(connection: socket.socket) -> None:
        time.sleep(5)

    with serving(silent) as url:
        made = Alarms(Target(url.removesuffix("/metrics"), 1.0, "n1", "c1"), lambda: 9.0, lambda: NOW, SelfMetrics())
        made.start()
        began = time.monotonic()
        for number in range(100):
            made.offer([lost(code=f"Xid {number}")])
        time.sleep(1.2)  # the call is under way
        made.offer([lost()])
        made.close()
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "http://"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        Alarms(Target(url), lambda: 0.0, lambda: NOW, SelfMetrics())


def test_an_agent_tells_which_setting_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^\[agent\] alerts: 'http://:9093"):
        start(settings(tmp_path, alerts="http://:9093"), Gate().connect)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    with alertmanager.running(tmp_path_factory.mktemp("alertmanager")) as one:
        yield one


@pytest.mark.service
def test_a_real_alertmanager_takes_it(server: Alertmanager, tmp_path: Path) -> None:
    made = Alarms(Target(server.url, 1.0, "n1", "c1"), lambda: 61.0, wall_ms, SelfMetrics())
    event = lost(at_ms=wall_ms() - 5_000, message='Xid 79 {{ "x" }} <!here>')
    made.offer([event])
    made.look(time.monotonic())
    assert made.trouble == ""
    (standing,) = wait_for(lambda: server.alerts(f'alertname="{ALERTNAME}"'))
    assert standing["labels"] == {
        "alertname": ALERTNAME,
        "cluster": "c1",
        "host": "n1",
        "component": CARD,
        "kind": "accelerator.off_bus",
        "code": "Xid 79",
        "severity": "fatal",
    }
    assert standing["annotations"]["summary"] == f"{CARD}: Xid 79"
    assert standing["endsAt"] > standing["startsAt"]
    made.offer([event])
    made.look(time.monotonic())
    assert len(server.alerts(f'alertname="{ALERTNAME}"')) == 1


@pytest.mark.service
def test_a_card_that_falls_off_the_bus_while_the_log_is_away(server: Alertmanager, tmp_path: Path) -> None:
    gate = Gate()
    gate.open = False
    config = settings(tmp_path, "n7", alerts=server.url, alerts_after_s=1.0)
    path = kernel_log(config)
    asked = ('host="n7"', f'alertname="{ALERTNAME}"')

    def stepped(agent: Agent, what: Callable[[], object]) -> object:
        return wait_for(lambda: (agent.step(wall_ms(), 0.02) and False) or what(), 15)

    agent = start(config, gate.connect)
    try:
        time.sleep(0.5)
        write(path, f"[1.1] {XID}\n[1.2] {XID.replace('79', '31')}\n")
        stepped(agent, lambda: server.alerts(*asked))
        (standing,) = server.alerts(*asked)
        assert standing["labels"]["component"] == "accelerator:n7/0000:cb:00"
        assert events(gate.log) == []
    finally:
        agent.close()
    again = start(config, gate.connect)  # what an earlier run could not send is known, and is the same alert
    try:
        stepped(again, lambda: again._alarms and again._alarms._told)
        assert len(server.alerts(*asked)) == 1
    finally:
        again.close()
