"""Loss or gradient that jumps or is not finite: a question (replay the batch), never a verdict on anyone."""

import math
from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts, job_component
from diagnosis.evidence import FAIR, identity
from sickbay.components import Kind, name
from sickbay.messages import Cite, Evidence, Severity, Step

NAME, VERSION = "loss_anomaly", "1"

JUMP = 10.0  # times the median of the gradient norm [house, of field practice]
LEAST_STEPS = 20  # a median of fewer says little; the first steps are wild by nature


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per job whose loss is not finite or whose gradient jumped."""
    for burst in bursts(event for event in case.events if event.kind == "job.loss_not_finite"):
        job = job_component(case, burst[0])
        yield build(burst, "loss_anomaly", job, detector=NAME, version=VERSION, says="loss_not_finite", llr=FAIR)
    by_job: dict[str, list[Step]] = defaultdict(list)
    for step in case.steps:
        if step.grad_norm is not None and math.isfinite(step.grad_norm):
            by_job[step.job].append(step)
    for job in sorted(by_job):
        yield from _jump(job, sorted(_once(by_job[job]), key=lambda step: (step.step, step.rank or 0)))


def _once(steps: list[Step]) -> list[Step]:
    """The words of one rank, where each of many tells the same of a step: they do not make a step many."""
    first = min((step.rank for step in steps if step.rank is not None), default=None)
    return [step for step in steps if step.rank in (None, first)]


def _jump(job: str, steps: list[Step]) -> Iterable[Evidence]:
    norms = [step.grad_norm or 0.0 for step in steps]
    for index in range(LEAST_STEPS, len(steps)):
        usual = median(norms[max(0, index - 200) : index])
        if usual > 0 and norms[index] > JUMP * usual:
            yield _claim(job, steps[index], norms[index] / usual)
            return


def _claim(job: str, step: Step, times: float) -> Evidence:
    component = name(Kind.JOB, job)
    return Evidence(
        id=identity(NAME, VERSION, component, "loss_anomaly", f"step{step.step}"),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="loss_anomaly",
        llr=FAIR,
        onset_from_ms=step.at_ms,
        onset_to_ms=step.at_ms,
        severity=Severity.WARNING,
        job=job,
        says="gradient_jumped",
        facts={"step": str(step.step), "times": str(round(times))},
        cites=(Cite(path=step.path, line=step.line),) if step.path else (),
    )
