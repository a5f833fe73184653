"""What sources of the topology contradict each other in, as one event for people."""

from collections.abc import Sequence

from collectors.formats.events import event
from sickbay.components import Kind, name
from sickbay.edges import Conflict
from sickbay.messages import MAX_MESSAGE, Edge, Event

KINDS = ("sources_disagree", "two_parents", "end_taken")
SHOWN = 5


def contradictions(conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """The conflicts that come from two words on one place; loops and bad names are faults of one."""
    return tuple(one for one in conflicts if one.what in KINDS)


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
