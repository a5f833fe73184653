"""Attempts that stop at the same step on hosts without one in common: the program, whoever did not come."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from statistics import median

from diagnosis.case import Case
from diagnosis.evidence import STRONG, identity
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Cite, Evidence, Placement, Severity, Step

NAME, VERSION = "same_step", "1"

STALLED_STEPS = 3.0  # no step for three times the median: the job stands [house, of field practice]


def claims(case: Case) -> Iterable[Evidence]:
    """Two attempts that stop at the same step on hosts without one in common are the program."""
    attempts: dict[str, list[Placement]] = defaultdict(list)
    for placement in case.placements:
        attempts[placement.job].append(placement)
    for job in sorted(job for job, tries in attempts.items() if len(tries) > 1):
        stops = [stop for place in attempts[job] if (stop := _stopped(place, case)) is not None]
        for (earlier, step), (later, again) in pairwise(stops):
            if step.step == again.step and not _hosts(earlier) & _hosts(later) and _hosts(earlier) and _hosts(later):
                yield _stops_again(job, step, again)
                break


def _hosts(place: Placement) -> set[str]:
    return {*place.hosts, *(rank.host for rank in place.ranks)} - {"", UNKNOWN}


def _stopped(place: Placement, case: Case) -> tuple[Placement, Step] | None:
    """The last step of an attempt that stands still or has failed."""
    begin = place.from_ms if place.from_ms is not None else -(2**62)
    end = place.to_ms if place.to_ms is not None else 2**62
    steps = [s for s in case.steps if s.job == place.job and s.at_ms is not None and begin <= s.at_ms < end]
    if len(steps) < 2:
        return None
    steps.sort(key=lambda step: (step.step, step.at_ms or 0))
    begun: dict[int, int] = {}  # when each step was first told: each of many ranks may tell it
    for step in steps:
        begun[step.step] = min(begun.get(step.step, step.at_ms or 0), step.at_ms or 0)
    times = sorted(set(begun.values()))
    usual = median(b - a for a, b in pairwise(times)) if len(times) > 1 else 0
    last = max(step.at_ms or 0 for step in steps)
    until = min(end, case.now_ms if case.now_ms is not None else end)
    stands = until - last > STALLED_STEPS * usual
    return (place, steps[-1]) if stands and place.state != "completed" else None


def _stops_again(job: str, step: Step, again: Step) -> Evidence:
    component = name(Kind.JOB, job)
    return Evidence(
        id=identity(NAME, VERSION, component, "job_same_step", f"step{step.step}"),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="job_same_step",
        llr=STRONG,
        onset_from_ms=again.at_ms,
        onset_to_ms=again.at_ms,
        source_group=f"{component}|same_step",
        severity=Severity.ERROR,
        job=job,
        says="stops_at_same_step",
        facts={"step": str(step.step)},
        cites=tuple(Cite(path=one.path, line=one.line) for one in (step, again) if one.path),
    )
