"""A real Alertmanager: an alert stands, is kept alive, is notified once, and ends, also one of a former life."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from remediation.notify.alertmanager import alert
from remediation.notify.client import Alertmanager as Client
from remediation.notify.standing import Story
from sickbay import selfmetrics
from sickbay.actions import Judged
from sickbay.app.alerting.alerts import Alerts
from sickbay.app.running.service import Context
from sickbay.log import wall_ms
from sickbay.log.memory import MemoryLog
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Alerts as Settings
from sickbay.settings import Cluster, Config
from tests.remediation.alerts_kit import CARD, action, claim, incident, write
from tests.services.alertmanager import Alertmanager, running

pytestmark = pytest.mark.service

ROUTE = """\
route:
  {receiver: hook, group_by: [alertname, cluster, incident], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
- name: hook
  webhook_configs: [{url: "URL", send_resolved: true}]
"""
HOSTILE = '{{ template "x" }} <!channel> \x1b[31m \u202e ' + "long " * 200


class Hook(BaseHTTPRequestHandler):
    """Keeps the notifications that people would get."""

    got: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Address of a receiver, and what it was told."""
    got: list[dict[str, Any]] = []
    with HTTPServer(("127.0.0.1", 0), type("Kept", (Hook,), {"got": got})) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", got
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(told: tuple[str, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    with running(tmp_path_factory.mktemp("alertmanager"), ROUTE.replace("URL", told[0])) as alertmanager:
        yield alertmanager


class Running:
    """A stage that steps until something is so."""

    def __init__(self, url: str, cluster: str) -> None:
        self.log, self.metrics, self.url, self.cluster = MemoryLog(), SelfMetrics(), url, cluster
        self.restart()

    def restart(self) -> None:
        config = Config(cluster=Cluster(name=self.cluster), alerts=Settings(url=self.url, every_s=1.0))
        self.stage = Alerts(Context(config, self.log, self.metrics, lambda text: None))

    def until(self, so: Callable[[], bool], limit_s: float = 10.0) -> bool:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            write(self.log, Judged(as_of_ms=wall_ms()))
            began = time.monotonic()
            self.stage.step(wall_ms())
            assert time.monotonic() - began < 5
            if so():
                return True
            time.sleep(0.05)
        return False


def names(server: Alertmanager, cluster: str) -> list[str]:
    return sorted(one["labels"].get("incident", "?") for one in server.alerts(f'cluster="{cluster}"'))


def test_an_alert_stands_is_kept_alive_is_notified_once_and_ends(
    server: Alertmanager, told: tuple[str, list[dict[str, Any]]]
) -> None:
    _, got = told
    run = Running(server.url, "one")
    onset = wall_ms() - 2000
    write(run.log, incident(onset_ms=onset, summary=HOSTILE, evidence=(claim(onset_to_ms=onset, onset_from_ms=onset),)))
    assert run.until(lambda: names(server, "one") == ["e1"])
    assert not run.until(lambda: names(server, "one") != ["e1"], limit_s=5)  # longer than one sending lasts
    (standing,) = server.alerts('cluster="one"')
    assert standing["labels"]["component"] == CARD
    assert standing["startsAt"][:19] == time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(onset // 1000))
    assert "{{" not in standing["annotations"]["summary"]
    write(run.log, action(at_ms=wall_ms()), action("release", at_ms=wall_ms()))
    assert run.until(lambda: names(server, "one") == [])
    assert run.until(lambda: len(got) >= 2)
    assert [one["status"] for one in got if one["commonLabels"]["cluster"] == "one"] == ["firing", "resolved"]


def test_what_a_former_life_left_is_ended(server: Alertmanager) -> None:
    left = alert(Story(incident(id="left")), "two", wall_ms(), 3600.0)
    server.post([left, alert(Story(incident(id="other")), "three", wall_ms(), 3600.0)])
    run = Running(server.url, "two")
    write(run.log, incident(id="left", state="closed"), incident(id="e1"))
    assert run.until(lambda: names(server, "two") == ["e1"])
    assert names(server, "three") == ["other"]


def test_one_that_is_away_is_told_when_it_is_back(tmp_path: Path) -> None:
    with running(tmp_path) as own:
        run = Running(own.url, "four")
        own.child.pause()
        write(run.log, incident())
        assert run.until(lambda: (run.metrics.value(selfmetrics.ALERT_ERRORS, reason="away") or 0) >= 1)
        own.child.resume()
        assert run.until(lambda: names(own, "four") == ["e1"])


def test_every_kind_of_alert_passes_its_checks(server: Alertmanager) -> None:
    run = Running(server.url, "five")
    hostile = incident(component=f"host:{HOSTILE}", summary="", onset_ms=None, detected_ms=None, evidence=())
    write(run.log, hostile)
    assert run.until(lambda: names(server, "five") == ["e1"])
    client = Client(server.url)
    assert [one["labels"]["incident"] for one in client.ours("five")] == ["e1"]
    assert run.metrics.value(selfmetrics.ALERT_ERRORS, reason="refused") is None
