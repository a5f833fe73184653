"""What sources of noise share: seconds with other readings, spells that come and go, and which hosts are idle."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sickbay.schema import TABLES
from simulator.parts.overlay import Columns, Floats
from simulator.parts.told import OF_HOSTS, Told
from simulator.world import Second

Rows: TypeAlias = NDArray[np.int64]
Source: TypeAlias = Callable[[Iterator[Second], float, np.random.Generator], Iterator[Second]]
HOUR_S = 3_600.0

COUNTERS = {
    table.name: tuple(column.name for column in table.columns if column.type == "counter" and "boot" not in column.name)
    for table in TABLES.values()
}


def told_of(second: Second) -> Told:
    """The columns of a second. Raises TypeError where it has none."""
    if not isinstance(second.samples, Told):
        raise TypeError("noise works on columns: put it behind the world, before anything that makes samples")
    return second.samples


def with_columns(second: Second, changed: Mapping[str, Columns]) -> Second:
    """The second with other columns; those that are not named stay."""
    told = told_of(second)
    tables = {table: {**columns, **changed.get(table, {})} for table, columns in told.tables.items()}
    return replace(second, samples=replace(told, tables=tables))


def column(told: Told, table: str, name: str) -> Floats | None:
    """A copy of a column, None where the table does not tell it."""
    found = told.tables.get(table, {}).get(name)
    return None if found is None else np.array(found, float)


def size_of(told: Told, table: str) -> int:
    """Rows of a table."""
    return len(told.cluster.hosts) if table == OF_HOSTS else len(told.cluster.cards)


def cards_of(told: Told, hosts: Rows) -> Rows:
    """Rows of the cards of hosts, given by their rows."""
    each = told.cluster.per_host
    return (np.asarray(hosts, np.int64)[:, None] * each + np.arange(each)).ravel()


def some(rng: np.random.Generator, rate: float, size: int) -> Rows:
    """Rows that something happens to in this second; `rate`: events per row and hour."""
    many = int(rng.poisson(rate * size / HOUR_S)) if rate > 0 else 0
    return rng.integers(0, size, many).astype(np.int64)


@dataclass(slots=True)
class Spells:
    """Spells of single rows: they begin at `rate` per row and hour and last `least` to `most` seconds."""

    rate: float
    least: int
    most: int
    _left: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def tick(self, rng: np.random.Generator, size: int) -> tuple[Rows, Rows, Rows]:
        """One second: rows in a spell, those whose spell began now, those whose spell ended now."""
        if len(self._left) != size:
            self._left = np.zeros(size, np.int64)
        was = self._left > 0
        self._left[was] -= 1
        began = np.unique(some(rng, self.rate, size))
        lengths = rng.integers(self.least, self.most + 1, len(began))
        began, lengths = began[~was[began]], lengths[~was[began]]
        self._left[began] = lengths
        now = self._left > 0
        return np.flatnonzero(now), began, np.flatnonzero(was & ~now)


@dataclass(slots=True)
class Idle:
    """Which hosts no job uses, as placements tell."""

    _used: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def rows(self, second: Second) -> Rows:
        """Rows of idle hosts in this second."""
        for placement in second.placements:
            self._used[placement.job] = placement.hosts
        used = {host for hosts in self._used.values() for host in hosts}
        hosts = told_of(second).cluster.hosts
        return np.array([row for row, host in enumerate(hosts) if host not in used], np.int64)
