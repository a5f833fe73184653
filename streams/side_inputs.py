"""Side inputs of windows: which job ran where, and which port hangs on which plane, as of an append time.

Both come from compacted topics, whose versions are kept with the times at which the log took them. What a window may
know is fixed by the log alone: everything that was appended up to a cutoff that lies SIDE_MARGIN_MS before the window
closes, so that whoever reads to the present when it closes has read it all. A version that comes later, or was read
later, changes no window. Pure: the shell reads the log and tells how far it came.
"""

from bisect import bisect_right
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from sickbay.components import Kind, Name
from sickbay.edges import kind
from sickbay.messages import Edge, Placement, Relation
from sickbay.owners import switches_among
from sickbay.placement import Placements
from sickbay.rails import rails

SIDE_MARGIN_MS = 1_000  # the clocks of brokers, and of the partition that drives, are closer together than this
WAIT_MS = 10_000  # of the driving clock: then a window closes without, and says so
KEPT_MS = 48 * 3_600_000  # the compaction lag of these topics: older versions go there, too
TIDY = 10_000  # versions beyond those that stood at the last tidying
_KEPT = 4  # cutoffs whose facts are at hand: tasks are a window or two apart


class Fabric:
    """The cables between ports as they were told, and the planes that they form."""

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        known = list(edges)
        self._links = [edge for edge in known if edge.relation is Relation.LINK_END and _joins_ports(edge)]
        told = (end for edge in (*known, *switches_among(known, ())) for end in (edge.child, edge.parent))
        self._switches = frozenset(owner_of(end) for end in told if kind(end) is Kind.SWITCH)
        times = {time for edge in self._links for time in (edge.from_ms, edge.to_ms)}
        self._times = sorted(time for time in times if time is not None)
        self._planes: OrderedDict[int, Mapping[Name, int]] = OrderedDict()

    def planes(self, at_ms: int) -> Mapping[Name, int]:
        """The plane of each port at a time; the same object as long as no cable begins or ends."""
        epoch = bisect_right(self._times, at_ms)
        if epoch not in self._planes:
            self._planes[epoch] = planes(self._in_force(at_ms), self._switches)
            while len(self._planes) > _KEPT:
                self._planes.popitem(last=False)
        return self._planes[epoch]

    def _in_force(self, at_ms: int) -> list[tuple[Name, Name]]:
        """The pairs of ports that were joined then, each once; of two words on a pair the later one counts."""
        joined: dict[tuple[Name, Name], bool] = {}
        for edge in self._links:
            if edge.from_ms is None or edge.from_ms <= at_ms:
                pair = (edge.child, edge.parent) if edge.child < edge.parent else (edge.parent, edge.child)
                joined[pair] = edge.to_ms is None or at_ms < edge.to_ms
        return [pair for pair, holds in joined.items() if holds]


def _joins_ports(edge: Edge) -> bool:
    return kind(edge.child) is kind(edge.parent) is Kind.PORT


def owner_of(component: Name) -> str:
    """The first part of a name: its host, switch or unit."""
    return component.partition(":")[2].partition("/")[0]


class Facts(NamedTuple):
    """What is known at a cutoff. The parts are the same objects as long as nothing more is known of them."""

    placements: Placements
    fabric: Fabric


class Sides(Protocol):
    """What windows ask for."""

    def at(self, cutoff_ms: int, clock_ms: int) -> Facts | None:
        """Everything that was appended up to the cutoff; None where that cannot be read now. `clock_ms`: the driving
        clock, which lies SIDE_MARGIN_MS behind the cutoff at least."""
        ...

    def known(self, cutoff_ms: int) -> Facts:
        """What was read of it so far."""
        ...


class NoSides:
    """No job and no plane is known."""

    def __init__(self) -> None:
        self._facts = Facts(Placements(), Fabric())

    def at(self, cutoff_ms: int, clock_ms: int) -> Facts | None:
        """Nothing, and that is all."""
        return self._facts

    def known(self, cutoff_ms: int) -> Facts:
        """Nothing."""
        return self._facts


class Told(NamedTuple):
    """A message of a side input: when the log took it, and under which key."""

    append_ms: int
    key: bytes
    message: Placement | Edge


class Versions:
    """Every version of placements and edges, by append time: told in the order of their topics, asked at any cutoff."""

    def __init__(self) -> None:
        self._placements, self._edges = _Series(), _Series()
        self._built: OrderedDict[tuple[int, int], Facts] = OrderedDict()

    def __len__(self) -> int:
        return len(self._placements.told) + len(self._edges.told)

    def add(self, told: Told) -> None:
        """One more version. Append times of a topic never go back."""
        series = self._placements if isinstance(told.message, Placement) else self._edges
        if series.add(told):
            self._built.clear()

    def at(self, cutoff_ms: int) -> Facts:
        """Everything that was appended up to then."""
        key = self._placements.count(cutoff_ms), self._edges.count(cutoff_ms)
        facts = self._built.get(key)
        if facts is None:
            facts = self._built[key] = self._made(*key)
            while len(self._built) > _KEPT:
                self._built.popitem(last=False)
        self._built.move_to_end(key)
        return facts

    def _made(self, placed: int, linked: int) -> Facts:
        """Grown from facts that know less, where there are some: those of the window before."""
        before = max((key for key in self._built if key[0] <= placed and key[1] <= linked), default=None)
        known = self._built[before] if before else Facts(Placements(), Fabric())
        begin = before or (0, 0)
        jobs = [one.message for one in self._placements.told[begin[0] : placed]]
        placements = (
            known.placements.add(one for one in jobs if isinstance(one, Placement)) if jobs else known.placements
        )
        if begin[1] == linked:
            return Facts(placements, known.fabric)
        edges = [one.message for one in self._edges.told[:linked] if isinstance(one.message, Edge)]
        return Facts(placements, Fabric(edges))


class _Series:
    """Versions of one topic in the order of their append times."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self._newest: dict[bytes, Placement | Edge] = {}
        self._tidy_at = TIDY

    def add(self, told: Told) -> bool:
        """One more; what says nothing new is passed over, as pollers tell the same again and again. True where old
        versions were let go of, so that counts mean others."""
        if self.told and told.append_ms < self.told[-1].append_ms:  # another log than the one that was read
            self.told, self._newest = [], {}
        if self._newest.get(told.key) == told.message:
            return False
        self._newest[told.key] = told.message
        self.told.append(told)
        if len(self.told) < self._tidy_at:
            return False
        self._tidy(told.append_ms - KEPT_MS)
        self._tidy_at = len(self.told) + TIDY
        return True

    def count(self, cutoff_ms: int) -> int:
        """How many were appended up to then."""
        return bisect_right(self.told, cutoff_ms, key=lambda one: one.append_ms)

    def _tidy(self, before_ms: int) -> None:
        """Lets go of versions that old which a later one, as old, replaces: as compaction does."""
        old = self.count(before_ms)
        last = {one.key: place for place, one in enumerate(self.told[:old])}
        self.told = [one for place, one in enumerate(self.told) if place >= old or last[one.key] == place]


def planes(pairs: Iterable[tuple[Name, Name]], switches: Collection[str]) -> dict[Name, int]:
    """The plane of each host port among joined ports, its rail, and of the switch ports: that of the port at the other
    end, else the one that most links of the switch have. Nothing where the fabric has no rails.

    Owners are told by the ports' names: a look at the whole topology would take seconds for 100,000 cables.
    """
    ends = [(one, other) for pair in pairs for one, other in (pair, pair[::-1])]
    links = [(one, other) for one, other in ends if owner_of(one) not in switches and owner_of(other) in switches]
    found = dict(rails((port, owner_of(other)) for port, other in links).rail)
    usual = defaultdict[str, Counter[int]](Counter)
    for port, other in links:
        if port in found:
            found[other] = found[port]
            usual[owner_of(other)][found[port]] += 1
    most = {switch: min(count, key=lambda one: (-count[one], one)) for switch, count in usual.items()}
    for port, _ in ends:
        if port not in found and owner_of(port) in most:
            found[port] = most[owner_of(port)]
    return found
