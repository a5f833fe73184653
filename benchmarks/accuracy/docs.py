"""The result of a run as a section of docs/accuracy.md, between its marks."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
BEGIN, END = "<!-- result -->", "<!-- result ends -->"
FIGURES = (
    ("machine_precision", "machine precision"), ("machine_recall", "recall"), ("machine_f1", "F1"),
    ("component_right", "component right"), ("verdict_right", "verdict right"), ("class_right", "class right"),
)  # fmt: skip
WITHIN = ("10", "90", "600")


def write(told: Mapping[str, Any], path: Path = PAGE) -> None:
    """Puts the section there."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    path.write_text(before + BEGIN + "\n" + section(told) + END + rest.partition(END)[2], encoding="utf-8")


def section(told: Mapping[str, Any]) -> str:
    """Tables of all systems, of the pipeline's classes, and the generator's sanity."""
    at, skipped = told["conditions"], sum(told["conditions"]["skipped"].values())
    lines = [
        "## Result", "",
        f"Mix `{told['mix']}`, {at['split']} split: {told['windows']} windows, {told['faults']} with a fault, "
        f"{told['node_days']:.1f} node-days; {skipped} more were left out, as their effect could not be made. "
        f"Settings {at['settings_digest']}; {at['cores']} cores, load {at['load_1min']}.",
        "", *_systems(told["systems"]), "", *_harm(told["systems"]), "", *_classes(told["systems"]), "",
        "Sanity of the generator:", "", *_sanity(told["sanity"]), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _systems(systems: Mapping[str, Any]) -> Iterator[str]:
    heads = [*(head for _, head in FIGURES), *(f"right in {one} s" for one in WITHIN)]
    yield "| | " + " | ".join(heads) + " |"
    yield "| --- |" + " --- |" * len(heads)
    for name, one in systems.items():
        cells = [_share(one[key]) for key, _ in FIGURES] + [_share(one["recall_within"][limit]) for limit in WITHIN]
        yield f"| `{name}` | " + " | ".join(cells) + " |"


def _harm(systems: Mapping[str, Any]) -> Iterator[str]:
    heads = ("false stops per 1,000 node-days", "holds", "exclusions", "decoys touched", "forbidden", "CPU s a window")
    yield "| | " + " | ".join(heads) + " |"
    yield "| --- |" + " --- |" * len(heads)
    for name, one in systems.items():
        rates = [
            f"{one[f'{key}_per_1000_node_days']:.0f} (at most {one[f'{key}_per_1000_node_days_upper']:.0f})"
            for key in ("false_stops", "false_holds", "false_exclusions")
        ]
        rest = [_share(one["decoys_touched"]), str(one["forbidden"]), f"{one['cpu_s_per_window']:.2f}"]
        yield f"| `{name}` | " + " | ".join([*rates, *rest]) + " |"


def _classes(systems: Mapping[str, Any]) -> Iterator[str]:
    yield "| class | n | component right | right within 90 s |"
    yield "| --- |" + " --- |" * 3
    for name, one in systems["sickbay"]["classes"].items():
        yield f"| `{name}` | {one['n']} | {one['component_right']} | {one['within_90_s']} |"


def _sanity(checks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    words = {True: "holds", False: "missed", None: "not measured"}
    for one in checks:
        found = "" if one["found"] is None else f", found {one['found']:.2f}"
        yield f"- {one['what']}: wanted {one['wanted']}{found}: {words[one['holds']]}. {one['word']}".rstrip()


def _share(told: Sequence[float] | None) -> str:
    return "" if told is None else f"{told[0]:.2f} [{told[1]:.2f}, {told[2]:.2f}]"
