"""Frames of many hosts of one shape, filled in place a second at a time; see `telemetry_frames` for the places."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sickbay import wire
from sickbay.components import Kind, Name, name
from sickbay.frames import Matrix, samples_of
from sickbay.layouts import Layout
from sickbay.schema import MISSING_COUNTER, Samples
from simulator.parts.cluster import Cluster
from simulator.parts.overlay import Columns
from simulator.telemetry_frames import Frames, seal

_NAME_AT, _INCARNATION = 48, slice(24, 32)  # of a frame, see `wire`
Rows = NDArray[np.int64]


class Pieces(NamedTuple):
    """One table of all frames: `times` int64 [hosts, seconds, parts]; `gauges`, `counters` [..., columns]."""

    times: NDArray[np.int64]
    gauges: NDArray[np.float32]
    counters: NDArray[np.int64]


class Block:
    """One table of some neighbouring rows as frames hold it: `gauges` float32 and `counters` int64 [rows, columns]."""

    def __init__(self, layout: Layout, rows: slice) -> None:
        size = rows.stop - rows.start
        self.layout, self.rows = layout, rows
        self.gauges = np.full((size, len(layout.gauges)), np.nan, np.float32)
        self.counters = np.full((size, len(layout.counters)), MISSING_COUNTER, np.int64)
        self._constants: dict[str, float] = {}

    def fill(self, columns: Columns) -> None:
        """The rows of one second. What no frame can hold is missing, as in `frames.matrix_of`."""
        for place, column in enumerate(self.layout.gauges):
            if not self._stays(column, columns[column]):
                with np.errstate(over="ignore"):
                    self.gauges[:, place] = columns[column][self.rows]
        if np.isinf(self.gauges).any():
            self.gauges[np.isinf(self.gauges)] = np.nan
        for place, column in enumerate(self.layout.counters):
            if not self._stays(column, columns[column]):
                values = columns[column][self.rows]
                fits = (values >= 0) & (values < 2.0**63)
                self.counters[:, place] = np.where(fits, values, MISSING_COUNTER)

    def _stays(self, column: str, values: NDArray[np.float64]) -> bool:
        """It is the same number in all rows, as it was in the second before."""
        if values.strides != (0,):
            self._constants.pop(column, None)
            return False
        constant, was = float(values[0]), self._constants.get(column)
        self._constants[column] = constant
        return constant == was


class Buffers:
    """Frames of `hosts` (rows of the cluster), which have equally many parts and equally long names, `slots` seconds
    each. `cards` int64 [hosts, parts]."""

    def __init__(self, cluster: Cluster, hosts: Rows, layouts: Mapping[str, Layout], slots: int) -> None:
        self.hosts, self.slots = hosts, slots
        self.names = [cluster.hosts[row] for row in hosts.tolist()]
        self.cards: Rows = np.array([range(*cluster.rows(host).indices(1 << 60)) for host in self.names], np.int64)
        self._layouts = layouts
        first = wire.encode(self.names[0], self._empty(cluster, 0), sequence=1, incarnation=1, sent_ms=0)
        self._buffer = np.zeros((len(hosts), len(first) + -len(first) % 8), np.uint8)
        self._buffer[:] = np.frombuffer(first.ljust(self._buffer.shape[1], b"\0"), np.uint8)
        self.size = len(first)
        self._write_names(cluster)
        self._frames = Frames(self._buffer[:, : self.size])
        self._pieces = self._views()

    def _names(self, cluster: Cluster, place: int, table: str) -> tuple[Name, ...]:
        if table == "host":
            return (name(Kind.HOST, self.names[place]),)
        told = cluster.components if table == "accelerator" else cluster.ports
        return tuple(told[row] for row in self.cards[place].tolist())

    def _empty(self, cluster: Cluster, place: int) -> list[Matrix]:
        found = []
        for table, layout in self._layouts.items():
            names = self._names(cluster, place, table)
            rows = self.slots * len(names)
            device = np.tile(np.arange(len(names), dtype=np.uint16), self.slots)
            gauges = np.zeros((rows, len(layout.gauges)), np.float32)
            counters = np.zeros((rows, len(layout.counters)), np.int64)
            found.append(Matrix(layout, names, device, np.zeros(rows, np.int64), gauges, counters))
        return found

    def _write_names(self, cluster: Cluster) -> None:
        """The names of each host and its parts: all that differs between frames that hold nothing yet."""
        owners = np.frombuffer("".join(self.names).encode(), np.uint8).reshape(len(self.names), -1)
        self._buffer[:, _NAME_AT : _NAME_AT + owners.shape[1]] = owners
        told = [
            "".join("\n".join(self._names(cluster, place, table)) for table in self._layouts)
            for place in range(len(self.names))
        ]
        tails = np.frombuffer("".join(told).encode(), np.uint8).reshape(len(self.names), -1)
        self._buffer[:, self.size - tails.shape[1] : self.size] = tails
        self._buffer[:, _INCARNATION].view("<u8")[:, 0] = 1 + self.hosts

    @property
    def values(self) -> int:
        """Values that one frame holds."""
        return int(self._frames.counters.shape[1] + self._frames.gauges.shape[1])

    def _views(self) -> dict[str, Pieces]:
        hosts, frames, found = len(self.hosts), self._frames, dict[str, Pieces]()
        at = wide = tall = 0
        for table, layout in self._layouts.items():
            parts = 1 if table == "host" else self.cards.shape[1]
            rows, shape = parts * self.slots, (hosts, self.slots, parts)
            gauges, counters = rows * len(layout.gauges), rows * len(layout.counters)
            found[table] = Pieces(
                frames.times[:, at : at + rows].reshape(shape),
                frames.gauges[:, wide : wide + gauges].reshape(*shape, -1),
                frames.counters[:, tall : tall + counters].reshape(*shape, -1),
            )
            at, wide, tall = at + rows, wide + gauges, tall + counters
        return found

    def fill(self, slot: int, blocks: Mapping[str, Block], at_ms: NDArray[np.int64]) -> None:
        """One second. `at_ms` int64 [hosts]."""
        for table, piece in self._pieces.items():
            block = blocks[table]
            rows = (self.hosts[:, None] if table == "host" else self.cards) - block.rows.start
            piece.times[:, slot] = at_ms[:, None]
            piece.gauges[:, slot] = block.gauges[rows]
            piece.counters[:, slot] = block.counters[rows]

    def seal(self, places: Sequence[int], sequence: NDArray[np.uint64], sent_ms: int) -> Iterator[memoryview]:
        """The frames of some of the hosts. `sequence` uint64 [hosts]. They are good until the next `fill`."""
        self._frames.sequence[:, 0], self._frames.sent_ms[:] = sequence, sent_ms
        whole = self._buffer.data
        for place in places:
            frame = whole[place : place + 1].cast("B")[: self.size]
            seal(frame)
            yield frame

    def samples(self, cluster: Cluster, place: int, slot: int) -> list[Samples]:
        """What a host's frame holds of one second."""
        found = []
        for table, piece in self._pieces.items():
            names = self._names(cluster, place, table)
            device = np.arange(len(names), dtype=np.uint16)
            values = (piece.gauges[place, slot].copy(), piece.counters[place, slot].copy())
            matrix = Matrix(self._layouts[table], names, device, piece.times[place, slot].copy(), *values)
            found.append(samples_of(matrix))
        return found
