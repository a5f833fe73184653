"""The result as JSON, as a table and as pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.answers import Answer, of_baseline, of_sickbay
from benchmarks.accuracy.outcomes import Result
from benchmarks.accuracy.scores import score

SICKBAY = "sickbay"


def answers(results: Sequence[Result], chosen: Mapping[str, int]) -> dict[str, list[Answer]]:
    """Of every system. `chosen`: the setting of each baseline."""
    found = {SICKBAY: [of_sickbay(one) for one in results]}
    for name, number in chosen.items():
        found[name] = [of_baseline(one, one.alarms.get(name, {}).get(str(number), ())) for one in results]
    return found


def figures(
    results: Sequence[Result], chosen: Mapping[str, int], within: Sequence[float], *, judged: bool = True
) -> dict[str, Any]:
    """Of every system, with what it cost. Not `judged`: of baselines alone."""
    whole = [one for one in results if not one.skipped]
    systems = {name: score(told, within) for name, told in answers(whole, chosen).items() if judged or name != SICKBAY}
    days = sum(one.node_days for one in whole)
    for name, found in systems.items():
        spent = sum(one.cpu_s.get(name, 0.0) for one in whole)
        found["cpu_s_per_window"] = round(spent / max(1, len(whole)), 3)
        found["cpu_s_per_node_day"] = round(spent / days, 1) if days else None
    return systems


def table(systems: Mapping[str, Mapping[str, Any]]) -> str:
    """The figures of all systems side by side, plain text."""
    rows = [("", *systems)]
    for key in ("machine_precision", "machine_recall", "machine_f1", "component_right", "component_wrong_end",
                "verdict_right", "class_right", "abstentions", "silent", "decoys_touched", "decoys_told_of",
                "calm_touched"):  # fmt: skip
        rows += [(key, *(_share(one[key]) for one in systems.values()))]
    for limit in next(iter(systems.values()))["recall_within"]:
        rows += [(f"right within {limit} s", *(_share(one["recall_within"][limit]) for one in systems.values()))]
    rows.append(("onset to machine p50", *(_plain(one["onset_to_machine_s"]["p50"]) for one in systems.values())))
    rows.append(("onset to machine p95", *(_plain(one["onset_to_machine_s"]["p95"]) for one in systems.values())))
    for key in ("false_stops", "false_holds", "false_exclusions"):
        told = (
            f"{one[f'{key}_per_1000_node_days']:.0f} (<{one[f'{key}_per_1000_node_days_upper']:.0f})"
            for one in systems.values()
        )
        rows += [(f"{key} per 1,000 node-days", *told)]
    for key in ("forbidden", "cpu_s_per_window"):
        rows += [(key, *(_plain(one[key]) for one in systems.values()))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _share(told: Sequence[float] | None) -> str:
    return "-" if told is None else f"{told[0]:.3f} [{told[1]:.2f}, {told[2]:.2f}] n={told[3]:.0f}"


def _plain(value: object) -> str:
    return "-" if value is None else str(value)


def pictures(systems: Mapping[str, Mapping[str, Any]], folder: Path) -> list[Path]:
    """Two SVGs: precision against recall of machines, and what was found by when."""
    import altair as alt

    folder.mkdir(parents=True, exist_ok=True)
    points = [
        {"system": name, "recall": one["machine_recall"][0], "precision": one["machine_precision"][0]}
        for name, one in systems.items()
        if one["machine_recall"] and one["machine_precision"]
    ]
    times = [
        {"system": name, "seconds": float(limit), "right": told[0]}
        for name, one in systems.items()
        for limit, told in one["recall_within"].items()
        if told
    ]
    unit = alt.Scale(domain=[0, 1])
    machines = alt.Chart(_rows(points), title="Machines: precision and recall").mark_point(size=90)
    found = alt.Chart(_rows(times), title="Right within seconds of the onset").mark_line(point=True)
    right = alt.Y("right:Q", scale=unit)
    charts = {
        "machines": machines.encode(
            x=alt.X("recall:Q", scale=unit), y=alt.Y("precision:Q", scale=unit), color="system:N", shape="system:N",
        ),
        "times": found.encode(x=alt.X("seconds:Q", scale=alt.Scale(type="log")), y=right, color="system:N"),
    }  # fmt: skip
    paths = []
    for name, chart in charts.items():
        paths.append(folder / f"accuracy-{name}.svg")
        chart.properties(width=420, height=300).save(str(paths[-1]))
    return paths


def _rows(values: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.Data(values=values)  # type: ignore[no-untyped-call]
