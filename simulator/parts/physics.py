"""What the sensors read: telemetry columns from what the cards do, once a second, all cards at a time."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.parts import models
from simulator.parts.cables import Strain
from simulator.parts.cluster import Cluster
from simulator.parts.overlay import Columns, Floats, Overlay
from simulator.parts.shelf import SHELF, Piece, Shelf


@dataclass(slots=True)
class Conditions:
    """What holds in one second. Effects write into it before the sensors are read. Rows as in the cluster."""

    mode: NDArray[np.int64]
    pace: Floats
    clock: Floats  # factor on the clock
    load: Floats  # work in a step, of the mode's: phases, stages and uneven shares of a job (see `workload.cycle`)
    flow: Floats  # bytes to the network and the host, likewise
    heat: Floats  # degrees above what the load explains
    throttled: Floats  # share of the second that heat holds the clock back
    lanes: Floats
    port_up: NDArray[np.bool_]
    seen: NDArray[np.bool_]  # the card's exporter gives values
    source_up: NDArray[np.bool_]  # per host
    host_up: NDArray[np.bool_]  # per host
    skew_ms: NDArray[np.int64]  # per host: its clock is ahead by so much
    memory_free: Floats  # per host, ratio
    replays: Floats  # new host-link replays in this second
    memory_errors: Floats  # new corrected errors of main memory, per host
    kills: Floats  # new out-of-memory kills, per host
    facility: dict[str, dict[str, float]] = field(
        default_factory=dict
    )  # unit: readings that stand instead of the usual
    cables: Strain = field(default_factory=Strain)
    mute: set[str] = field(default_factory=set)  # hosts whose agents nobody hears, though they run
    overlay: Overlay = field(default_factory=Overlay)  # any other reading, by table and column


def calm(cluster: Cluster) -> Conditions:
    """Conditions with nothing wrong and nothing running."""
    n, h = len(cluster.cards), len(cluster.hosts)
    return Conditions(
        mode=np.zeros(n, np.int64), pace=np.ones(n), clock=np.ones(n), load=np.ones(n), flow=np.ones(n),
        heat=np.zeros(n), throttled=np.zeros(n),
        lanes=np.full(n, 16.0), port_up=np.ones(n, bool), seen=np.ones(n, bool), source_up=np.ones(h, bool),
        host_up=np.ones(h, bool), memory_free=np.full(h, 0.78), replays=np.zeros(n), memory_errors=np.zeros(h),
        kills=np.zeros(h), skew_ms=np.zeros(h, np.int64),
    )  # fmt: skip


class Sensors:
    """Readings of all cards, ports and hosts, of a `Shelf` of hosts at a time: it does not matter who reads which.

    `which`: rows of the hosts that are read here, whole shelves; the others have zeros in all columns.
    """

    def __init__(self, cluster: Cluster, seed: int, boot_s: float, which: range | None = None) -> None:
        self.which, self._cluster = range(len(cluster.hosts)) if which is None else which, cluster
        starts = range(self.which.start, self.which.stop, SHELF)
        self._shelves = [Shelf(cluster, seed, boot_s, start, min(start + SHELF, self.which.stop)) for start in starts]
        self._sizes = {"accelerator": len(cluster.cards), "port": len(cluster.cards), "host": len(cluster.hosts)}
        self._added: dict[str, Columns] = {"accelerator": {}, "port": {}, "host": {}}  # to counters, by effects
        self._last: dict[str, Columns] = {}  # what was read in the second before

    def accelerators(self, now: Conditions) -> Columns:
        """The accelerator table for one second."""
        return self._told("accelerator", now, [(one.cards, one.accelerators(now)) for one in self._shelves])

    def ports(self, now: Conditions) -> Columns:
        """The port table for one second."""
        return self._told("port", now, [(one.cards, one.ports(now)) for one in self._shelves])

    def hosts(self, now: Conditions) -> Columns:
        """The host table for one second."""
        return self._told("host", now, [(one.hosts, one.hosts_read(now)) for one in self._shelves])

    def _told(self, table: str, now: Conditions, pieces: list[tuple[slice, Piece]]) -> Columns:
        """The pieces as whole columns, as the cards' models have them, and then as effects have it."""
        columns = {column: self._whole(table, column, pieces) for column in pieces[0][1]}
        built = self._as_built(table, columns)
        told = now.overlay.over(table, built, self._added[table], self._last.get(table))
        told = models.blanked(self._cluster, table, told)
        self._last[table] = told
        return told

    def _as_built(self, table: str, columns: Columns) -> Columns:
        """Levels and columns of each card's own model. A changed column must be a new array: constants are shared."""
        return models.fitted(self._cluster, table, columns)

    def _whole(self, table: str, column: str, pieces: list[tuple[slice, Piece]]) -> Floats:
        """One column of all rows; a constant is one number seen from all of them."""
        first = pieces[0][1][column]
        if isinstance(first, float):
            return np.broadcast_to(np.float64(first), self._sizes[table])
        whole = np.zeros(self._sizes[table])
        for rows, piece in pieces:
            whole[rows] = piece[column]
        return whole
