"""Values of one scrape on their way to samples: collected by series name, converted in one go, laid out as rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from collectors.formats.metric_names import Metric, Target, converted
from collectors.formats.reading import Reading, Tally
from sickbay.clock import Clock, Stamp
from sickbay.components import Name
from sickbay.schema import TABLES, Samples

MAX_ROWS = 16_384  # rows of one Samples
_Cell = dict[str, float]
_Worse = Callable[[float, float], float]


@dataclass(slots=True)
class _Values:
    component: list[Name] = field(default_factory=list)
    at_ms: list[int] = field(default_factory=list)
    part: list[tuple[str, ...]] = field(default_factory=list)
    value: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plain:
    """What a line gives whatever its value: a value, and maybe an event by it."""

    series: tuple[str, str]  # name, and text of the labels
    target: Target
    component: Name
    labels: dict[str, str]


@dataclass(slots=True)
class SeriesRows:
    """Collects (series, component, time, value); `flush` turns them into samples. Time 0 = unknown."""

    values: dict[str, tuple[Target, _Values]] = field(default_factory=dict)
    hosts: dict[tuple[str, int], _Cell] = field(default_factory=dict)  # `up` and its like, already named
    count: int = 0

    def add(self, target: Target, labels: dict[str, str], component: Name, at_ms: int, value: float) -> None:
        """Take one value. Series that are parts of one number (`sum_over`) must come before the same flush."""
        values = self.values.setdefault(target.name, (target, _Values()))[1]
        values.component.append(component)
        values.at_ms.append(at_ms)
        if target.metric.sum_over:
            values.part.append(tuple([labels.get(label, "") for label in target.metric.sum_over]))
        values.value.append(value)
        self.count += 1

    def add_all(self, told: Sequence[tuple[int, Plain]], values: Sequence[float], at_ms: int) -> None:
        """Take the values of one series name, which stand at these places."""
        target = told[0][1].target
        own = self.values.setdefault(target.name, (target, _Values()))[1]
        own.component += [one.component for _, one in told]
        own.at_ms += [at_ms] * len(told)
        own.value += [values[place] for place, _ in told]
        for _, one in told if target.metric.sum_over else ():
            own.part.append(tuple([one.labels.get(label, "") for label in target.metric.sum_over]))
        self.count += len(told)

    def add_host(self, host: Name, at_ms: int, column: str, value: float) -> None:
        """Take one value of a host that is already in our unit; of two the larger stays."""
        cell = self.hosts.setdefault((host, at_ms), {})
        cell[column] = max(value, cell.get(column, value))
        self.count += 1

    def flush(self, tally: Tally) -> Iterator[Reading]:
        """All rows collected so far, by table and known or unknown time; the collection starts anew."""
        cells: dict[tuple[str, bool], dict[tuple[Name, int], _Cell]] = {}
        for target, values in self.values.values():
            _lay_out(target, values, cells, tally)
        for (host, at_ms), cell in self.hosts.items():
            cells.setdefault(("host", at_ms > 0), {}).setdefault((host, at_ms), {}).update(cell)
        self.values, self.hosts, self.count = {}, {}, 0
        for (table, _), rows in sorted(cells.items()):
            items = list(rows.items())
            for start in range(0, len(items), MAX_ROWS):
                yield _reading(table, items[start : start + MAX_ROWS])


def _lay_out(
    target: Target, values: _Values, cells: dict[tuple[str, bool], dict[tuple[Name, int], _Cell]], tally: Tally
) -> None:
    metric, table = target.metric, target.source.table
    raw = np.array(values.value)
    note_saturated(metric, raw, target.name, tally)
    worse = min if metric.to and TABLES[table].column(metric.to).low else max
    keys, real = zip(values.component, values.at_ms, strict=True), converted(metric, raw).tolist()
    whole = _summed(keys, values.part, real, worse) if metric.sum_over else zip(keys, real, strict=True)
    for key, value in whole:
        if value == value:  # NaN is not told
            rows = cells.setdefault((table, key[1] > 0), {})
            if (cell := rows.get(key)) is None:
                cell = rows[key] = {}
            # Two jobs on a device double its series: one is kept.
            cell[metric.to] = worse(value, cell[metric.to]) if metric.to in cell else value


def _summed(
    keys: Iterable[tuple[Name, int]], parts: Sequence[tuple[str, ...]], values: Sequence[float], worse: _Worse
) -> Iterable[tuple[tuple[Name, int], float]]:
    """Parts of one number added up, each part once."""
    told: dict[tuple[Name, int], dict[tuple[str, ...], float]] = {}
    for key, part, value in zip(keys, parts, values, strict=True):
        if value == value:
            own = told.setdefault(key, {})
            own[part] = worse(value, own.get(part, value))
    return ((key, sum(own.values())) for key, own in told.items())


def note_saturated(
    metric: Metric, raw: "np.ndarray[tuple[int], np.dtype[np.float64]]", name: str, tally: Tally
) -> None:
    """Tell people of a counter that has reached its width: it is blind until somebody clears it."""
    if metric.saturates is not None and bool(np.any(raw == metric.saturates)):
        tally.note(f"{name} stands at its maximum ({metric.saturates:.0f}) somewhere: it counts no more until cleared")


def _reading(table: str, rows: list[tuple[tuple[Name, int], _Cell]]) -> Reading:
    at_ms = np.array([at for (_, at), _ in rows], np.int64)
    told = set[str]().union(*(cell for _, cell in rows))
    columns = [name for name in TABLES[table].names if name in told]
    values = {name: np.array([cell.get(name, np.nan) for _, cell in rows]) for name in columns}
    stamp = Stamp(Clock.ABSOLUTE, int(at_ms[-1])) if at_ms[-1] > 0 else Stamp()
    return Reading(Samples(table, [component for (component, _), _ in rows], at_ms, values), stamp=stamp)
