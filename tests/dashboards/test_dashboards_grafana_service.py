"""The boards against a real Prometheus that scraped Sickbay's own metrics: no query fails, each one has data."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from dashboards.grafana import BOARDS
from dashboards.grafana.lint import expressions
from sickbay.app.asking.boards import asked
from sickbay.cli import main
from sickbay.selfmetrics import METRICS, SelfMetrics
from tests.services import prometheus

pytestmark = pytest.mark.service


class Exposition(BaseHTTPRequestHandler):
    """Every metric touched, and moved on with each scrape."""

    metrics = SelfMetrics()

    def do_GET(self) -> None:
        for metric in METRICS:
            labels = dict.fromkeys(metric.labels, "x")
            if metric.type == "counter":
                self.metrics.count(metric, 3, **labels)
            elif metric.type == "gauge":
                self.metrics.set(metric, 7, **labels)
            else:
                self.metrics.observe(metric, 0.3, **labels)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.metrics.text())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has scraped a few times."""
    with HTTPServer(("127.0.0.1", 0), Exposition) as target:
        thread = threading.Thread(target=target.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        config = prometheus.scraping({"sickbay": f"127.0.0.1:{target.server_address[1]}"}, 0.5)
        with prometheus.serving(config, tmp_path_factory.mktemp("prometheus")) as url:
            yield url
        target.shutdown()
        thread.join()


def _scrapes(url: str) -> int:
    query = f"{url}/api/v1/query?query=count_over_time(up%5B1m%5D)"
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(query, timeout=5) as answer:
        found = json.loads(answer.read())["data"]["result"]
    return int(found[0]["value"][1]) if found else 0


def test_every_query_of_every_board_answers_with_data(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    deadline = time.monotonic() + 20
    while _scrapes(server) < 3 and time.monotonic() < deadline:
        time.sleep(0.2)
    found = asked(server)
    assert found.keys() == BOARDS.keys()
    for name, queries in found.items():
        assert len(queries) > 20, name
        assert [query for query in queries if query.error or not query.series] == []
    assert main(["dashboards", "check", "--prometheus", server]) == 0
    assert " 0 wrong, 0 without data" in capsys.readouterr().out


def test_a_wrong_query_is_told(
    server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dashboards.grafana.ask.expressions", lambda told: [("P", "sum(", True), *expressions(told)])
    assert main(["dashboards", "check", "--prometheus", server]) == 1
    assert "parse error" in capsys.readouterr().out


def test_a_server_without_our_metrics_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with prometheus.serving("global: {}\n", tmp_path) as url:
        assert main(["dashboards", "check", "--prometheus", url]) == 1
    assert "0 wrong" in capsys.readouterr().out
