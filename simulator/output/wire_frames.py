"""Telemetry of a night as the frames that the hosts' agents send: every five seconds, hosts taking turns.

What all hosts tell alike goes from the columns into the frames where they stand, at the price of a copy. A host that
tells something else in one of a frame's seconds (cards that went blind, an agent that was down, columns that only it
has) gets a frame of its own, encoded anew. What comes out is what agents would have sent (tested against them).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sickbay import wire
from sickbay.frames import matrix_of
from sickbay.layouts import Layout, layout_of
from sickbay.schema import TABLES, Samples
from simulator.output.wire_buffers import Block, Buffers, Rows
from simulator.parts.cluster import Cluster
from simulator.parts.overlay import Columns
from simulator.parts.told import Told

FRAME_S = 5  # an agent sends a frame so often
Frame = tuple[str, memoryview | bytes]  # of a host; good until the next one is asked for


class Senders:
    """The agents of `hosts`, rows of the cluster. `layouts`: all that were sent so far, by id; `values`: how many."""

    def __init__(self, cluster: Cluster, hosts: range) -> None:
        self._cluster, self._hosts = cluster, hosts
        self._groups: list[_Group] = []
        self._blocks: dict[str, Block] = {}
        self._odd = np.zeros(len(cluster.hosts), bool)  # hosts that have columns of their own, for good
        self.layouts: dict[int, Layout] = {}

    @property
    def values(self) -> int:
        """Values that were sent so far, missing ones included."""
        return sum(group.values for group in self._groups)

    def take(self, told: Told, sent_ms: int) -> Iterator[Frame]:
        """One second of telemetry, and the frames that are sent at its end."""
        if not self._blocks:
            self._begin(told)
        self._look_for_own(told)
        for table, block in self._blocks.items():
            block.fill(told.tables[table])
        for group in self._groups:
            group.take(told, self._blocks, sent_ms, self._alike(told, group.hosts, group.cards))
            if group.slot(sent_ms) == FRAME_S - 1:
                yield from group.send(sent_ms, self.layouts)

    def _begin(self, told: Told) -> None:
        """Columns that are told from the begin make the frame; hosts whose frames are of one shape, a group."""
        layouts = {table: layout_of(TABLES[table], columns) for table, columns in told.tables.items()}
        cards = slice(self._rows(self._hosts[0]).start, self._rows(self._hosts[-1]).stop)
        whole = slice(self._hosts.start, self._hosts.stop)
        self._blocks = {table: Block(one, whole if table == "host" else cards) for table, one in layouts.items()}
        self.layouts = {one.id: one for one in layouts.values()}
        shapes: dict[tuple[int, ...], list[int]] = {}
        for row in self._hosts:
            shapes.setdefault((row % FRAME_S, *self._shape(row)), []).append(row)
        self._groups = [_Group(self._cluster, np.array(rows), layouts) for rows in shapes.values()]

    def _rows(self, host: int) -> slice:
        return self._cluster.rows(self._cluster.hosts[host])

    def _shape(self, host: int) -> tuple[int, ...]:
        rows, cluster = self._rows(host), self._cluster
        names = (cluster.components[rows], cluster.ports[rows])
        return (len(cluster.hosts[host].encode()), len(names[0]), *(len("\n".join(one).encode()) for one in names))

    def _alike(self, told: Told, hosts: Rows, cards: Rows) -> NDArray[np.bool_]:
        """Which hosts tell what the columns say, all of it, and nothing else."""
        alike = told.up[hosts] & told.seen[cards].all(axis=1) & ~self._odd[hosts]
        if told.instead:
            alike &= [self._cluster.hosts[row] not in told.instead for row in hosts.tolist()]
        return np.asarray(alike)

    def _look_for_own(self, told: Told) -> None:
        """A column that was not told from the begin belongs to the hosts that have something in it."""
        for table, columns in told.tables.items():
            layout, index = self._blocks[table].layout, self._cluster.host_index
            for column in columns.keys() - {*layout.gauges, *layout.counters}:
                for row in np.flatnonzero(np.nan_to_num(columns[column]) != 0).tolist():
                    self._odd[row if table == "host" else index[self._cluster.cards[row].host]] = True


@dataclass
class _Group:
    """Hosts that send at the same time frames of the same shape. Before the first turn some seconds are missing."""

    cluster: Cluster
    hosts: Rows
    layouts: dict[str, Layout]
    values: int = 0
    _begun: int = -1  # the slot of the first second that the buffers hold
    _odd: dict[tuple[int, int], Sequence[Samples]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._buffers = Buffers(self.cluster, self.hosts, self.layouts, FRAME_S)
        self._filled = np.zeros((len(self.hosts), FRAME_S), bool)
        self._sequence = np.zeros(len(self.hosts), np.uint64)

    @property
    def cards(self) -> Rows:
        """Rows of the cards, [hosts, parts]."""
        return self._buffers.cards

    def slot(self, sent_ms: int) -> int:
        """The place of a second in the frame that it goes into."""
        return (sent_ms // 1000 + int(self.hosts[0]) - 1) % FRAME_S

    def take(self, told: Told, blocks: dict[str, Block], sent_ms: int, alike: NDArray[np.bool_]) -> None:
        """One second."""
        slot = self.slot(sent_ms)
        if self._begun < 0:
            self._begin(slot)
        self._buffers.fill(slot - self._begun, blocks, told.at_ms[self.hosts])
        self._filled[:, slot - self._begun] = alike
        for place in np.flatnonzero(~alike).tolist():
            self._odd[place, slot - self._begun] = told.get(self._buffers.names[place], ())

    def _begin(self, slot: int) -> None:
        self._begun = slot
        if self._buffers.slots != FRAME_S - slot:
            self._buffers = Buffers(self.cluster, self.hosts, self.layouts, FRAME_S - slot)
            self._filled = np.zeros((len(self.hosts), self._buffers.slots), bool)

    def send(self, sent_ms: int, layouts: dict[int, Layout]) -> Iterator[Frame]:
        """The frames of this turn."""
        whole = self._filled.all(axis=1)
        own = [(place, self._own(place)) for place in np.flatnonzero(~whole).tolist()]
        self._sequence += whole
        self.values += self._buffers.values * int(whole.sum())
        for place, _ in (one for one in own if one[1]):
            self._sequence[place] += np.uint64(1)
        frames = self._buffers.seal(np.flatnonzero(whole).tolist(), self._sequence, sent_ms)
        yield from zip((self._buffers.names[place] for place in np.flatnonzero(whole).tolist()), frames, strict=True)
        yield from (self._encoded(place, samples, sent_ms, layouts) for place, samples in own if samples)
        self._odd.clear()
        self._begin(0)
        self._filled[:] = False

    def _own(self, place: int) -> list[Samples]:
        """What a host told that is not like the others, over the seconds of the frame."""
        told = [
            self._buffers.samples(self.cluster, place, slot)
            if self._filled[place, slot]
            else self._odd.get((place, slot), ())
            for slot in range(self._buffers.slots)
        ]
        return list(_joined(one for samples in told for one in samples))

    def _encoded(self, place: int, told: list[Samples], sent_ms: int, layouts: dict[int, Layout]) -> Frame:
        matrices, name = [matrix_of(one) for one in told], self._buffers.names[place]
        self.values += sum(one.gauges.size + one.counters.size for one in matrices)
        layouts.update({one.layout.id: one.layout for one in matrices if one.layout.id not in layouts})
        sequence, incarnation = int(self._sequence[place]), 1 + int(self.hosts[place])
        return name, wire.encode(name, matrices, sequence=sequence, incarnation=incarnation, sent_ms=sent_ms)


def _joined(told: Iterable[Samples]) -> Iterator[Samples]:
    """Batches of a table with the same columns as one, as an agent sends them."""
    groups: dict[tuple[str, frozenset[str]], list[Samples]] = {}
    for one in told:
        groups.setdefault((one.table, frozenset(one.values)), []).append(one)
    for (table, _), same in groups.items():
        names = [component for one in same for component in one.component]
        values: Columns = {column: np.concatenate([one.values[column] for one in same]) for column in same[0].values}
        yield Samples(table, names, np.concatenate([one.at_ms for one in same]), values)
