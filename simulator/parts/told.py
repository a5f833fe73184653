"""What the agents of all hosts read in one second, kept as columns; each host's samples are made when asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Kind, Name, name
from sickbay.schema import Samples
from simulator.parts.cluster import Cluster
from simulator.parts.overlay import Columns

OF_HOSTS = "host"  # the table with a row for each host; the others have one for each card


@dataclass(frozen=True, eq=False)
class Told(Mapping[str, tuple[Samples, ...]]):
    """By host, in the cluster's order: its samples. A host whose agent is gone is left out.

    `tables`: table -> column -> float64 [cards], of `host` [hosts]; rows as in the cluster, NaN where nothing is told.
    `at_ms` int64 [hosts]; `up` bool [hosts]; `seen` bool [cards]: the accelerator exporter tells of the card.
    `hosts`: rows of the hosts that were read at all. `instead`: what hosts told that did not tell what the columns say;
    an empty tuple: an agent without readings, None: none.
    """

    cluster: Cluster
    tables: Mapping[str, Columns]
    at_ms: NDArray[np.int64]
    up: NDArray[np.bool_]
    seen: NDArray[np.bool_]
    hosts: range
    instead: Mapping[str, tuple[Samples, ...] | None] = field(default_factory=dict)

    def __getitem__(self, host: str) -> tuple[Samples, ...]:
        if host in self.instead:
            told = self.instead[host]
            if told is None:
                raise KeyError(host)
            return told
        row = self.cluster.host_index[host]
        if row not in self.hosts or not self.up[row]:
            raise KeyError(host)
        return tuple(self._samples(host, row))

    def __iter__(self) -> Iterator[str]:
        return iter(self._present)

    def __len__(self) -> int:
        return len(self._present)

    def __contains__(self, host: object) -> bool:
        return host in self._present

    def changed(self, instead: Mapping[str, tuple[Samples, ...] | None]) -> "Told":
        """The same with what these hosts told instead; None: the host tells nothing."""
        return replace(self, instead={**self.instead, **instead})

    @cached_property
    def _present(self) -> dict[str, None]:
        told = ((host, bool(self.up[row])) for row, host in self._read())
        return {host: None for host, up in told if (self.instead[host] is not None if host in self.instead else up)}

    def _read(self) -> Iterator[tuple[int, str]]:
        return ((row, self.cluster.hosts[row]) for row in self.hosts)

    def _samples(self, host: str, row: int) -> Iterator[Samples]:
        rows, at_ms = self.cluster.rows(host), int(self.at_ms[row])
        names = {"accelerator": self.cluster.components, "port": self.cluster.ports}
        for table, columns in self.tables.items():
            if table == OF_HOSTS:
                yield self._part(table, [name(Kind.HOST, host)], columns, np.array([row]), at_ms)
                continue
            keep = np.arange(rows.start, rows.stop)
            keep = keep[self.seen[rows]] if table == "accelerator" else keep
            if len(keep):
                yield self._part(table, [names[table][i] for i in keep.tolist()], columns, keep, at_ms)

    @staticmethod
    def _part(table: str, names: list[Name], columns: Columns, keep: NDArray[np.int64], at_ms: int) -> Samples:
        values = {column: np.asarray(numbers[keep], float) for column, numbers in columns.items()}
        return Samples(table, names, np.full(len(keep), at_ms, np.int64), values)
