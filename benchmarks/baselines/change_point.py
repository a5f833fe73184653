"""Change point of the step time (CUSUM), then a vote for the slowest rank: by what ranks told of their steps, else by
which host worked while the others waited."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy.outcomes import Alarm
from benchmarks.baselines import Features, Floats

NAME = "change_point"
HISTORY = 8  # steps that the usual time is taken of
SETTINGS = tuple({"limit": limit, "drift": drift} for limit in (0.15, 0.3, 0.6, 1.2) for drift in (0.02, 0.05))


def alarms(features: Features, setting: Mapping[str, Any]) -> Iterator[Alarm]:
    """One alarm at the first change to slower, or where no step comes any more."""
    times = sorted(at_s for at_s, one in features.steps if not one.rank and one.phase in ("", "step", None))
    found = change(times, setting["limit"], setting["drift"], float(features.at_s[-1]) if len(features.at_s) else 0.0)
    host = None if found is None else _vote(features, found)
    if found is not None and host is not None:
        yield Alarm(at_s=found, host=host)


def change(times: Sequence[float], limit: float, drift: float, until_s: float) -> float | None:
    """When the sum of what steps took longer than usual, in usual steps, goes beyond the limit (plus two steps)."""
    if len(times) < HISTORY + 2:
        return None
    apart = np.diff(np.array([*times, until_s]))
    usual = float(np.median(apart[:HISTORY]))
    total = 0.0
    for place in range(HISTORY, len(apart)):
        last = place == len(apart) - 1
        total = max(0.0, total + apart[place] / usual - 1 - drift)
        if total > limit * HISTORY / 2 + (2 if last else 0):
            begun = times[place]
            return float(min(until_s, begun + usual * (1 + limit * HISTORY / 2 + 2))) if last else float(times[place + 1])
    return None


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
