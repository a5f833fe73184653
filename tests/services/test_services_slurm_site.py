"""The poller against a real Slurm: cards of each rank, a cyclic layout, what was run, reservations, timers."""

from collections.abc import Iterator

import pytest

from collectors.cluster import scheduler_slurm
from collectors.cluster.poll import Poller
from sickbay import actions
from sickbay.actions import Control
from sickbay.log import tasks_of, wall_ms
from sickbay.log.memory import MemoryLog
from sickbay.messages import Change, Event, Placement, decode
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Slurm
from tests.services import slurm
from tests.services.slurm import Cluster

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with slurm.running(tmp_path_factory.mktemp("slurm"), 2, cpus=4, cards=4) as running:
        yield running


class Polled:
    """A poller on a log in memory; each question is asked anew with each look."""

    def __init__(self, cluster: Cluster) -> None:
        settings = Slurm(bin=str(cluster.bin), conf=str(cluster.conf), poll_s=0.5)
        sources = scheduler_slurm.of(scheduler_slurm.Commands(settings), settings)
        for one in sources:
            one.every_s = 0.5
        self.log = MemoryLog()
        self.poller = Poller(sources, self.log.appender(), SelfMetrics(), print)
        self.at_ms = wall_ms()

    def look(self) -> bool:
        self.at_ms = max(wall_ms(), self.at_ms + 600)
        while self.poller.step(self.at_ms):
            pass
        return not self.poller.waiting

    def values(self, topic: str) -> list[bytes]:
        reader = self.log.reader()
        records = [record for task in tasks_of(self.log.topics, [topic]) for record in reader.read(task, 0)]
        return [record.value for record in records if record.value]

    def placements(self, job: str) -> list[Placement]:
        told = [decode(value) for value in self.values("sickbay.placement.v1")]
        return [one for one in told if isinstance(one, Placement) and one.job == job]

    def work(self) -> list[Control]:
        told = [actions.decode(value) for value in self.values("sickbay.control.v1")]
        return [one for one in told if isinstance(one, Control)]


def test_each_rank_has_its_card_also_where_tasks_go_round(cluster: Cluster) -> None:
    polled = Polled(cluster)
    options = ("--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4", "--job-name=pre", "--comment=img:1")
    job = cluster.submit("srun --distribution=cyclic sleep 600", *options)
    cluster.wait(job, "RUNNING", 20)

    def whole() -> bool:
        polled.look()
        newest = polled.placements(job)[-1:]
        return bool(newest) and [one.host for one in newest[0].ranks] == ["n1", "n2"] * 4

    cluster.until(whole, 20, "no layout of the step")
    ranks = polled.placements(job)[-1].ranks
    assert [one.component for one in ranks] == [f"accelerator:n{1 + rank % 2}/{rank // 2}" for rank in range(8)]
    number = len(polled.placements(job))
    polled.look()
    assert len(polled.placements(job)) == number
    cluster.run("scancel", job)
    cluster.wait(job, "CANCELLED", 20)
    again = cluster.submit("srun sleep 600", *options[:-1], "--comment=img:2")
    cluster.wait(again, "RUNNING", 20)
    polled.look()
    changes = [decode(value) for value in polled.values("sickbay.changes.v1")]
    assert ("comment", "img:1", "img:2") in [
        (one.what, one.old, one.new) for one in changes if isinstance(one, Change) and one.target == f"job:{again}"
    ]
    cluster.run("scancel", again)


def test_a_reservation_for_maintenance_is_declared_work_until_it_is_deleted(cluster: Cluster) -> None:
    polled = Polled(cluster)
    polled.look()
    assert polled.work() == []
    cluster.run("scontrol", "create", "reservation", "ReservationName=new risers", "StartTime=now", "Duration=60",
                "Nodes=n2", "Flags=MAINT,IGNORE_JOBS", "Users=root")  # fmt: skip
    assert polled.look()
    (work,) = polled.work()
    assert (work.kind, work.target) == ("maintenance", "host:n2")
    assert work.from_ms is not None
    assert work.until_ms is not None
    assert work.until_ms - work.from_ms == 3_600_000
    assert abs(work.from_ms - wall_ms()) < 60_000
    cluster.run("scontrol", "delete", "ReservationName=new risers")
    assert polled.look()
    ended = polled.work()[-1]
    assert (ended.target, ended.until_ms) == ("host:n2", polled.at_ms)


def test_a_slurm_that_takes_nodes_back_untested_is_warned_of(cluster: Cluster) -> None:
    polled = Polled(cluster)
    polled.look()
    cluster.conf.write_text(cluster.conf.read_text().replace("ReturnToService=0", "ReturnToService=2"))
    cluster.run("scontrol", "reconfigure")
    polled.look()
    events = [decode(value) for value in polled.values("sickbay.events.v1")]
    told = [one for one in events if isinstance(one, Event) and one.component == "cluster:thread"]
    assert [one.kind for one in told] == ["scheduler.timers", "scheduler.returns_untested"]
    assert told[0].attributes["SlurmdTimeout"] == "60 sec"
