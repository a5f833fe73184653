"""The whole of diagnosis as one function: detect, explain away, judge, explain.

Live, replay, `diagnose` on files and tests call the same two functions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace as replace_in_case

from diagnosis.case import Case, Detector
from diagnosis.declared import with_declaration
from diagnosis.detectors import CATALOGUE, load
from diagnosis.evidence import in_order, order_key
from diagnosis.explain import explained
from diagnosis.incidents import aged, fold, incidents_of
from diagnosis.lasting import lasting
from diagnosis.localise import localise
from diagnosis.undated import bounded
from diagnosis.withdrawn import withdrawn
from sickbay.components import Kind
from sickbay.messages import Evidence, Incident, replace

FIRST, LATEST = 3, 10  # claims of one detector about one thing that an open incident remembers


def detectors() -> dict[str, Detector]:
    """All detectors of the catalogue by name."""
    return {name: load(name) for name in CATALOGUE}


def evidence_of(case: Case, using: Mapping[str, Detector] | None = None) -> tuple[Evidence, ...]:
    """What all detectors claim, each claim once, in an order that depends on the claims alone."""
    found: dict[str, Evidence] = {}
    sound = _sound(case)
    for detector in (using or detectors()).values():
        for claim in bounded(detector(sound), sound):
            found.setdefault(claim.id, claim)
    return tuple(sorted(found.values(), key=order_key))


def _sound(case: Case) -> Case:
    """The case with its events in their one order, however they came, and without those that name nothing lawful.

    One bad record must not stop the rest, and no detector can depend on the order of arrival.
    """
    events = [one for one in case.events if _named(one.component) and (not one.peer or _named(one.peer))]
    return replace_in_case(case, events=tuple(in_order(events)))


def _named(component: str) -> bool:
    kind, _, rest = component.partition(":")
    return bool(rest) and kind in Kind.__members__.values()


def diagnose(case: Case, lang: str = "en") -> tuple[Incident, ...]:
    """The incidents in a case, explained, the earliest first."""
    return judged(evidence_of(case), case, lang)


def judged(evidence: Iterable[Evidence], case: Case, lang: str = "en") -> tuple[Incident, ...]:
    """The incidents that the evidence makes."""
    found = incidents_of(localise(evidence, case), case)
    return tuple(with_declaration(explained(incident, lang), case, lang) for incident in found)


def advance(previous: Iterable[Incident], case: Case, lang: str = "en") -> tuple[Incident, ...]:
    """The incidents after one more look: what is open is judged again together with what is new.

    Evidence of open incidents stays, so that a symptom that comes a time-out later finds its cause.
    """
    return advanced(previous, case, lang)[0]


def advanced(
    previous: Iterable[Incident], case: Case, lang: str = "en", using: Mapping[str, Detector] | None = None
) -> tuple[tuple[Incident, ...], tuple[Evidence, ...]]:
    """`advance`, and every claim that this look rests on."""
    fresh = evidence_of(case, using)
    before = withdrawn((aged(incident, case.now_ms) for incident in previous), fresh, case)
    kept = [one for incident in before if incident.state == "open" for one in (*incident.evidence, *incident.against)]
    together = tuple(lasting(continued((_as_named(one, case) for one in kept), fresh, case.window_ms), case))
    return fold(before, judged(together, case, lang), case.now_ms), together


def _as_named(one: Evidence, case: Case) -> Evidence:
    """A known claim under the names of this look: what two names were of turned out to be one part."""
    component, peer = case.named(one.component), case.named(one.peer)
    same = (component, peer) == (one.component, one.peer)
    renamed: Evidence = one if same else replace(one, component=component, peer=peer)
    return renamed


def continued(kept: Iterable[Evidence], fresh: Iterable[Evidence], window_ms: int) -> tuple[Evidence, ...]:
    """Known and new claims. A claim over windows that goes on keeps its id, however far the horizon has slid."""
    known = {one.id: one for one in kept}
    latest: dict[tuple[str, str, str], Evidence] = {}
    for one in sorted(known.values(), key=order_key):
        latest[_subject(one)] = one
    for one in fresh:
        old = latest.get(_subject(one))
        if old is not None and old.id != one.id and _goes_on(old, one, window_ms):
            known[old.id] = replace(one, id=old.id, onset_from_ms=old.onset_from_ms, onset_to_ms=old.onset_to_ms)
        else:
            known[one.id] = one
    return _bounded(known.values())


def _subject(one: Evidence) -> tuple[str, str, str]:
    return (one.detector, one.component, one.fault)


def _goes_on(old: Evidence, new: Evidence, window_ms: int) -> bool:
    if old.window_end_ms is None or new.window_end_ms is None:
        return False
    began = new.onset_from_ms if new.onset_from_ms is not None else new.window_end_ms
    return began <= old.window_end_ms + 2 * window_ms


def _bounded(claims: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Of a storm of claims about one thing the first and the latest few: an incident must not grow for ever."""
    groups: dict[tuple[str, str, str], list[Evidence]] = {}
    for one in sorted(claims, key=order_key):
        groups.setdefault(_subject(one), []).append(one)
    return tuple(one for group in groups.values() for one in (*group[:FIRST], *group[FIRST:][-LATEST:]))
