"""Two processes on Kafka that share the windows, with one leader of diagnosis and its standby, killed and disturbed in
every way: the log and the archive hold what the oracle computes."""

import os
import time
from collections.abc import Iterator
from functools import partial
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

KILLS, SECONDS = 90, 400.0  # seconds at most
LOG = (
    'engine = "kafka"\nbrokers = "{brokers}"\nprefix = "{prefix}."\nreplication = 1\nsession_s = 3\nlead_session_s = 2'
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
    speaker.flush()
    with storm.calm():
        trial.settled(log, site, lambda: storm.all_said)
    right = trial.judge(log, folder, clocks=clocks)
    print(dict(site.said), dict(right.counts), len(right.incidents), len(right.evidence), f"again {speaker.again}")


def test_two_processes_killed_at_any_point_leave_what_the_oracle_says(log: Log, tmp_path: Path) -> None:
    kills, seconds = int(os.environ.get("CHAOS_KILLS", KILLS)), float(os.environ.get("CHAOS_SECONDS", SECONDS))
    seed = trial.seeded(os.environ.get("CHAOS_SEED", ""))
    print(f"CHAOS_SEED={seed}")
    with trial.storm(tmp_path, "kafka", _members(), seed, (1.0, 4.0)) as storm:
        site, speaker = trial.speaking(log, seed, seconds)
        storm.rage(lambda: storm.kills.total() < kills and not site.over.is_set())
        _ended(log, tmp_path, storm, site, speaker, clocks=True)
        assert storm.kills.total() >= kills, storm.summary


# Each springs once, in one of the two while the other goes on. A broker gives a transaction up after 10 s, a member
# after 3 s without a sign and after 9 s without a poll (`tests.chaos.child`).
NUISANCES = (
    (Trap(COMMITS[0], 9, "stop"), 13.0),
    (Trap(COMMITS[2], 5, "stop"), 13.0),
    (Trap("committed, not told", 5, "stop"), 5.0),
    (Trap("in rebuild", 40, "12"), 0.0),
    (Trap("looks, not committed", 4, "12"), 0.0),
)


def test_processes_stopped_inside_transactions_or_too_slow_to_poll_commit_nothing_twice(
    log: Log, tmp_path: Path
) -> None:
    """Tasks go to the other one, transactions are aborted, and who wakes is fenced and begins anew."""
    seed = trial.seeded(os.environ.get("CHAOS_SEED", ""))
    print(f"CHAOS_SEED={seed}")
    first, second = _members()
    with trial.storm(tmp_path, "kafka", [first, second], seed, (600.0, 600.0)) as storm:
        site, speaker = trial.speaking(log, seed, 600)
        for place, (trap, asleep_s) in enumerate(NUISANCES):
            _sprung(storm, (first, second)[place % 2], trap, asleep_s)
        _ended(log, tmp_path, storm, site, speaker, clocks=True)


def _sprung(storm: Storm, member: Member, trap: Trap, asleep_s: float) -> None:
    """A new life of the member until its trap springs, and some seconds more; if it was stopped it wakes then."""
    if member.process is not None:
        storm.kill(member, "for a new trap")
    member.trap, before = trap, storm.said(member.name).count("sprung")
    storm.start(member, patience_s=30.0)
    member.until_s = time.monotonic() + 600
    storm.rage(partial(_unsprung, storm, member, before, time.monotonic() + 40))
    assert storm.said(member.name).count("sprung") > before, storm.all_said
    storm.others[f"{trap.what}: {trap.point}"] += 1
    member.trap = None
    until = time.monotonic() + (asleep_s or float(trap.what)) + 3.0
    member.wakes_s = until - 3.0 if asleep_s else 0.0
    storm.rage(partial(_before, until))


def test_a_broker_killed_inside_transactions(log: Log, cluster: Cluster, tmp_path: Path) -> None:
    """One process sleeps between its sends and its commit while the broker dies; both wait for it."""
    seed = trial.seeded(os.environ.get("CHAOS_SEED", ""))
    print(f"CHAOS_SEED={seed}")
    members = _members()
    with trial.storm(tmp_path, "kafka", members, seed, (600.0, 600.0)) as storm:
        site, speaker = trial.speaking(log, seed, 600)
        for member, point in zip(members, COMMITS[1:], strict=True):
            member.trap = Trap(point, 8, "2.5")
            if member.process is not None:
                storm.kill(member, "for a new trap")
            before, limit = storm.said(member.name).count("sprung"), time.monotonic() + 40
            storm.rage(partial(_unsprung, storm, member, before, limit))
            assert storm.said(member.name).count("sprung") > before, storm.all_said
            member.trap = None
            cluster.kill()
            storm.others["broker killed"] += 1
            cluster.start()
            storm.rage(partial(_before, time.monotonic() + 8))
        try:
            _ended(log, tmp_path, storm, site, speaker, clocks=False)
        except AssertionError as error:
            if str(error).startswith("waits for"):
                cluster.forgave(str(error))
            raise


def _unsprung(storm: Storm, member: Member, before: int, limit: float) -> bool:
    return storm.said(member.name).count("sprung") == before and time.monotonic() < limit


def _before(limit: float) -> bool:
    return time.monotonic() < limit
