"""Ranks that take longer because they have more to do: the program's doing, no host is slow.

Only where the job tells how much work each rank had. Without it nothing is claimed about anyone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median

from diagnosis.case import Case
from diagnosis.evidence import GOOD, identity
from sickbay.components import Kind, name
from sickbay.messages import Action, Cite, Evidence, Severity, Step

NAME, VERSION = "uneven_work", "1"

LEAST_STEPS = 5  # after the first, which warms up
LEAST_RANKS = 4
UNEVEN = 1.15  # time of the slowest rank over the median [house]
EVEN = 1.05  # the same per unit of work: no rank is slow


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per job whose ranks differ in time but not in time per unit of work."""
    by_job: dict[str, list[Step]] = defaultdict(list)
    for step in case.steps:
        if step.rank is not None and step.duration_ms and step.work:
            by_job[step.job].append(step)
    for job in sorted(by_job):
        yield from _of_job(job, by_job[job])


def _of_job(job: str, steps: list[Step]) -> Iterator[Evidence]:
    first = min(step.step for step in steps)
    by_rank: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        if step.step > first and step.rank is not None:
            by_rank[step.rank].append(step)
    if len(by_rank) < LEAST_RANKS or min(map(len, by_rank.values())) < LEAST_STEPS:
        return
    times = _ratio([median(s.duration_ms or 0.0 for s in own) for own in by_rank.values()])
    spread = max(times, *(_ratio([s.duration_ms or 0.0 for s in same]) for same in _by_step(by_rank)))
    per_work = _ratio([median((s.duration_ms or 0.0) / (s.work or 1.0) for s in own) for own in by_rank.values()])
    if spread >= UNEVEN and per_work <= EVEN:
        yield _claim(job, steps, spread, per_work)


def _by_step(by_rank: dict[int, list[Step]]) -> list[list[Step]]:
    together: dict[int, list[Step]] = defaultdict(list)
    for own in by_rank.values():
        for step in own:
            together[step.step].append(step)
    return [together[step] for step in sorted(together)]


def _ratio(values: list[float]) -> float:
    middle = median(values)
    return max(values) / middle if middle > 0 else 1.0


def _claim(job: str, steps: list[Step], spread: float, per_work: float) -> Evidence:
    component = name(Kind.JOB, job)
    onset = min((step.at_ms for step in steps if step.at_ms is not None), default=None)
    cited = min(steps, key=lambda step: (step.path, step.line))
    return Evidence(
        id=identity(NAME, VERSION, component, "uneven_work", f"step{min(step.step for step in steps)}"),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="uneven_work",
        llr=GOOD,
        onset_from_ms=onset,
        onset_to_ms=onset,
        source_group=f"{component}|work",
        severity=Severity.INFO,
        advice=Action.WATCH,
        job=job,
        says="work_differs",
        facts={"times": f"{spread:.2f}", "per_work": f"{per_work:.2f}"},
        cites=(Cite(path=cited.path, line=cited.line),) if cited.path else (),
    )
