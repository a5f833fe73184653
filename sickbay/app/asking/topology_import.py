"""Edges of files into the log: what they would change, what they contradict, and the telling of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collectors.agent.naming import identity_key
from collectors.cluster import disagreements
from collectors.cluster.poll import Outgoing, Signer
from collectors.inputs.gather import gather
from collectors.inputs.inputs import walk
from collectors.inputs.lanes import lanes_among
from collectors.inputs.modules import shared_modules
from collectors.port_names import PortNames
from sickbay.components import UNKNOWN, Kind, Name
from sickbay.edges import Conflict, Key, key_of, log_key, refusal
from sickbay.log import Log, Task
from sickbay.log.reading import records
from sickbay.messages import Edge, Identity, decode, replace
from sickbay.routes import routes_among
from sickbay.topics import EVENTS, TOPOLOGY
from sickbay.topology import Topology

SOURCE = "import"
_NAMED = {"slurm_topology": "slurm", "slurm_show": "slurm"}  # format -> the source of its edges, where not the same

Of = tuple[str, Key]  # a source and its edge


class Known(NamedTuple):
    """What a log, or files, tell: the newest word of each source on each edge, and who is who."""

    edges: Mapping[Of, Edge]
    identities: Mapping[str, Identity]

    @property
    def names(self) -> PortNames:
        """What ports are called that sources call by several names."""
        return PortNames(self.identities.values())

    @property
    def named(self) -> list[Edge]:
        """All edges under one name for each port, and the routes that they tell."""
        hosts = {one.host for one in self.identities.values() if one.kind == Kind.ACCELERATOR} - {"", UNKNOWN}
        told = [*map(self.names.edge, self.edges.values())]
        return [*told, *routes_among(told, hosts)]


class Files(NamedTuple):
    """What files tell. `unparsed`: what of them was not understood; `problems`: files that are none."""

    known: Known
    unparsed: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an import would change. `conflicts`: contradictions that would then be new."""

    new: tuple[Edge, ...]
    ended: tuple[Edge, ...]
    same: int
    refused: tuple[Edge, ...]
    identities: tuple[Identity, ...]
    conflicts: tuple[Conflict, ...]


def of_log(log: Log) -> Known:
    """The topology that a log holds."""
    edges: dict[Of, Edge] = {}
    identities: dict[str, Identity] = {}
    for record in records(log.reader(), Task(TOPOLOGY, 0)):
        try:
            told = decode(record.value) if record.value else None
        except ValueError:  # somebody else's
            continue
        if isinstance(told, Edge):
            edges[told.source, key_of(told)] = told
        elif isinstance(told, Identity):
            identities[identity_key(told)] = told
    return Known(edges, identities)


def of_files(paths: Iterable[Path]) -> Files:
    """The topology that files tell, in any format that tells one."""
    edges: dict[Of, Edge] = {}
    identities: dict[str, Identity] = {}
    unparsed, problems, notes = 0, list[str](), list[str]()
    for source in walk(paths):
        found = gather(source)
        own = [reading.record for reading in found.readings if isinstance(reading.record, Edge | Identity)]
        if found.problem or not own:
            problems.append(f"{found.path}: {found.problem or f'no topology in it (read as {found.kind})'}")
        unparsed += found.tally.unparsed
        notes += [f"{found.path}: {note}" for note in found.tally.notes]
        for one in own:
            if isinstance(one, Edge):
                named = replace(one, source=one.source or f"{_NAMED.get(found.kind, found.kind)}:{found.path}"[:200])
                edges[named.source, key_of(named)] = named
            else:
                identities[identity_key(one)] = one
    return Files(Known(edges, identities), unparsed, tuple(problems), tuple(notes))


def plan(known: Known, told: Known, now_ms: int, replaced: Sequence[str] = ()) -> Plan:
    """What telling this would change. `replaced`: sources (`netbox`, or all `inventory`) whose other edges end."""
    identities = {**known.identities, **told.identities}
    modules = [*shared_modules(identities.values()), *lanes_among(told.edges.values())]
    shared = {(one.source, key_of(one)): one for one in modules}
    wanted = {**told.edges, **shared}
    refused = tuple(one for one in wanted.values() if refusal(one))
    fresh = {
        of: _dated(one, now_ms) for of, one in wanted.items() if not refusal(one) and _differs(known.edges.get(of), one)
    }
    gone = {
        of: replace(one, to_ms=now_ms)
        for of, one in known.edges.items()
        if one.to_ms is None and of not in wanted and any(_is(of[0], source) for source in replaced)
    }
    ports = Known(known.edges, identities).names
    before = Topology(map(ports.edge, known.edges.values()))
    after = Topology(map(ports.edge, {**known.edges, **fresh, **gone}.values()))
    old = {str(one) for one in before.conflicts}
    conflicts = tuple(one for one in disagreements.contradictions(after.conflicts) if str(one) not in old)
    news = tuple(one for key, one in told.identities.items() if known.identities.get(key) != one)
    same = len(wanted) - len(refused) - len(fresh)
    return Plan(tuple(fresh.values()), tuple(gone.values()), same, refused, news, conflicts)


def _is(source: str, asked: str) -> bool:
    return source == asked or source.partition(":")[0] == asked


def _differs(known: Edge | None, told: Edge) -> bool:
    """Whether an edge says something else than what is known: it is open there, or began and ended otherwise."""
    return known is None or (known.from_ms, known.to_ms) != (told.from_ms, told.to_ms)


def _dated(edge: Edge, now_ms: int) -> Edge:
    return edge if edge.seen_ms is not None else replace(edge, seen_ms=now_ms)


def tell(log: Log, changes: Plan, now_ms: int, key: bytes | None = None) -> None:
    """Tells the log; where sources come to contradict each other, an event too. Raises LogError."""
    signer, appender = Signer(key), log.appender()
    try:
        for edge in (*changes.ended, *changes.new):
            appender.append(TOPOLOGY, log_key(edge).encode(), signer.payload(Outgoing(TOPOLOGY, edge.child, edge)))
        for one in changes.identities:
            appender.append(TOPOLOGY, identity_key(one).encode(), signer.payload(Outgoing(TOPOLOGY, one.host, one)))
        if changes.conflicts:
            event = Outgoing(EVENTS, SOURCE, disagreements.told(changes.conflicts, SOURCE, now_ms))
            appender.append(EVENTS, event.key.encode(), signer.payload(event))
        appender.flush()
    finally:
        appender.close()


def sources_of(known: Known) -> dict[str, int]:
    """How many open edges each source has."""
    found: dict[str, int] = {}
    for (source, _), edge in known.edges.items():
        if edge.to_ms is None:
            found[source] = found.get(source, 0) + 1
    return dict(sorted(found.items()))


def components_of(known: Known) -> set[Name]:
    """Everything that edges name."""
    return {end for _, key in known.edges for end in (key[0], key[2])}
