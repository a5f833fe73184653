"""A real Kafka for tests: one or three brokers on free local ports, to be stopped, killed, paused and started again.

Tests use the fixture `kafka_broker` (tests/conftest.py): one single broker for the whole session, also under several
workers; topics and groups must be unique to the test (a `prefix`). A test that stops brokers runs its own (`running`).
Where the jars or java are missing the test is skipped, or fails with SERVICES=require.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from tests.services.process import CACHE, Child, NotReady, await_ready, found, free_ports, missing

VERSION = "4.4.0"
START_S = 60.0  # two cores that run other tests too; alone it takes about 6 s
STOP_S = 30.0
USER, PASSWORD = "sickbay", "correct horse"  # may do everything
POOR, POOR_PASSWORD = "agent", "battery staple"  # may do nothing
QUICK = {"broker_session_timeout_ms": "4000", "broker_heartbeat_interval_ms": "500"}
CLUSTER_ID = "c2lja2JheS10ZXN0cy1vbg"  # 16 bytes in base64: all brokers of a cluster share one
JAVA = ("-Xmx512m", "-Xms256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def jars() -> str:
    """The class path; skips or fails the test where the broker is not installed."""
    libs = CACHE / "kafka" / VERSION / "libs"
    found("java")
    if not libs.is_dir():
        missing(f"Kafka {VERSION}")
    return f"{libs}/*"


@dataclass(frozen=True)
class Addresses:
    """Where clients reach a cluster. `secure`: TLS and SASL (SCRAM-SHA-512, PLAIN), trusted through `ca_file`."""

    brokers: str
    secure: str = ""
    ca_file: str = ""


_DROPPED = b"these partitions are likely deleted already"  # the broker's word where marks are not sent


@dataclass
class Cluster:
    """The brokers of one cluster, each a process on a folder of its own that `start` may take up again."""

    nodes: list[Child]
    ports: list[int]  # of the nodes
    addresses: Addresses

    @property
    def brokers(self) -> str:
        """host:port,host:port without TLS, as settings take it."""
        return self.addresses.brokers

    def start(self) -> None:
        """Start every node that does not run, and wait until all answer; fails the test where one does not."""
        for node in self.nodes:
            if not node.alive():
                node.start()
        for node, port in zip(self.nodes, self.ports, strict=True):
            try:
                await_ready(partial(_answers, port), node, START_S)
            except NotReady as error:
                pytest.fail(f"Kafka broker on {port}: {error}")

    def stop(self) -> None:
        """End all, in good order; by force what takes too long."""
        with ThreadPoolExecutor(len(self.nodes)) as together:
            list(together.map(partial(Child.stop, limit_s=STOP_S), self.nodes))

    def forgave(self, told: str) -> None:
        """Ends the test as an expected failure where a lone broker dropped the marks of a transaction at its start
        (ADR 0002): it must have said so itself, and `told` must end with offsets that it never gave."""
        dropped = any(_DROPPED in child.log.read_bytes() for child in self.nodes)
        if dropped and "Failed to get committed offsets: Local: Timed out" in told[-6000:]:
            pytest.xfail("the lone broker dropped the marks of a transaction at its start: ADR 0002")

    def kill(self) -> None:
        """SIGKILL all."""
        for node in self.nodes:
            node.kill()


@contextmanager
def running(
    folder: Path, nodes: int = 1, *, secure: bool = False, quick: bool = False, **properties: str
) -> Iterator[Cluster]:
    """A cluster of `nodes` brokers with data under `folder`, stopped at the end. `properties`: a_b for a.b.

    `quick`: a broker that is gone is replaced after 4 s instead of 9.
    """
    cluster = _prepared(folder, nodes, secure, (QUICK if quick else {}) | properties)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()  # nobody needs what it would still write


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Addresses]:
    """The one broker of this test session, with a secure listener and access lists; the last worker out stops it."""
    run = getattr(request.config, "workerinput", {}).get("testrunuid", f"{os.getpid()}")
    jars()
    place = Path(tempfile.gettempdir()) / f"sickbay-kafka-{run}"
    place.mkdir(exist_ok=True)
    with _locked(place / "users") as users:
        told = json.loads(users.read() or "null") or _born(place)
        _write(users, told | {"count": told["count"] + 1})
    try:
        yield Addresses(**told["addresses"])
    finally:
        with _locked(place / "users") as users:
            told = json.loads(users.read())
            _write(users, told | {"count": told["count"] - 1})
            if told["count"] == 1:
                _gone(told["pid"])
                shutil.rmtree(place, ignore_errors=True)


def _born(place: Path) -> dict[str, Any]:
    cluster = _prepared(place, 1, True, {})
    try:
        cluster.start()
    except BaseException:
        cluster.kill()
        raise
    _OURS.append(cluster.nodes[0])
    return {"count": 0, "pid": cluster.nodes[0].pid, "addresses": asdict(cluster.addresses)}


_OURS: list[Child] = []  # keeps the handle, or its end would be reported as a leak


def _gone(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for child in _OURS:
        child.kill()


@contextmanager
def _locked(file: Path) -> Iterator[IO[str]]:
    with file.open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.seek(0)
        yield handle


def _write(file: IO[str], what: Mapping[str, object]) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps(what))


def _prepared(folder: Path, nodes: int, secure: bool, properties: Mapping[str, str]) -> Cluster:
    """Folders with settings, formatted."""
    ports = free_ports(3 * nodes)
    plain, control, safe = ports[:nodes], ports[nodes : 2 * nodes], ports[2 * nodes :]
    voters = ",".join(f"{index + 1}@127.0.0.1:{port}" for index, port in enumerate(control))
    certificate = _certificate(folder) if secure else None
    made = []
    for index in range(nodes):
        home = folder / f"broker-{index + 1}"
        home.mkdir(parents=True)
        table = _properties(index + 1, nodes, voters, plain[index], control[index])
        table |= {name.replace("_", "."): value for name, value in properties.items()}
        if certificate is not None:
            table |= _security(certificate, f"{table['listeners']},SECURE://127.0.0.1:{safe[index]}")
        (home / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in table.items()))
        command = ["java", *JAVA, "-cp", jars(), "kafka.Kafka", "server.properties"]
        made.append(Child(command, cwd=home, log=home / "log"))
    _format([node.cwd for node in made], secure)
    addresses = Addresses(_joined(plain), *((_joined(safe), str(certificate)) if secure else ()))
    return Cluster(made, plain, addresses)


def _properties(number: int, nodes: int, voters: str, port: int, control: int) -> dict[str, str]:
    copies = str(min(3, nodes))
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "listeners": f"PLAIN://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "log.dirs": "data",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "2" if nodes > 2 else "1",
        "transaction.state.log.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",  # as in deploy/, and less: `[log] lead_session_s` is 3 s
        "log.initial.task.delay.ms": "86400000",  # no record is removed by age in the middle of a test
        "log.retention.check.interval.ms": "86400000",
    }


def _security(certificate: Path, listeners: str) -> dict[str, str]:
    """A second listener with TLS and SASL, and access lists for its users; the plain listener may do all."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    users = f'user_{USER}="{PASSWORD}" user_{POOR}="{POOR_PASSWORD}"'
    return {
        "listeners": listeners,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{USER}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
        # kafka-python drops a refusal that it reads together with the end of the connection: on a busy machine, too, it
        # gets to read it alone.
        "connection.failed.authentication.delay.ms": "1000",
        "listener.name.secure.plain.sasl.jaas.config": f"{plain} {users};",
        "listener.name.secure.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.secure.scram-sha-256.sasl.jaas.config": scram,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate.with_name("keystore.pem")),
    }


def _certificate(folder: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, which clients trust; its key goes before it into keystore.pem."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (folder / "keystore.pem").write_text(key.read_text() + certificate.read_text())
    return certificate


def _format(folders: Sequence[Path], secure: bool) -> None:
    """Each folder gets its storage, all of one cluster id; with `secure` also the SCRAM users."""
    users = ((USER, PASSWORD), (POOR, POOR_PASSWORD)) if secure else ()
    scram = [
        part
        for name, password in users
        for size in (256, 512)
        for part in ("--add-scram", f'SCRAM-SHA-{size}=[name="{name}",password="{password}"]')
    ]
    for folder in folders:
        tool = ["java", *JAVA, "-cp", jars(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
        command = [*tool, "-c", "server.properties", *scram]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=START_S)
        if done.returncode:
            pytest.fail(f"Kafka's storage could not be made: {done.stdout[-1000:]}{done.stderr[-1000:]}")


def _joined(ports: Sequence[int]) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def _answers(port: int) -> bool:
    """Whether a broker serves there: it answers a request for its API versions (key 18, version 0)."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(2)
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(4)) == 4
    except OSError:
        return False
