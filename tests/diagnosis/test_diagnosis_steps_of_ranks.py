"""Steps that each rank tells by itself, as the training hook gives them, mean the same as those of one log."""

from typing import Any

from diagnosis.case import Case
from diagnosis.detectors import loss_anomaly, same_step, uneven_work
from sickbay.messages import Placement, Step
from sickbay.placement import Placements
from tests.diagnosis.kit import T0

RANKS = range(8)


def told(steps: range, at_ms: int = T0, **fields: Any) -> list[Step]:
    """Every rank's word on each step of a second, some milliseconds apart."""
    return [
        Step(step=number, job="4471", rank=rank, at_ms=at_ms + number * 1000 + rank * 3, duration_ms=1000.0, **fields)
        for number in steps
        for rank in RANKS
    ]


def attempts(begin_ms: int) -> Placements:
    return Placements(
        [
            Placement(job="4471", attempt=0, hosts=("h1",), from_ms=T0, to_ms=begin_ms, state="failed"),
            Placement(job="4471", attempt=1, hosts=("h2",), from_ms=begin_ms, state="running"),
        ]
    )


def test_a_job_that_passes_the_step_where_it_once_failed_does_not_stand() -> None:
    begin = T0 + 60_000
    steps = [*told(range(31)), *told(range(31), begin)]
    now = max(step.at_ms or 0 for step in steps)
    running = Case(now_ms=now + 900, steps=tuple(steps), placements=attempts(begin))
    assert list(same_step.claims(running)) == []
    stands = Case(now_ms=now + 4_000, steps=tuple(steps), placements=attempts(begin))
    assert [claim.fault for claim in same_step.claims(stands)] == ["job_same_step"]


def test_the_first_wild_steps_are_no_anomaly_however_many_ranks_tell_them() -> None:
    wild = [*told(range(4), grad_norm=1.0), *told(range(4, 5), grad_norm=50.0)]
    assert list(loss_anomaly.claims(Case(steps=tuple(wild)))) == []
    later = [*told(range(30), grad_norm=1.0), *told(range(30, 31), grad_norm=50.0)]
    assert [claim.facts["step"] for claim in loss_anomaly.claims(Case(steps=tuple(later)))] == ["30"]


def test_work_that_differs_is_seen_and_a_step_that_was_only_begun_counts_for_nothing() -> None:
    steps = [
        Step(step=n, job="4471", rank=rank, at_ms=T0 + n * 1000, duration_ms=1000.0 + 100 * rank, work=10.0 + rank)
        for n in range(9)
        for rank in RANKS
    ]
    begun = [Step(step=9, job="4471", rank=rank, at_ms=T0 + 9_000, phase="begin") for rank in RANKS]
    claims = list(uneven_work.claims(Case(steps=(*steps, *begun))))
    assert [claim.fault for claim in claims] == ["uneven_work"]
