"""Figures of many answers, each with how many it is of and its 95 % interval."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy.answers import Answer
from benchmarks.accuracy.intervals import Interval, bootstrap, rate, share


def machine_counts(answers: Sequence[Answer]) -> tuple[int, int, int]:
    """Right machines, wrong ones, and missed ones: a wrong machine in a fault's window is one of each of the last two,
    of a group each wrong member is charged."""
    right = wrong = missed = 0
    for one in answers:
        hit = bool(one.named & one.machines)
        right += hit
        wrong += len(one.named - one.machines)
        missed += bool(one.machines) and not hit
    return right, wrong, missed


def f1(answers: Sequence[Answer]) -> float | None:
    """The harmonic mean of precision and recall of machines."""
    right, wrong, missed = machine_counts(answers)
    return 2 * right / (2 * right + wrong + missed) if right + wrong + missed else None


def score(answers: Sequence[Answer], within: Sequence[float]) -> dict[str, Any]:
    """All figures of one system. Shares are [value, low, high, n], None of nothing."""
    right, wrong, missed = machine_counts(answers)
    real = [one for one in answers if one.real]
    parts = [one for one in real if one.part is not None]
    found = {
        "machine_precision": _told(share(right, right + wrong), right + wrong),
        "machine_recall": _told(share(right, right + missed), right + missed),
        "machine_f1": _told(bootstrap(f1, answers), len(answers)),
        "component_right": _share(parts, lambda one: bool(one.part)),
        "component_wrong_end": _share(parts, lambda one: one.wrong_end),
        "verdict_right": _share(parts, lambda one: bool(one.kind)),
        "class_right": _share([one for one in real if one.class_ is not None], lambda one: bool(one.class_)),
        "recall_within": _recall(real, within),
        "recall_within_of_first_observable": _recall(real, within, seen=True),
        "onset_to_machine_s": _times(real),
        "abstentions": _share(real, lambda one: one.abstained),
        "silent": _share(real, lambda one: one.silent),
        "forbidden": sum(len(one.forbidden) for one in answers),
    }
    return found | _harm(answers) | {"families": families(real, within), "classes": classes(real)}


def _harm(answers: Sequence[Answer]) -> dict[str, Any]:
    exposure = sum(one.node_days for one in answers)
    idle = [one for one in answers if not one.real]
    found: dict[str, Any] = {"node_days": round(exposure, 2)}
    for name, of in (
        ("false_stops", lambda one: len(one.stops)),
        ("false_holds", lambda one: len(one.holds)),
        ("false_exclusions", lambda one: len(one.exclusions)),
    ):
        value, high = rate(sum(map(of, answers)), exposure)
        found[f"{name}_per_1000_node_days"], found[f"{name}_per_1000_node_days_upper"] = value, high
    decoys = [one for one in idle if one.decoy]
    found["decoy_holds"] = sum(bool(one.touched) for one in decoys)
    found["decoys_touched"] = _share(decoys, lambda one: bool(one.touched))
    found["decoys_told_of"] = _share(decoys, lambda one: one.told)
    found["calm_touched"] = _share([one for one in idle if not one.decoy], lambda one: bool(one.touched))
    return found


def families(real: Sequence[Answer], within: Sequence[float]) -> dict[str, Any]:
    """Recall in time by family; of ramps also how long before the job felt it."""
    found = {}
    for family in sorted({one.family for one in real}):
        ours = [one for one in real if one.family == family]
        found[family or "other"] = {
            "n": len(ours),
            "right": _share(ours, lambda one: one.right_s is not None),
            "recall_within": _recall(ours, within),
            "lead_s_p50": _middle([one.impact_s - one.right_s for one in ours if one.impact_s and one.right_s]),
        }
    return found


def classes(real: Sequence[Answer]) -> dict[str, Any]:
    """By what was made to happen: how many, right parts, right in 90 s."""
    return {
        effect: {
            "n": len(ours),
            "component_right": sum(bool(one.part) for one in ours),
            "machine_right": sum(bool(one.named & one.machines) for one in ours if one.machines),
            "within_90_s": sum(one.after(90) for one in ours),
        }
        for effect in sorted({one.effect for one in real})
        if (ours := [one for one in real if one.effect == effect])
    }


def _recall(real: Sequence[Answer], within: Sequence[float], *, seen: bool = False) -> dict[str, list[float] | None]:
    """Of so many, those that were answered rightly within each time."""
    return {
        f"{limit:g}": _told(share(sum(one.after(limit, seen=seen) for one in real), len(real)), len(real))
        for limit in within
    }


def _share(answers: Sequence[Answer], of: Callable[[Answer], bool]) -> list[float] | None:
    return _told(share(sum(map(of, answers)), len(answers)), len(answers))


def _told(interval: Interval | None, n: int) -> list[float] | None:
    return None if interval is None else [*(round(one, 4) for one in interval), n]


def _times(real: Sequence[Answer]) -> dict[str, float | None]:
    times = [one.machine_s - one.onset_s for one in real if one.machine_s is not None and one.machines]
    return {
        f"p{part}": round(float(np.percentile(times, part)), 2) if times else None for part in (50, 95)
    } | {"n": len(times)}  # fmt: skip


def _middle(values: Sequence[float]) -> float | None:
    return round(float(np.median(values)), 1) if values else None
