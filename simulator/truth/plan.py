"""What is right about a whole night: verdicts, plans in order, what must not be done; and how an answer fares by it.

A night asks for incidents (`Right`), none where it has none; for verbs that no plan may have (`Ban`); and for what
later stages must do (`Duty`), which the diagnosis and its plans alone cannot show.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sickbay.components import Name, host_of
from sickbay.messages import Incident
from simulator.truth.expectation import CONTAINMENT, TAKING

STAGES = ("diagnosis", "plan", "remediation", "alerting", "collection")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One step of a right plan; an empty target: whatever it is done to."""

    do: str
    target: Name = ""


@dataclass(frozen=True, slots=True)
class Right:
    """An incident that must be told. `by_s`: seconds of the night; empty fields are not asked for."""

    verdicts: frozenset[str]
    components: frozenset[Name] = frozenset()
    faults: frozenset[str] = frozenset()
    plan: tuple[Wanted, ...] = ()
    by_s: int | None = None


@dataclass(frozen=True, slots=True)
class Ban:
    """A verb that no plan may have, on these targets (none: on any), where `when` is told only then."""

    do: str
    targets: frozenset[Name] = frozenset()
    when: str = ""


@dataclass(frozen=True, slots=True)
class Duty:
    """What another stage must do or must not do."""

    stage: str
    says: str


@dataclass(frozen=True, slots=True)
class Truth:
    """Of one night."""

    rights: tuple[Right, ...] = ()
    bans: tuple[Ban, ...] = ()
    exonerated: frozenset[Name] = frozenset()
    hosts: frozenset[str] = frozenset()  # of the cluster: nobody may take one out that no right answer is about
    duties: tuple[Duty, ...] = ()
    page: bool | None = None
    most: int | None = None  # incidents that may stand at the end, whatever they are of
    spare_all: bool = True  # False: hosts beyond the right answers may be taken out, where the bans allow it


@dataclass(frozen=True, slots=True)
class Told:
    """An incident as it was told, and when (second of the night; None where nobody knows)."""

    incident: Incident
    at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """How an answer fared: None where the night asks for nothing of the kind."""

    verdict: bool
    component: bool | None
    fault: bool | None
    in_time: bool | None
    plan: bool | None
    missing: tuple[str, ...]  # of plans
    harm: tuple[str, ...]  # forbidden acts, and containment of the innocent
    extra: tuple[str, ...]  # incidents nobody asked for

    @property
    def diagnosed(self) -> bool:
        """Right as far as diagnosis goes, and nothing harmful is planned."""
        parts = (self.verdict, self.component, self.fault, self.in_time)
        return all(one is not False for one in parts) and not self.harm and not self.extra

    @property
    def right(self) -> bool:
        """The plan is right too."""
        return self.diagnosed and self.plan is not False


def marks(truth: Truth, told: Sequence[Told]) -> Marks:
    """The answer against the truth. Verdicts and plans are judged as they stood last, harm at any time."""
    last = [one for one in _last(told) if one.incident.state != "merged"]
    found = [_best(right, last) for right in truth.rights]
    each = list(zip(truth.rights, found, strict=True))
    missing = [text for right, one in each for text in _missing(right, one)]
    harm = dict.fromkeys(text for one in told for text in harms(truth, one.incident))
    asked = {id(one.incident) for one in found if one}
    return Marks(
        verdict=all(one is not None for one in found) if each else not _claims(truth, last),
        component=_all(bool(one) and _names(right, one.incident) for right, one in each if right.components),  # type: ignore[union-attr]
        fault=_all(bool(one) and one.incident.fault in right.faults for right, one in each if right.faults),  # type: ignore[union-attr]
        in_time=_all(_in_time(right, one, told) for right, one in each if right.by_s is not None),
        plan=_all(not _missing(right, one) for right, one in each if right.plan),
        missing=tuple(missing), harm=tuple(harm),
        extra=tuple(_short(one.incident) for one in last if id(one.incident) not in asked and _claim(one.incident))
        + _too_many(truth, last),
    )  # fmt: skip


def harms(truth: Truth, incident: Incident) -> Iterator[str]:
    """What an incident asks for and must not: banned verbs, and the innocent taken out of service."""
    guilty = {host for right in truth.rights for one in right.components if (host := host_of(one))}
    named = {one for right in truth.rights for one in right.components}
    for do, target, when in _acts(incident):
        if any(_bans(ban, do, target, when) for ban in truth.bans):
            yield f"forbidden: {do} of {target}"
        elif do in TAKING and truth.spare_all and target not in named:
            if (host := host_of(target)) and host not in guilty and host in truth.hosts:
                yield f"innocent: {do} of {target}"
        elif do in TAKING and target in truth.exonerated and target not in named:
            yield f"exonerated: {do} of {target}"


def _acts(incident: Incident) -> Iterator[tuple[str, Name, str]]:
    """The plan's steps, and the headline where it takes something out."""
    yield from ((step.do, step.target, step.when) for step in incident.plan)
    if incident.action in TAKING:
        yield str(incident.action), incident.component, "now" if not incident.plan else "headline"


def _bans(ban: Ban, do: str, target: Name, when: str) -> bool:
    return ban.do == do and (not ban.targets or target in ban.targets) and ban.when in ("", when)


def _last(told: Iterable[Told]) -> list[Told]:
    return list({one.incident.id: one for one in told}.values())


def _best(right: Right, last: Sequence[Told]) -> Told | None:
    """The incident that answers best: of the right verdict, if possible on the right part, of the right class."""
    fitting = [one for one in last if one.incident.verdict in right.verdicts]
    key = [(_names(right, one.incident), one.incident.fault in right.faults) for one in fitting]
    return fitting[max(range(len(key)), key=key.__getitem__)] if key else None


def _names(right: Right, incident: Incident) -> bool:
    return not right.components or incident.component in right.components


def _in_time(right: Right, found: Told | None, told: Iterable[Told]) -> bool:
    times = [
        one.at_s for one in told
        if one.at_s is not None and one.incident.verdict in right.verdicts and _names(right, one.incident)
    ]  # fmt: skip
    if not times:  # nobody knows when: not judged
        return found is not None and found.at_s is None
    return right.by_s is None or min(times) <= right.by_s


def _missing(right: Right, found: Told | None) -> list[str]:
    """Steps of the right plan that are not there, or not in this order."""
    if found is None:
        return [step.do for step in right.plan]
    done, place, missing = list(found.incident.plan), 0, []
    for wanted in right.plan:
        fits = [i for i, step in enumerate(done) if step.do == wanted.do and wanted.target in ("", step.target)]
        after = [i for i in fits if i >= place]
        if after:
            place = after[0] + 1
        else:
            missing.append(wanted.do + (" (too early)" if fits else ""))
    return missing


def _claim(incident: Incident) -> bool:
    """It blames hardware, or takes something out of service."""
    if incident.verdict == "job":
        return False
    return incident.verdict in ("component", "shared") or incident.action in CONTAINMENT


def _claims(truth: Truth, last: Iterable[Told]) -> bool:
    return any(_claim(one.incident) for one in last)


def _too_many(truth: Truth, last: Sequence[Told]) -> tuple[str, ...]:
    if truth.most is None or len(last) <= truth.most:
        return ()
    return (f"{len(last)} incidents instead of {truth.most}",)


def _short(incident: Incident) -> str:
    return f"{incident.verdict} {incident.component} {incident.fault}"


def _all(parts: Iterable[bool]) -> bool | None:
    found = list(parts)
    return all(found) if found else None
