"""The Kubernetes poller against a real API server: rights, watches over its restart, what 410 Gone does."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from collectors.cluster import kubernetes_api, scheduler_kubernetes
from collectors.cluster.poll import Poller
from sickbay.log import tasks_of, wall_ms
from sickbay.log.memory import MemoryLog
from sickbay.messages import AnyMessage, Event, Placement, decode
from sickbay.selfmetrics import SelfMetrics
from tests.services import kubernetes
from tests.services.kubernetes import Api, Cluster
from tests.services.process import await_ready

pytestmark = [pytest.mark.service, pytest.mark.slow]

ROLE = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes-role.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/pods"
LABEL = "batch.kubernetes.io/job-"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with kubernetes.running(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running


def kubeconfig(folder: Path, api: Api) -> Path:
    told = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": api.url, "certificate-authority": str(api.ca_file)}}],
        "users": [{"name": "u", "user": {"token": api.token}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }  # fmt: skip
    file = folder / "kubeconfig.yaml"
    file.write_text(yaml.safe_dump(told))
    return file


class Way:
    """The real way to the server: counts lists, can break watches and make one begin at a place long forgotten."""

    def __init__(self, api: kubernetes_api.Api) -> None:
        self.api, self.lists, self.old = api, Counter[str](), set[str]()
        self.answers: dict[str, Any] = {}
        self.watched: defaultdict[str, list[int]] = defaultdict(list)

    def get(self, path: str, query: dict[str, str]) -> bytes:
        self.lists[path] += 1
        return self.api.get(path, query)

    def lines(
        self, path: str, query: dict[str, str], silent_s: float, opened: kubernetes_api.Opened
    ) -> Iterator[bytes]:
        def open_(answer: Any) -> None:
            self.answers[path] = answer
            opened(answer)

        self.watched[path].append(int(query["resourceVersion"]))
        if path in self.old:
            self.old.remove(path)
            query = {**query, "resourceVersion": "1"}
        return self.api.lines(path, query, silent_s, open_)


class Site:
    """The sources on a log in memory, as the user `api`."""

    def __init__(self, folder: Path, api: Api, *namespaces: str) -> None:
        self.log, self.said = MemoryLog(), list[str]()
        self.way = Way(kubernetes_api.Api(str(kubeconfig(folder, api)), "", 5.0))
        sources = scheduler_kubernetes.of(self.way, namespaces, 5.0, self.way.api.close)
        self.pollers = [Poller([one], self.log.appender(), SelfMetrics(), self.said.append) for one in sources]

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.pollers:
            one.close()

    def now(self) -> None:
        for one in self.pollers:
            one.step(wall_ms())

    def until(self, true: Callable[[], object], limit_s: float = 20.0) -> None:
        deadline = time.monotonic() + limit_s
        while not true():
            assert time.monotonic() < deadline, (self.waiting, self.told())
            time.sleep(0.2)
            self.now()

    @property
    def waiting(self) -> str:
        return "; ".join(one.waiting for one in self.pollers if one.waiting)

    def told(self) -> list[AnyMessage]:
        reader = self.log.reader()
        topics = ["sickbay.placement.v1", "sickbay.events.v1", "sickbay.changes.v1"]
        records = [record for task in tasks_of(self.log.topics, topics) for record in reader.read(task, 0)]
        return [decode(record.value or b"") for record in records]

    def events(self, kind: str) -> list[Event]:
        return [one for one in self.told() if isinstance(one, Event) and one.kind == kind]

    def placements(self, job: str) -> list[Placement]:
        return [one for one in self.told() if isinstance(one, Placement) and one.job == job]


def ready(api: Api, node: str, status: str) -> None:
    conditions = [{"type": "Ready", "status": status, "reason": "Told", "message": "by the test"}]
    api.patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": conditions}})


def accelerators(api: Api, node: str, free: int) -> None:
    counts = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": str(free)}}
    api.patch(f"/api/v1/nodes/{node}/status", {"status": counts})


def runs(api: Api, pod: str, job: str, index: int, node: str) -> None:
    """A pod of a job that runs, as its kubelet would tell."""
    labels = {f"{LABEL}name": job, f"{LABEL}completion-index": str(index)}
    api.create_pod(pod, node, **labels)
    phase(api, pod, "Running", {"running": {"startedAt": "2026-03-11T04:00:00Z"}})


def phase(api: Api, pod: str, phase: str, state: dict[str, Any], **more: Any) -> None:
    status = {"name": "main", "image": "none", "imageID": "", "restartCount": 0, "ready": False, "state": state}
    told = {"phase": phase, "containerStatuses": [status], **more}
    api.patch(f"/api/v1/namespaces/default/pods/{pod}/status", {"status": told})


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": "2026-03-11T04:09:00Z"}}


def restarted(cluster: Cluster) -> None:
    """Start the server again, and wait until it serves."""

    def serves() -> bool:
        try:
            return bool(cluster.admin.get("/api/v1/nodes"))
        except kubernetes.Refused:
            return False

    cluster.server.start()
    await_ready(serves, cluster.server, 30)


def role() -> list[dict[str, Any]]:
    return list(yaml.safe_load(ROLE.read_text())["rules"])


def bind(api: Api, name: str, rules: list[dict[str, Any]], user: str = "sickbay") -> None:
    api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    api.post(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})


def test_rights_that_are_missing_are_named_and_the_roles_are_enough(cluster: Cluster, tmp_path: Path) -> None:
    admin = cluster.admin
    admin.create_node("rights-1")
    ready(admin, "rights-1", "False")
    stranger = Api(admin.url, "nobody", admin.ca_file, admin.tls)
    with Site(tmp_path, stranger) as site:
        site.until(lambda: "401" in site.waiting)
        assert "[kubernetes] kubeconfig" in site.waiting
    (rule,) = role()
    with Site(tmp_path, cluster.user("sickbay")) as site:
        site.until(lambda: site.waiting.count("a right is missing (403)") == 3)
        assert 'cannot list resource "nodes"' in site.waiting
        assert "deploy/kubernetes-role.yaml" in site.waiting
        bind(admin, "lists-only", [{**rule, "verbs": ["list"]}])
        site.until(lambda: 'cannot watch resource "pods"' in site.waiting)
        assert [one.component for one in site.events("scheduler.host_down")] == ["host:rights-1"]
        bind(admin, "as-documented", role())
        site.until(lambda: not site.waiting)
        ready(admin, "rights-1", "True")
        site.until(lambda: site.events("scheduler.host_back"))
        refusals = [text for text in site.said if "403" in text]
        assert len(refusals) == 6  # of lists, then of watches: each once
    for verb in rule["verbs"]:  # none is given that is not needed, as the above showed for these
        assert verb in ("list", "watch")


def test_roles_of_namespaces_are_enough_where_these_are_named(cluster: Cluster, tmp_path: Path) -> None:
    admin = cluster.admin
    bind(admin, "nodes-only", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}], "other")
    roles = f"{RBAC}/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list", "watch"]}
    admin.post(f"{roles}/roles", {"metadata": {"name": "jobs"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jobs"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "other"}
    admin.post(f"{roles}/rolebindings", {"metadata": {"name": "jobs"}, "roleRef": reference, "subjects": [subject]})
    admin.create_node("roles-1")
    runs(admin, "roles-0", "roles", 0, "roles-1")
    with Site(tmp_path, cluster.user("other"), "default") as site:
        site.until(lambda: not site.waiting and site.placements("default/roles"))


def test_nodes_jobs_and_events_of_a_cluster_with_a_restart_in_between(cluster: Cluster, tmp_path: Path) -> None:
    admin = cluster.admin
    for host in ("n1", "n2"):
        admin.create_node(host, rack="r1")  # of a node without any field the server keeps no owners
        accelerators(admin, host, 8)
    for index, host in enumerate(("n1", "n2")):
        runs(admin, f"train-{index}", "train", index, host)
    with Site(tmp_path, admin) as site:
        site.until(lambda: len(site.placements("default/train")) == 1)
        (placement,) = site.placements("default/train")
        assert (placement.hosts, placement.state, placement.attempt) == (("n1", "n2"), "running", 0)
        accelerators(admin, "n2", 7)
        site.until(lambda: site.events("scheduler.accelerators_fewer"))
        admin.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
        site.until(lambda: [one for one in site.events("scheduler.host_drained") if one.code == "cordoned"])
        (cordoned,) = [one for one in site.events("scheduler.host_drained") if one.code == "cordoned"]
        assert cordoned.attributes["user"].startswith("Python-urllib")  # who set it, as the server wrote it down

        cluster.server.kill()
        site.until(lambda: "no answer from the Kubernetes API server" in site.waiting)
        assert len(site.placements("default/train")) == 1  # an outage ends nothing
        restarted(cluster)
        phase(admin, "train-0", "Failed", ended(134))  # before the watch is back, or at that time
        ready(admin, "n2", "Unknown")
        site.until(lambda: len(site.placements("default/train")) == 2 and site.events("scheduler.host_silent"), 30)
        site.until(lambda: not site.waiting)
        end = site.placements("default/train")[1]
        assert (end.state, end.attempt, end.to_ms is not None) == ("failed", 0, True)
        (failed,) = site.events("job.failed")
        assert (failed.component, failed.code) == ("job:default/train", "signal 6")
        for kind in ("scheduler.accelerators_fewer", "scheduler.host_silent"):
            assert [one.component for one in site.events(kind)] == ["host:n2"]


def test_a_place_that_the_server_has_forgotten_lists_anew_without_doubles(cluster: Cluster, tmp_path: Path) -> None:
    admin = cluster.admin
    admin.create_node("gone-1")
    for index in (0, 1):
        runs(admin, f"gone-{index}", "gone", index, "gone-1")
    cluster.server.kill()  # a new one remembers no change from before its start
    restarted(cluster)
    with Site(tmp_path, admin) as site:
        site.until(lambda: len(site.placements("default/gone")) >= 1)
        site.way.answers[PODS].shutdown()
        runs(admin, "gone-2", "gone", 2, "gone-1")
        site.until(lambda: len(site.way.watched[PODS]) >= 2)
        assert site.way.lists[PODS] == 1  # a watch that breaks goes on where it was
        assert site.way.watched[PODS][1] >= site.way.watched[PODS][0]
        before = len(site.placements("default/gone"))
        site.way.old.add(PODS)
        site.way.answers[PODS].shutdown()
        site.until(lambda: site.way.lists[PODS] == 2)
        assert len(site.placements("default/gone")) == before  # all was told before
        site.way.old.add(PODS)
        admin.delete("/api/v1/namespaces/default/pods/gone-1?gracePeriodSeconds=0")
        site.way.answers[PODS].shutdown()
        site.until(lambda: site.way.lists[PODS] == 3)
        site.until(lambda: len(site.placements("default/gone")) == before + 1)
        assert site.placements("default/gone")[-1].state in ("gone", "cancelled")  # its deletion may have been seen
        assert len({(one.job, one.attempt, one.state) for one in site.placements("default/gone")}) == before + 1


def test_pods_that_a_node_refuses_and_event_objects_are_told_of_the_node(cluster: Cluster, tmp_path: Path) -> None:
    admin = cluster.admin
    admin.create_node("hole")
    with Site(tmp_path, admin, "default") as site:
        site.until(lambda: site.way.lists["/api/v1/namespaces/default/pods"])
        for number in range(3):
            admin.create_pod(f"refused-{number}", "hole")
            told = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices left"}
            admin.patch(f"/api/v1/namespaces/default/pods/refused-{number}/status", {"status": told})
        site.until(lambda: [one for one in site.events("scheduler.host_condition") if one.component == "host:hole"])
        (refused,) = [one for one in site.events("scheduler.host_condition") if one.component == "host:hole"]
        assert refused.code == "UnexpectedAdmissionError"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        event = {
            "metadata": {"name": "e1"}, "involvedObject": {"kind": "Node", "name": "hole"}, "reason": "KernelOops",
            "message": "BUG: unable to handle", "type": "Warning", "count": 1, "firstTimestamp": now,
            "lastTimestamp": now, "source": {"component": "kernel-monitor", "host": "hole"},
        }  # fmt: skip
        admin.post("/api/v1/namespaces/default/events", event)
        site.until(lambda: site.events("host.oops"))
        assert [one.component for one in site.events("host.oops")] == ["host:hole"]


def test_a_kubeconfig_that_is_none_is_said(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig.yaml"
    file.write_text("nonsense: [")
    api = kubernetes_api.Api(str(file), "", 1.0)
    with pytest.raises(kubernetes_api.Trouble, match=r"\[kubernetes\] kubeconfig"):
        api.get("/api/v1/nodes", {})
