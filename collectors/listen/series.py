"""Series of a request as samples, events and identities: the mapping of scrapes, for what comes in pieces.

A sender cuts one scrape into several requests, so three things that a whole scrape tells must be remembered: which
names belong together, which codes were told already, and the parts of numbers that are sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from collectors.formats.metric_names import HOST_INFO, NIC_INFO, UP, targets
from collectors.formats.reading import Reading, Tally
from collectors.formats.series_events import CodeEvents
from collectors.formats.series_matrix import Series, readings
from collectors.formats.series_names import Names
from collectors.identity import Names as Joined
from collectors.listen import Allowed, Request, Told, kept, owner
from collectors.naming import Cards, identity_key
from collectors.poll import Outgoing
from sickbay.clock import Clock
from sickbay.components import UNKNOWN, Kind, Name, host_of
from sickbay.messages import Event, Identity, replace
from sickbay.schema import TABLES, Samples
from sickbay.topics import EVENTS, TOPOLOGY

ROTATE_MS = 120_000  # a fault that stands only while its series is there is over when it was not told for so long
SETTLE_MS = 60_000  # a part that is new may not be the last one: a sum of some would look like a counter that jumps
MAX_SUMS, MAX_PARTS = 50_000, 256
MAX_HOSTS = 20_000
MAX_SERIES = 200_000  # where the settings say nothing
HOUR_MS = 3_600_000
NO_HOST = "no label tells the host: add a label hostname, or scrape hosts by their names"
_NO_NAMES = Joined(())
_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Sum:
    """One number in parts: the newest value of each, and since when there is no new part."""

    parts: dict[tuple[str, ...], tuple[float, float, Series]] = field(default_factory=dict)
    since_ms: float = 0.0


@dataclass(slots=True)
class Sums:
    """Parts of numbers that wait for the others of the same time."""

    held: dict[_Key, _Sum] = field(default_factory=dict)

    def whole(self, found: Sequence[Series]) -> list[Series]:
        """The series without those that are parts; parts as soon as all that are known tell of the same time."""
        whole: list[Series] = []
        for series in found:
            target = targets().get(series.labels.get("__name__", ""))
            if target is None or not target.metric.sum_over:
                whole.append(series)
            else:
                whole += self._taken(series, target.metric.sum_over)
        return whole

    def _taken(self, series: Series, over: tuple[str, ...]) -> list[Series]:
        assert isinstance(series.points, tuple)
        rest = tuple(sorted((name, value) for name, value in series.labels.items() if name not in over))
        key, part = (series.labels["__name__"], rest), tuple(series.labels.get(label, "") for label in over)
        if key not in self.held and len(self.held) >= MAX_SUMS:
            return []
        held, complete = self.held.setdefault(key, _Sum()), list[Series]()
        for at_ms, value in zip(*(column.tolist() for column in series.points), strict=True):
            if part not in held.parts:
                if len(held.parts) >= MAX_PARTS:
                    return []
                held.since_ms = at_ms
            elif held.parts[part][0] >= at_ms:
                continue
            held.parts[part] = (at_ms, value, series)
            if at_ms - held.since_ms >= SETTLE_MS and all(one[0] == at_ms for one in held.parts.values()):
                complete += [_at(one, at_ms, value) for at_ms, value, one in held.parts.values()]
        return complete

    def copy(self) -> "Sums":
        """A copy that changes apart."""
        return Sums({key: _Sum(dict(one.parts), one.since_ms) for key, one in self.held.items()})


def _at(series: Series, at_ms: float, value: float) -> Series:
    return Series(series.labels, (np.array([at_ms]), np.array([value])))


@dataclass(slots=True)
class SeenSeries:
    """The series of a token in this hour and the one before: at most `most` in each."""

    most: int
    hour: int = 0
    now: set[int] = field(default_factory=set)
    before: set[int] = field(default_factory=set)

    def admits(self, labels: dict[str, str], now_ms: int) -> bool:
        """Whether there is room for the series, or it was there before."""
        if now_ms // HOUR_MS != self.hour:
            self.hour, self.before, self.now = now_ms // HOUR_MS, self.now, set()
        key = hash(frozenset(labels.items()))
        if key not in self.now:
            if len(self.now) >= self.most or (key not in self.before and len(self.now) + len(self.before) >= 2 * self.most):
                return False
            self.now.add(key)
        return True


@dataclass(slots=True)
class SeriesMemory:
    """What one token's series have taught and told."""

    names: Names = field(default_factory=Names)
    codes: CodeEvents = field(default_factory=CodeEvents)
    sums: Sums = field(default_factory=Sums)
    cards: dict[str, Cards] = field(default_factory=dict)  # by host
    rotated_ms: int = 0
    seen: "SeenSeries" = field(default_factory=lambda: SeenSeries(MAX_SERIES))

    def copy(self) -> "SeriesMemory":
        """A copy that changes apart: what could not be stored comes again, and must be news again."""
        names, codes = self.names, self.codes
        return SeriesMemory(
            Names(dict(names.host_of), dict(names.up_of), dict(names.pci_of_uuid), set(names.told)),
            CodeEvents(dict(codes.shown), set(codes.there), set(codes.now_there)),
            self.sums.copy(),
            dict(self.cards),
            self.rotated_ms,
            self.seen,  # a series that is seen twice counts once
        )

    def rotate(self, now_ms: int) -> None:
        """Forget faults whose series were not there for a while."""
        if abs(now_ms - self.rotated_ms) >= ROTATE_MS:
            self.rotated_ms = now_ms
            self.codes.end_of_scrape()

    def learn(self, one: Identity) -> bool:
        """Take a device's names; whether they are news."""
        cards = self.cards.get(one.host)
        if cards is None and len(self.cards) >= MAX_HOSTS:
            return False
        fresh = Cards([] if cards is None else cards.known)
        news = bool(fresh.learn([one]))
        self.cards[one.host] = fresh if news or cards is None else cards
        return news

    def canonical(self, component: Name, host: str = UNKNOWN) -> Name:
        """The component's one name."""
        cards = self.cards.get(host_of(component) or host)
        return (cards.names if cards else _NO_NAMES).canonical(component, host)


def told_of(found: Sequence[Series], request: Request, memory: SeriesMemory, allowed: Allowed, told: Told) -> None:
    """Adds to `told` what the series tell, as far as the sender may tell it."""
    tally = Tally()
    memory.rotate(request.now_ms)
    found = _within(found, request, memory, told)
    batches: list[Samples] = []
    for reading in readings(memory.sums.whole(found), tally, "", memory.names, memory.codes):
        record = reading.record
        if isinstance(record, Samples):
            batches.append(record)
        elif isinstance(record, Identity):
            _identity(record, memory, allowed, told)
        elif isinstance(record, Event):
            _event(reading, record, request, memory, allowed, told)
    if tally.unparsed:
        told.refuse("unparsed", tally.unparsed)
    for batch in wide(batches):
        _samples(batch, memory, allowed, told)
    _count(found, memory, allowed, told)


def _within(found: Sequence[Series], request: Request, memory: SeriesMemory, told: Told) -> list[Series]:
    """The series that the token's share has room for."""
    kept_ = [series for series in found if memory.seen.admits(series.labels, request.now_ms)]
    if left := len(found) - len(kept_):
        note = f"more than {memory.seen.most} series of this token in an hour: drop labels that change"
        told.refuse("cardinality", left, note, 429)
    return kept_


def _count(found: Sequence[Series], memory: SeriesMemory, allowed: Allowed, told: Told) -> None:
    """How many samples were taken, and why others were not."""
    hosts: dict[str, bool] = {}
    for series in found:
        if series.labels["__name__"] in (UP, HOST_INFO, NIC_INFO):  # of every target, whether we follow it or not
            continue
        host, rows = memory.names.host(series.labels), len(series.points[0]) if isinstance(series.points, tuple) else 0
        if host not in hosts:
            hosts[host] = host != UNKNOWN and allowed(f"{Kind.HOST}:{host}")
        if hosts[host]:
            told.written += rows
        elif host == UNKNOWN:
            told.refuse("no_host", rows, NO_HOST)
        else:
            told.refuse("host", rows, f"{host} is not a host that this token may tell of", 403)


def _identity(record: Identity, memory: SeriesMemory, allowed: Allowed, told: Told) -> None:
    if record.host == UNKNOWN or not allowed(f"{Kind.HOST}:{record.host}"):
        return  # its samples are counted
    if memory.learn(record):
        told.records.append(Outgoing(TOPOLOGY, identity_key(record), record))


def _event(
    reading: Reading, event: Event, request: Request, memory: SeriesMemory, allowed: Allowed, told: Told
) -> None:
    component = memory.canonical(event.component)
    if host_of(component) is not None and allowed(component):
        at_ms = reading.stamp.ms if reading.stamp.clock is Clock.ABSOLUTE else request.now_ms
        at_ms, host = min(at_ms, request.now_ms), owner(component)
        path = f"{request.sender} series"
        event = replace(event, component=component, host=host, at_ms=at_ms, seen_ms=request.now_ms, path=path)
        told.records.append(Outgoing(EVENTS, host, event))


def _samples(batch: Samples, memory: SeriesMemory, allowed: Allowed, told: Told) -> None:
    names = {one: memory.canonical(one) for one in dict.fromkeys(batch.component)}
    may = kept(list(names.values()), lambda name: host_of(name) is not None and allowed(name))
    rows = np.array([may[names[one]] for one in batch.component], bool)
    if rows.any():
        values = {column: told_[rows] for column, told_ in batch.values.items()}
        component = [names[one] for one, yes in zip(batch.component, rows, strict=True) if yes]
        told.samples.append(Samples(batch.table, component, batch.at_ms[rows], values))


def wide(batches: Sequence[Samples]) -> list[Samples]:
    """One row of all columns a component and time, instead of one a series; rows that tell nothing are left out.

    Where two series tell one cell, the worse one stands, as everywhere.
    """
    tables: dict[str, dict[tuple[Name, int], int]] = {}
    columns: dict[str, dict[str, list[tuple[list[int], list[float]]]]] = {}
    for batch in batches:
        places = tables.setdefault(batch.table, {})
        rows = [places.setdefault(key, len(places)) for key in zip(batch.component, batch.at_ms.tolist(), strict=True)]
        for column, values in batch.values.items():
            columns.setdefault(batch.table, {}).setdefault(column, []).append((rows, values.tolist()))
    return [
        made for table, places in tables.items() if (made := _table(table, list(places), columns[table])) is not None
    ]


def _table(
    table: str, keys: list[tuple[Name, int]], columns: dict[str, list[tuple[list[int], list[float]]]]
) -> Samples | None:
    values = {column: np.full(len(keys), np.nan) for column in columns}
    for column, pieces in columns.items():
        worse = np.fmin if TABLES[table].column(column).low else np.fmax
        for rows, told in pieces:
            values[column][rows] = worse(values[column][rows], told)
    known = ~np.all([np.isnan(column) for column in values.values()], axis=0)
    if not known.any():
        return None
    component = [name for (name, _), yes in zip(keys, known, strict=True) if yes]
    at_ms = np.array([at for _, at in keys], np.int64)[known]
    return Samples(table, component, at_ms, {column: told[known] for column, told in values.items()})
