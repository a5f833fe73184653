"""What is wrong with a board, read from its JSON alone: every rule is one that a person would stumble over.

A panel says what it shows, in which unit, and asks for metrics and labels that exist; nothing lies over anything else.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from sickbay.selfmetrics import METRICS, Metric

MAX_PANELS = 25  # more is a wall, not a board
GRID = 24  # columns
SCRAPED = frozenset({"cluster", "instance", "job"})  # labels that a scrape adds
FOREIGN = frozenset({"up"})  # metrics that are not ours and may be asked for
PARTS = ("_bucket", "_sum", "_count")  # of a histogram

_SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\s*\{([^}]*)\}")
_OURS = re.compile(r"\bsickbay_\w+")
_GROUPED = re.compile(r"\bby\s*\(([^)]*)\)")
_MATCHED = re.compile(r"([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)")


def problems(board: Mapping[str, Any], metrics: Iterable[Metric] = METRICS) -> list[str]:
    """Everything that is wrong, one line each; empty for a good board."""
    known = {name: metric for metric in metrics for name in _names(metric)}
    panels = [panel for panel in _panels(board) if panel.get("type") != "row"]
    return [
        *_whole(board, panels),
        *(line for panel in panels for line in _panel(panel, known)),
        *_numbered(list(_panels(board))),
        *_layout(list(board.get("panels") or ())),
        *(line for row in board.get("panels") or () for line in _layout(list(row.get("panels") or ()))),
    ]


def expressions(board: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Every query of a board: title of its panel, PromQL with variables, whether it asks for now only."""
    return [
        (str(panel.get("title", "")), str(target.get("expr", "")), bool(target.get("instant")))
        for panel in _panels(board)
        for target in panel.get("targets") or ()
    ]


def _panels(board: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for panel in board.get("panels") or ():
        yield panel
        yield from panel.get("panels") or ()  # those of a row that is closed


def _names(metric: Metric) -> Iterator[str]:
    if metric.type == "histogram":
        yield from (metric.name + part for part in PARTS)
    else:
        yield metric.name


def _whole(board: Mapping[str, Any], panels: list[Mapping[str, Any]]) -> Iterator[str]:
    for key in ("title", "uid", "tags"):
        if not board.get(key):
            yield f"the board has no {key}"
    if not panels:
        yield "the board has no panels"
    if len(panels) > MAX_PANELS:
        yield f"{len(panels)} panels: more than {MAX_PANELS} are not read"
    kinds = {variable.get("type") for variable in (board.get("templating") or {}).get("list") or ()}
    if "datasource" not in kinds:
        yield "no variable chooses the data source"


def _panel(panel: Mapping[str, Any], known: Mapping[str, Metric]) -> Iterator[str]:
    where = f"panel {panel.get('title') or panel.get('id')!r}"
    if not panel.get("title"):
        yield f"{where} has no title"
    if not panel.get("description"):
        yield f"{where} has no description"
    if not ((panel.get("fieldConfig") or {}).get("defaults") or {}).get("unit"):
        yield f"{where} has no unit"
    targets = panel.get("targets") or ()
    if not targets:
        yield f"{where} has no query"
    for target in targets:
        source = (target.get("datasource") or panel.get("datasource") or {}).get("uid", "")
        if not str(source).startswith("$"):
            yield f"{where} asks a fixed data source {source!r}"
        yield from (f"{where}: {line}" for line in _query(str(target.get("expr", "")), known))


def _query(expression: str, known: Mapping[str, Metric]) -> Iterator[str]:
    if not expression.strip():
        yield "an empty query"
        return
    found = _SELECTOR.findall(expression)
    bare = set(_OURS.findall(expression)) - {name for name, _ in found}
    yield from (f"{name} is asked for without the cluster" for name in sorted(bare))
    labels: set[str] = set(SCRAPED) | {"le"}
    for name, matchers in found:
        metric = known.get(name)
        if metric is None and name not in FOREIGN:
            yield f"{name} is no metric of ours"
            continue
        own = set(metric.labels) if metric else set()
        labels |= own
        if "$cluster" not in matchers:
            yield f"{name} is asked for without the cluster"
        for label in _MATCHED.findall(re.sub(r'"[^"]*"', '""', matchers)):
            if label not in own | SCRAPED:
                yield f"{name} has no label {label}"
        rated = re.search(rf"\b(rate|increase|irate)\(\s*{name}\s*\{{", expression)
        if metric is not None and bool(rated) != (metric.type != "gauge"):
            yield f"{name} is a {metric.type}: {'no ' if rated else 'its '}rate tells something"
    for group in _GROUPED.findall(expression):
        for label in filter(None, map(str.strip, group.split(","))):
            if label not in labels:
                yield f"grouped by {label}, which none of its metrics has"


def _numbered(panels: list[Mapping[str, Any]]) -> Iterator[str]:
    counted = Counter(panel.get("id") for panel in panels)
    yield from (f"{times} panels have the id {id!r}" for id, times in counted.items() if times > 1 or id is None)


def _layout(panels: list[Mapping[str, Any]]) -> Iterator[str]:
    """Panels that are open at the same time; those of a closed row are a layer of their own."""
    places = [(panel, *_place(panel)) for panel in panels]
    for panel, x, y, w, h in places:
        if x < 0 or y < 0 or w < 1 or h < 1 or x + w > GRID:
            yield f"panel {panel.get('title')!r} does not lie within {GRID} columns"
    for (one, x, y, w, h), (other, x2, y2, w2, h2) in combinations(places, 2):
        if x < x2 + w2 and x2 < x + w and y < y2 + h2 and y2 < y + h:
            yield f"panels {one.get('title')!r} and {other.get('title')!r} lie over each other"


def _place(panel: Mapping[str, Any]) -> tuple[int, int, int, int]:
    place = panel.get("gridPos") or {}
    x, y, w, h = (int(place.get(key, 0)) for key in "xywh")
    return x, y, w, h
