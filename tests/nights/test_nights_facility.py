"""Nights 18, 20 and 21 as composed folders: power, cooling and storage, which many hang on and nobody else is to blame.

The folders hold what a site has: readings of the units, the list of what hangs on what, logs of switches and the
scheduler, metrics. The twins beside them look alike and must not be judged so.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from sickbay.app.answering.offline import Options, Result, run
from simulator.output.files import write
from simulator.parts.facility import feeds
from simulator.scenario import Scenario, scenario

pytestmark = pytest.mark.slow
SEEDS = (11, 12)
BLAMES = ("drain_host", "isolate_device", "reset_device", "reset_board", "reboot_host", "replace_part")

Judge = Callable[..., Result]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Writes a night's folder and diagnoses it; `drop`: files left out."""

    def judged(night: Scenario, *, until_s: int, cables: bool = False, drop: tuple[str, ...] = ()) -> Result:
        folder = write(night, tmp_path / f"night-{until_s}", until_s=until_s, cables=cables)
        for pattern in drop:
            for path in folder.glob(pattern):
                path.unlink()
        return run([folder], Options())

    return judged


def acts(result: Result) -> set[tuple[str, str]]:
    return {(step.do, step.target) for row in result.answer.incidents for step in row.plan}


def verbs(result: Result) -> set[str]:
    return {do for do, _ in acts(result)}


def touched(result: Result, *wanted: str) -> set[str]:
    return {target for do, target in acts(result) if do in wanted}


@pytest.mark.parametrize("seed", SEEDS)
def test_night_18_a_rack_loses_its_power(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=8, hosts_per_job=8, timeout_s=120, hosts_per_leaf=4)
    night.at(120).fault("power_lost", on=night.cluster.hosts[5])
    fed = next(fed for fed in feeds(night.cluster).values() if night.cluster.hosts[5] in fed.hosts)
    for until_s in (180, 480):  # before, and long after the scheduler's own word
        result = judge(night, until_s=until_s, cables=True)
        (row,) = result.answer.incidents
        assert (row.verdict, row.component, row.fault) == ("shared", fed.pdus[0], "power_lost")
        assert touched(result, "dependency_hold") == {f"host:{host}" for host in fed.hosts}
        assert all(step.needs_approval for step in row.plan if step.do == "dependency_hold")
        assert ("page_owner", "owner:facility") in acts(result)
        assert touched(result, *BLAMES, "power_cycle", "isolate_port") == set()
        order = [step.do for step in row.plan]
        assert order.index("dependency_hold") < order.index("run_test") < order.index("release")


@pytest.mark.parametrize("seed", SEEDS)
def test_night_18_twin_the_other_feed_carries_the_rack(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=8, hosts_per_job=8, timeout_s=120, hosts_per_leaf=4, feeds=2)
    night.at(120).fault("power_lost", on=night.cluster.hosts[5])
    result = judge(night, until_s=300)
    (row,) = result.answer.incidents
    assert (row.verdict, row.fault, row.action) == ("shared", "power_feed_lost", "escalate")
    assert verbs(result) & {"dependency_hold", "stop_job", "hold_job", "exclude_for_job", *BLAMES} == set()
    assert ("page_owner", "owner:facility") in acts(result)


@pytest.mark.parametrize("seed", SEEDS)
def test_night_20_a_coolant_unit_degrades(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=8, hosts_per_job=4, timeout_s=120, hosts_per_leaf=4)
    night.at(120).fault("cooling_lost", on=night.cluster.hosts[1])
    unit = feeds(night.cluster)[next(iter(feeds(night.cluster)))].cdu
    cooled = {host for fed in feeds(night.cluster).values() if fed.cdu == unit for host in fed.hosts}
    jobs = {f"job:{job.id}" for job in night.jobs if set(job.hosts) & cooled}
    for until_s in (310, 620, 900):  # before any card complains, while clocks are held back, before the power-off
        result = judge(night, until_s=until_s)
        (row,) = result.answer.incidents
        assert (row.verdict, row.component, row.fault) == ("shared", unit, "cooling_lost")
        assert touched(result, "request_checkpoint") == jobs
        assert ("derate", unit) in acts(result)
        assert ("page_owner", "owner:facility") in acts(result)
        assert verbs(result) & {"dependency_hold", "power_cycle", "soft_avoid", *BLAMES} == set()


@pytest.mark.parametrize("seed", SEEDS)
def test_night_20_after_the_cards_own_power_off(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=8, hosts_per_job=4, timeout_s=120, hosts_per_leaf=4)
    night.at(60).fault("cooling_lost", on=night.cluster.hosts[1], warms_s=120, heats_s=240, ends_s=420)
    result = judge(night, until_s=700)
    (row,) = result.answer.incidents
    assert (row.verdict, row.fault) == ("shared", "cooling_lost")
    assert verbs(result) & {"power_cycle", *BLAMES} == set()
    assert "hold_job" in verbs(result)


@pytest.mark.parametrize("seed", SEEDS)
def test_night_20_twin_less_coolant_for_less_load(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=8, hosts_per_job=4, hosts_per_leaf=4)
    night.at(120).decoy("less_coolant", on=night.cluster.hosts[1])
    assert judge(night, until_s=600).answer.incidents == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_night_21_a_metadata_server_stalls(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=16, hosts_per_job=2, timeout_s=600, hosts_per_leaf=4)
    night.at(120).fault("storage_stall", on=night.cluster.hosts[3])
    waiting = {f"job:{night.jobs[i].id}" for i in range(1, 5)}
    for until_s in (160, 480):  # at once, and with the kernel's stuck tasks
        result = judge(night, until_s=until_s)
        (row,) = result.answer.incidents
        assert (row.verdict, row.component) == ("shared", "storage:scratch-MDT0002")
        assert touched(result, "hold_job") == waiting
        assert ("page_owner", "owner:storage") in acts(result)
        assert ("page_owner", "owner:job") in acts(result)
        assert verbs(result) & {*BLAMES, "requeue", "relaunch_in_allocation", "dependency_hold", "soft_avoid"} == set()


@pytest.mark.parametrize("seed", SEEDS)
def test_night_21_twin_one_client_alone_is_the_client(judge: Judge, seed: int) -> None:
    night = scenario(seed=seed, hosts=16, hosts_per_job=1, hosts_per_leaf=4)
    night.at(120).fault("storage_stall", on=night.cluster.hosts[3], share=0.05)
    result = judge(night, until_s=200)
    assert {row.component.partition(":")[0] for row in result.answer.incidents} <= {"filesystem", "host"}
    assert not any(row.verdict == "shared" for row in result.answer.incidents)
