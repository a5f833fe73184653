"""The scheduler client and the poller against a real Slurm: drains, requeued jobs, an administrator, an outage."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.cluster import scheduler_slurm
from collectors.cluster.poll import Poller
from remediation.schedulers import Refused, Unreachable
from remediation.schedulers.reasons import ours
from remediation.schedulers.slurm import SlurmScheduler
from sickbay.log import Log, tasks_of, wall_ms
from sickbay.log.memory import MemoryLog
from sickbay.log.sqlite import SqliteLog
from sickbay.messages import AnyMessage, Event, Placement, decode
from sickbay.placement import Placements
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Slurm
from tests.services import slurm
from tests.services.slurm import CONTROLLER, Cluster

pytestmark = [pytest.mark.service, pytest.mark.slow]

REASON = "sickbay 0123456789abcdef g1 accelerator_off_bus at accelerator:n2/0000:cb:00, incident e17"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with slurm.running(tmp_path_factory.mktemp("slurm"), 4) as running:
        yield running


@pytest.fixture
def scheduler(cluster: Cluster) -> SlurmScheduler:
    return client(cluster)


def client(cluster: Cluster, timeout_s: float = 5.0) -> SlurmScheduler:
    settings = Slurm(bin=str(cluster.bin), conf=str(cluster.conf), timeout_s=timeout_s)
    return SlurmScheduler(settings, wall_ms)


class Polled:
    """A poller on a log in memory."""

    def __init__(self, cluster: Cluster) -> None:
        settings = Slurm(bin=str(cluster.bin), conf=str(cluster.conf), poll_s=0.5)
        sources = scheduler_slurm.of(scheduler_slurm.Commands(settings), settings)
        self.log = MemoryLog()
        self.poller = Poller(sources, self.log.appender(), SelfMetrics(), print)

    def now(self) -> None:
        time.sleep(0.6)
        while self.poller.step(wall_ms()):
            pass

    def placements(self, job: str) -> list[Placement]:
        told = told_to(self.log, "sickbay.placement.v1")
        return [one for one in told if isinstance(one, Placement) and one.job == job]

    def of_host(self, host: str) -> list[str]:
        told = told_to(self.log, "sickbay.events.v1")
        return [one.kind for one in told if isinstance(one, Event) and one.component == f"host:{host}"]


def told_to(log: Log, topic: str) -> list[AnyMessage]:
    reader = log.reader()
    records = [record for task in tasks_of(log.topics, [topic]) for record in reader.read(task, 0)]
    return [decode(record.value or b"") for record in records]


def test_a_drained_node_loses_its_job_to_the_others_and_comes_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")  # Slurm's commands print local time: they are asked in UTC
    scheduler = client(cluster)
    before_ms, polled = wall_ms(), Polled(cluster)
    polled.now()
    job = cluster.submit("sleep 600", "--nodes=3", "--requeue", "--job-name=pretrain", "--ntasks-per-node=1")
    cluster.wait(job, "RUNNING", 20)
    told = scheduler.jobs([job])[job]
    assert (told.attempt, told.state, told.nodes, told.may_requeue) == (0, "running", ("n1", "n2", "n3"), True)
    assert scheduler.nodes(["n2"])["n2"].jobs == (job,)
    polled.now()
    (placement,) = polled.placements(job)
    assert (placement.hosts, placement.attempt, placement.name) == (("n1", "n2", "n3"), 0, "pretrain")
    assert placement.from_ms is not None
    assert before_ms - 1000 <= placement.from_ms <= wall_ms()

    scheduler.drain("n2", REASON)
    node = scheduler.nodes(["n2"])["n2"]
    assert node.held
    assert node.jobs == (job,)
    assert (node.reason, ours(node.reason)) == (REASON, "0123456789abcdef")
    assert node.reason_at_ms is not None
    assert before_ms - 1000 <= node.reason_at_ms <= wall_ms()
    assert scheduler.jobs([job])[job].state == "running"  # a drain interrupts nothing

    polled.now()
    assert polled.of_host("n2") == ["scheduler.host_drained"]
    requeued_ms = wall_ms()
    scheduler.requeue(job)
    polled.now()
    took_s = cluster.wait(job, "RUNNING", 40, attempt=1)
    print(f"requeued job runs again after {took_s:.1f} s")
    assert scheduler.jobs([job])[job].nodes == ("n1", "n3", "n4")
    assert scheduler.nodes()["n2"].jobs == ()
    polled.now()
    first, ended, second = polled.placements(job)
    assert (ended.attempt, ended.hosts, ended.from_ms) == (0, first.hosts, first.from_ms)
    assert ended.to_ms is not None
    assert requeued_ms <= ended.to_ms <= requeued_ms + 2000
    assert (second.attempt, second.hosts, second.to_ms) == (1, ("n1", "n3", "n4"), None)
    assert Placements(polled.placements(job)).at(None).hosts_of(job) == ("n1", "n3", "n4")

    scheduler.resume("n2")
    cluster.wait_node("n2", "IDLE")
    assert not scheduler.nodes(["n2"])["n2"].held
    polled.now()
    assert polled.of_host("n2") == ["scheduler.host_drained", "scheduler.host_back"]
    cluster.run("scancel", job)
    cluster.wait(job, "CANCELLED", 20)
    polled.now()
    assert polled.placements(job)[-1].state == "cancelled"
    assert polled.placements(job)[-1].to_ms is not None


def test_what_an_administrator_holds_is_shown_and_never_written(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    cluster.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=swap DIMM A2, ask Li [x]\nState=IDLE")
    node = scheduler.nodes(["n4"])["n4"]
    assert node.held
    assert node.reason.startswith("swap DIMM A2, ask Li")
    assert ours(node.reason) is None
    with pytest.raises(Refused, match=r"held by somebody else.*swap DIMM"):
        scheduler.drain("n4", REASON)
    with pytest.raises(Refused, match="swap DIMM"):
        scheduler.resume("n4")
    assert scheduler.nodes(["n4"])["n4"].reason == node.reason
    cluster.run("scontrol", "update", "NodeName=n4", "State=RESUME")
    with pytest.raises(Refused, match="not held by us"):
        scheduler.resume("n4")


def test_a_job_that_has_ended_is_not_requeued(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    job = cluster.submit("exit 3", "--nodes=1")
    cluster.wait(job, "FAILED", 20)
    scheduler.requeue(job)
    told = scheduler.jobs([job])[job]
    assert (told.attempt, told.state) == (0, "failed")


def test_names_that_mean_more_than_one_thing_are_refused(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    for hostile in ("ALL", "n[1-4]", "n1,n2", "-n1", "n1 State=DOWN", "n1\nState=DOWN", "", "nope"):
        with pytest.raises(Refused):
            scheduler.drain(hostile, REASON)
        assert scheduler.nodes([hostile]) == {}
    for hostile in ("1,2", "1_[1-4]", "-1", "all", ""):
        with pytest.raises(Refused):
            scheduler.requeue(hostile)
        assert scheduler.jobs([hostile]) == {}
    with pytest.raises(Refused, match="action's id"):
        scheduler.drain("n1", "looks broken")
    with pytest.raises(Refused, match=r"(?i)invalid job id"):
        scheduler.requeue("999999")
    assert scheduler.jobs(["999999"]) == {}
    assert set(scheduler.nodes(["n1", "nope"])) == {"n1"}
    assert not any(node.held for node in scheduler.nodes().values())


def test_a_forged_job_name_forges_nothing(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    forged = "x\nJobId=777 JobName=y UserId=root(0) JobState=RUNNING Requeue=1 Restarts=0 NodeList=n1\nz"
    job = cluster.submit("sleep 60", "--nodes=1", f"--job-name={forged}")
    cluster.wait(job, "RUNNING", 20)
    jobs = scheduler.jobs()
    assert "777" not in jobs
    assert jobs[job].state == "running"
    cluster.run("scancel", job)


def test_the_command_polls_until_it_is_asked_to_end(cluster: Cluster, tmp_path: Path) -> None:
    settings = tmp_path / "sickbay.toml"
    settings.write_text(f'[slurm]\nbin = "{cluster.bin}"\nconf = "{cluster.conf}"\npoll_s = 0.5\n')
    job = cluster.submit("sleep 60", "--nodes=2")
    cluster.wait(job, "RUNNING", 20)
    command = [sys.executable, "-m", "sickbay", "poll", "slurm", "--config", str(settings)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            log = SqliteLog(tmp_path / "sickbay-log")
            cluster.until(lambda: bool(told_to(log, "sickbay.placement.v1")), 20, "no placement")
        finally:
            process.terminate()
            said = process.communicate(timeout=20)[1]
    assert process.returncode == 0, said
    told = [one for one in told_to(log, "sickbay.placement.v1") if isinstance(one, Placement) and one.job == job]
    assert told[-1].hosts == client(cluster).jobs([job])[job].nodes
    log.close()
    cluster.run("scancel", job)


def test_an_outage_is_unreachable_within_the_time_limit_and_state_survives_it(cluster: Cluster) -> None:
    scheduler = client(cluster, timeout_s=1.0)
    scheduler.drain("n3", REASON)
    cluster.daemons[CONTROLLER].pause()
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"1\.0 s: does slurmctld run"):
        scheduler.drain("n1", REASON)
    with pytest.raises(Unreachable):
        scheduler.jobs()
    assert time.monotonic() - began < 4
    cluster.daemons[CONTROLLER].resume()
    cluster.stop(CONTROLLER)
    with pytest.raises(Unreachable):
        scheduler.nodes()
    cluster.start(CONTROLLER)
    assert {name for name, node in client(cluster).nodes().items() if node.held} == {"n3"}
    cluster.until(lambda: resumed(client(cluster), "n3"), 30, "n3 is not released")
    cluster.wait_node("n3", "IDLE")


def resumed(scheduler: SlurmScheduler, node: str) -> bool:
    """Whether the node is released: not at once after the start of a controller, which has not heard of it yet."""
    try:
        scheduler.resume(node)
    except Unreachable:
        return False
    return True


def test_two_clusters_do_not_disturb_each_other(cluster: Cluster, tmp_path: Path) -> None:
    with slurm.running(tmp_path, 1) as other:
        client(other).drain("n1", REASON)
        assert not client(cluster).nodes(["n1"])["n1"].held
        assert set(client(other).nodes()) == {"n1"}
    assert client(cluster).nodes(["n1"])


def test_a_missing_command_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"\[slurm\] bin"):
        SlurmScheduler(Slurm(bin=str(tmp_path)), wall_ms).nodes()
