"""Draws every fault of the simulator as its sensors and logs tell it: `docs/faults.md` and a picture of each.

`python docs/gallery.py [FAULT ...]`. Each is one small night, told once with the fault and once without it: the columns
that differ most at one component, against the middle of its likes, and a mark for each line that is printed because of
it. The same for the same code.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sickbay.schema import TABLES, Samples
from sickbay.vocabulary import faults
from simulator.faults import FAMILIES, FAULTS
from simulator.printing.lines import Printed
from simulator.scenario import Scenario, scenario

SEED, HOSTS, AT_S, UNTIL_S, TIMEOUT_S = 5, 4, 40, 160, 60
SHOWN = 3  # columns of a picture
WIDTH, HEIGHT, LEFT, TOP, GAP = 560, 74, 8, 18, 12
FOLDER = Path(__file__).parent
ABOUT = (
    "Drawn by `python docs/gallery.py`: one small night each, told once with the fault and once without it. "
    "Blue: the component whose\ncolumns differ most; grey: the middle of its likes; dashed: the onset; marks below: "
    "lines that are printed because of it.\n"
)
Series = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trace:
    """One column over the night, [seconds]: of the component that differs most, and the middle of its likes."""

    name: str
    component: str
    own: Series
    others: Series


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a fault shows."""

    fault: str
    title: str
    traces: tuple[Trace, ...]
    lines: tuple[tuple[int, Printed], ...]


def drawn(fault: str) -> Drawn:
    """The fault's night against the same night without it."""
    made, calm = _night(fault), _watched(_night(""))
    told = _watched(made)
    found = sorted(_differing(told, calm), key=lambda one: (-one[0], one[1].name, one[1].component))
    columns: dict[str, Trace] = {}
    for _, trace in found:
        columns.setdefault(trace.name, trace)
    title = made.expectations()[0].title
    return Drawn(fault, title, tuple(columns.values())[:SHOWN], _added(told.lines, calm.lines))


def _night(fault: str) -> Scenario:
    made = scenario(seed=SEED, hosts=HOSTS, timeout_s=TIMEOUT_S)
    if fault:
        made.add(fault, AT_S, None, {})
    return made


@dataclass(slots=True)
class Watched:
    """A night: by table and column the values [seconds, components], NaN where nothing is told; and its lines."""

    names: dict[str, dict[str, int]] = field(default_factory=dict)  # of each table: component, its place
    values: dict[tuple[str, str], Series] = field(default_factory=dict)
    lines: list[tuple[int, Printed]] = field(default_factory=list)

    def take(self, at_s: int, table: str, names: Sequence[str], columns: Mapping[str, Series]) -> None:
        """What one second tells in one table."""
        known = self.names.setdefault(table, {name: place for place, name in enumerate(names)})
        rows = [known.get(name, -1) for name in names]
        for column, values in columns.items():
            whole = self.values.setdefault((table, column), np.full((UNTIL_S, len(known)), np.nan))
            for row, value in zip(rows, values.tolist(), strict=True):
                if row >= 0:
                    whole[at_s, row] = value


def _watched(made: Scenario) -> Watched:
    night = Watched()
    for at_s, second in enumerate(made.seconds(UNTIL_S)):
        night.lines += [(at_s, line) for line in second.lines]
        for samples in second.samples.values():
            for one in filter(lambda one: one.component, samples):
                _take(night, at_s, one, one.component[0].partition(":")[2].partition("/")[0])
        if second.cables:
            told = (second.cables.modules(second.at_ms), second.cables.leaf_ports(second.at_ms))
            for place, one in enumerate((*second.site, *told)):
                _take(night, at_s, one, f"site {place}")
    return night


def _take(night: Watched, at_s: int, one: Samples, whose: str) -> None:
    night.take(at_s, f"{one.table} {whose}", one.component, one.values)


def _differing(told: Watched, calm: Watched) -> Iterator[tuple[float, Trace]]:
    for (table, column), usual in calm.values.items():
        own = told.values.get((table, column), np.full_like(usual, np.nan))
        if TABLES[table.partition(" ")[0]].column(column).type == "counter":
            own, usual = (np.diff(values, axis=0, prepend=values[:1]) for values in (own, usual))
        if own.shape != usual.shape or np.array_equal(own, usual, equal_nan=True):
            continue
        gone = np.isnan(own) != np.isnan(usual)
        reach = max(float(np.nanmax(np.abs(usual), initial=0.0)), 1e-9)
        apart = np.where(gone, 1.0, np.nan_to_num(np.abs(own - usual)) / reach).sum(axis=0)
        row = int(apart.argmax())
        others = np.delete(own, row, axis=1)
        middle = np.where(np.isnan(others).all(axis=1, keepdims=True), np.nan, others)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of seconds in which nobody tells anything
            likes = np.nanmedian(middle, axis=1) if middle.shape[1] else usual[:, row]
        name = next(name for name, place in calm.names[table].items() if place == row)
        yield min(float(apart[row]), 1e6), Trace(column, name, own[:, row], likes)


def _added(told: Sequence[tuple[int, Printed]], calm: Sequence[tuple[int, Printed]]) -> tuple[tuple[int, Printed], ...]:
    more = Counter(told) - Counter(calm)
    return tuple(one for one in told if one in more)


def svg(picture: Drawn) -> str:
    """The picture."""
    height = TOP + len(picture.traces) * (HEIGHT + GAP) + 16
    body = [f'<line x1="{_x(AT_S)}" x2="{_x(AT_S)}" y1="{TOP}" y2="{height - 16}" stroke="#c33" stroke-dasharray="3"/>']
    for place, trace in enumerate(picture.traces):
        body += _panel(trace, TOP + place * (HEIGHT + GAP))
    body += [
        f'<line x1="{_x(at_s)}" x2="{_x(at_s)}" y1="{height - 14}" y2="{height - 6}" stroke="#333"/>'
        for at_s in sorted({at_s for at_s, _ in picture.lines})
    ]
    box = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    return "\n".join([head, f'<text x="{LEFT}" y="12">{escape(picture.fault)}</text>', *body, "</svg>"]) + "\n"


def _panel(trace: Trace, top: int) -> Iterator[str]:
    both = np.concatenate([trace.own, trace.others])
    low, high = (float(one) for one in (np.nanmin(both), np.nanmax(both))) if not np.isnan(both).all() else (0.0, 1.0)
    label = f"{trace.name} of {trace.component}: {low:.4g} to {high:.4g}"
    yield f'<text x="{LEFT}" y="{top + 10}" fill="#555">{escape(label)}</text>'
    for values, colour in ((trace.others, "#999"), (trace.own, "#06c")):
        yield f'<path d="{_path(values, low, high, top)}" fill="none" stroke="{colour}"/>'


def _path(values: Series, low: float, high: float, top: int) -> str:
    """Lines through what is known: a gap stays one; of a level stretch its two ends."""
    heights = np.round(top + HEIGHT - (HEIGHT - 16) * (values - low) / ((high - low) or 1.0), 0)
    level = np.zeros(len(values), bool)
    level[1:-1] = (heights[1:-1] == heights[:-2]) & (heights[1:-1] == heights[2:])
    moves, pen = list[str](), "M"
    for at_s, (y, skip) in enumerate(zip(heights.tolist(), level.tolist(), strict=True)):
        if y != y:
            pen = "M"
        elif not skip:
            moves.append(f"{pen}{_x(at_s)} {y:.0f}")
            pen = "L"
    return "".join(moves)


def _x(at_s: int) -> str:
    return f"{LEFT + (WIDTH - 2 * LEFT) * at_s / UNTIL_S:.1f}"


def page(pictures: Sequence[Drawn]) -> str:
    """The gallery, a section a family."""
    by_name, known = {one.fault: one for one in pictures}, faults()
    parts = ["# Faults of the simulator\n", ABOUT]
    for family in FAMILIES:
        parts.append(f"## {family.__name__.rpartition('.')[2]}\n")
        parts.append((family.__doc__ or "").split("\n\n")[0] + "\n")
        for name in sorted(set(family.FAULTS) & set(by_name)):
            parts += _section(
                by_name[name], known[name].en.replace("{component}", "`component`") if name in known else ""
            )
    return "\n".join(parts)


def _section(one: Drawn, sentence: str) -> list[str]:
    lines = [line.text.strip() for _, line in one.lines if line.source != "job"] or [
        line.text.strip() for _, line in one.lines
    ]
    told = ["```", *(line[:160] for line in lines[:3]), "```", ""] if lines else []
    return [f"### {one.fault}\n", f"{sentence or one.title.capitalize() + '.'}\n", *told,
            f"![{one.fault}](pictures/faults/{one.fault}.svg)\n"]  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Draws those that are named, all without names; writes the page where all are drawn."""
    folder = FOLDER / "pictures" / "faults"
    folder.mkdir(parents=True, exist_ok=True)
    found = list[Drawn]()
    for name in names or sorted(FAULTS):
        found.append(drawn(name))
        (folder / f"{name}.svg").write_text(svg(found[-1]), encoding="utf-8")
        print(f"{len(found)} of {len(names or FAULTS)}: {name}", file=sys.stderr)
    if not names:
        (FOLDER / "faults.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
