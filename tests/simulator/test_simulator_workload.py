"""Jobs with a plan: groups of ranks, phases, uneven work, life of a job, coupling, and what hooks tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.parts.cluster import Cluster, build
from simulator.printing.lines import Printed
from simulator.workload.coupling import waits_from
from simulator.workload.cycle import Cycle
from simulator.workload.groups import KINDS, Shape
from simulator.workload.plan import DENSE, EXPERTS, VARIABLE, Plan
from simulator.workload.run import Job, Mode, Run
from simulator.workload.told import Done
from simulator.world import seconds

CLUSTER = build(seed=2, hosts=8)


def made(plan: Plan | None, cluster: Cluster = CLUSTER, **settings: float) -> Run:
    job = Job("7", cluster.hosts, plan=plan, **{"warmup_s": 0.0, **settings})  # type: ignore[arg-type]
    return Run(job, cluster, np.random.default_rng(1))


def ticked(run: Run, until_s: int, from_s: int = 0) -> list[Printed]:
    return [line for at_s in range(from_s, until_s) for line in run.tick(at_s, 10**12)]


def lengths_s(run: Run, until_s: int) -> np.ndarray:
    found = []
    for at_s in range(until_s):
        list(run.tick(at_s, 10**12))
        found += [run._length] if run._done else []
    return np.array(found)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]), st.sampled_from([1, 2, 4]))
def test_every_rank_is_in_one_group_of_each_kind_and_tensor_groups_stay_in_a_host(
    tp: int, pp: int, cp: int, dp: int
) -> None:
    ranks = max(8, tp * pp * cp * dp * 8 // tp)
    groups = Shape(tp, pp, cp).over(ranks, 8)
    assert groups.ranks == ranks
    for kind in KINDS:
        size, numbers = getattr(groups, kind), groups.numbers[kind]
        assert np.unique(numbers, return_counts=True)[1].tolist() == [size] * (ranks // size)
        assert all(groups.group_of(rank, kind)[int(groups.places[kind][rank])] == rank for rank in (0, ranks - 1))
    assert all(len({rank // 8 for rank in groups.group_of(one, "tp")}) == 1 for one in range(0, ranks, 3))


# 16 ranks, tp 2, pp 2, ep 2, so dp 4: | stage 0: 0 1  2 3  4 5  6 7 | stage 1: 8 9  10 11  12 13  14 15 |
def test_groups_are_in_the_order_of_the_common_frameworks() -> None:
    groups = Shape(tp=2, pp=2, ep=2).over(16, 8)
    assert groups.group_of(5, "tp") == (4, 5)
    assert groups.group_of(5, "dp") == (1, 3, 5, 7)
    assert groups.group_of(5, "pp") == (5, 13)
    assert groups.group_of(5, "ep") == (5, 7)
    assert groups.role(13) == "pp1"


@pytest.mark.parametrize("shape", [Shape(tp=16), Shape(tp=3), Shape(pp=5), Shape(ep=3)])
def test_groups_that_do_not_come_out_even_are_refused(shape: Shape) -> None:
    with pytest.raises(ValueError, match="do not"):
        shape.over(64, 8)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("stages", [1, 4])
def test_phases_change_when_cards_work_and_not_how_much(stages: int, recompute: bool) -> None:
    cycle = Cycle(Plan(recompute=recompute), stages)
    load, flow = cycle.between(0.0, 1.0)
    idle = (stages - 1) / (cycle.plan.micro_batches + stages - 1)
    assert np.allclose(load, 1 - idle, atol=0.06)
    assert np.allclose(flow, 1 - idle, atol=0.12)
    parts = [cycle.between(at / 10, (at + 1) / 10) for at in range(10)]
    assert np.allclose(np.mean([part[0] for part in parts], axis=0), load)
    assert parts[9][0].max() < 0.5 < parts[4][0].min(), "the optimizer is not the backward pass"
    assert max(part[1].max() for part in parts) < 2.6, "no port carries more than it can"
    assert [cycle.phase(at) for at in (0.1, 0.92, 0.99)] == ["forward_backward", "communication", "optimizer"]


def test_first_stages_wait_at_the_end_and_last_ones_at_the_beginning() -> None:
    cycle = Cycle(Plan(micro_batches=8), 4)
    first, last = cycle.between(0.0, 0.05)[0], cycle.between(cycle.compute - 0.05, cycle.compute)[0]
    assert first[0] > 2 * first[-1]
    assert last[-1] > 2 * last[0]


def test_step_times_of_a_plain_job_vary_by_two_parts_in_a_hundred() -> None:
    found = lengths_s(made(None, checkpoint_every_s=1e9), 3_000)
    assert np.std(found) / np.mean(found) == pytest.approx(0.02, abs=0.004)


def test_variable_sequences_change_the_step_by_up_to_a_quarter_for_all_ranks_alike() -> None:
    run = made(Plan(sequences=0.18), checkpoint_every_s=1e9)
    found = lengths_s(run, 3_000) / 5.0
    assert 0.09 < np.std(found) < 0.12
    assert 0.75 < found.min() < 0.9 < 1.1 < found.max() < 1.25
    assert np.ptp(run._columns(_one(run))["duration_ms"] / 5_000) < 0.05, "no rank stands out"


def _one(run: Run) -> Done:
    at_s = 10_000
    while not run._done:
        list(run.tick(at_s, 10**12))
        at_s += 1
    return run._done[0]


def test_ragged_data_makes_other_ranks_the_last_ones_in_each_step() -> None:
    run, last, spread = made(Plan(Shape(tp=4), ragged=0.2), checkpoint_every_s=1e9), [], []
    for at_s in range(300):
        list(run.tick(at_s, 10**12))
        for told in run.step_columns():
            last.append(int(told["duration_ms"].argmax()) // 4)
            spread.append(told["duration_ms"].max() / np.median(told["duration_ms"]))
            per_work = told["duration_ms"] / told["work"]
            assert np.ptp(per_work) / np.median(per_work) < 0.03, "time follows work"
    assert len(set(last)) > 8
    assert min(spread) > 1.05


def test_favourite_experts_stay_for_many_steps_and_carry_no_more_than_said() -> None:
    run = made(Plan(Shape(tp=2, ep=8), experts=0.2))
    _, shares, _ = run._made()
    assert np.array_equal(shares.of_ranks(80), shares.of_ranks(119))
    assert not np.array_equal(shares.of_ranks(119), shares.of_ranks(120))
    assert shares.of_ranks(80).max() == pytest.approx(1.2)


def test_a_job_warms_up_evaluates_and_ends_in_order() -> None:
    plan = Plan(warm_steps=3, evaluate_every=4, evaluate_s=10, ends_step=2_608, begins_s=30)
    run = made(plan, checkpoint_every_s=1e9)
    assert ticked(run, 30) == []
    assert run.mode is Mode.IDLE
    list(run.tick(30, 10**12))
    assert [place.state for place in run.news] == ["running"]
    run.news = []
    printed = ticked(run, 200, 31)
    times = [float(line.text.partition("(ms): ")[2].split()[0]) for line in printed if "(ms): " in line.text]
    assert times[0] > 2 * times[5]
    assert any("validation loss" in line.text for line in printed)
    assert run.step == 2_608
    assert run.ended
    assert [place.state for place in run.news] == ["completed"]


def test_a_cancelled_job_says_so_and_its_hooks_exit() -> None:
    run = made(Plan(cancelled_s=20))
    ticked(run, 20)
    printed = list(run.tick(20, 10**12))
    assert "CANCELLED" in printed[0].text
    assert {step.phase for step in run.steps()} == {"exit"}
    assert run.mode is Mode.IDLE


# tp 8, dp 8: rank 9 does not come
# host 1: +50 ms | its replica: +400 ms | the other replicas: at the end of the step
def test_who_waits_for_an_absent_rank_does_so_host_first_then_replica_then_all() -> None:
    groups = Shape(tp=8, pp=2).over(64, 8)
    waits = waits_from(groups, {9}, 100.0, 3.0)
    assert np.isinf(waits[9])
    assert set(waits[[8, 10, 15]].round(2)) == {100.05}
    stage = [rank for rank in groups.group_of(9, "pp") if rank != 9]
    assert waits[stage[0]] == pytest.approx(100.4)
    assert waits[0] == 103.0
    assert (waits[np.isfinite(waits)] <= 103.0).all()


def test_in_a_hang_the_waiting_spin_and_the_absent_rank_looks_different() -> None:
    run = made(Plan(phases=False))
    ticked(run, 50)
    run.stalled, run.absent = True, {9: Mode.PAUSE}
    list(run.tick(50, 10**12))
    first = np.asarray(run.modes(50))
    assert first[9] == Mode.PAUSE
    assert set(first[[8, 10]]) == {Mode.WAIT}
    ticked(run, 60, 51)
    later = np.asarray(run.modes(59))
    assert set(np.delete(later, 9)) == {Mode.WAIT}
    ticked(run, 71, 60)
    begun = {step.rank for step in run.steps(range(16)) if step.phase == "begin"}
    assert begun == set(range(16)) - {9}, "who has begun the step that does not end"


def test_a_card_with_a_low_clock_is_the_last_one_in_its_hooks() -> None:
    run = made(None)
    run.clock = np.ones(64)
    run.clock[21] = 0.8
    run.slow["slow"] = 0.25
    told = [one for at_s in range(60) for _ in [list(run.tick(at_s, 10**12))] for one in run.step_columns()]
    assert {int(one["duration_ms"].argmax()) for one in told} == {21}
    assert {step.rank for step in run.steps([3, 21])} <= {3, 21}


def test_a_hook_around_the_whole_step_shows_nobody() -> None:
    run = made(Plan(ragged=0.2, hook="whole"))
    told = [one for at_s in range(60) for _ in [list(run.tick(at_s, 10**12))] for one in run.step_columns()]
    assert max(float(np.ptp(one["duration_ms"])) for one in told) < 10


def test_checkpoints_are_told_by_the_hooks_with_their_begin_and_end() -> None:
    run = made(None, checkpoint_every_s=30.0, checkpoint_s=5.0)
    said = [step for at_s in range(60) for _ in [list(run.tick(at_s, 10**12))] for step in run.steps([0])]
    phases = [(step.phase, step.at_ms or 0) for step in said if step.phase.startswith("checkpoint")]
    assert [phase for phase, _ in phases[:2]] == ["checkpoint_begin", "checkpoint_end"]
    assert 4_000 <= phases[1][1] - phases[0][1] <= 6_000


@pytest.mark.parametrize("plan", [DENSE, VARIABLE, EXPERTS])
def test_the_same_seed_gives_the_same_job(plan: Plan) -> None:
    assert ticked(made(plan), 80) == ticked(made(plan), 80)


def test_phases_and_stages_show_in_what_sensors_read() -> None:
    cluster = build(seed=2, hosts=4, per_host=4)
    job = Job("7", cluster.hosts, step_s=8.0, warmup_s=0.0, plan=Plan(Shape(pp=4), micro_batches=8))
    power, matrix = [], []
    for second in seconds(cluster, [job], [], until_s=64, site=False, hooks=4):
        power.append(np.array(second.samples.tables["accelerator"]["power_watts"]))
        matrix.append(np.array(second.samples.tables["accelerator"]["matrix_active_ratio"]))
    of_card = np.array(power)[:, 4]
    assert np.ptp(of_card) > 150, "a step is seen in the power of a card"
    assert 400 < of_card.mean() < 650
    mean = np.array(matrix)[8:56].mean(axis=0).reshape(4, 4).mean(axis=1)
    assert mean[3] > mean[1], "the last stage has most to do"
