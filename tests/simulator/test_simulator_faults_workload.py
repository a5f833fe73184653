"""Faults of a job's own program, data and software: where and when they show, and whom they do not blame."""

from typing import Any

import numpy as np
import pytest

from sickbay.messages import Verdict
from simulator.faults import program, software, workload
from simulator.scenario import scenario
from simulator.world import Second
from tests.simulator.signature_kit import Signature, signature

AT, UNTIL = 30, 110
FAULTS = {**program.FAULTS, **software.FAULTS, **workload.FAULTS}
ROLLOUTS = {"cohort_defect", "cohort_defect_image"}
SIGNS = {  # kinds of the events that are read, of each fault
    "collective_mismatch": {"rank.collective_timeout"},
    "collective_mismatch_host": {"rank.collective_timeout"},
    "slow_steps": {"job.cancelled"},
    "transport_wrong": {"job.cancelled"},
    "loader_starves": {"job.cancelled"},
    "checkpoint_slow": set(),
    "application_error": {"rank.exited"},
    "process_exit": {"process.crashed", "rank.exited"},
    "job_killed": {"job.time_limit", "rank.exited"},
    "job_same_step": {"rank.exited"},
    "loss_anomaly_data": set(),
    "uneven_work": set(),
    "rank_absent": {"rank.collective_timeout"},
    "collective_stall": set(),
}


def seen(fault: str, until_s: int = UNTIL, **settings: Any) -> Signature:
    return signature(fault, at_s=AT, until_s=until_s, **settings)


def night(fault: str, until_s: int, **settings: Any) -> tuple[str, list[Second]]:
    made = scenario(seed=5, hosts=4, timeout_s=30)
    made.at(AT).fault(fault, **settings)
    return str(made.recipes[0][1]["host"]), list(made.seconds(until_s, site=False))


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - ROLLOUTS))
def test_a_fault_of_a_job_shows_on_its_hosts_from_its_time_on_and_blames_none(fault: str) -> None:
    found = seen(fault)
    began = found.began()
    assert began is not None
    assert AT <= began <= AT + 10
    assert found.hosts() <= found.job_hosts()
    assert {line.job for _, line in found.added if line.job} <= {job.id for job in found.scenario.jobs}
    assert {event.kind for event in found.events()} == SIGNS[fault]
    truth = found.expectation
    assert {f"host:{host}" for host in found.job_hosts()} <= truth.exonerated
    assert "drain_host" in truth.forbidden
    assert truth.verdicts <= {Verdict.JOB, Verdict.UNKNOWN}


@pytest.mark.parametrize("fault", sorted(ROLLOUTS))
def test_a_bad_version_breaks_only_hosts_that_have_it(fault: str) -> None:
    host, seconds = night(fault, 150)
    changed = {change.target: at_s for at_s, second in enumerate(seconds) for change in second.changes}
    assert f"host:{host}" in changed
    blind: dict[str, int] = {}
    for at_s, second in enumerate(seconds):
        told = second.samples
        for row in np.flatnonzero(np.asarray(told.tables["host"]["accelerator_source_up"]) == 0):
            blind.setdefault(f"host:{told.cluster.hosts[row]}", at_s)
    assert len(blind) >= 2
    assert all(at_s > changed[one] for one, at_s in blind.items())
    truth = seen(fault).expectation
    assert truth.verdicts == {Verdict.SHARED}
    assert blind.keys() <= truth.exonerated


def test_all_cards_of_a_rank_that_does_not_come_wait_but_its_own() -> None:
    found = seen("rank_absent", until_s=AT + 28)
    matrix = found.changed("accelerator")
    assert len([part for part, columns in matrix.items() if "utilisation_ratio" in columns]) == 1
    assert len([part for part, columns in matrix.items() if "matrix_active_ratio" in columns]) == 16


def test_an_interpreter_that_collects_stops_a_job_that_goes_on_by_itself() -> None:
    found = seen("collective_stall", lasts_s=40, until_s=AT + 80)
    lost = [at_s for at_s, line in found.lost if "elapsed time" in line.text]
    more = [at_s for at_s, line in found.added if "elapsed time" in line.text]
    assert min(lost) > AT
    assert not [at_s for at_s in more if AT + 1 < at_s < AT + 40]
    assert max(more) > AT + 40


def test_an_attempt_fails_at_the_step_where_the_one_before_failed() -> None:
    _, seconds = night("job_same_step", 180)
    steps, stops = 0, []
    for second in seconds:
        for line in second.lines:
            if "iteration " in line.text and " elapsed time" in line.text:
                steps = int(line.text.partition("iteration ")[2].split("/")[0])
            if "Traceback" in line.text and "[rank0]" in line.text:
                stops.append(steps)
    assert len(stops) == 3
    assert len({place.attempt for second in seconds for place in second.placements}) == 3


@pytest.mark.parametrize("severity", [1.0, 0.3])
def test_slower_code_is_slower_in_proportion_to_its_severity(severity: float) -> None:
    _, seconds = night("slow_steps", 200, severity=severity)
    changes = [change for second in seconds for change in second.changes]
    assert [change.what for change in changes] == ["code revision"]
    job = changes[0].target.partition(":")[2]
    texts = [(at_s, line.text) for at_s, s in enumerate(seconds) for line in s.lines if line.job == job]
    times = [(at_s, float(t.partition("(ms): ")[2].split()[0])) for at_s, t in texts if "(ms): " in t]
    before = np.mean([took for at_s, took in times if at_s < AT])
    after = np.mean([took for at_s, took in times if at_s > 90])
    assert after / before == pytest.approx(1 + 0.22 * severity, abs=0.04)


def test_a_wrong_transport_leaves_the_fast_network_idle() -> None:
    host, seconds = night("transport_wrong", 140)
    row = seconds[0].samples.cluster.rows(host).start
    moved = np.array([np.asarray(second.samples.tables["port"]["tx_bytes_total"])[row] for second in seconds])
    assert np.diff(moved)[100:].mean() < 0.05 * np.diff(moved)[16:29].mean()
