"""Accuracy: how often the pipeline names the right part in time, and whom it hurts; beside known methods.

Windows of simulated clusters, one effect or none each, through the live folds in memory and event time. Shares come as
[value, low, high, n] with 95 % intervals. What was finished is in the results' file: a run can be ended and resumed.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FAULTS = 300
QUICK_FAULTS = 24
RESULTS = Path("out/benchmarks")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of its own."""
    parser.add_argument("--faults", type=int, help=f"windows with a fault (default {FAULTS})")
    parser.add_argument("--mix", default="machine", help="machine, cluster_16384, cluster_100000 or equal")
    parser.add_argument("--split", choices=("tune", "test"), default="test")
    parser.add_argument("--baselines", default="cheap", help="cheap, all, none, or names joined by commas")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--results", type=Path, help="file of finished windows (default: in out/benchmarks)")
    parser.add_argument("--any-code", action="store_true", help="keep finished windows that other code made")
    parser.add_argument("--hosts", type=int, help="of every job, for a point of scale such as 128 or 1250")
    parser.add_argument("--pictures", type=Path, help="folder for SVGs")
    parser.add_argument("--write-docs", action="store_true", help="put the result into docs/accuracy.md")
    parser.add_argument("--quick", action="store_true", help="few small windows; ends 1 for a score outside of its pin")
    parser.add_argument("--pin", action="store_true", help="with --quick: write the scores' intervals down")
    parser.add_argument(
        "--freeze", action="store_true", help="choose baselines' settings on the tune split, freeze the file"
    )
    parser.add_argument("--soak", type=float, help="hours of fault-free windows, added to what was soaked before")


def measure(size: int | None = None, **options: Any) -> dict[str, Any]:
    """The figures of a run."""
    from benchmarks.accuracy import quick, soak
    from benchmarks.accuracy.settings import load

    settings = load()
    if options["soak"]:
        return soak.measure(settings, options["soak"], options["workers"], options["results"] or RESULTS / "soak.jsonl")
    if options["quick"]:
        return quick.measure(settings, size or options["faults"] or QUICK_FAULTS, options)
    if options["split"] == "test" and not options["freeze"]:
        settings.check()
    return _measured(settings, size or options["faults"] or FAULTS, options)


def _measured(settings: Any, faults: int, options: Mapping[str, Any]) -> dict[str, Any]:
    from benchmarks.accuracy import docs, report, running, sanity, tuning
    from benchmarks.accuracy.cases import Split, plan
    from benchmarks.baselines import BUDGET

    split: Split = "tune" if options["freeze"] else options["split"]
    names = names_of(options["baselines"])
    known = {one: settings.chosen(one) for one in names}
    numbers: dict[str, Sequence[int]] = {
        one: range(BUDGET) if split == "tune" or number is None else [number] for one, number in known.items()
    }
    cases = plan(settings, options["mix"], split, faults, hosts=options["hosts"])
    what = "baselines" if options["freeze"] else split
    path = options["results"] or RESULTS / f"{options['mix']}-{what}.jsonl"
    results = running.Results(path, running.code_digest(), any_code=options["any_code"])
    began = time.monotonic()
    done = list(
        running.run(
            cases, results, numbers, workers=options["workers"], say=running.to_stderr, judged=not options["freeze"]
        ).values()
    )
    chosen = tuning.chosen(done, numbers) if split == "tune" else {one: known[one] or 0 for one in names}
    if options["freeze"]:
        tuning.freeze(chosen, done)
    systems = report.figures(done, chosen, settings["windows"]["within_s"], judged=not options["freeze"])
    found = sanity.checks(done, systems)
    print(report.table(systems), file=sys.stderr)
    print(sanity.text(found), file=sys.stderr)
    if options["pictures"]:
        report.pictures(systems, options["pictures"])
    figures = told(settings, options["mix"], split, done, systems, chosen, time.monotonic() - began)
    figures["sanity"] = sanity.as_dict(found)
    if options["write_docs"]:
        docs.write(figures)
    return figures


def told(
    settings: Any, mix: str, split: Any, done: Sequence[Any], systems: Mapping[str, Any], chosen: Mapping[str, int],
    wall_s: float,
) -> dict[str, Any]:  # fmt: skip
    """The contract's JSON."""
    from benchmarks.accuracy.cases import mix_of

    whole = [one for one in done if not one.skipped]
    return {
        "mix": mix,
        "faults": sum(one.case.sort == "fault" for one in whole),
        "windows": len(whole),
        "node_days": round(sum(one.node_days for one in whole), 2),
        "systems": dict(systems),
        "conditions": {
            "split": split,
            "mix_source": mix_of(settings, mix, split).source,
            "share_of_the_mix_without_a_class": round(mix_of(settings, mix, split).without, 4),
            "settings_digest": settings.digest,
            "settings_of_baselines": dict(chosen),
            "skipped": _skipped(done),
            "complaints": sorted({text for one in whole for text in one.complaints})[:10],
            "window_s": settings["windows"]["seconds"],
            "hosts_median": sorted(one.case.hosts for one in whole)[len(whole) // 2] if whole else None,
            "cpu_s_generator_per_window": _mean([one.cpu_s.get("generator", 0.0) for one in whole]),
            "wall_s": round(wall_s, 1),
            "cores": os.cpu_count(),
            "load_1min": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
        },
    }


def names_of(told: str) -> tuple[str, ...]:
    """Baselines by what the option says."""
    from benchmarks.baselines import CHEAP, DEAR

    sets = {"cheap": CHEAP, "all": (*CHEAP, *DEAR), "none": ()}
    return sets[told] if told in sets else tuple(told.split(","))


def _skipped(done: Sequence[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in done:
        if one.skipped:
            key = f"{one.case.effect}: {one.skipped}"[:120]
            found[key] = found.get(key, 0) + 1
    return found


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None
