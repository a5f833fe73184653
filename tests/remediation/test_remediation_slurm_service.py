"""The remediator on a real Slurm: a node is drained, the job starts elsewhere, a test ends the hold; bob keeps his."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from remediation.schedulers.slurm import SlurmScheduler
from sickbay import actions, messages
from sickbay.actions import JUDGED_KEY, Action, Judged
from sickbay.app.asking.ledger_lines import ledger_of
from sickbay.app.remediating.remediator import Remediator
from sickbay.app.running.service import Context
from sickbay.log import wall_ms
from sickbay.log.memory import MemoryLog
from sickbay.messages import Affected, Placement
from sickbay.selfmetrics import SelfMetrics
from sickbay.settings import Config, Slurm
from tests.remediation.kit import ACT, command_of, found
from tests.services import slurm

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Cluster]:
    with slurm.running(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def test_the_story_on_a_real_slurm(cluster: slurm.Cluster, tmp_path: Path) -> None:
    job = cluster.submit("sleep 600", "--nodes=3", "--requeue")
    cluster.wait(job, "RUNNING")
    cluster.run("scontrol", "update", "nodename=n4", "state=drain", "reason=fan is loud, bob")
    cluster.run("scontrol", "update", "nodename=n4", "state=resume")
    log, incident = MemoryLog(), replace(found("i1", wall_ms()), affected=Affected(jobs=(job,)))
    incident = _planned(incident)
    remediator = _remediator(log, cluster, command_of(tmp_path, "exit 0"))
    placed = Placement(job=job, hosts=("n1", "n2", "n3"), from_ms=wall_ms() - 1000, state="running")
    log.appender().append("sickbay.placement.v1", job.encode(), messages.encode(placed))
    log.appender().append("sickbay.incidents.v1", b"i1", messages.encode(incident))

    _until(log, remediator, lambda: _states(log).get("drain_host") == "verified", 10)
    assert "+DRAIN" in cluster.run("scontrol", "show", "node", "-o", "n1")
    assert f"Reason=sickbay {_line(log, 'drain_host').id} g1" in cluster.run("scontrol", "show", "node", "-o", "n1")
    _until(log, remediator, lambda: _states(log).get("release") == "verified", 60)
    assert _states(log)["requeue"] == "verified"
    cluster.wait(job, "RUNNING", attempt=1)
    assert "n1" not in cluster.job(job)["NodeList"]
    cluster.wait_node("n1", "IDLE")
    cluster.run("scancel", job)
    remediator.close()


def test_a_node_that_bob_drained_is_not_written(cluster: slurm.Cluster, tmp_path: Path) -> None:
    cluster.wait_node("n2", "IDLE")
    cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=fan is loud, bob")
    log = MemoryLog()
    incident = found("i2", wall_ms(), component="accelerator:n2/0000:03:00", affected=Affected())
    remediator = _remediator(log, cluster, ())
    log.appender().append("sickbay.incidents.v1", b"i2", messages.encode(incident))
    _until(log, remediator, lambda: _line(log, "drain_host").co_hold, 10)
    assert "Reason=fan is loud, bob" in cluster.run("scontrol", "show", "node", "-o", "n2")
    remediator.close()


def test_a_reboot_leaves_the_hold_ours_and_a_word_more_in_its_reason_ends_it(
    cluster: slurm.Cluster, tmp_path: Path
) -> None:
    cluster.wait_node("n3", "IDLE")
    log = MemoryLog()
    incident = found("i1", wall_ms(), component="accelerator:n3/0000:03:00", affected=Affected())
    remediator = _remediator(log, cluster, command_of(tmp_path, "exit 1"))
    log.appender().append("sickbay.incidents.v1", b"i1", messages.encode(incident))
    _until(log, remediator, lambda: _states(log).get("drain_host") == "verified", 10)
    reason = _line(log, "drain_host").reason
    cluster.run("scontrol", "update", "nodename=n3", f"reason={reason} : reboot issued")  # as slurmctld does
    looks = iter(range(30))
    _until(log, remediator, lambda: next(looks, None) is None, 10)
    assert _states(log)["drain_host"] == "verified"
    cluster.run("scontrol", "update", "nodename=n3", f"reason={reason} RMA 123")  # under the same user
    _until(log, remediator, lambda: _line(log, "drain_host").co_hold, 10)
    assert _states(log)["drain_host"] == "undone"
    remediator.close()


def _planned(incident: messages.Incident) -> messages.Incident:
    from tests.remediation.kit import with_plan

    return with_plan(incident)


def _remediator(log: MemoryLog, cluster: slurm.Cluster, test: tuple[str, ...]) -> Remediator:
    acts = replace(ACT, scheduler="slurm", test_command=test, test_sensitivity=0.95)
    config = Config(remediation=acts, slurm=Slurm(bin=str(cluster.bin), conf=str(cluster.conf)))
    context = Context(config, log, SelfMetrics(), lambda line: None)
    return Remediator(context, SlurmScheduler(config.slurm, wall_ms))


def _until(log: MemoryLog, remediator: Remediator, true: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    beat = 0.0
    while not true():
        if time.monotonic() > deadline:
            pytest.fail("\n".join(str(line) for line in ledger_of(log.reader()).values()))
        if time.monotonic() > beat:
            beat = time.monotonic() + 1.0
            judged = Judged(as_of_ms=wall_ms(), open=("i1", "i2"))
            log.appender().append("sickbay.incidents.v1", JUDGED_KEY, actions.encode(judged))
        if not remediator.step(wall_ms()):
            time.sleep(0.05)


def _states(log: MemoryLog) -> dict[str, str]:
    return {line.do: str(line.state) for line in ledger_of(log.reader()).values()}


def _line(log: MemoryLog, do: str) -> Action:
    lines = ledger_of(log.reader()).values()
    return next(
        (line for line in lines if line.do == do),
        Action(id="", incident="", do=do, target="", state=actions.ActionState.SHOWN),
    )
