"""A real Alertmanager for tests, on a free local port, without cluster gossip; asked through its API v2.

Where the binary is missing the test is skipped, or fails with SERVICES=require.
"""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.process import Child, answers, found, free_port, retried, started

START_S = 30.0
# Notifies nobody; groups at once, and takes an alert that is no longer repeated for resolved after `resolve_timeout`.
QUIET = """\
global: {resolve_timeout: 5m}
route: {receiver: nobody, group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: nobody}]
"""


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """One that runs. `url` is its base address, as the setting `[alerts] url` wants it."""

    url: str
    child: Child

    def alerts(self, *matchers: str, active: bool = True) -> list[dict[str, Any]]:
        """Alerts of API v2, such as `alerts('alertname="X"')`; with `active` the firing ones only."""
        filters = [("filter", matcher) for matcher in matchers] + [("active", str(active).lower())]
        answer = self._asked(f"/api/v2/alerts?{urllib.parse.urlencode(filters)}")
        assert isinstance(answer, list)
        return answer

    def post(self, alerts: list[dict[str, Any]]) -> None:
        """Sends alerts as a client would."""
        self._asked("/api/v2/alerts", json.dumps(alerts).encode())

    def status(self) -> dict[str, Any]:
        """Version, uptime and configuration."""
        answer = self._asked("/api/v2/status")
        assert isinstance(answer, dict)
        return answer

    def _asked(self, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=5) as answer:
            return json.loads(answer.read() or b"null")


@contextmanager
def running(folder: Path, config: str = QUIET) -> Iterator[Alertmanager]:
    """One that is ready, with the text of an alertmanager.yml; stopped at the end, its data stay in `folder`."""
    (folder / "alertmanager.yml").write_text(config)

    url = ""

    def start() -> Child:
        nonlocal url
        url, child = _child(folder)
        return started(child, lambda: answers(f"{url}/-/ready"), START_S)

    child = retried(start)
    try:
        yield Alertmanager(url, child)
    finally:
        child.stop()


def _child(folder: Path) -> tuple[str, Child]:
    (server,) = found("prometheus-alertmanager")
    listen = f"127.0.0.1:{free_port()}"
    flags = [f"--web.listen-address={listen}", "--cluster.listen-address=", "--storage.path=data"]
    command = [server, "--config.file=alertmanager.yml", *flags]
    return f"http://{listen}", Child(command, folder, folder / "alertmanager.log")
