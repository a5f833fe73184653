"""What the agents and pollers of a simulated site send, as records and matrices: no broker, no bytes of frames.

Sampling is that of live agents: telemetry once a second, sent every few seconds in turns and every second for a minute
after a severe event of the host; counters and modules of cables, switches and the facility at their own pace. Only the
columns that windows are made of are carried, many hosts in one matrix: what windows say is the same (tested).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Name, host_of
from sickbay.frames import Matrix, matrix_of
from sickbay.layouts import Layout, layout_of
from sickbay.schema import MISSING_COUNTER, TABLES, Samples
from simulator.noise.delivery import Delivery
from simulator.output.site_samples import OF_ADAPTERS
from simulator.parts.cluster import Cluster
from simulator.parts.told import Told
from simulator.world import Second
from streams.replay import wanted

FRAME_S = 5  # an agent sends a frame so often
FAST_S = 60  # so long after a severe event every second
MODULES_S, SITE_S = 60, 10  # modules of cables; switches, power and cooling


class Sent(NamedTuple):
    """What was sent in one second and comes so much later: rows of tables, and the hosts whose agents were heard."""

    late_ms: int

    matrices: tuple[Matrix, ...]
    hosts: tuple[str, ...]


class _Rows(NamedTuple):
    """One second of one table: a row for each part of the cluster, NaN and -1 where nothing is told."""

    layout: Layout
    at_ms: NDArray[np.int64]
    gauges: NDArray[np.float32]
    counters: NDArray[np.int64]
    there: NDArray[np.bool_]


@dataclass(slots=True)
class Senders:
    """All agents of a cluster. `interval_s`: between two samples. `road`: how long their frames travel; what comes
    twice is left out, as sequence numbers tell it."""

    cluster: Cluster
    interval_s: int = 1
    road: Delivery | None = None
    _held: list[tuple[int, dict[str, _Rows], dict[str, list[Samples]], NDArray[np.bool_]]] = field(default_factory=list)
    _sent_s: NDArray[np.int64] = field(init=False)  # by host: the second up to which all was sent
    _fast_s: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self._sent_s = np.full(len(self.cluster.hosts), -1, np.int64)
        self._fast_s = np.full(len(self.cluster.hosts), -1, np.int64)

    def alarmed(self, host: str, at_s: int) -> None:
        """A severe event was seen on a host."""
        row = self.cluster.host_index.get(host)
        if row is not None:
            self._fast_s[row] = at_s + FAST_S

    def second(self, second: Second, at_s: int) -> Iterator[Sent]:
        """Takes one second in; gives what is sent at its end, by how late it comes."""
        if at_s % self.interval_s == 0:
            self._hold(second, at_s)
        turn = (at_s + np.arange(len(self.cluster.hosts))) % FRAME_S == 0
        due = np.flatnonzero(turn | (self._fast_s >= at_s))
        late_ms = self._late_ms(second)[due]
        for late in np.unique(late_ms).tolist():
            yield self._sent(due[late_ms == late], late)
        self._sent_s[due] = at_s
        self._held = [one for one in self._held if one[0] > at_s - FRAME_S]
        if site := tuple(joined(self._site(second, at_s))):
            yield Sent(0, site, ())

    def _late_ms(self, second: Second) -> NDArray[np.int64]:
        """Of the frames that each host sends now, whole seconds: less than one is what `Delays` says."""
        if self.road is None or not isinstance(second.samples, Told):
            return np.zeros(len(self.cluster.hosts), np.int64)
        arrives, _ = self.road.times(second)
        return (arrives - second.at_ms) // 1000 * 1000

    def _sent(self, due: NDArray[np.intp], late_ms: int) -> Sent:
        """All that these hosts hold."""
        matrices: list[Matrix] = []
        heard = np.zeros(len(self.cluster.hosts), np.bool_)
        for held_s, tables, others, up in self._held:
            rows = due[up[due] & (self._sent_s[due] < held_s)]
            if not len(rows):
                continue
            heard[rows] = True
            matrices += [one for table, told in tables.items() if (one := self._matrix(table, told, rows)) is not None]
            matrices += [matrix_of(one) for row in rows for one in others.get(self.cluster.hosts[int(row)], ())]
        hosts = tuple(self.cluster.hosts[row] for row in np.flatnonzero(heard))
        return Sent(late_ms, tuple(joined(matrices)), hosts)

    def _hold(self, second: Second, at_s: int) -> None:
        others: dict[str, list[Samples]] = {}
        tables, up = self._columns(second, others)
        self._held.append((at_s, tables, others, up))

    def _columns(self, second: Second, others: dict[str, list[Samples]]) -> tuple[dict[str, _Rows], NDArray[np.bool_]]:
        told = second.samples
        up = np.array([host in told for host in self.cluster.hosts], np.bool_)
        if not isinstance(told, Told):
            others |= {host: [*samples] for host, samples in told.items()}
            return {}, up
        plain = up & np.array([host not in told.instead for host in self.cluster.hosts], np.bool_)
        others |= {host: [*told[host]] for host in told.instead if host in told}
        tables = {name: self._rows(name, columns, told, plain) for name, columns in _with_adapters(told, second)}
        return tables, up

    def _rows(
        self, table: str, columns: Mapping[str, NDArray[np.float64]], told: Told, plain: NDArray[np.bool_]
    ) -> _Rows:
        kept = [one for one in wanted(table) if one in columns]
        layout = layout_of(TABLES[table], kept)
        size = len(self.cluster.hosts) if table == "host" else len(self.cluster.cards)
        gauges = np.empty((size, len(layout.gauges)), np.float32)
        counters = np.empty((size, len(layout.counters)), np.int64)
        for place, column in enumerate(layout.gauges):
            gauges[:, place] = columns[column]
        for place, column in enumerate(layout.counters):
            values = np.asarray(columns[column], np.float64)
            counters[:, place] = np.where(values >= 0, values, MISSING_COUNTER)  # a missing one is not >= 0
        each = 1 if table == "host" else self.cluster.per_host
        there = np.repeat(plain, each)
        if table == "accelerator":
            there &= told.seen
        return _Rows(layout, np.repeat(told.at_ms, each), gauges, counters, there)

    def _matrix(self, table: str, told: _Rows, hosts: NDArray[np.intp]) -> Matrix | None:
        each = 1 if table == "host" else self.cluster.per_host
        rows = (hosts[:, None] * each + np.arange(each)).ravel()
        rows = rows[told.there[rows]]
        if not len(rows):
            return None
        names = self._names(table)
        return Matrix(
            told.layout, names, rows.astype(np.uint32), told.at_ms[rows], told.gauges[rows], told.counters[rows]
        )

    def _names(self, table: str) -> tuple[Name, ...]:
        return names_of(self.cluster, table)

    def _site(self, second: Second, at_s: int) -> Iterator[Matrix]:
        """What pollers ask: power and cooling, switches' ports, modules of both ends."""
        if at_s % SITE_S == 0:
            for samples in second.site:
                yield matrix_of(samples)
            if second.cables is not None:
                yield matrix_of(second.cables.leaf_ports(second.at_ms))
                uplinks = second.cables.uplink_ports(second.at_ms)
                yield from (matrix_of(uplinks),) if len(uplinks.component) else ()
        if at_s % MODULES_S == 0 and second.cables is not None:
            gone = frozenset(self.cluster.hosts) - set(second.samples)
            modules = second.cables.modules(second.at_ms)
            yield matrix_of(_kept(modules, [host_of(one) not in gone for one in modules.component]))


_NAMES: dict[tuple[int, str], tuple[Cluster, tuple[Name, ...]]] = {}


def names_of(cluster: Cluster, table: str) -> tuple[Name, ...]:
    """The names of a table's rows: always the same object, by which windows know a list again."""
    known = _NAMES.get((id(cluster), table))
    if known is None or known[0] is not cluster:
        _NAMES.clear() if len(_NAMES) > 8 else None
        made = {"accelerator": cluster.components, "port": cluster.ports}.get(table)
        known = cluster, tuple(made if made is not None else [f"host:{host}" for host in cluster.hosts])
        _NAMES[id(cluster), table] = known
    return known[1]


def joined(matrices: Iterable[Matrix]) -> Iterator[Matrix]:
    """Matrices of the same layout and names as one."""
    groups: dict[tuple[int, int], list[Matrix]] = {}
    for one in matrices:
        groups.setdefault((one.layout.id, id(one.names)), []).append(one)
    for same in groups.values():
        first = same[0]
        yield (
            first
            if len(same) == 1
            else Matrix(
                first.layout,
                first.names,
                np.concatenate([one.device for one in same]),
                np.concatenate([one.at_ms for one in same]),
                np.concatenate([one.gauges for one in same]),
                np.concatenate([one.counters for one in same]),
            )
        )


def _kept(samples: Samples, keep: Sequence[bool]) -> Samples:
    rows = np.flatnonzero(keep)
    values = {column: np.asarray(values)[rows] for column, values in samples.values.items()}
    return Samples(samples.table, [samples.component[row] for row in rows], np.asarray(samples.at_ms)[rows], values)


def _with_adapters(told: Told, second: Second) -> Iterator[tuple[str, Mapping[str, NDArray[np.float64]]]]:
    """The tables, that of ports with what the adapters' own statistics tell of cables."""
    for table, columns in told.tables.items():
        if table == "port" and second.cables is not None:
            hidden, seen = np.isnan(columns["up"]), second.cables.host_ports(second.at_ms).values
            yield table, {**columns, **{one: np.where(hidden, np.nan, seen[one]) for one in OF_ADAPTERS}}
        else:
            yield table, columns
