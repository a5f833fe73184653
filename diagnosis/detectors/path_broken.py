"""Transport failures between two addresses. One path cannot tell which end is at fault; several that share one can."""

from collections import defaultdict
from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build
from diagnosis.evidence import CERTAIN, STRONG, in_order
from sickbay.components import UNKNOWN, Name, path
from sickbay.messages import Event, Evidence, replace

NAME, VERSION = "path_broken", "1"

KINDS = frozenset({"path.retry_exceeded", "path.not_connected", "path.remote_error", "path.receiver_not_ready"})
LEAST_PATHS = 3  # a third path breaks the tie between two ends
MOST_CLAIMS = 200  # more broken paths than that add nothing but bulk


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per path, or one for the end that several broken paths share."""
    by_path: dict[Name, list[Event]] = defaultdict(list)
    for event in in_order(case.events):
        if event.kind in KINDS and not event.attributes.keys() & {"victim_of", "caused_by", "injected"}:
            by_path[event.component].append(event)
    for end, paths in shared_ends(by_path).items():
        yield _of_end(end, [event for broken in paths for event in by_path.pop(broken, [])], paths)
    for broken in sorted(by_path)[:MOST_CLAIMS]:
        yield build(
            by_path[broken], "path_broken", broken, detector=NAME, version=VERSION, says="path_failed", llr=STRONG
        )


def ends_of(component: Name) -> list[str]:
    """The known ends of a path."""
    return [end for end in component.partition(":")[2].split("~") if end and end != UNKNOWN]


def shared_ends(paths: Iterable[Name]) -> dict[str, list[Name]]:
    """Ends that at least three broken paths share and whose other ends have no trouble among themselves."""
    partners: dict[str, set[str]] = defaultdict(set)
    for broken in paths:
        ends = ends_of(broken)
        if len(ends) == 2:
            partners[ends[0]].add(ends[1])
            partners[ends[1]].add(ends[0])
    hubs = [end for end in sorted(partners) if len(partners[end]) >= LEAST_PATHS]
    alone = [end for end in hubs if all(len(partners[other]) == 1 for other in partners[end])]
    return {end: sorted(path(end, other) for other in partners[end]) for end in alone}


def _of_end(end: str, events: list[Event], paths: list[Name]) -> Evidence:
    claim = build(events, "path_broken", path(end), detector=NAME, version=VERSION, says="paths_share_end", llr=CERTAIN)
    facts = claim.facts | {"end": end, "paths": str(len(paths)), "victims": ", ".join(paths)}
    told: Evidence = replace(claim, facts=facts)
    return told
