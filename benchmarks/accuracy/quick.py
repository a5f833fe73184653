"""A few small windows of the tune split, for CI: each figure must lie in the interval that was pinned for it."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.accuracy import RESULTS, names_of, report, running, sanity, told
from benchmarks.accuracy.cases import plan
from benchmarks.accuracy.settings import Settings
from benchmarks.baselines import BUDGET

PINS = Path(__file__).parents[1] / "accuracy_pins.json"
PINNED = ("machine_precision", "machine_recall", "component_right", "verdict_right")
NEVER_MORE = ("decoy_holds", "forbidden")


def measure(settings: Settings, faults: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """The figures; `failed` names those that left their interval. The process ends with 1 where there are any."""
    began, names = time.monotonic(), names_of("none" if options["baselines"] == "cheap" else options["baselines"])
    numbers = {one: [settings.chosen(one) or 0] if settings.chosen(one) is not None else range(BUDGET) for one in names}
    path = options["results"] or RESULTS / "quick.jsonl"
    results = running.Results(path, running.code_digest(), any_code=options["any_code"])
    cases = plan(settings, "equal", "tune", faults, quick=True)
    done = list(running.run(cases, results, numbers, workers=options["workers"], say=running.to_stderr).values())
    chosen = {one: numbers[one][0] for one in names}
    systems = report.figures(done, chosen, settings["windows"]["within_s"])
    print(report.table(systems), file=sys.stderr)
    if options["pin"]:
        pin(systems[report.SICKBAY], PINS)
    failed = failures(systems[report.SICKBAY], pins()) if PINS.exists() else []
    if not PINS.exists():
        running.to_stderr("no interval is pinned: see --pin")
    found = told(settings, "equal", "tune", done, systems, chosen, time.monotonic() - began)
    found |= {"sanity": sanity.as_dict(sanity.checks(done, systems)), "failed": failed}
    if failed:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        print("\n".join(failed), file=sys.stderr)
        sys.exit(1)
    return found


def pins() -> dict[str, list[float]]:
    """The intervals that are pinned, by figure."""
    return msgspec.json.decode(PINS.read_bytes(), type=dict[str, list[float]])


def pin(figures: Mapping[str, Any], path: Path) -> None:
    """Writes down in which interval each figure lies now."""
    found = {key: figures[key][1:3] for key in PINNED if figures[key]}
    found |= {key: [0.0, float(figures[key])] for key in NEVER_MORE}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def failures(figures: Mapping[str, Any], pinned: Mapping[str, list[float]]) -> list[str]:
    """Which figures are outside: a share that rose beyond its interval too, so that the pin is set anew."""
    found = []
    for key, (low, high) in pinned.items():
        value = figures[key] if key in NEVER_MORE else (figures[key] or [None])[0]
        if value is None or not low <= value <= high:
            found.append(f"{key} is {value}, pinned between {low:.3f} and {high:.3f}")
    return found
