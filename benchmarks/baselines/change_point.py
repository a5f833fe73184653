"""Change point of the step time (CUSUM), then a vote for the slowest rank: by what ranks told of their steps, else by
which host worked while the others waited."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import Features, Floats

NAME = "change_point"
HISTORY = 8  # steps that the usual time is taken of
HANG_S, HANG_STEPS = 60.0, 8  # no step for so long is a change too: longer than a usual checkpoint
SETTINGS = tuple({"limit": limit, "drift": drift} for limit in (0.25, 0.5, 1.0, 2.0) for drift in (0.02, 0.05))


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """One alarm at the first change to slower, or where no step comes any more."""
    steps = [(at_s, one) for at_s, one in features.steps if not one.rank and not one.phase]
    told = [(at_s, (one.duration_ms or 0.0) / 1000) for at_s, one in sorted(steps, key=lambda pair: pair[0])]
    until_s = float(features.at_s[-1]) if len(features.at_s) else 0.0
    found = change(told, setting["limit"], setting["drift"], until_s)
    host = None if found is None else _vote(features, found)
    if found is not None and host is not None:
        yield Alarm(at_s=found, host=host)


def change(steps: Sequence[tuple[float, float]], limit: float, drift: float, until_s: float) -> float | None:
    """When the sum of what steps took longer than usual, in usual steps, goes beyond the limit; or when none had come
    for long. `steps`: when each was told, and how long it took."""
    if len(steps) < HISTORY + 2:
        return None
    usual = float(np.median([took for _, took in steps[:HISTORY]])) or 1.0
    hang_s, total = max(HANG_S, HANG_STEPS * usual), 0.0
    for (before, _), (at_s, took) in pairwise(steps):
        if at_s - before > hang_s:
            return before + hang_s
        total = max(0.0, total + took / usual - 1 - drift)
        if total > limit:
            return at_s
    last = steps[-1][0]
    return last + hang_s if until_s - last > hang_s else None


def _vote(features: Features, at_s: float) -> str | None:
    """The host of the rank that was last most often, else the one with the most real work in the newest windows."""
    slowest: dict[str, int] = {}
    by_step: dict[int, list[tuple[float, int]]] = {}
    for told_s, one in features.steps:
        if one.rank is not None and one.duration_ms and told_s <= at_s:
            by_step.setdefault(one.step, []).append((one.duration_ms, one.rank))
    for told in list(by_step.values())[-6:]:
        if len(told) > 1:
            place = max(told)[1] // features.per_host
            if place < len(features.hosts):
                slowest[features.hosts[place]] = slowest.get(features.hosts[place], 0) + 1
    if slowest:
        return max(slowest, key=lambda host: slowest[host])
    return _busiest(features, at_s)


def _busiest(features: Features, at_s: float) -> str | None:
    places = np.flatnonzero(features.at_s <= at_s)[-3:]
    if not len(places):
        return None
    column = features.columns.index("accelerator.matrix_active_ratio")
    work: Floats = np.nan_to_num(features.worst[places, :, column]).mean(axis=0)
    return features.hosts[int(work.argmax())]
