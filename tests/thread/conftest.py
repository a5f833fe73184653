"""Services of the thread, once a session; each test gets a place of its own, and leaves Slurm as it found it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.services import alertmanager, slurm
from tests.services.kafka import Cluster as Kafka
from tests.services.kafka import running as kafka
from tests.thread.place import Place, Way, placed

Placing = Callable[..., AbstractContextManager[Place]]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Cluster]:
    with slurm.running(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture(scope="session")
def alerts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with alertmanager.running(tmp_path_factory.mktemp("alertmanager")) as running:
        yield running.url


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, cluster: slurm.Cluster) -> Iterator[Placing]:
    """Makes a place: `place("single")`, `place("spread", mode="observe")`."""

    @contextmanager
    def made(way: Way, **settings: str) -> Iterator[Place]:
        with placed(tmp_path / way, cluster, way, log_of(request, way, tmp_path), **settings) as one:
            yield one

    yield made
    for job in cluster.run("squeue", "--noheader", "--format=%A").split():
        cluster.run("scancel", job)
    for node in cluster.nodes:
        if "+DRAIN" in cluster.run("scontrol", "show", "node", "-o", node):
            cluster.run("scontrol", "update", f"nodename={node}", "state=resume")
        cluster.wait_node(node, "IDLE", 60)


def log_of(request: pytest.FixtureRequest, way: Way, folder: Path) -> str:
    """The log of that way, as settings."""
    if way == "single":
        return f'[log]\nengine = "sqlite"\npath = "{folder}/log"\n'
    brokers = request.getfixturevalue("broker").brokers
    return f'[log]\nengine = "kafka"\nbrokers = "{brokers}"\nreplication = 1\nprefix = "{folder.name}."\n'
