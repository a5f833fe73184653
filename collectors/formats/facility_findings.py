"""What power and cooling units say of their own state, as events: told when it begins, and once when all is well again.

Only a unit's own word or its own threshold is a finding here; what readings alone mean is for detectors.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from collectors.formats.events import event
from sickbay.components import Kind, Name, kind_of
from sickbay.messages import Event, Severity
from sickbay.vocabulary import event_kinds

MAX_STANDING = 10_000  # findings that are remembered of one input
_GRAVE = (Severity.ERROR, Severity.FATAL)


class Key(NamedTuple):
    """What stands: a kind of event, and the part of the unit that it is about ("" = all of it)."""

    component: Name
    kind: str
    part: str = ""


class Finding(NamedTuple):
    """A state of a unit that is worth an event. `facts` become attributes."""

    key: Key
    facts: Mapping[str, str] = {}
    message: str = ""


Known: TypeAlias = Mapping[Key, Finding]


def step(
    known: Known, found: Iterable[Finding], heard: Collection[Name], at_ms: int | None
) -> tuple[dict[Key, Finding], list[Event]]:
    """What stands now, and the events of what has changed. Units that were not `heard` stand as they were."""
    told = {finding.key: finding for finding in found}
    after = {key: one for key, one in known.items() if key.component not in heard} | told
    new = [_begun(one, at_ms) for key, one in told.items() if key not in known]
    whole = _grave(known) - _grave(after)
    return after, [*new, *(_restored(one, known, at_ms) for one in sorted(whole) if _restores(one) in event_kinds())]


def _grave(known: Known) -> set[Name]:
    return {key.component for key in known if event_kinds()[key.kind].severity in _GRAVE}


def _begun(finding: Finding, at_ms: int | None) -> Event:
    facts = {**finding.facts, "part": finding.key.part}
    return event(finding.key.kind, finding.key.component, facts, at_ms=at_ms, message=finding.message)


def _restores(component: Name) -> str:
    return f"{kind_of(component)}.restored"


def _restored(component: Name, known: Known, at_ms: int | None) -> Event:
    ended = sorted({key.kind for key in known if key.component == component})
    return event(_restores(component), component, {"ended": " ".join(ended)}, at_ms=at_ms)


@dataclass(slots=True)
class Findings:
    """Events of readings that are a unit's own word on its state: a wet leak detector. Hold one an input."""

    _wet: dict[Name, bool] = field(default_factory=dict)

    def of_reading(self, component: Name, column: str, value: float, at_ms: int | None) -> Iterator[Event]:
        """Events of one value, in the order of their times."""
        if column != "leak" or kind_of(component) is not Kind.CDU:
            return
        wet, before = value > 0, self._wet.get(component, False)
        if component in self._wet or len(self._wet) < MAX_STANDING:
            self._wet[component] = wet
        if wet and not before:
            yield event("cdu.leak", component, {"part": "leak detector"}, at_ms=at_ms)
        if before and not wet:
            yield event("cdu.restored", component, {"ended": "cdu.leak"}, at_ms=at_ms)
