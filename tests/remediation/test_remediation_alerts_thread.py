"""Alerts beside the real remediator: the alert stands through the hold and goes with the verified release."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sickbay.app.alerting.alerts import Alerts
from sickbay.app.asking.report import as_json
from sickbay.app.asking.story import story
from sickbay.app.running.service import Context
from sickbay.clock import rfc3339
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Alerts as Settings
from sickbay.settings import Config, Remediation
from tests.remediation.alerts_kit import FakeAlertmanager
from tests.remediation.kit import Cluster, command_of


def cluster_of(folder: Path, script: str) -> Cluster:
    settings = Remediation(
        mode="act", scheduler="simulated", test_command=command_of(folder, script), test_sensitivity=0.95
    )
    return Cluster(settings=settings)


class Told:
    """What Alertmanager has while a cluster goes on."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.client = cluster, FakeAlertmanager()
        config = Config(alerts=Settings(every_s=5))
        self.stage = Alerts(
            Context(config, cluster.log, SelfMetrics(), lambda text: None, cluster.clock.wall), self.client
        )

    def now(self) -> list[str]:
        """Ids of incidents whose alerts fire."""
        for _ in range(20):
            self.stage.step(self.cluster.clock.now_ms)
            self.cluster.clock.sleep(100)
        now = rfc3339(self.cluster.clock.now_ms) or ""
        return sorted(one.get("incident", "?") for one in self.client.firing(now))


@pytest.fixture
def ended() -> Iterator[list[Cluster]]:
    made: list[Cluster] = []
    yield made
    for cluster in made:
        cluster.close_all()


def test_the_alert_goes_with_the_verified_release(tmp_path: Path, ended: list[Cluster]) -> None:
    cluster = cluster_of(tmp_path, "exit 0")
    ended.append(cluster)
    told = Told(cluster)
    cluster.incident()
    cluster.run(2)
    assert told.now() == ["i1"]
    cluster.run_slowly(400, lambda: cluster.line_state("release") == "verified")
    assert cluster.line_state("release") == "verified", cluster.states()
    assert told.now() == []
    assert b'"what":"release"' in as_json(story(cluster.log.reader(), "i1"), "en")


@pytest.mark.slow
def test_the_alert_stays_while_a_node_is_held(tmp_path: Path, ended: list[Cluster]) -> None:
    cluster = cluster_of(tmp_path, "exit 1")  # the test says that it is broken
    ended.append(cluster)
    told = Told(cluster)
    cluster.incident()
    cluster.run_slowly(60)
    assert cluster.line_state("drain_host") == "verified"
    cluster.close("i1")
    cluster.run(5)
    assert told.now() == ["i1"]  # diagnosis sees no more of it, and n1 is still away from work
