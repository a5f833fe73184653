"""A live reader dates both lines of a quick checkpoint alike: that is no checkpoint which lasts until the next one."""

from diagnosis.case import Case
from diagnosis.detectors.slow_checkpoint import claims, rounds_of
from sickbay.messages import Step
from tests.diagnosis.kit import T0


def pair(number: int, at_ms: int, took_ms: int = 0) -> tuple[Step, Step]:
    begin = Step(step=number, job="4471", at_ms=at_ms, phase="checkpoint_begin", path="slurm-4471.out", line=2 * number)
    end = Step(step=number, job="4471", at_ms=at_ms + took_ms, phase="checkpoint_end", path="slurm-4471.out",
               line=2 * number + 1)  # fmt: skip
    return begin, end


def test_begin_and_end_of_one_moment_are_a_checkpoint_of_no_length() -> None:
    steps = [step for number in range(5) for step in pair(number, T0 + number * 5_000)]
    assert [write.took_ms for round_ in rounds_of(steps, T0 + 60_000) for write in round_] == [0] * 5


def test_a_pause_of_the_job_is_no_slow_checkpoint() -> None:
    moments = [0, 5_000, 10_000, 15_000, 20_000, 75_000]
    steps = [step for number, at in enumerate(moments) for step in pair(number, T0 + at)]
    assert list(claims(Case(now_ms=T0 + 76_000, steps=tuple(steps)))) == []


def test_the_end_of_one_and_the_begin_of_the_next_in_one_moment_are_kept_apart() -> None:
    steps = [step for number in range(4) for step in pair(number, T0 + number * 5_000, 5_000)]
    assert [write.took_ms for round_ in rounds_of(steps, None) for write in round_] == [5_000] * 4
