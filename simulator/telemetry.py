"""Telemetry of a calm cluster of any size, as columns: load for benchmarks, and input for those who test streams.

Every value is a function of the seed, the component and the second alone: counters have a closed form, noise is looked
up in a table from a place and a stride of the component's own. So it does not matter which hosts and seconds are asked
for together, or in which order. All cards of a job go through the same step cycle; each has small offsets of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Kind, Name, name
from sickbay.frames import Matrix, samples_of
from sickbay.layouts import Layout, layout_of
from sickbay.messages import Edge, Placement, Relation
from sickbay.schema import TABLES, Samples
from simulator.parts.cluster import ACCELERATOR_PCI, NIC_PCI
from simulator.telemetry_columns import Moment, accelerators, hosts, ports

PER_HOST = 8
SIZES = (512, 256, 128, 64, 32, 16, 8)  # hosts of the jobs, over and over: most cards are in large jobs
BEGIN_S = 1_700_000_000  # counters are counted from here
TABLE = 1 << 16  # places in the table of noise
CHUNK = 64  # hosts worked on at a time: their columns stay in the processor's cache
COLUMNS = {"accelerator": accelerators, "port": ports, "host": hosts}


class Job(NamedTuple):
    """A job on consecutive hosts, with its step cycle: `busy` is the share of a step spent in compute."""

    id: str
    hosts: range
    step_s: float
    busy: float
    phase_s: float


class Block(NamedTuple):
    """Values of one table: `gauges` float32 [hosts, seconds, parts, g], `counters` int64 [hosts, seconds, parts, c]."""

    layout: Layout
    gauges: NDArray[np.float32]
    counters: NDArray[np.int64]


@dataclass(frozen=True)
class Fleet:
    """A cluster of `hosts` hosts with eight cards and eight ports each, all of them in jobs."""

    seed: int
    hosts: int
    sizes: Sequence[int] = SIZES  # of the jobs in hosts, repeated until all hosts are taken

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs, in the order of their hosts; the last one may be smaller than it asked for."""
        rng, found, first = np.random.default_rng([self.seed, 0]), list[Job](), 0
        while first < self.hosts:
            size = min(self.sizes[len(found) % len(self.sizes)], self.hosts - first)
            step_s, busy, phase_s = float(rng.uniform(3, 9)), float(rng.uniform(0.75, 0.9)), float(rng.uniform(0, 9))
            found.append(Job(f"{len(found) + 1:05d}", range(first, first + size), step_s, busy, phase_s))
            first += size
        return tuple(found)

    def host(self, row: int) -> str:
        """The name of a host; all names are equally long."""
        return f"n{row:06d}"

    def names(self, table: str, row: int) -> tuple[Name, ...]:
        """The components of a host that a table tells of, in the order of its parts."""
        host = self.host(row)
        if table == "host":
            return (name(Kind.HOST, host),)
        if table == "accelerator":
            return tuple(name(Kind.ACCELERATOR, host, f"0000:{place}") for place in ACCELERATOR_PCI)
        return tuple(name(Kind.PORT, host, f"enp{int(place[:2], 16)}s0np0") for place in NIC_PCI)

    def placements(self) -> Iterator[Placement]:
        """Which job runs where, as a scheduler tells it."""
        for job in self.jobs:
            hosts = tuple(map(self.host, job.hosts))
            yield Placement(job=job.id, hosts=hosts, state="running", exclusive=True, from_ms=BEGIN_S * 1000)

    def edges(self, hosts_per_leaf: int = 256) -> Iterator[Edge]:
        """The links of a rail-optimised fabric: each port hangs on the leaf of its number in the host's pod."""
        for row in range(self.hosts):
            pod, socket = divmod(row, hosts_per_leaf)
            for rail, port in enumerate(self.names("port", row)):
                leaf = name(Kind.PORT, f"leaf-{pod:03d}-{rail + 1}", f"Ethernet{socket * 4}")
                yield Edge(child=port, parent=leaf, relation=Relation.LINK_END, source="lldp")

    def block(self, table: str, rows: range, second: int, seconds: int = 1) -> Block:
        """All columns of one table for consecutive hosts and seconds; `second` since 1970."""
        layout, parts = layout_of(TABLES[table]), 1 if table == "host" else PER_HOST
        shape = (len(rows), seconds, parts)
        gauges = np.empty((*shape, len(layout.gauges)), np.float32)
        counters = np.empty((*shape, len(layout.counters)), np.int64)
        for first in range(0, len(rows), CHUNK):
            piece = slice(first, first + CHUNK)
            values = COLUMNS[table](self._moment(rows[piece], second, seconds, parts))
            for place, column in enumerate(layout.gauges):
                gauges[piece, ..., place] = values.get(column, 0.0)
            for place, column in enumerate(layout.counters):
                counters[piece, ..., place] = values.get(column, 0)
        return Block(layout, gauges, counters)

    def matrices(self, rows: range, second: int, seconds: int = 1) -> Iterator[tuple[str, tuple[Matrix, ...]]]:
        """What each host's frame of an interval holds; rows are ordered by time and then by part."""
        for first in range(0, len(rows), CHUNK):
            chunk = rows[first : first + CHUNK]
            blocks = [self.block(table, chunk, second, seconds) for table in COLUMNS]
            for place, row in enumerate(chunk):
                yield self.host(row), tuple(self._matrix(block, place, row, second) for block in blocks)

    def samples(self, rows: range, second: int, seconds: int = 1) -> Iterator[Samples]:
        """The same as samples, a table and host at a time."""
        for _, tables in self.matrices(rows, second, seconds):
            yield from map(samples_of, tables)

    def _matrix(self, block: Block, place: int, row: int, second: int) -> Matrix:
        _, seconds, parts, _ = block.gauges.shape
        device = np.tile(np.arange(parts, dtype=np.uint16), seconds)
        at_ms = np.repeat((second + np.arange(seconds, dtype=np.int64)) * 1000 + lag_ms(row), parts)
        names = self.names(block.layout.table, row)
        wide, tall = (values[place].reshape(seconds * parts, -1) for values in (block.gauges, block.counters))
        return Matrix(block.layout, names, device, at_ms, wide, tall)

    def _moment(self, rows: range, second: int, seconds: int, parts: int) -> Moment:
        devices = slice(rows.start * parts, rows.stop * parts)
        times = second - BEGIN_S + np.arange(seconds)
        traits = self._traits
        place = (traits.place[devices].reshape(-1, 1, parts) + traits.stride[devices].reshape(-1, 1, parts)
                 * times.astype(np.int64)[:, None])  # fmt: skip
        own = traits.own[:, devices].reshape(len(traits.own), -1, 1, parts)
        return Moment(times.astype(np.float64)[:, None], self._done(rows, times), place, own, traits.noise)

    def _done(self, rows: range, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds of compute since the begin, [2, hosts, seconds, 1]: up to each second and up to the one before."""
        step, busy, phase = self._cycles[:, rows.start : rows.stop, None]
        steps = (np.stack([times, times - 1])[:, None] + phase) / step
        whole = np.floor(steps)
        return np.asarray(step * (whole * busy + np.minimum(steps - whole, busy)))[..., None]

    @cached_property
    def _cycles(self) -> NDArray[np.float64]:
        """Step, share and phase of each host's job, [3, hosts]."""
        told = [(job.step_s, job.busy, job.phase_s) for job in self.jobs]
        return np.repeat(np.array(told).T, [len(job.hosts) for job in self.jobs], axis=1)

    @cached_property
    def _traits(self) -> "_Traits":
        """A fleet's first hosts are the same however many follow: each array is drawn from a generator of its own."""
        count = self.hosts * PER_HOST
        draws = [np.random.default_rng([self.seed, number]) for number in range(1, 7)]
        noise = np.clip(draws[0].standard_normal(TABLE), -2.5, 2.5).astype(np.float32)
        strides = draws[1].integers(0, TABLE // 2, count) * 2 + 1
        own = np.stack([draw.standard_normal(count) for draw in draws[3:]])
        return _Traits(draws[2].integers(0, TABLE, count), strides, own, noise)


class _Traits(NamedTuple):
    place: NDArray[np.int64]  # of each card in the table of noise
    stride: NDArray[np.int64]  # by which it goes on each second: odd, so that it comes by every place
    own: NDArray[np.float64]  # offsets of each card: of power, warmth and speed, in deviations
    noise: NDArray[np.float32]


def lag_ms(row: int) -> int:
    """By how much a host samples after the full second: hosts do not sample at once."""
    return row * 37 % 1000
