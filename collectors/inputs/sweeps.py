"""Sweeps of one fabric side by side: one that saw only a part of what the others saw is told, and ends no link.

A subnet manager that hands over, or a tool that timed out, shows half of the fabric. Which links there are is the union
of all sweeps; a link ends by a version that says so, never because a sweep did not show it.
"""

from collections.abc import Iterator, Sequence

from collectors.formats.events import event
from collectors.inputs.gather import Gathered
from sickbay.components import UNKNOWN, Kind, name
from sickbay.messages import Edge, Event, Relation, replace

KIND = "ibnetdiscover"
PART = 0.9  # [house] of the links of the fullest sweep: fewer is no day's work on cables


def partial_sweeps(inputs: Sequence[Gathered]) -> Iterator[Event]:
    """One notice per sweep that is a part of another."""
    links = {found.path: _links(found) for found in inputs if found.kind == KIND}
    fullest = max(links.values(), key=len, default=frozenset())
    for path, seen in links.items():
        if seen <= fullest and len(seen) < PART * len(fullest):
            facts = {"links": str(len(seen)), "of": str(len(fullest))}
            message = f"partial sweep: {len(seen)} of {len(fullest)} links; the others are kept as known"
            told = event("monitor.partial_sweep", name(Kind.MONITOR, UNKNOWN, KIND), facts, message=message)
            noticed: Event = replace(told, path=path)
            yield noticed


def _links(found: Gathered) -> frozenset[tuple[str, str]]:
    told = (reading.record for reading in found.readings)
    return frozenset(
        (one.child, one.parent) for one in told if isinstance(one, Edge) and one.relation is Relation.LINK_END
    )
