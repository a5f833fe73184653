"""Who runs which version: each told change of a driver, firmware, kernel, package or image as versions of `runs` edges.

A cohort (`cohort:driver_x/550.54`) is what runs one version; a host is in it from the change that brought it to the one
that took it away, and in the one before until then. Hosts that never changed told nothing, and are in none.
"""

from collections.abc import Iterable, Iterator

from sickbay.components import HOST_SCOPED, Kind, Name, kind_of, name
from sickbay.messages import Change, Edge, Relation

SOURCE = "changes"
VERSIONED = frozenset({"driver", "firmware", "kernel", "package", "image", "os"})  # the first word of what changed


def runs(changes: Iterable[Change]) -> Iterator[Edge]:
    """The edges of all changes that tell a version; undated ones tell no time to run from."""
    told: dict[tuple[Name, str], list[Change]] = {}
    for one in changes:
        if one.at_ms is not None and one.what.partition(" ")[0] in VERSIONED and _on_host(one.target):
            told.setdefault((one.target, one.what), []).append(one)
    for (target, what), own in told.items():
        own.sort(key=lambda one: one.at_ms or 0)
        ends = [one.at_ms for one in own[1:]]
        if own[0].old:
            yield _edge(target, what, own[0].old, None, own[0].at_ms)
        for one, end_ms in zip(own, [*ends, None], strict=True):
            if one.new and one.at_ms != end_ms:
                yield _edge(target, what, one.new, one.at_ms, end_ms)


def _on_host(target: Name) -> bool:
    try:
        return kind_of(target) in HOST_SCOPED or kind_of(target) is Kind.SWITCH
    except ValueError:
        return False


def _edge(target: Name, what: str, version: str, from_ms: int | None, to_ms: int | None) -> Edge:
    cohort = name(Kind.COHORT, what, version)
    seen_ms = from_ms if to_ms is None else to_ms  # the later change has the last word, also when told by itself
    return Edge(
        child=target,
        parent=cohort,
        relation=Relation.RUNS,
        from_ms=from_ms,
        to_ms=to_ms,
        seen_ms=seen_ms,
        source=SOURCE,
    )
