"""Every real service starts, answers, stops, and leaves no process behind."""

import http.server
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.services import alertmanager, ibsim, kubernetes, prometheus
from tests.services.process import await_ready

pytestmark = pytest.mark.service


def commands_naming(text: str) -> list[str]:
    """Command lines of living processes that hold `text`, such as a test's folder: found, never ended, by it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = str((path / "cwd").readlink())
        except OSError:
            continue
        if text in line or text in place:
            found.append(f"{path.name}: {line}")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert commands_naming(str(tmp_path)) == []


@contextmanager
def exporter(body: bytes) -> Iterator[str]:
    """host:port of something to scrape."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def text(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
        return str(answer.read().decode())


def test_prometheus_serves_a_history(folder: Path) -> None:
    history = "# TYPE sick gauge\nsick 3 1700000000\n# EOF\n"
    with prometheus.running(history, folder) as url:
        assert '"3"' in text(f"{url}/api/v1/query?query=sick&time=1700000000")


def test_prometheus_scrapes_a_live_target(folder: Path) -> None:
    with exporter(b"sick 7\n") as target, prometheus.serving(prometheus.scraping({"one": target}, 0.2), folder) as url:
        for _ in range(100):
            if '"7"' in (answer := text(f"{url}/api/v1/query?query=sick")):
                break
            threading.Event().wait(0.1)
        assert '"7"' in answer
        assert '"job":"one"' in answer


def test_a_service_with_bad_settings_fails_with_the_tail_of_its_log(folder: Path) -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="field nonsense not found"),
        prometheus.serving("nonsense: 1", folder),
    ):
        pass
    with pytest.raises(pytest.fail.Exception, match="no routes provided"), alertmanager.running(folder, "global: {}\n"):
        pass


def test_alertmanager_takes_an_alert_and_its_end(folder: Path) -> None:
    labels = {"alertname": "Sick", "component": "host:n1"}
    with alertmanager.running(folder) as server:
        server.post([{"labels": labels, "annotations": {"summary": "off"}}])
        assert [alert["labels"] for alert in server.alerts('component="host:n1"')] == [labels]
        assert server.alerts('component="host:n2"') == []
        server.post([{"labels": labels, "startsAt": "2026-01-01T00:00:00Z", "endsAt": "2026-01-01T00:00:01Z"}])
        await_ready(lambda: server.alerts() == [], server.child, 5)
        assert server.status()["versionInfo"]["version"]


def test_kubernetes_cordons_evicts_and_refuses_whom_it_must(folder: Path) -> None:
    with kubernetes.running(folder) as cluster:
        admin, other = cluster.admin, cluster.user("sickbay")
        assert "taints" not in admin.create_node("n1", rack="a")["spec"]
        admin.create_pod("p1", "n1", app="train")
        assert admin.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})["spec"]["unschedulable"]
        for user, status in (("sickbay", 403), ("nobody", 401)):
            with pytest.raises(kubernetes.Refused) as refused:
                cluster.user(user).get("/api/v1/nodes")
            assert refused.value.status == status
        admin.grant("sickbay", ["list"], ["nodes"])
        # RBAC is read from a watch: the right comes a moment after its binding.
        await_ready(lambda: lists(other, "/api/v1/nodes") == ["n1"], cluster.server, 10)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1"}}
        assert admin.post("/api/v1/namespaces/default/pods/p1/eviction", eviction)["status"] == "Success"


def lists(api: kubernetes.Api, path: str) -> list[str]:
    try:
        return [item["metadata"]["name"] for item in api.get(path)["items"]]
    except kubernetes.Refused:
        return []


def test_a_killed_api_server_comes_back_with_its_objects(folder: Path) -> None:
    with kubernetes.running(folder) as cluster:
        cluster.admin.create_node("n1")
        cluster.server.kill()
        with pytest.raises(OSError, match="refused"):
            cluster.admin.get("/readyz")
        cluster.server.start()
        await_ready(lambda: lists(cluster.admin, "/api/v1/nodes") == ["n1"], cluster.server, 30)


def test_a_fabric_is_discovered_and_a_pulled_cable_is_seen(folder: Path) -> None:
    with ibsim.running(folder) as fabric:
        whole = fabric.run("ibnetdiscover")
        assert all(f'"{name}"' in whole for name in ("S-leaf1", "S-leaf2", "S-spine1", "H-node1", "H-node4"))
        assert "PortXmitData" in fabric.run("perfquery", "-x", "1", "1")
        fabric.console('Unlink "S-leaf1"[3]')
        await_ready(lambda: "S-spine1" not in fabric.run("ibnetdiscover"), fabric.simulator, 10)


def test_two_fabrics_stand_side_by_side(folder: Path) -> None:
    first, second = folder / "first", folder / "second"
    first.mkdir()
    second.mkdir()
    small = 'Switch 2 "S-only"\n[1] "H-a"[1]\n\nHca 1 "H-a"\n[1] "S-only"[1]\n'
    with ibsim.running(first) as large, ibsim.running(second, small) as other:
        assert "S-only" not in large.run("ibnetdiscover")
        assert "S-spine1" not in other.run("ibnetdiscover")


def test_the_browser_opens_a_page(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<h1>in the sick bay</h1>")
    assert page.locator("h1").inner_text() == "in the sick bay"
    page.close()


ASKED: dict[str, Callable[[], object]] = {"kubernetes": kubernetes.binaries, "prometheus": prometheus.binaries}


@pytest.mark.parametrize("service", ASKED)
def test_a_missing_binary_skips_or_fails(service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kubernetes, "CACHE", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setenv("SERVICES", "")
    with pytest.raises(pytest.skip.Exception, match="make services"):
        ASKED[service]()
    monkeypatch.setenv("SERVICES", "require")
    with pytest.raises(pytest.fail.Exception, match="make services"):
        ASKED[service]()
