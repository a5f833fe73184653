"""Rows of a window on their way to the partition where those meet whom they are compared with.

Rows go by the job that ran on the component at the window's end, those of ports and optics by fabric plane, so that
both ends of a link meet; where neither is known by host or switch. Components and placements mostly stay the same from
window to window: then so does the split.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Kind, Name, name
from sickbay.placement import PlacementView
from sickbay.topics import partition_of
from streams.feature_record import Block, encode_parts
from streams.side_inputs import Facts, owner_of
from streams.window_core import Features

MOST_BYTES = 3 << 20  # of a record: the topic takes 4 MiB
OF_FABRIC = frozenset({"port", "optic"})  # tables whose rows go by plane


class _Part(NamedTuple):
    partition: int
    rows: NDArray[np.intp]
    names: tuple[Name, ...]
    blob: bytes


class _Split(NamedTuple):
    """A split and what it was made from."""

    names: tuple[Name, ...]
    running: object
    planes: object
    parts: list[_Part]


class Repartition:
    """The splits of one upstream partition, the newest of each table."""

    def __init__(self, upstream: int, partitions: int) -> None:
        self._upstream, self._partitions = upstream, partitions
        self._splits: dict[str, _Split] = {}

    def records(
        self, table: str, end_ms: int, features: Features, facts: Facts, *, stale: bool
    ) -> Iterator[tuple[int, bytes]]:
        """(partition, record) of each partition that gets rows of this window; of very many rows several records."""
        columns = "\n".join(features.columns).encode()
        parts = self._split(table, end_ms, features.names, facts)
        for part in (piece for whole in parts for piece in _pieces(whole, len(features.columns))):
            values = features.values[:, part.rows]
            block = Block(table, end_ms, part.names, features.columns, values, stale, self._upstream)
            yield part.partition, encode_parts(block, columns, part.blob)

    def _split(self, table: str, end_ms: int, names: tuple[Name, ...], facts: Facts) -> list[_Part]:
        by_plane = table in OF_FABRIC
        running = None if by_plane else facts.placements.at(end_ms)
        planes = facts.fabric.planes(end_ms) if by_plane else None
        split = self._splits.get(table)
        if split is None or split.running is not running or split.planes is not planes or split.names != names:
            if running is None:
                places = by_fabric(names, planes or {}, self._partitions)
            else:
                places = by_job(names, running, self._partitions)
            split = self._splits[table] = _Split(names, running, planes, _parts(names, places))
        return split.parts


def _pieces(part: _Part, columns: int) -> Iterator[_Part]:
    """The part, in as many records as it takes."""
    if len(part.blob) + 4 * columns * len(part.names) <= MOST_BYTES or len(part.names) < 2:
        yield part
        return
    half = len(part.names) // 2
    for rows in (slice(None, half), slice(half, None)):
        names = part.names[rows]
        yield from _pieces(_Part(part.partition, part.rows[rows], names, "\n".join(names).encode()), columns)


def by_job(names: Sequence[Name], running: PlacementView, partitions: int) -> list[int]:
    """The partition of each component: that of its job."""
    hosts, jobs, found = dict[str, int | None](), dict[str, int](), list[int]()
    for component in names:
        host = owner_of(component)
        place = hosts.get(host, -1)
        if place == -1:
            place = hosts[host] = _of_host(host, running, partitions)
        if place is None:  # several jobs share the host: some of its parts may be one's alone
            job = running.job_of(component)
            key = host if job is None else job.job
            place = jobs.get(key, -1)
            if place == -1:
                place = jobs[key] = partition_of(key.encode(), partitions)
        found.append(place)
    return found


def _of_host(host: str, running: PlacementView, partitions: int) -> int | None:
    """The partition of all parts of a host; None where they may differ."""
    jobs = running.jobs_of(name(Kind.HOST, host))
    if len(jobs) > 1:
        return None
    return partition_of((jobs[0].job if jobs else host).encode(), partitions)


def by_fabric(names: Sequence[Name], planes: Mapping[Name, int], partitions: int) -> list[int]:
    """The partition of each port or optic: that of its plane."""
    hosts, found = dict[str, int](), list[int]()
    for component in names:
        plane = planes.get(component)
        if plane is None and planes and component.startswith(_OPTIC):
            plane = planes.get(_PORT + component[len(_OPTIC) :])
        if plane is None:
            host = owner_of(component)
            place = hosts.get(host, -1)
            if place == -1:
                place = hosts[host] = partition_of(host.encode(), partitions)
        else:
            place = plane % partitions
        found.append(place)
    return found


_OPTIC, _PORT = f"{Kind.OPTIC}:", f"{Kind.PORT}:"


def _parts(names: tuple[Name, ...], places: Sequence[int]) -> list[_Part]:
    """Rows of each partition, in the order of the names."""
    told, found = np.array(places, np.intp), list[_Part]()
    for partition in sorted(set(places)):
        rows = np.flatnonzero(told == partition)
        own = tuple(names[row] for row in rows.tolist())
        found.append(_Part(partition, rows, own, "\n".join(own).encode()))
    return found
