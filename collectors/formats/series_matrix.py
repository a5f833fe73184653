"""Series over time as samples: what a saved answer and a live Prometheus have in common."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from collectors.formats.metric_names import UP, Target, converted, is_known, targets
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_events import CodeEvents
from collectors.formats.series_names import Jobs, Names, fits, is_slice
from collectors.formats.series_rows import note_saturated
from sickbay import components
from sickbay.clock import Clock, Stamp
from sickbay.components import UNKNOWN, Kind, Name
from sickbay.schema import Samples

MAX_ROWS = 65_536  # rows of one Samples, in as many series as fit
MAX_EVENTS = 1_000  # code changes of one series: more is no gauge of codes
FIRST_MS, LAST_MS = 10**11, 10**13  # 1973 to 2286: other times are damage

Values: TypeAlias = NDArray[np.float64]
Times: TypeAlias = NDArray[np.int64]


class Series(NamedTuple):
    """One series: its labels (with `__name__`, where kept), and its points: JSON `[[seconds, "value"], ...]`, or times
    in ms and values."""

    labels: dict[str, str]
    points: bytes | tuple[Sequence[float], Sequence[float]]


_points = msgspec.json.Decoder(list[tuple[float, str | float]])
_anything = msgspec.json.Decoder(list[object])


def readings(
    found: list[Series], tally: Tally, name: str = "", names: Names | None = None, codes: CodeEvents | None = None
) -> Iterator[Reading]:
    """Samples per series name, events and identities. `name`: of series that have none; `names`, `codes`: what
    earlier answers taught and told."""
    matrix = _Matrix(tally, names or Names(), codes or CodeEvents())
    unknown: dict[str, int] = {}
    known: list[tuple[str, Series]] = []
    for series in found:  # what belongs together is learnt from all before any is named
        told = series.labels.get("__name__") or name
        if is_known(told):
            known.append((told, series))
            for identity in matrix.names.learn(targets().get(told), series.labels):
                yield Reading(identity)
        elif len(unknown) < 1000:
            unknown[told] = unknown.get(told, 0) + 1
    for told, series in known:
        yield from matrix.take(told, series)
    yield from matrix.end()
    if unknown:
        some = ", ".join(sorted(told or "(no name)" for told in unknown)[:5])
        tally.note(f"{sum(unknown.values())} series of names not known here were left out: {some}")


@dataclass(slots=True)
class _Matrix:
    tally: Tally
    names: Names
    codes: CodeEvents
    batch: list[tuple[Name, Times, Values]] = field(default_factory=list)
    table: str = ""
    column: str = ""
    rows: int = 0
    slices: int = 0
    jobs: Jobs = field(default_factory=Jobs)
    parts: dict[tuple[str, Name], dict[tuple[str, ...], tuple[Times, Values]]] = field(default_factory=dict)

    def take(self, name: str, series: Series) -> Iterator[Reading]:
        target, labels = targets().get(name), series.labels
        if target is None:
            yield from self._up(labels, series) if name == UP else ()
            return
        component = self.names.component(target, labels)
        if component is None or not fits(target.metric, labels):
            return
        if is_slice(target.source, labels):
            self.slices += 1
            return
        at_ms, raw = points(series.points, self.tally)
        if not len(at_ms):
            return
        if target.source.of_accelerators:
            self.jobs.see(labels, self.names.host(labels), int(at_ms[0]), int(at_ms[-1]))
        yield from self._events(target, labels, component, at_ms, raw)
        metric = target.metric
        if not metric.to:
            return
        note_saturated(metric, raw, name, self.tally)
        if metric.sum_over:
            part = tuple(labels.get(label, "") for label in metric.sum_over)
            self.parts.setdefault((name, component), {})[part] = (at_ms, converted(metric, raw))
        else:
            yield from self._add(target.source.table, metric.to, component, at_ms, converted(metric, raw))

    def end(self) -> Iterator[Reading]:
        for (name, component), parts in self.parts.items():
            target = targets()[name]
            at_ms, values = summed(list(parts.values()))
            yield from self._add(target.source.table, target.metric.to, component, at_ms, values)
        yield from self._flush()
        yield from map(Reading, self.jobs.placements())
        if self.slices:
            self.tally.note(f"{self.slices} series of device partitions left out: they are not the whole device's")

    def _up(self, labels: dict[str, str], series: Series) -> Iterator[Reading]:
        column, host = self.names.up_column(labels), self.names.host(labels)
        if column and host != UNKNOWN:
            at_ms, raw = points(series.points, self.tally)
            values = np.where((raw == 0) | (raw == 1), raw, np.nan)
            yield from self._add("host", column, components.name(Kind.HOST, host), at_ms, values)

    def _events(
        self, target: Target, labels: dict[str, str], component: Name, at_ms: Times, raw: Values
    ) -> Iterator[Reading]:
        if not target.metric.speaks:
            return
        changed = np.flatnonzero(np.diff(raw, prepend=np.nan) != 0)[:MAX_EVENTS]
        for place in changed.tolist():
            at = int(at_ms[place])
            text = f"{target.name}{_shown(labels)} = {raw[place]:.15g}"
            if event := self.codes.event(target, labels, component, float(raw[place]), at, text):
                yield Reading(event, stamp=Stamp(Clock.ABSOLUTE, at))

    def _add(self, table: str, column: str, component: Name, at_ms: Times, values: Values) -> Iterator[Reading]:
        if (table, column) != (self.table, self.column) or self.rows + len(at_ms) > MAX_ROWS:
            yield from self._flush()
        self.table, self.column = table, column
        self.batch.append((component, at_ms, values))
        self.rows += len(at_ms)

    def _flush(self) -> Iterator[Reading]:
        if self.rows:
            names = [name for name, at_ms, _ in self.batch for _ in range(len(at_ms))]
            at_ms = np.concatenate([at_ms for _, at_ms, _ in self.batch])
            values = np.concatenate([values for _, _, values in self.batch])
            for start in range(0, self.rows, MAX_ROWS):
                rows = slice(start, start + MAX_ROWS)
                samples = Samples(self.table, names[rows], at_ms[rows], {self.column: values[rows]})
                yield Reading(samples, stamp=Stamp(Clock.ABSOLUTE, int(at_ms[rows][-1])))
        self.batch, self.rows = [], 0


def _shown(labels: dict[str, str]) -> str:
    told = ", ".join(f'{name}="{value[:128]}"' for name, value in labels.items() if name != "__name__")
    return f"{{{told[:400]}}}" if told else ""


def points(told: bytes | tuple[Sequence[float], Sequence[float]], tally: Tally) -> tuple[Times, Values]:
    """Times in ms and values of a series; points that are none are counted and left out, "NaN" is missing."""
    if isinstance(told, tuple):
        return of_this_age(np.array(told[0], np.float64), np.array(told[1], np.float64), tally)
    try:
        pairs = _points.decode(told)
    except (msgspec.DecodeError, RecursionError):
        pairs = _sound(told, tally)
    at = np.array([at for at, _ in pairs]) * 1000
    return of_this_age(at, np.array([_number(value) for _, value in pairs]), tally)


def of_this_age(at: Values, values: Values, tally: Tally) -> tuple[Times, Values]:
    """Times and values without those that no clock of this age told, which are counted."""
    sound = (at >= FIRST_MS) & (at < LAST_MS)
    tally.unparsed += int(len(at) - np.count_nonzero(sound))
    return np.rint(at[sound]).astype(np.int64), values[sound]


def _sound(told: bytes, tally: Tally) -> list[tuple[float, str | float]]:
    """The points of a damaged series that are points."""
    try:
        items = _anything.decode(told)
    except (msgspec.DecodeError, RecursionError):
        tally.unparsed += 1
        return []
    pairs: list[tuple[float, str | float]] = []
    for item in items:
        match item:
            case [int() | float() as at, str() | int() | float() as value] if not isinstance(at, bool):
                pairs.append((_number(at), value))
            case _:
                tally.unparsed += 1
    return pairs


def _number(value: str | float) -> float:
    try:
        return float(value) if not isinstance(value, str) or "_" not in value else np.nan
    except (ValueError, OverflowError):
        return np.nan


def summed(parts: list[tuple[Times, Values]]) -> tuple[Times, Values]:
    """The sum of series that are parts of one number, at the times when all of them are told: a part that is silent
    must not look like a counter that fell."""
    at_ms = parts[0][0]
    for other, _ in parts[1:]:
        at_ms = np.intersect1d(at_ms, other)
    at_ms = np.unique(at_ms)
    total = np.zeros(len(at_ms))
    for times, values in parts:
        order = np.argsort(times, kind="stable")
        total += values[order][np.searchsorted(times[order], at_ms)]
    return at_ms, total
