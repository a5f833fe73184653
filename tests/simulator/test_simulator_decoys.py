"""Decoys: each shows where and when it should and nowhere else, is read as what it is, and knows that nobody is ill."""

from dataclasses import replace

import numpy as np
import pytest

from sickbay.components import Kind, name
from sickbay.messages import Action, Incident, PlanStep, Severity, Verdict
from simulator.decoys import DECOYS, OF_THE_SITE
from simulator.parts.physics import calm
from simulator.printing.lines import Printed
from simulator.scenario import Scenario, scenario
from simulator.truth.expectation import score
from simulator.workload.groups import Shape
from simulator.workload.plan import Plan
from simulator.workload.run import Run
from simulator.world import Second, World
from tests.simulator.signature_kit import Signature
from tests.simulator.site_kit import misunderstood, seen_of

AT, UNTIL_S = 20, 75
IDLE = {"burn_in", "collective_test"}  # they happen on idle hosts, of which the kit's cluster has none
SITE = {"less_coolant", "port_closed", "pause_from_afar", "congestion", "cable_work", "neighbours"}
UNSEEN = {"partial_sweep"}  # only files of sweeps show it
EVERYWHERE = {"warm_day", "firmware_rollout", "pause_from_afar", "congestion", "less_coolant", "poller_down"}
SAYS = {  # what the collectors make of its lines
    "scancel_storm": {"job.cancelled", "path.flushed", "accelerator.channel_closed"},
    "program_error": {"accelerator.page_fault", "rank.exited"},
    "user_exception": {"rank.exited"},
    "wrong_path": {"rank.exited"},
    "device_memory": {"job.out_of_memory", "rank.exited"},
    "own_limit": {"job.out_of_memory", "rank.exited"},
    "corrected_errors": {"dimm.corrected", "pcie.corrected"},
    "clock_off": {"monitor.clock_off"},
    "orderly_shutdown": {"job.cancelled", "host.shutdown_orderly", "port.down"},
    "maintenance": {"job.cancelled", "host.shutdown_orderly", "host.boot"},
    "switch_reboot": {"job.cancelled", "port.down"},
    "cable_work": {"job.cancelled", "port.down", "port.up"},
    "daemon_restart": {"scheduler.host_silent"},
    "port_closed": {"port.admin_down", "port.down"},
}
SHORTER: dict[str, dict[str, object]] = {
    "maintenance": {"lasts_s": 90},
    "cable_work": {"until_s": 95},
    "scancel_storm": {"channels": 2},
}
NO_WORDS = (  # lines of which no collector makes anything by themselves
    "Traceback", "  File ", "    main()", "Error: ", "invoked oom-killer", "validation loss", "error status/mask=",
    "RxErr",
)  # fmt: skip


def _seen(what: str, **settings: object) -> Signature:
    return seen_of(what, **{"site": what in SITE, "at_s": AT, "until_s": UNTIL_S} | SHORTER.get(what, {}) | settings)


@pytest.mark.parametrize("what", sorted(set(DECOYS) - IDLE - UNSEEN))
def test_a_decoy_shows_from_its_time_on_at_whom_it_touches(what: str) -> None:
    seen = _seen(what)
    began = seen.began()
    assert began is not None
    assert (0 if what == "firmware_rollout" else AT) <= began <= AT + 30
    allowed = set(seen.scenario.cluster.hosts) if what in EVERYWHERE else _hosts(seen)
    assert seen.hosts() <= allowed
    assert {line.host for _, line in seen.added if line.source == "kernel"} <= _hosts(seen)


def _hosts(seen: Signature) -> set[str]:
    return {part.partition(":")[2] for part in seen.expectation.touched if part.startswith("host:")}


@pytest.mark.parametrize("what", sorted(set(DECOYS) - IDLE - UNSEEN))
def test_its_lines_are_read_as_what_they_are(what: str) -> None:
    seen = _seen(what)
    assert {event.kind for event in seen.events()} == SAYS.get(what, set())
    assert [text for text in misunderstood(seen) if not any(word in text for word in NO_WORDS)] == []


@pytest.mark.parametrize("what", sorted(DECOYS))
def test_nobody_is_ill_and_whom_to_leave_alone_is_told(what: str) -> None:
    made = scenario(seed=5, hosts=4, spare_hosts=2)
    made.add(what, AT, None, {})
    (truth,) = made.expectations()
    assert truth.decoy
    assert truth.exonerated
    assert {"drain_host", "reboot_host", "replace_part"} <= truth.forbidden
    assert truth.at_ms == made.start_ms + 1000 * AT


def test_a_demo_of_hosts_and_jobs_has_decoys_of_its_own() -> None:
    assert set(DECOYS) > OF_THE_SITE
    assert {"stage_imbalance", "glitch", "scancel_storm"} <= set(DECOYS) - OF_THE_SITE


# -- uneven work ------------------------------------------------------------------------------------------------------


def _matrix(made: Scenario, until_s: int, from_s: int) -> np.ndarray:
    """[seconds, cards of the first job] of the matrix units, in the order of ranks."""
    rows = []
    for second in list(made.seconds(until_s))[from_s:]:
        told = [one for host in made.jobs[0].hosts for one in second.samples[host] if one.table == "accelerator"]
        rows.append(np.concatenate([one.values["matrix_active_ratio"] for one in told]))
    return np.array(rows)


def _one_job(what: str, **settings: object) -> Scenario:
    made = scenario(seed=5, hosts=4, hosts_per_job=4)
    made.add(what, AT, made.jobs[0].hosts[0], settings)
    return made


def test_one_stage_is_busy_all_the_time_and_the_others_wait_for_it() -> None:
    matrix = _matrix(_one_job("stage_imbalance"), 60, 30).mean(axis=0)
    last, others = matrix[-8:], matrix[:-8]
    assert last.min() > 1.15 * others.max()
    assert np.ptp(others) < 0.05 * others.mean()
    assert np.ptp(last) < 0.05 * last.mean()


def test_with_sequences_of_different_lengths_other_hosts_lead_in_other_steps() -> None:
    matrix = _matrix(_one_job("sequence_stragglers"), 110, 30).reshape(-1, 4, 8).mean(axis=2)
    leads = matrix.argmax(axis=1)
    assert len(set(leads.tolist())) >= 3
    assert (np.diff(leads) != 0).sum() < 40


def test_some_experts_are_busy_for_minutes_and_then_others() -> None:
    matrix = _matrix(_one_job("expert_imbalance", keeps_s=60), 150, 25)
    first, second = (set(part.mean(axis=0).argsort()[-4:].tolist()) for part in (matrix[:30], matrix[-30:]))
    assert first != second


@pytest.mark.parametrize(
    ("what", "shape"),
    [("stage_imbalance", Shape(pp=4)), ("sequence_stragglers", Shape()), ("expert_imbalance", Shape(ep=4))],
)
def test_the_hooks_of_a_job_with_a_plan_tell_the_work_of_each_rank(what: str, shape: Shape) -> None:
    made = scenario(seed=5, hosts=4, hosts_per_job=4)
    plan = Plan(shape=shape, first_stage=1.0, last_stage=1.0)
    run = Run(replace(made.jobs[0], plan=plan), made.cluster, np.random.default_rng(3))
    world = World(made.cluster, {run.job.id: run}, calm(made.cluster), made.start_ms, np.random.default_rng(0))
    effect = DECOYS[what](at=40, host=made.cluster.hosts[0])
    spread: dict[bool, list[float]] = {False: [], True: []}
    for at_s in range(120):
        world.now = calm(made.cluster)
        assert list(effect.tick(at_s, world)) == []
        assert list(run.tick(at_s, made.start_ms)) is not None
        for columns in run.step_columns():
            spread[at_s > 60].append(float(np.ptp(columns["duration_ms"]) / columns["duration_ms"].mean()))
    assert max(spread[False][:3]) < 0.12 < np.mean(spread[True])


def test_less_of_it_is_harder_to_see() -> None:
    spread = [
        np.ptp(_matrix(_one_job("stage_imbalance", severity=severity), 50, 30).mean(axis=0)) for severity in (1.0, 0.2)
    ]
    assert spread[1] < 0.4 * spread[0]


# -- pauses and policy -------------------------------------------------------------------------------------------------


def _steps(seconds: list[Second]) -> int:
    return sum("elapsed time per iteration" in line.text for second in seconds for line in second.lines)


def test_no_step_ends_while_a_job_evaluates_and_all_ranks_do_less_alike() -> None:
    made = scenario(seed=5, hosts=2)
    made.at(30).decoy("evaluation", lasts_s=30)
    seconds = list(made.seconds(90))
    assert _steps(seconds[31:59]) == 0
    assert _steps(seconds[61:]) > 3
    matrix = _matrix(made, 60, 32)
    assert np.ptp(matrix[5:25].mean(axis=0)) < 0.05 * matrix.mean()


def test_by_policy_all_clocks_of_a_job_fall_together_and_the_cap_says_so() -> None:
    seen = _seen("power_policy")
    cards = {card.component for host in seen.job_hosts() for card in seen.scenario.cluster.of(host)}
    for column in ("clock_megahertz", "power_limit_watts"):
        assert {part for part, row in seen.changed("accelerator").items() if column in row} == cards


# -- people at work ----------------------------------------------------------------------------------------------------


def _lines(made: Scenario, until_s: int, word: str) -> list[tuple[int, Printed]]:
    return [(at, line) for at, second in enumerate(made.seconds(until_s)) for line in second.lines if word in line.text]


def test_hosts_are_shut_down_one_after_the_other_in_the_order_of_the_rack() -> None:
    made = scenario(seed=5, hosts=6)
    first = made.cluster.hosts[1]
    made.at(10).decoy("orderly_shutdown", on=first, hosts=3, every_s=20)
    down = _lines(made, 80, "reboot: Power down")
    assert [line.host for _, line in down] == list(made.cluster.hosts[1:4])
    assert [at for at, _ in down] == [10, 30, 50]
    assert not [second for second in made.seconds(80) if second.declared]


@pytest.mark.parametrize("what", ["maintenance", "switch_reboot", "cable_work", "firmware_rollout"])
def test_what_is_declared_is_told_before_it_begins_and_ends_after_it(what: str) -> None:
    made = scenario(seed=5, hosts=4)
    made.add(what, AT, None, {})
    seconds = list(made.seconds(AT + 2))
    assert [second.at_ms for second in seconds if second.declared] == [made.start_ms + 1000 * AT]
    controls = seconds[AT].declared
    (truth,) = made.expectations()
    assert {control.kind for control in controls} == {"maintenance"}
    assert {control.target for control in controls} <= truth.exonerated | truth.components
    assert all(control.until_ms is not None and control.until_ms >= (truth.ends_ms or 0) for control in controls)


def test_a_host_under_work_says_that_it_booted_anew() -> None:
    made = scenario(seed=5, hosts=2)
    host = made.cluster.hosts[0]
    made.at(10).decoy("maintenance", on=host, lasts_s=120)
    boots = [
        float(one.values["boot_time_seconds"][0])
        for second in made.seconds(140) for one in second.samples.get(host, ()) if one.table == "host"
    ]  # fmt: skip
    assert boots == sorted(boots)
    assert len(set(boots)) == 3


@pytest.mark.parametrize(("verb", "right"), [("exclude_for_job", True), ("drain_host", False), ("reboot_host", False)])
def test_a_job_may_be_started_without_hosts_that_people_took_and_that_is_all(verb: str, right: bool) -> None:
    made = scenario(seed=5, hosts=4)
    made.at(10).decoy("orderly_shutdown", on=made.cluster.hosts[0])
    (truth,) = made.expectations()
    host = name(Kind.HOST, made.cluster.hosts[0])
    found = Incident(
        id="a", component=host, verdict=Verdict.MAINTENANCE, fault="orderly_shutdown", severity=Severity.INFO,
        probability=0.9, action=Action.IGNORE, plan=(PlanStep(do=verb, target=host, phase="contain"),),
    )  # fmt: skip
    scores, _ = score([truth], [found])
    assert [one.right for one in scores] == [right]


# -- idle hosts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "busy"), [("burn_in", 600.0), ("collective_test", 150.0)])
def test_tests_load_idle_hosts_and_no_others(what: str, busy: float) -> None:
    made, plain = (scenario(seed=5, hosts=2, spare_hosts=3) for _ in range(2))
    made.at(10).decoy(what)
    (truth,) = made.expectations()
    for now, was in zip(made.seconds(30), plain.seconds(30), strict=True):
        for host in made.cluster.hosts:
            told, usual = (_watts(second, host) for second in (now, was))
            if name(Kind.HOST, host) not in truth.touched:
                np.testing.assert_array_equal(told, usual)
            elif now.at_ms == made.start_ms + 15_000:
                assert (told > busy).all()
                assert (usual < 120).all()


def _watts(second: Second, host: str) -> np.ndarray:
    return next(one.values["power_watts"] for one in second.samples[host] if one.table == "accelerator")


def test_with_no_idle_host_there_is_no_test() -> None:
    assert _seen("burn_in").began() is None


def test_a_test_that_is_ended_by_hand_leaves_closed_channels_on_its_hosts() -> None:
    made = scenario(seed=5, hosts=2, spare_hosts=2)
    made.at(5).decoy("collective_test", lasts_s=20)
    closed = _lines(made, 30, "Xid")
    assert {line.host for _, line in closed} == set(made.cluster.hosts[2:])
    assert {at for at, _ in closed} == {25}
