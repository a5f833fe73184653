"""Training lines: steps by field name, honest durations, phases; broken and foreign lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.bodies.training import Training
from collectors.formats.reading import Line, Record
from sickbay.messages import Event, Step

LINE = (
    " iteration     {step}/  9000 | consumed samples:  1024 | elapsed time per iteration (ms): 6188.4 | lm loss: "
    "2.5E+00 | loss scale: 1.0 | grad norm: 0.4 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def told(body: Training, line: Line) -> list[Record]:
    return [each[0] if isinstance(each, tuple) else each for each in body.read(line)]


def read(text: str) -> list[Record]:
    body = Training()
    found = [record for number, line in enumerate(text.split("\n"), 1) for record in told(body, Line(line, number))]
    return found + [record for record, _ in body.end()]


def steps(text: str) -> list[Step]:
    return [record for record in read(text) if isinstance(record, Step)]


@given(st.permutations(LINE.split(" | ")[1:-1]))
def test_fields_are_found_wherever_they_stand(cells: list[str]) -> None:
    (step,) = steps(" | ".join([LINE.split(" | ")[0].format(step=31), *cells]) + " |")
    assert (step.step, step.duration_ms, step.loss, step.grad_norm) == (31, 6188.4, 2.5, 0.4)


@given(st.integers(min_value=1, max_value=len(LINE)))
def test_a_cut_line_tells_no_other_value(at: int) -> None:
    for step in steps(LINE.format(step=31)[:at]):
        assert step.step == 31
        assert step.duration_ms in (None, 6188.4)
        assert step.loss in (None, 2.5)
        assert step.grad_norm in (None, 0.4)


def test_missing_loss_is_no_loss() -> None:
    (step,) = steps(LINE.format(step=31).replace("lm loss: 2.5E+00 | ", ""))
    assert step.loss is None


@pytest.mark.parametrize("loss", ["nan", "inf", "NaN", "-inf"])
def test_a_loss_that_is_no_number_is_an_event(loss: str) -> None:
    found = read(LINE.format(step=31).replace("2.5E+00", loss))
    assert [record.kind for record in found if isinstance(record, Event)] == ["job.loss_not_finite"]
    assert isinstance(found[0], Step)
    assert found[0].loss is None


def test_skipped_iterations_are_benign() -> None:
    found = read(LINE.format(step=31).replace("skipped iterations:   0", "skipped iterations:   1"))
    assert len(found) == 1


def test_a_broken_line_goes_on_behind_another_writers_line() -> None:
    first, second = LINE.format(step=31).split("grad norm", 1)
    body = Training()
    lines = [
        Line(first + "grad", 1, stream="a"),
        Line(LINE.format(step=30), 2, stream="b"),
        Line("norm" + second, 3, stream="a"),
    ]
    found = [record for line in lines for record in told(body, line)]
    assert [(step.step, step.grad_norm) for step in found if isinstance(step, Step)] == [(30, 0.4), (31, 0.4)]


def test_no_duration_without_a_stated_span() -> None:
    paddle = "loss: 2.1, learning_rate: 1e-4, global_step: 640, interval_runtime: 50.0, progress_or_epoch: 0.01"
    deepspeed = "epoch=0/micro_step=8/global_step=2, RunningAvgSamplesPerSec=9.1, CurrSamplesPerSec=9.0"
    assert [step.duration_ms for text in (paddle, deepspeed) for step in steps(text)] == [None, None]


def test_missing_values_of_a_pipeline_stage() -> None:
    (step,) = steps(
        "{ step:[  812/40000], loss: N/A, per_step_time: 7420ms, lr: 1.5e-04, grad_norm: [0.41], throughput: 171T }"
    )
    assert (step.step, step.loss, step.duration_ms, step.grad_norm) == (812, None, 7420.0, 0.41)


def test_an_exit_tells_the_last_step() -> None:
    text = LINE.format(step=31) + "\nexiting program after receiving SIGTERM."
    assert [(step.step, step.phase) for step in steps(text)] == [(31, ""), (31, "exit")]
    assert steps("exiting program after receiving SIGTERM.") == []


@pytest.mark.parametrize(
    "line", ["step 12 took 31 ms", "epoch 3 iteration 4", "| 12 | 13 |", "loss: 3.1", "global_step: 12"]
)
def test_ambiguous_lines_are_left_alone(line: str) -> None:
    assert read(line) == []


def test_a_broken_line_is_told_with_its_own_number() -> None:
    first, second = LINE.format(step=31).split("grad norm", 1)
    body = Training()
    assert list(body.read(Line(first + "grad", 7))) == []
    ((record, line),) = [each for each in body.read(Line("norm" + second, 8)) if isinstance(each, tuple)]
    assert isinstance(record, Step)
    assert (record.step, line.number) == (31, 7)
