"""Parts that people name and the topology does not: most often misspelt, and then what is declared helps nobody."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from sickbay.app.asking.topology_import import Known, of_log
from sickbay.components import Kind, Name, host_of, kind_of, name
from sickbay.log import Log, LogError

MOST_TOLD = 5


def warnings(log: Log, parts: Iterable[Name]) -> list[str]:
    """What to say of parts that were told to a log; nothing where it cannot be asked: what was told stands."""
    try:
        return list(_warnings(of_log(log), parts))
    except LogError:
        return []


def _warnings(known: Known, parts: Iterable[Name]) -> Iterator[str]:
    names = known.names
    there = {names.canonical(end) for edge in known.edges.values() for end in (edge.child, edge.parent)}
    owners = {owner for one in there if (owner := host_of(one))}
    named = there | {name(kind, owner) for kind in (Kind.HOST, Kind.SWITCH) for owner in owners}
    strangers = [one for one in parts if names.canonical(one) not in named]
    for one in strangers[:MOST_TOLD]:
        alike = [other for other in there if kind_of(other) is kind_of(one)]
        if alike:  # else the topology knows no such parts at all, and cannot judge
            near = get_close_matches(one, alike, 1, 0.8)
            hint = f"did you mean {near[0]}?" if near else "sickbay topology show counts what there is"
            yield f"nothing in the topology names {one[:80]}; it was told all the same: {hint}"
    if len(strangers) > MOST_TOLD:
        yield f"and {len(strangers) - MOST_TOLD} more that nothing names"
