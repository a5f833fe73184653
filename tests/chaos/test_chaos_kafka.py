"""Two processes on Kafka that share the windows, with one leader of diagnosis and its standby, killed and disturbed in
every way: the log and the archive hold what the oracle computes."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sickbay.config import load
from sickbay.log import Log
from tests.chaos import trial
from tests.chaos.child import opened
from tests.chaos.points import COMMITS, Trap
from tests.chaos.site import Site, Speaker
from tests.chaos.storm import Member, Storm
from tests.services.kafka import Cluster, running

pytestmark = [pytest.mark.slow, pytest.mark.service]

KILLS, SECONDS = 80, 170.0
LOG = (
    'engine = "kafka"\nbrokers = "{brokers}"\nprefix = "{prefix}."\nreplication = 1\nsession_s = 3\nlead_session_s = 1'
)
ONE = ("ticker", "windows", "explicit", "diagnosis", "archive")
OTHER = ("ticker", "windows", "explicit", "diagnosis")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that may be killed."""
    with running(tmp_path_factory.mktemp("broker"), quick=True) as found:
        yield found


@pytest.fixture
def log(cluster: Cluster, tmp_path: Path) -> Iterator[Log]:
    trial.prepared(tmp_path, LOG.format(brokers=cluster.brokers, prefix=f"chaos-{os.getpid()}-{time.time_ns()}"))
    found = opened(load(tmp_path / "sickbay.toml"))
    yield found
    found.close()


def _members() -> list[Member]:
    return [Member("a", ONE), Member("b", OTHER)]


def _ended(log: Log, folder: Path, storm: Storm, site: Site, speaker: Speaker, *, clocks: bool) -> None:
    """The site falls silent, all live on, and everything is judged."""
    site.over.set()
    site.join(60)
    speaker.close()
    with storm.calm():
        trial.settled(log, site, lambda: storm.all_said)
    right = trial.judge(log, folder, clocks=clocks)
    print(dict(site.said), dict(right.counts), len(right.incidents), len(right.evidence), f"again {speaker.again}")


def test_two_processes_killed_at_any_point_leave_what_the_oracle_says(log: Log, tmp_path: Path) -> None:
    kills, seconds = int(os.environ.get("CHAOS_KILLS", KILLS)), float(os.environ.get("CHAOS_SECONDS", SECONDS))
    seed = trial.seeded(os.environ.get("CHAOS_SEED", ""))
    print(f"CHAOS_SEED={seed}")
    with trial.storm(tmp_path, "kafka", _members(), seed, (1.0, 5.0)) as storm:
        site, speaker = trial.speaking(log, seed, seconds)
        storm.rage(lambda: storm.kills.total() < kills and not site.over.is_set())
        _ended(log, tmp_path, storm, site, speaker, clocks=True)
        assert storm.kills.total() >= kills, storm.summary


@pytest.mark.parametrize("point", COMMITS)
def test_a_process_stopped_inside_a_transaction_until_long_after_its_time_out(
    log: Log, tmp_path: Path, point: str
) -> None:
    """Its tasks go to the other one, its transaction is aborted, and when it wakes it commits nothing."""
    _disturbed(log, tmp_path, Trap(point, 5, "stop"))


def test_a_process_that_does_not_poll_is_put_out_and_comes_again(log: Log, tmp_path: Path) -> None:
    _disturbed(log, tmp_path, Trap("in rebuild", 40, "7"))


def _disturbed(log: Log, folder: Path, trap: Trap) -> None:
    """One lives on with a trap that does not kill it, the other one quietly."""
    seed = trial.seeded(os.environ.get("CHAOS_SEED", ""))
    print(f"CHAOS_SEED={seed} {trap}")
    first, second = _members()
    with trial.storm(folder, "kafka", [first, second], seed, (30.0, 30.0)) as storm:
        site, speaker = trial.speaking(log, seed, 60)
        first.trap = trap
        storm.start(first, patience_s=30.0)
        storm.start(second)
        first.until_s = second.until_s = time.monotonic() + 100
        if trap.what == "stop":
            _let_sleep(storm, first)
        else:
            storm.rage(lambda: "sprung" not in storm.said(first.name))
        assert "sprung" in storm.said(first.name)
        until = time.monotonic() + 9
        storm.rage(lambda: time.monotonic() < until)
        _ended(log, folder, storm, site, speaker, clocks=True)


STOPPED_S = 13.0  # the broker gives a transaction up after 10 s, and a member after 3


def _let_sleep(storm: Storm, member: Member) -> None:
    until = time.monotonic() + 30
    storm.rage(lambda: "sprung" not in storm.said(member.name) and time.monotonic() < until)
    member.wakes_s = time.monotonic() + STOPPED_S
    storm.others["stopped in a transaction"] += 1
    storm.rage(lambda: bool(member.wakes_s))


def test_a_broker_killed_inside_a_transaction(log: Log, cluster: Cluster, tmp_path: Path) -> None:
    """Twice, with processes that wait for it, and one that is killed with it."""
    seed = trial.seeded(os.environ.get("CHAOS_SEED", ""))
    print(f"CHAOS_SEED={seed}")
    first, second = _members()
    with trial.storm(tmp_path, "kafka", [first, second], seed, (60.0, 60.0)) as storm:
        site, speaker = trial.speaking(log, seed, 90)
        for point in (COMMITS[1], COMMITS[2]):
            first.trap = Trap(point, 8, "2.5")
            if first.process is not None:
                storm.kill(first, "before a broker's end")
            storm.start(first)
            first.until_s = time.monotonic() + 100
            already = storm.said(first.name).count("sprung")
            limit = time.monotonic() + 30
            storm.rage(lambda: storm.said(first.name).count("sprung") == already and time.monotonic() < limit)  # noqa: B023
            assert storm.said(first.name).count("sprung") > already, storm.all_said
            cluster.kill()
            storm.others["broker killed"] += 1
            cluster.start()
            until = time.monotonic() + 8
            storm.rage(lambda: time.monotonic() < until)  # noqa: B023
        _ended(log, tmp_path, storm, site, speaker, clocks=False)
