"""What sources of the topology contradict each other in, as one event for people."""

from collections.abc import Collection, Iterable, Sequence

from collectors.formats.events import event
from sickbay.components import HOST_SCOPED, Kind, name, parts_of
from sickbay.edges import Conflict, kind
from sickbay.messages import MAX_MESSAGE, Edge, Event

KINDS = ("sources_disagree", "two_parents", "end_taken")
SHOWN = 5


def contradictions(conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """The conflicts that come from two words on one place; loops and bad names are faults of one."""
    return tuple(one for one in conflicts if one.what in KINDS)


def hosts_in(edges: Iterable[Edge]) -> frozenset[str]:
    """Hosts, and switches, that edges name."""
    ends = (end for edge in edges for end in (edge.child, edge.parent) if kind(end) in HOST_SCOPED)
    return frozenset(parts_of(end)[0] for end in ends)


def called_otherwise(own: Iterable[Edge], known: Collection[str]) -> str:
    """Hosts that a list spells with a domain, or in capitals, and everybody else does not, or the other way round: what
    the list tells of them meets nothing that is measured. "" where there are none."""
    labels: dict[str, str] = {}
    for host in known:
        labels.setdefault(host.partition(".")[0].lower(), host)
    strange = hosts_in(own) - set(known)
    pairs = [(host, labels[label]) for host in sorted(strange) if (label := host.partition(".")[0].lower()) in labels]
    if not pairs:
        return ""
    here, there = pairs[0]
    return (
        f"{len(pairs)} hosts are called otherwise by their agents and neighbours, such as {there} for {here}: "
        "what is told of them here reaches nobody; spell them as there"
    )


def told(conflicts: Sequence[Conflict], source: str, at_ms: int) -> Event:
    """One event for all of them, as `source` saw them."""
    facts = {f"conflict_{place}": said(one) for place, one in enumerate(conflicts[:SHOWN], 1)}
    message = "; ".join(facts.values())[:MAX_MESSAGE]
    monitor = name(Kind.MONITOR, source, "topology")
    return event("monitor.sources_disagree", monitor, facts, count=len(conflicts), message=message, at_ms=at_ms)


def said(conflict: Conflict) -> str:
    """One contradiction for people: who says what; of sources that disagree the first is believed."""
    words = [f"{_word(edge)} ({edge.source or 'no source'})" for edge in conflict.edges[:3]]
    return (" against " if conflict.what == "sources_disagree" else " or ").join(words)


def _word(edge: Edge) -> str:
    return f"{edge.child} {edge.relation} {edge.parent}"
