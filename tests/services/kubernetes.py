"""A real Kubernetes API server for tests, with etcd behind it: nodes and pods are what the test creates, nothing runs.

    with kubernetes.running(folder) as cluster:
        cluster.admin.create_node("n1")
        other = cluster.user("sickbay")          # may nothing until a role is bound to it
        other.get("/api/v1/nodes")               # Refused: 403

TLS with a certificate of its own, tokens, RBAC. No scheduler and no controllers: pods stay where the test puts them.
Where a binary is missing the test is skipped, or fails with SERVICES=require.
"""

import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.services.process import CACHE, Child, found, free_port, missing, retried, started

START_S = 60.0
USERS = ("sickbay", "other")  # known by token, without any right
MERGE = "application/merge-patch+json"
_VERSIONS = dict(
    line.split("=") for line in (Path(__file__).parent / "versions").read_text().split("\n") if "=" in line
)
_CERTIFICATE = ("-x509", "-nodes", "-days", "2", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-subj", "/CN=kube-apiserver", "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", "server.key", "-out", "server.crt")  # fmt: skip


class Refused(Exception):
    """The server said no; `status` is the HTTP status, the text its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Api:
    """One user's way to the server."""

    url: str
    token: str
    ca_file: Path
    tls: ssl.SSLContext = field(repr=False)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = "application/json") -> Any:
        """The JSON answer (text where it is none). Raises Refused, or OSError where nobody answers."""
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, head, method=method)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.tls)
        )
        try:
            with opener.open(request, timeout=10) as answer:
                raw = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, error.read().decode(errors="replace")) from None
        try:
            return json.loads(raw)
        except ValueError:
            return raw.decode()

    def get(self, path: str) -> Any:
        """GET."""
        return self.ask("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST: creates."""
        return self.ask("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """PATCH, as a merge."""
        return self.ask("PATCH", path, body, MERGE)

    def delete(self, path: str) -> Any:
        """DELETE."""
        return self.ask("DELETE", path)

    def create_node(self, name: str, **labels: str) -> Any:
        """A ready node with room for pods."""
        self.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        status = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "64", "pods": "110"}}
        self.patch(f"/api/v1/nodes/{name}/status", {"status": status})
        # Admission taints every new node as not ready; the controller that would lift it does not run here.
        return self.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    def create_pod(self, name: str, node: str, namespace: str = "default", **labels: str) -> Any:
        """A pod that is bound to a node; it is an entry only, no container runs."""
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        return self.post(f"/api/v1/namespaces/{namespace}/pods", body)

    def grant(self, user: str, verbs: list[str], resources: list[str], groups: tuple[str, ...] = ("",)) -> None:
        """A cluster role of these rights, bound to a user."""
        rbac, name = "/apis/rbac.authorization.k8s.io/v1", f"{user}-{secrets.token_hex(4)}"
        rule = {"apiGroups": list(groups), "verbs": verbs, "resources": resources}
        self.post(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        self.post(f"{rbac}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})


@dataclass(frozen=True, slots=True)
class Cluster:
    """A server that is ready. `admin` may everything; `server` and `etcd` may be paused, killed and started again."""

    admin: Api
    tokens: Mapping[str, str]
    server: Child
    etcd: Child

    def user(self, name: str) -> Api:
        """The way of one of USERS, or of somebody whom the server does not know."""
        return Api(self.admin.url, self.tokens.get(name, "unknown"), self.admin.ca_file, self.admin.tls)


def binaries() -> tuple[str, str]:
    """Paths of the API server and of etcd; skips or fails the test where they are missing."""
    server = CACHE / "kubernetes" / _VERSIONS["kubernetes"] / "kube-apiserver"
    etcd = CACHE / "etcd" / _VERSIONS["etcd"] / "bin" / "etcd"
    absent = [path.name for path in (server, etcd) if not path.is_file()]
    if absent:
        missing(", ".join(absent))
    return str(server), str(etcd)


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A server with nothing in it but what it makes itself; stopped at the end, its data stay in `folder`."""
    server, store = binaries()
    tokens = {name: secrets.token_hex(16) for name in ("admin", *USERS)}
    _prepare(folder, tokens)
    tls = ssl.create_default_context(cafile=str(folder / "server.crt"))
    at: list[str] = []

    def start_etcd() -> Child:
        port = free_port()
        at[:] = [f"http://127.0.0.1:{port}"]
        child = Child(_etcd_command(store, port, free_port()), folder, folder / "etcd.log")
        return started(child, lambda: _listens(at[0]), START_S)

    etcd = retried(start_etcd)
    admin: list[Api] = []

    def start_server() -> Child:
        port = free_port()
        admin[:] = [Api(f"https://127.0.0.1:{port}", tokens["admin"], folder / "server.crt", tls)]
        child = Child(_server_command(server, port, at[0]), folder, folder / "kube-apiserver.log")
        return started(child, lambda: _serves(admin[0]), START_S)

    try:
        child = retried(start_server)
        try:
            yield Cluster(admin[0], tokens, child, etcd)
        finally:
            child.stop(10.0)
    finally:
        etcd.stop(5.0)


def _prepare(folder: Path, tokens: Mapping[str, str]) -> None:
    (tool,) = found("openssl")
    rows = [
        f'{token},{name},{number},"{"system:masters" if name == "admin" else name}"\n'
        for number, (name, token) in enumerate(tokens.items())
    ]
    (folder / "tokens.csv").write_text("".join(rows))
    for arguments in (
        ("req", *_CERTIFICATE),
        ("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "accounts.key"),
        ("ec", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"),
    ):
        subprocess.run([tool, *arguments], cwd=folder, check=True, capture_output=True, timeout=30)


def _etcd_command(binary: str, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        binary, "--data-dir=etcd", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync", "--log-level=warn",
    ]  # fmt: skip


def _server_command(binary: str, port: int, etcd: str) -> list[str]:
    return [
        binary, f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={port}",
        "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--cert-dir=certificates",
        "--token-auth-file=tokens.csv", "--authorization-mode=RBAC", "--anonymous-auth=false",
        "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=accounts.pub",
        "--service-account-signing-key-file=accounts.key", "--disable-admission-plugins=ServiceAccount",
        "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none", "--profiling=false",
        "--shutdown-delay-duration=0s",
    ]  # fmt: skip


def _listens(url: str) -> bool:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/health", timeout=2) as answer:
        return b'"true"' in answer.read()


def _serves(api: Api) -> bool:
    """Ready, and the default namespace is there: it is made a moment later."""
    try:
        return api.get("/readyz") == "ok" and bool(api.get("/api/v1/namespaces/default"))
    except Refused:
        return False
