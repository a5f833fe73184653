"""Work that people declared: a fault of what they work on, while they work on it, is their doing and nobody's incident.

Only what lies wholly inside counts: each cause on a declared part or on what hangs on it, and all signs of it within
the declared time. A sign after the end, or one that nothing dates, is a fault like any other.
"""

from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.explain import say
from sickbay.actions import Control
from sickbay.clock import rfc3339
from sickbay.components import Kind, Name, kind_of
from sickbay.messages import Evidence, Incident, Verdict, replace

# Work on these reaches what carries data over them, not a host's own devices: those do not break because a switch does.
REACHES = frozenset({Kind.SWITCH, Kind.PORT, Kind.OPTIC, Kind.LINK, Kind.PATH, Kind.NIC, Kind.STORAGE, Kind.FILESYSTEM})
SEEN_FROM_AFAR = frozenset({"host_blind", "host_silent"})  # faults of a host that may be its network's


def declared(evidence: Iterable[Evidence], case: Case) -> Control | None:
    """The declaration that covers all of the evidence (one of several), None where some of it is not covered."""
    found = None
    for one in evidence:
        found = _covers(one, case)
        if found is None:
            return None
    return found


def _covers(one: Evidence, case: Case) -> Control | None:
    times = [at for at in (one.onset_from_ms, one.onset_to_ms, one.end_ms, one.window_end_ms) if at is not None]
    if not times:
        return None
    fits = [control for control in case.maintenance if _within(control, min(times), max(times), case.window_ms)]
    if not fits:
        return None
    parts = {one.component, *case.topology.at(max(times)).ancestors(one.component)}
    return next((control for control in fits if control.target in parts and _reaches(control.target, one)), None)


def _within(control: Control, first_ms: int, last_ms: int, slack_ms: int) -> bool:
    """A window begins before what is seen in it."""
    begin = control.at_ms if control.from_ms is None else control.from_ms
    return begin - slack_ms <= first_ms and (control.until_ms is None or last_ms <= control.until_ms + slack_ms)


def _reaches(target: Name, one: Evidence) -> bool:
    if target == one.component or kind_of(target) not in REACHES:
        return True
    return kind_of(one.component) in REACHES or one.fault in SEEN_FROM_AFAR


def with_declaration(incident: Incident, case: Case, lang: str = "en") -> Incident:
    """The incident, its summary saying who declared the work, where it is that."""
    own = [one for one in incident.evidence if one.component == incident.component and one.fault == incident.fault]
    control = declared(own, case) if incident.verdict is Verdict.MAINTENANCE else None
    if control is None:
        return incident
    facts = {"target": control.target, "by": control.by, "until": rfc3339(control.until_ms) or "?"}
    words = say("summary_declared", facts, lang)
    note = f" ({control.note[:200]})" if control.note else ""
    told: Incident = replace(incident, summary=f"{incident.summary} {words}{note}"[:4000])
    return told
