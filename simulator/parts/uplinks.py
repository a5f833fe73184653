"""Links from the leaves up to the spines, and what the ports at both ends of them count.

They are those of the cluster's own `Plan`; without one a leaf has an uplink for two cards, four at least, spread over
four spines. Half of what its cards move goes up, in equal parts unless the hashing of the switch has it otherwise.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Kind, Name, link, name
from sickbay.schema import Samples
from simulator.parts.cluster import Cluster
from simulator.parts.fabrics import Trunk

if TYPE_CHECKING:
    from simulator.parts.cables import Strain

Floats = NDArray[np.float64]
SPINES, LEAST = 4, 4
BYTES = 1e11  # a second, of one uplink
UPWARD = 0.5  # share of the cards' traffic that leaves their switch


@dataclass(frozen=True, slots=True)
class Uplink:
    """One link between a leaf and a spine."""

    leaf: str
    leaf_port: str
    spine: str
    spine_port: str

    @property
    def ends(self) -> tuple[Name, Name]:
        """The ports at the leaf and at the spine."""
        return name(Kind.PORT, self.leaf, self.leaf_port), name(Kind.PORT, self.spine, self.spine_port)

    @property
    def component(self) -> Name:
        """The link."""
        return link(f"{self.leaf}/{self.leaf_port}", f"{self.spine}/{self.spine_port}")


def spines(cluster: Cluster) -> tuple[str, ...]:
    """Names of the spines."""
    if cluster.switches:
        return tuple(spine for pod in cluster.switches.spines for spine in pod)
    return tuple(f"spine-{number + 1:02d}" for number in range(SPINES)) if _ethernet(cluster) else ()


def uplinks(cluster: Cluster) -> tuple[Uplink, ...]:
    """All of them, by leaf. Of an InfiniBand fabric without a plan none are read here: its sweeps tell them."""
    if cluster.switches:
        return tuple(map(_planned, cluster.switches.lower_trunks))
    return tuple(one for place in range(len(cluster.leaves)) for one in _of(cluster, place))


def uplinks_of(cluster: Cluster, leaf: str) -> tuple[tuple[int, Uplink], ...]:
    """Those of a leaf, with their rows among all."""
    if cluster.switches:
        first, many = cluster.switches.leaves.index(leaf) * cluster.switches.up, cluster.switches.up
        own = cluster.switches.lower_trunks[first : first + many]
        return tuple((first + number, _planned(one)) for number, one in enumerate(own))
    place = cluster.leaves.index(leaf)
    first = sum(_each(cluster, before) for before in range(place))
    return tuple((first + number, one) for number, one in enumerate(_of(cluster, place)))


def _planned(trunk: Trunk) -> Uplink:
    return Uplink(trunk.lower, trunk.lower_port, trunk.upper, trunk.upper_port)


def _ethernet(cluster: Cluster) -> bool:
    return cluster.cards[0].fabric == "ethernet"


def _each(cluster: Cluster, place: int) -> int:
    """How many uplinks a leaf has, without a plan."""
    cards = len(cluster.under(cluster.leaves[place]))
    return max(LEAST, -(-cards // 2)) if _ethernet(cluster) else 0


def _of(cluster: Cluster, place: int) -> list[Uplink]:
    leaf, first = cluster.leaves[place], 4 * len(cluster.under(cluster.leaves[place]))
    return [
        Uplink(
            leaf, f"Ethernet{first + 8 * number}", f"spine-{number % SPINES + 1:02d}",
            f"Ethernet{8 * (place + len(cluster.leaves) * (number // SPINES))}",
        )
        for number in range(_each(cluster, place))
    ]  # fmt: skip


class Uplinks:
    """Counters of both ends of all uplinks. Rows as in `uplinks`."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.links = uplinks(cluster)
        self.rng = np.random.default_rng([seed, 0x0F])
        place = {
            leaf: row for row, leaf in enumerate(dict.fromkeys((*cluster.leaves, *(one.leaf for one in self.links))))
        }
        self._leaf = np.array([place[one.leaf] for one in self.links], int)
        self._leaf_of_card = np.array([place[card.leaf] for card in cluster.cards], int)
        n = len(self.links)
        self._each = np.bincount(self._leaf, minlength=len(place)).astype(float) if n else np.zeros(len(place))
        self._up = np.ones(n, bool)
        words = ("moved", "symbol_errors_total", "rx_errors_total", "tx_discards_total", "downs")
        self._counters = {word: np.zeros((2, n)) for word in words}

    @cached_property
    def _ends(self) -> list[tuple[Name, Name]]:
        return [one.ends for one in self.links]

    def tick(self, now: "Strain", moved: Floats) -> None:
        """One second. `moved`: bytes of each card's port."""
        if not self.links:
            return
        n, counters = len(self.links), self._counters
        up = np.ones(n, bool)
        up[list(now.uplinks_down)] = False
        weight = 1 + 0.03 * self.rng.standard_normal(n)
        for row, share in now.uplink_weights.items():
            weight[row] *= share
        weight = np.where(up, np.maximum(weight, 0), 0.0)
        whole = np.bincount(self._leaf, weights=weight, minlength=len(self._each))
        leaf = UPWARD * np.bincount(self._leaf_of_card, weights=moved, minlength=len(self._each))
        carried = np.where(whole[self._leaf] > 0, leaf[self._leaf] * weight / np.maximum(whole[self._leaf], 1e-9), 0.0)
        counters["tx_discards_total"][0] += np.round(np.maximum(carried - BYTES, 0) / 4096)
        counters["moved"] += np.round(np.minimum(carried, BYTES))
        counters["downs"] += self._up & ~up
        self._up = up
        for (row, side, column), more in now.uplink_counted.items():
            counters[column][side, row] += more

    def ports(self, at_ms: int, silent: frozenset[str]) -> Samples:
        """The port table of both ends, of the switches that tell anything."""
        told = [
            (end, side, row)
            for row, (one, ends) in enumerate(zip(self.links, self._ends, strict=True))
            for side, end in enumerate(ends)
            if (one.leaf, one.spine)[side] not in silent
        ]
        sides, rows = [side for _, side, _ in told], [row for _, _, row in told]
        columns = {
            "up": self._up[rows].astype(float),
            "rx_bytes_total": self._counters["moved"][sides, rows],
            "tx_bytes_total": self._counters["moved"][sides, rows],
            **{word: self._counters[word][sides, rows] for word in self._counters if word.endswith("_total")},
        }
        return Samples("port", [end for end, _, _ in told], np.full(len(told), at_ms, np.int64), columns)
