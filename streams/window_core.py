"""Windows: rows of one window of one table in, one column of numbers per wanted feature out.

The one code that counts windows, live (`close`, window by window) and offline (`folded`, all windows at once). Pure and
order-free: order of arrival, batches and repeated rows change nothing. A threshold never stands here: features are
numbers, claims are made in diagnosis.

Features of a component and window `[end_ms - width_ms, end_ms)` with a sample:
  n, covered_ms     samples; time that the increases of the window span, from the last sample before it to its own last
                    (missing with the first sample): what an increase is divided by to get a rate
  x, x__max, x__min, x__spread   of a gauge: mean, maximum, minimum, maximum - minimum
  x__increase       of a counter, across windows, restarts and wraps (rules: `window_counters.increases`; a counter
                    that stands on all ones tells nothing: `window_rows`)
Computed in float64 (counters in int64), rounded to float32. Missing is NaN, never 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import lt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.schema import Table
from streams import window_gauges
from streams.window_counters import HORIZON_MS, RESTART_GAP_MS, WRAPS, Before, Increases, increases, never
from streams.window_rows import Ints, Rows, ordered

WHOLE = ("n", "covered_ms")


@dataclass(frozen=True, slots=True, eq=False)
class Last:
    """What is remembered per component beyond a window: `names` sorted, `at_ms` of the last row, and the last told
    value of each counter (int64 [components, columns], missing -1)."""

    names: tuple[Name, ...] = ()
    at_ms: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    columns: tuple[str, ...] = ()
    counters: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """One window: `names` sorted, `values` float32 [columns, components], missing = NaN."""

    names: tuple[Name, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float32]


class Folded(NamedTuple):
    """Groups (component, window) in order: `code`, `end_ms`, `n`, `covered_ms` int64 [groups] (negative = unknown),
    `values` float32 [columns, groups]; of the components with rows: their codes and what is last known of them."""

    code: Ints
    end_ms: Ints
    n: Ints
    covered_ms: Ints
    columns: tuple[str, ...]
    values: NDArray[np.float32]
    heard: Ints
    after: Before


def close(
    rows: Rows, names: Sequence[Name], last: Last, table: Table, end_ms: int, width_ms: int, wanted: Sequence[str]
) -> tuple[Features, Last]:
    """The features of one window, and what is remembered for the next: windows are closed in the order of their ends.

    `names[code]` are the rows' components, each once; sorted ones need no sorting here. `wanted` holds names of
    features (`n` and `covered_ms` are told only where wanted); those of columns that the rows do not have are left out,
    and counters that are not wanted are not remembered. Raises ValueError for rows of another window, doubled names
    and unknown features.
    """
    if len(rows.at_ms) and not end_ms - width_ms <= int(rows.at_ms.min()) <= int(rows.at_ms.max()) < end_ms:
        raise ValueError(f"rows outside of the window of {width_ms} ms that ends at {end_ms}")
    rows, known = _sorted(rows, tuple(names))
    counters = _counters(rows, last, table, wanted)
    found = folded(rows, _before(last, known, counters), counters, table, width_ms, wanted)
    seen = known if len(found.code) == len(known) else tuple(known[code] for code in found.code.tolist())
    return Features(seen, found.columns, found.values), _last(last, seen, found, counters, end_ms)


def folded(
    rows: Rows, before: Before, counters: Sequence[str], table: Table, width_ms: int, wanted: Sequence[str]
) -> Folded:
    """All windows that the rows fall into. `before`: what was last heard of each code, and of each of `counters`, which
    hold all that are wanted."""
    plan = _plan(rows, counters, table, wanted)
    sample, order, code, at_ms = ordered(rows, table)
    end_ms = (at_ms // width_ms + 1) * width_ms
    fresh = (code[1:] != code[:-1]) | (end_ms[1:] != end_ms[:-1])
    starts = np.flatnonzero(np.concatenate([[True], fresh])) if len(code) else np.empty(0, np.int64)
    counts = np.diff(starts, append=len(code))
    gauges = window_gauges.told(sample.gauges, order, starts, counts, plan.gauges)
    places = {name: at for at, name in enumerate(rows.counter_columns)}
    columns = np.array([places.get(name, -1) for name in counters], np.intp)
    counted = increases(
        sample.counters, columns, order, code, at_ms, starts, before,
        restart_gap_ms=max(RESTART_GAP_MS, 2 * width_ms),
        wraps=np.array([(table.name, name) in WRAPS for name in counters], np.bool_),
    )  # fmt: skip
    values = _values(plan, counts, counted, gauges)
    return Folded(
        code[starts], end_ms[starts], counts, counted.covered_ms, plan.columns, values, counted.code, counted.after
    )


class _Plan(NamedTuple):
    columns: tuple[str, ...]
    sources: list[tuple[str, int, int]]  # of each column: kind, its place there, that of the least value (or -1)
    gauges: window_gauges.Wanted


def _values(plan: _Plan, counts: Ints, counted: Increases, gauges: window_gauges.Told) -> NDArray[np.float32]:
    values = np.empty((len(plan.columns), len(counts)), np.float32)
    for place, (kind, at, other) in enumerate(plan.sources):
        if kind == "n":
            values[place] = counts
        elif kind == "covered_ms":
            values[place] = np.where(counted.covered_ms < 0, np.nan, counted.covered_ms)
        elif kind == "increase":
            values[place] = counted.increase[:, at]
        elif kind == "mean":
            values[place] = gauges.mean[at]
        elif kind == "min":
            values[place] = gauges.least[other]
        else:
            values[place] = gauges.most[at] if other < 0 else _between(gauges.least[other], gauges.most[at])
    values += 0.0  # of 0.0 and -0.0 an extreme is the one or the other: no matter which came first
    return values


_GREATEST = float(np.finfo(np.float32).max)


def _between(least: NDArray[Any], most: NDArray[Any]) -> NDArray[Any]:
    """How far apart they are: at most what a float32 holds, as nothing is infinite here."""
    between: NDArray[Any] = np.minimum(most.astype(np.float64) - least, _GREATEST)
    return between


def _plan(rows: Rows, counters: Sequence[str], table: Table, wanted: Sequence[str]) -> _Plan:
    gauge, counter = ({name: at for at, name in enumerate(told)} for told in (rows.gauge_columns, counters))
    mean, most, least = list[int](), list[int](), list[int]()
    columns, sources = list[str](), list[tuple[str, int, int]]()
    for feature in wanted:
        name, _, kind = feature.partition("__")
        if feature in WHOLE:
            source = (feature, 0, -1)
        elif name not in table.names or kind not in (("increase",) if table.column(name).type == "counter" else _KINDS):
            raise ValueError(f"{feature} is no feature of {table.name}")
        elif name in counter:
            source = ("increase", counter[name], -1)
        elif name not in gauge:
            continue
        elif not kind:
            source = ("mean", _placed(mean, gauge[name]), -1)
        else:
            below = _placed(least, gauge[name]) if kind in ("spread", "min") else -1
            source = (kind, -1 if kind == "min" else _placed(most, gauge[name]), below)
        columns.append(feature)
        sources.append(source)
    return _Plan(tuple(columns), sources, window_gauges.Wanted(mean, most, least))


_KINDS = ("", "max", "spread", "min")


def _placed(places: list[int], column: int) -> int:
    if column not in places:
        places.append(column)
    return places.index(column)


def _sorted(rows: Rows, names: tuple[Name, ...]) -> tuple[Rows, tuple[Name, ...]]:
    """The same rows, numbered by sorted names."""
    if all(map(lt, names, names[1:])):
        return rows, names
    by_name = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), np.int64)
    rank[by_name] = np.arange(len(names))
    known = tuple(names[at] for at in by_name)
    if not all(map(lt, known, known[1:])):
        raise ValueError("a name is given twice")
    code = rank[rows.code]
    return Rows(code, rows.at_ms, rows.gauge_columns, rows.gauges, rows.counter_columns, rows.counters), known


def _counters(rows: Rows, last: Last, table: Table, wanted: Sequence[str]) -> tuple[str, ...]:
    """The counters that are wanted and told, now or before, in the order of the table."""
    asked = {name.removesuffix("__increase") for name in wanted if name.endswith("__increase")}
    told = asked & {*rows.counter_columns, *last.columns}
    return tuple(column.name for column in table.columns if column.type == "counter" and column.name in told)


def _before(last: Last, names: tuple[Name, ...], columns: tuple[str, ...]) -> Before:
    """What is remembered, by the codes of `names`."""
    if last.names == names and last.columns == columns:
        return Before(last.at_ms, last.counters)
    known = never(len(names), len(columns), np.dtype(np.int64))
    here, there = _shared(names, last.names)
    known.at_ms[here] = last.at_ms[there]
    for at, name in enumerate(columns):
        if name in last.columns:
            known.counters[here, at] = last.counters[there, last.columns.index(name)]
    return known


def _shared(some: tuple[Name, ...], others: tuple[Name, ...]) -> tuple[Ints, Ints]:
    """Places of the names that stand in both, in each."""
    if some == others:
        return np.arange(len(some)), np.arange(len(some))
    place = {name: at for at, name in enumerate(others)}
    pairs = [(at, place[name]) for at, name in enumerate(some) if name in place]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _last(last: Last, seen: tuple[Name, ...], found: Folded, columns: tuple[str, ...], end_ms: int) -> Last:
    """Of what was not heard in the window the old stays, as long as an increase could still count from it."""
    if seen == last.names and columns == last.columns:
        return Last(last.names, found.after.at_ms, columns, found.after.counters.astype(np.int64, copy=False))
    fresh = last.at_ms >= end_ms - HORIZON_MS
    heard = set(seen)
    kept = [at for at, name in enumerate(last.names) if fresh[at] and name not in heard]
    old = _before(last, last.names, columns)
    names = (*seen, *(last.names[at] for at in kept))
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.intp)
    return Last(
        _tuple(names, order, last.names),
        np.concatenate([found.after.at_ms, old.at_ms[kept]])[order],
        columns,
        np.concatenate([found.after.counters, old.counters[kept]])[order].astype(np.int64, copy=False),
    )


def _tuple(names: Sequence[Name], order: Iterable[int], before: tuple[Name, ...]) -> tuple[Name, ...]:
    """The same object as before where the names are the same, so that comparing it costs nothing."""
    now = tuple(names[at] for at in order)
    return before if now == before else now
