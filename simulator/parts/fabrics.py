"""Fabrics: how the leaves of a cluster are joined, by spines and, in three tiers, by cores above these.

A `Plan` says what kind of Clos; `wired` makes the links. Each switch has `radix` ports and none is used twice. A leaf
has a link to every spine (of its pod), as many more as its ports allow; every spine of a pod has its own group of
cores, so that any two leaves have as many ways as a spine has (equal-cost routes).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sickbay.components import Kind, Name, link, name
from sickbay.messages import Edge, Relation

Fabric = Literal["ethernet", "infiniband"]
SOURCE = "simulator"


@dataclass(frozen=True, slots=True)
class Plan:
    """A Clos of two or three tiers."""

    tiers: int = 2
    radix: int = 64  # ports of a switch
    unit: int = 32  # hosts of which the cards of one index share a leaf, with rails
    uplinks: float = 1.0  # of a leaf, for each port to a host: 1 = non-blocking, below = oversubscribed
    ports: int = 1  # of each card's NIC; the second one hangs on a second leaf, the twin of the first
    shelves: int = 16  # switches of a rack

    def __post_init__(self) -> None:
        if self.tiers not in (2, 3) or self.ports not in (1, 2):
            raise ValueError("a fabric has two or three tiers, and a card one or two ports")
        if self.radix < 2 or self.unit < 1 or self.uplinks <= 0 or self.shelves < 1:
            raise ValueError("a fabric needs ports, hosts and uplinks")


def port_name(fabric: Fabric, socket: int) -> str:
    """What a switch calls its port: InfiniBand ones count from 1, Ethernet ones in lanes."""
    return str(socket + 1) if fabric == "infiniband" else f"Ethernet{socket * 4}"


@dataclass(frozen=True, slots=True)
class Trunk:
    """A link between two switches, the lower one first."""

    lower: str
    lower_port: str
    upper: str
    upper_port: str

    @property
    def ends(self) -> tuple[Name, Name]:
        """The ports at both ends."""
        return name(Kind.PORT, self.lower, self.lower_port), name(Kind.PORT, self.upper, self.upper_port)

    @property
    def component(self) -> Name:
        """The link."""
        return link(f"{self.lower}/{self.lower_port}", f"{self.upper}/{self.upper_port}")


@dataclass(frozen=True)
class Switches:
    """Switches above the hosts, and the links between them. `down`: ports of each leaf that go to hosts."""

    plan: Plan
    fabric: Fabric
    site: str
    leaves: tuple[str, ...]  # the second ones of cards with two ports, too
    down: int

    @cached_property
    def up(self) -> int:
        """Uplinks of a leaf. Raises ValueError where its ports do not suffice."""
        wanted = max(1, round(self.down * self.plan.uplinks))
        if self.down + wanted > self.plan.radix:
            raise ValueError(f"a leaf of {self.plan.radix} ports has not {self.down} to hosts and {wanted} up")
        return wanted

    @cached_property
    def pods(self) -> list[tuple[str, ...]]:
        """Leaves by pod: all in one with two tiers, else as many as a spine with half of its ports down can have."""
        each = len(self.leaves) if self.plan.tiers == 2 else self.plan.radix // 2
        return [self.leaves[at : at + each] for at in range(0, len(self.leaves), each)]

    @cached_property
    def spines(self) -> tuple[tuple[str, ...], ...]:
        """Spines of each pod."""
        return tuple(tuple(self._spines(pod)) for pod in range(len(self.pods)))

    def _spines(self, pod: int) -> Iterator[str]:
        ports = self.plan.radix if self.plan.tiers == 2 else self.plan.radix // 2
        needed = -(-len(self.pods[pod]) * self.up // ports)
        many = max(min(2, self.up), needed)
        if many > self.up:
            raise ValueError(f"{len(self.leaves)} leaves of {self.up} uplinks need more than two tiers of this radix")
        place = f"p{pod + 1:02d}-" if self.plan.tiers == 3 else ""
        return (f"spine-{self.site}-{place}{number + 1:02d}" for number in range(many))

    @cached_property
    def lower_trunks(self) -> tuple[Trunk, ...]:
        """Links between leaves and spines, by the leaf."""
        found: list[Trunk] = []
        used = dict.fromkeys(self.leaves, self.down)
        for pod, leaves in enumerate(self.pods):
            found += self._joined(leaves, self.spines[pod], dict.fromkeys(leaves, self.up), used)
        return tuple(found)

    @cached_property
    def _downward(self) -> Counter[str]:
        """Links of each spine to leaves: it has as many up."""
        return Counter(trunk.upper for trunk in self.lower_trunks)

    @cached_property
    def cores(self) -> tuple[tuple[str, ...], ...]:
        """Cores of each group: those above the first spine of every pod, above the second, ..."""
        if self.plan.tiers == 2:
            return ()
        return tuple(tuple(self._cores(plane)) for plane in range(max(map(len, self.spines))))

    def _cores(self, plane: int) -> Iterator[str]:
        links = [self._downward[spine] for spine in self._plane(plane)]
        many = max(min(2, *links, 2), -(-sum(links) // self.plan.radix))
        if many > min(links):
            raise ValueError(f"{len(self.pods)} pods are more than three tiers of this radix join")
        return (f"core-{self.site}-{plane + 1:02d}-{number + 1:02d}" for number in range(many))

    def _plane(self, plane: int) -> list[str]:
        """The spine of that number of every pod that has so many."""
        return [pod[plane] for pod in self.spines if plane < len(pod)]

    @cached_property
    def trunks(self) -> tuple[Trunk, ...]:
        """All links between switches, by the lower one."""
        found = list(self.lower_trunks)
        used: dict[str, int] = dict(self._downward)
        for plane, cores in enumerate(self.cores):
            found += self._joined(self._plane(plane), cores, self._downward, used)
        return tuple(found)

    def _joined(
        self, lower: Sequence[str], upper: Sequence[str], each: Mapping[str, int], used: dict[str, int]
    ) -> Iterator[Trunk]:
        """Links in turn, a switch going on where the one before it ended: no upper one has many more than others."""
        turn = 0
        for below in lower:
            for _ in range(each[below]):
                above = upper[turn % len(upper)]
                turn += 1
                sockets = [port_name(self.fabric, used.get(one, 0)) for one in (below, above)]
                used[below], used[above] = used.get(below, 0) + 1, used.get(above, 0) + 1
                yield Trunk(below, sockets[0], above, sockets[1])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All switches: leaves, spines, cores."""
        upper = [*self.spines, *self.cores]
        return (*self.leaves, *(one for group in upper for one in group))

    def edges(self) -> Iterator[Edge]:
        """Ports of switches, links between them, and which switch routes over which."""
        routes: dict[tuple[str, str], None] = {}
        for trunk in self.trunks:
            routes[trunk.lower, trunk.upper] = None
            lower, upper = trunk.ends
            for end, owner in ((lower, trunk.lower), (upper, trunk.upper)):
                yield Edge(child=end, parent=name(Kind.SWITCH, owner), relation=Relation.PART_OF, source=SOURCE)
            yield Edge(child=lower, parent=upper, relation=Relation.LINK_END, source=SOURCE)
        for below, above in routes:
            child, parent = name(Kind.SWITCH, below), name(Kind.SWITCH, above)
            yield Edge(child=child, parent=parent, relation=Relation.ROUTED_OVER, source=SOURCE)
