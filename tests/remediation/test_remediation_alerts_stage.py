"""The alerts stage on a log in memory: one alert a root cause, kept alive, ended, and never in the way."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from remediation.notify.alertmanager import alert
from remediation.notify.client import AlertError
from remediation.notify.standing import Story
from sickbay import selfmetrics
from sickbay.actions import Judged
from sickbay.app.alerting.alerts import CHUNK, Alerts
from sickbay.app.running.service import Context
from sickbay.clock import rfc3339
from sickbay.log import LogBusy
from sickbay.log.memory import MemoryLog
from sickbay.messages import Action as Headline
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Alerts as Settings
from sickbay.settings import Cluster, Config
from tests.remediation.alerts_kit import T0, FakeAlertmanager, action, incident, write

EVERY_S = 30.0


@dataclass
class Bench:
    """A stage, what it reads and whom it tells, at a time that the test moves."""

    log: MemoryLog
    client: FakeAlertmanager
    now_ms: int = T0
    said: list[str] = field(default_factory=list)
    metrics: SelfMetrics = field(default_factory=SelfMetrics)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        config = Config(cluster=Cluster(name="c1"), alerts=Settings(every_s=EVERY_S))
        context = Context(config, self.log, self.metrics, self.said.append, lambda: self.now_ms)
        self.stage = Alerts(context, self.client)

    def run(self, seconds: float = 0.0, beat: bool = True) -> None:
        """Steps each half second, with a heartbeat of diagnosis in each."""
        end_ms = self.now_ms + round(seconds * 1000)
        while True:
            if beat:
                write(self.log, Judged(as_of_ms=self.now_ms))
            while self.stage.step(self.now_ms):
                pass
            if self.now_ms >= end_ms:
                return
            self.now_ms += 500

    @property
    def firing(self) -> list[dict[str, str]]:
        return self.client.firing(rfc3339(self.now_ms) or "")


@pytest.fixture
def bench() -> Bench:
    box: list[Bench] = []
    log = MemoryLog(clock=lambda: box[0].now_ms if box else T0)
    box.append(Bench(log, FakeAlertmanager()))
    return box[0]


def test_an_incident_is_told_at_once_and_kept_alive(bench: Bench) -> None:
    bench.run(1)
    assert bench.client.posts == []
    write(bench.log, incident())
    bench.run(0.5)
    assert [one["incident"] for one in bench.firing] == ["e1"]
    bench.run(600)
    assert len(bench.firing) == 1
    assert 19 <= len(bench.client.posts) <= 23  # every half minute, not every half second
    assert bench.metrics.value(selfmetrics.ALERTS_STANDING, severity="fatal") == 1


def test_it_ends_when_it_is_closed(bench: Bench) -> None:
    write(bench.log, incident())
    bench.run(1)
    write(bench.log, incident(state="closed"))
    bench.run(1)
    assert bench.firing == []
    posts = len(bench.client.posts)
    bench.run(120)
    assert len(bench.client.posts) == posts
    assert bench.metrics.value(selfmetrics.ALERTS_SENT, status="resolved") == 1
    assert bench.metrics.value(selfmetrics.ALERTS_STANDING, severity="fatal") is None
    assert b'incident="e1"' not in bench.metrics.text()


def test_it_ends_when_what_was_held_is_released_after_its_test(bench: Bench) -> None:
    write(bench.log, incident(), action())
    bench.run(200)
    assert [one["incident"] for one in bench.firing] == ["e1"]
    write(bench.log, action("release", at_ms=bench.now_ms))
    bench.run(1)
    assert bench.firing == []


def test_a_merged_one_goes_and_the_other_stays(bench: Bench) -> None:
    write(bench.log, incident(), incident(id="e2"))
    bench.run(1)
    assert {one["incident"] for one in bench.firing} == {"e1", "e2"}
    write(bench.log, incident(id="e2", state="merged", merged_into="e1"))
    bench.run(1)
    assert [one["incident"] for one in bench.firing] == ["e1"]


def test_a_new_verdict_ends_the_old_alert_in_the_same_request(bench: Bench) -> None:
    write(bench.log, incident())
    bench.run(1)
    write(bench.log, incident(fault="host_down", component="host:n2"))
    bench.run(1)
    assert [one["fault"] for one in bench.firing] == ["host_down"]
    assert sorted(one["labels"]["fault"] for one in bench.client.posts[-1]) == ["accelerator_off_bus", "host_down"]


def test_what_needs_no_doing_is_not_told(bench: Bench) -> None:
    write(bench.log, incident(action=Headline.IGNORE))
    bench.run(60)
    assert bench.client.posts == []


def test_a_restart_repeats_and_ends_what_is_over_since(bench: Bench) -> None:
    write(bench.log, incident(), incident(id="e2"))
    bench.run(1)
    write(bench.log, incident(id="e2", state="closed"))
    bench.restart()
    bench.run(1)
    assert [one["incident"] for one in bench.firing] == ["e1"]


def test_nothing_is_sent_before_all_is_read(bench: Bench) -> None:
    for _ in range(1500):
        write(bench.log, incident())
    write(bench.log, incident(state="closed"))
    bench.run(1)
    assert bench.client.posts == []  # else people would have been paged for what is long over


def test_a_missing_heartbeat_is_an_alert_and_a_new_one_ends_it(bench: Bench) -> None:
    bench.run(1)
    bench.run(29, beat=False)
    assert bench.firing == []
    bench.run(3, beat=False)
    assert [one["alertname"] for one in bench.firing] == ["SickbaySilent"]
    assert (bench.metrics.value(selfmetrics.HEARTBEAT_AGE) or 0) > 30
    bench.run(300, beat=False)
    assert [one["alertname"] for one in bench.firing] == ["SickbaySilent"]
    bench.run(2)
    assert bench.firing == []


def test_a_diagnosis_that_lags_is_silent_too(bench: Bench) -> None:
    bench.run(1)
    for _ in range(40):
        write(bench.log, Judged(as_of_ms=T0))  # it beats, and reads what is old
        bench.now_ms += 1000
        bench.run(beat=False)
    assert [one["alertname"] for one in bench.firing] == ["SickbaySilent"]


def test_no_heartbeat_ever_is_silence(bench: Bench) -> None:
    bench.run(29, beat=False)
    assert bench.firing == []
    bench.run(5, beat=False)
    assert [one["alertname"] for one in bench.firing] == ["SickbaySilent"]


@pytest.mark.parametrize("reason", ["away", "refused"])
def test_an_alertmanager_that_is_away_is_tried_again_and_counted(bench: Bench, reason: str) -> None:
    bench.client.broken = reason
    write(bench.log, incident())
    bench.run(300)
    tries = bench.metrics.value(selfmetrics.ALERT_ERRORS, reason=reason) or 0
    assert 8 <= tries <= 60  # doubling waits, at most `every_s`
    assert 1 <= len(bench.said) <= 6
    bench.client.broken = ""
    bench.run(EVERY_S + 1)
    assert [one["incident"] for one in bench.firing] == ["e1"]
    assert bench.metrics.value(selfmetrics.ALERTS_SENT, status="firing") in (1, 2)


def test_an_end_that_could_not_be_sent_is_sent_later(bench: Bench) -> None:
    write(bench.log, incident())
    bench.run(1)
    bench.client.broken = "away"
    write(bench.log, incident(state="closed"))
    bench.run(5)
    assert len(bench.firing) == 1
    bench.client.broken = ""
    bench.run(EVERY_S + 1)
    assert bench.firing == []


def test_many_go_in_bounded_requests(bench: Bench) -> None:
    write(bench.log, *(incident(id=f"e{number}") for number in range(3 * CHUNK + 1)))
    bench.run(2)
    assert len(bench.firing) == 3 * CHUNK + 1
    assert max(map(len, bench.client.posts)) == CHUNK


def test_a_damaged_record_is_counted_and_the_rest_is_told(bench: Bench) -> None:
    bench.log.appender().append("sickbay.incidents.v1", b"x", b"\xff{").result()
    bench.log.appender().append("sickbay.actions.v1", b"x", b"[" * 100_000).result()
    write(bench.log, incident())
    bench.run(1)
    assert [one["incident"] for one in bench.firing] == ["e1"]
    assert bench.metrics.value(selfmetrics.LOG_ERRORS, kind="damaged") == 2


def test_a_log_that_does_not_answer_ends_nothing_and_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    write(bench.log, incident())
    bench.run(1)
    monkeypatch.setattr(type(bench.log.reader()), "read", _busy)
    bench.run(60, beat=False)
    assert {one["alertname"] for one in bench.firing} == {"SickbayIncident", "SickbaySilent"}
    assert (bench.metrics.value(selfmetrics.LOG_ERRORS, kind="LogBusy") or 0) > 10


def _busy(*_: Any) -> list[Any]:
    raise LogBusy("no answer within 5 s")


def test_a_key_that_is_removed_ends_its_alert(bench: Bench) -> None:
    write(bench.log, incident())
    bench.run(1)
    bench.log.appender().append("sickbay.incidents.v1", b"e1", None).result()
    bench.run(1)
    assert bench.firing == []


def test_foreign_alerts_are_left_alone(bench: Bench) -> None:
    other = alert(Story(incident()), "c2", T0, 1000.0)
    bench.client.send([other, {"labels": {"alertname": "HostDown"}, "endsAt": rfc3339(T0 + 10**7)}])
    bench.run(60)
    assert len(bench.firing) == 2


def test_a_clock_that_is_set_back_ends_nothing(bench: Bench) -> None:
    write(bench.log, incident(onset_ms=T0 - 7_200_000))
    bench.run(60)
    bench.now_ms -= 3_600_000
    posts = len(bench.client.posts)
    bench.run(65)
    assert len(bench.client.posts) >= posts + 3  # kept alive by the new time
    assert "e1" in [one.get("incident") for one in bench.firing]


def test_a_clock_that_is_set_back_does_not_make_silence_look_alive(bench: Bench) -> None:
    bench.run(60)
    bench.now_ms -= 3_600_000
    bench.run(40, beat=False)
    assert [one["alertname"] for one in bench.firing] == ["SickbaySilent"]


def test_a_log_that_is_away_from_the_start_is_silence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    write(bench.log, incident())
    monkeypatch.setattr(type(bench.log.reader()), "bounds", _busy)
    bench.run(40, beat=False)
    assert [one["alertname"] for one in bench.firing] == ["SickbaySilent"]
    monkeypatch.undo()
    bench.run(2)
    assert [one["alertname"] for one in bench.firing] == ["SickbayIncident"]


def test_one_request_that_is_refused_does_not_hide_the_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    send = bench.client.send

    def picky(alerts: list[dict[str, Any]]) -> None:
        if any(one["labels"].get("incident") == "e0" for one in alerts):
            raise AlertError("refused", "400: bad")
        send(alerts)

    monkeypatch.setattr(bench.client, "send", picky)
    write(bench.log, *(incident(id=f"e{number}") for number in range(2 * CHUNK)))
    bench.run(20)
    assert len(bench.firing) == CHUNK
