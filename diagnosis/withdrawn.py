"""Claims of open incidents that turned out to be somebody's will: a port's carrier is told at once, that a person
closed it sometimes later. No look would make such a claim any more, and the incident that rests on it is over.
"""

from collections.abc import Iterable, Set
from typing import TypeAlias

from diagnosis.by_order import Orders, orders
from diagnosis.case import Case
from sickbay.messages import Evidence, Incident, replace

OF_CARRIERS = frozenset({"link_down", "optic_power"})  # detectors that ask for orders
_Subject: TypeAlias = tuple[str, str, str]


def withdrawn(
    incidents: Iterable[Incident], fresh: Iterable[Evidence], case: Case
) -> tuple[Incident, ...]:  # fmt: skip
    """The incidents without claims that are known to be orders by now; closed where their own is among them."""
    known, made = orders(case), {_subject(one) for one in fresh}
    return tuple(_without(one, made, known, case.window_ms) if one.state == "open" else one for one in incidents)


def _without(incident: Incident, made: Set[_Subject], known: Orders, window_ms: int) -> Incident:
    kept = tuple(one for one in incident.evidence if not _ordered(one, made, known, window_ms))
    if len(kept) == len(incident.evidence):
        return incident
    stands = any((one.component, one.fault) == (incident.component, incident.fault) for one in kept)
    after: Incident = replace(incident, evidence=kept) if stands else replace(incident, state="closed")
    return after


def _ordered(one: Evidence, made: Set[_Subject], known: Orders, window_ms: int) -> bool:
    if one.detector not in OF_CARRIERS or one.onset_from_ms is None or _subject(one) in made:
        return False
    last_ms = one.onset_from_ms if one.onset_to_ms is None else one.onset_to_ms
    return known.closed(one.component, one.onset_from_ms - 2 * window_ms, last_ms + 2 * window_ms)


def _subject(one: Evidence) -> _Subject:
    return one.detector, one.component, one.fault
