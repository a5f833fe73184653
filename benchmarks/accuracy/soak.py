"""Fault-free node-days, a few hours at a time: how often anybody would be hurt where nothing is wrong.

Telemetry is sampled every ten seconds, which is what most sites have. Windows are drawn by a number that goes on where
the last soak ended; all that was soaked with the same code counts.
"""

import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.accuracy import running
from benchmarks.accuracy.answers import of_sickbay
from benchmarks.accuracy.cases import Case
from benchmarks.accuracy.intervals import rate
from benchmarks.accuracy.outcomes import Result
from benchmarks.accuracy.settings import Settings

FIRST_SEED = 1_000_000
HOSTS, UNTIL_S, INTERVAL_S = 64, 3_600, 10
GOALS = {"0.1 per 1,000": 30_000, "0.02 per 1,000": 150_000}  # node-days without an event that bound a rate so


def case_of(number: int) -> Case:
    """The fault-free window of a number."""
    return Case(
        seed=FIRST_SEED + number, sort="calm", hosts=HOSTS, layout="rail" if number % 2 else "leaf",
        until_s=UNTIL_S, step_s=5.0, timeout_s=600, noise="field", interval_s=INTERVAL_S,
    )  # fmt: skip


def measure(settings: Settings, hours: float, workers: int, path: Path) -> dict[str, Any]:
    """Soaks for so long, and tells of all that was soaked."""
    results = running.Results(path, running.code_digest())
    known, began = results.read(), time.monotonic()
    fresh = (case for number in count() if (case := case_of(number)).key not in known)
    for result in running.made(fresh, {}, workers, lambda: time.monotonic() - began < hours * 3_600):
        results.add(result)
        known[result.key] = result
        days = sum(one.node_days for one in known.values())
        running.to_stderr(f"{days:.1f} node-days, {sum(map(_hurt, known.values()))} windows in which somebody is hurt")
    return told(list(known.values()), time.monotonic() - began)


def _hurt(result: Result) -> bool:
    one = of_sickbay(result)
    return bool(one.stops or one.holds or one.exclusions or one.touched)


def told(results: list[Result], wall_s: float) -> dict[str, Any]:
    """Rates with their upper bounds."""
    answers = [of_sickbay(one) for one in results if not one.skipped]
    days = sum(one.node_days for one in answers)
    found: dict[str, Any] = {"node_days": round(days, 2)}
    for name, number in (
        ("false_stops", sum(len(one.stops) for one in answers)),
        ("false_holds", sum(len(one.holds) for one in answers)),
        ("false_exclusions", sum(len(one.exclusions) for one in answers)),
        ("anything_touched", sum(bool(one.touched) for one in answers)),
        ("anything_told", sum(one.told for one in answers)),
    ):
        value, high = rate(number, days)
        found[f"{name}_per_1000_node_days"], found[f"{name}_per_1000_node_days_upper"] = value, high
    left = {goal: max(0, round(wanted - days)) for goal, wanted in GOALS.items()}
    print(f"node-days still to soak for a bound: {left}", file=sys.stderr)
    spent = sum(sum(one.cpu_s.values()) for one in results)
    return found | {
        "conditions": {
            "windows": len(answers), "window_s": UNTIL_S, "hosts": HOSTS, "sampling_s": INTERVAL_S,
            "cpu_s_per_node_day": round(spent / days, 1) if days else None, "wall_s": round(wall_s, 1),
            "node_days_left": left,
        }
    }  # fmt: skip
