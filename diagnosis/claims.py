"""Evidence about one component and one fault, weighed together: what the localiser reasons about."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from diagnosis.evidence import CERTAIN, When, when, worst
from sickbay.components import Name
from sickbay.messages import Evidence, Severity
from sickbay.vocabulary import Fault, faults

GAP_MS = 86_400_000  # [house] the same fault of the same component after a longer silence is another incident
CONSEQUENCE = ("victim_of", "caused_by")


@dataclass(frozen=True)
class Claim:
    """All evidence for one fault of one component that belongs to one stretch of time."""

    component: Name
    fault: str
    evidence: tuple[Evidence, ...]
    ordered: bool = True  # False: its clock is known to be off, so its order counts for nothing
    spoken_against: tuple[Evidence, ...] = field(default=())

    @property
    def kind(self) -> Fault:
        """The fault's row."""
        return faults()[self.fault]

    @cached_property
    def consequence(self) -> bool:
        """True where the sources themselves call all of it a consequence of something else."""
        return all(any(word in one.facts for word in CONSEQUENCE) for one in self.evidence)

    @cached_property
    def role(self) -> str:
        """The part that the fault plays: primary, workload or symptom."""
        return "symptom" if self.consequence else self.kind.role

    @cached_property
    def llr(self) -> float:
        """The sum over source groups: one physical fact counts once, none for more than ln 20."""
        return weight(self.evidence) + weight(self.spoken_against)

    @cached_property
    def severity(self) -> Severity:
        """The gravest."""
        return worst(one.severity for one in self.evidence)

    @cached_property
    def onset(self) -> When | None:
        """The earliest onset on the best clock that any of it has."""
        times = [at for at in map(when, self.evidence) if at]
        return min(times, key=lambda at: (at.clock != "utc", at.clock, at.from_ms, at.to_ms), default=None)

    @cached_property
    def jobs(self) -> frozenset[str]:
        """Jobs that the evidence itself names."""
        return frozenset(one.job for one in self.evidence if one.job)

    @cached_property
    def paths(self) -> frozenset[str]:
        """Inputs that it was read from."""
        return frozenset(cite.path for one in self.evidence for cite in one.cites if cite.path)

    @property
    def key(self) -> tuple[int, str, str, str]:
        """A stable order: by onset, then by name."""
        onset = self.onset
        at = onset.from_ms if onset and onset.clock == "utc" else 2**62
        return (at, self.component, self.fault, self.evidence[0].id)


def weight(evidence: Iterable[Evidence]) -> float:
    """The summed log-likelihood ratio; within a source group only the strongest word counts."""
    groups: dict[str, float] = {}
    for one in evidence:
        group = one.source_group or one.id
        if abs(one.llr) > abs(groups.get(group, 0.0)):
            groups[group] = max(-CERTAIN, min(CERTAIN, one.llr))
    return math.fsum(groups.values())


def claims_of(evidence: Iterable[Evidence], unordered_hosts: frozenset[str] = frozenset()) -> tuple[Claim, ...]:
    """Claims, in a stable order; what speaks against a component joins each of its claims."""
    unique = {one.id: one for one in sorted(evidence, key=lambda one: (one.id, one.count))}
    against: dict[str, list[Evidence]] = defaultdict(list)
    groups: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for one in unique.values():
        if one.llr < 0:
            against[one.component].append(one)
        else:
            groups[one.component, one.fault].append(one)
    found = []
    for (component, fault), together in groups.items():
        ordered = not unordered_hosts & set(component.partition(":")[2].split("/")[:1])
        opposed = tuple(sorted(against[component], key=_order))
        found += [Claim(component, fault, part, ordered, opposed) for part in _stretches(together)]
    return tuple(sorted(found, key=lambda claim: claim.key))


def against_of(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """All that speaks against something, in a stable order, each once."""
    return tuple(sorted({one.id: one for one in evidence if one.llr < 0}.values(), key=_order))


def _order(one: Evidence) -> tuple[str, int, int, str]:
    at = when(one)
    return (at.clock if at else "~", at.from_ms if at else 0, one.window_end_ms or 0, one.id)


def _stretches(together: list[Evidence]) -> Iterator[tuple[Evidence, ...]]:
    """Evidence split where it was silent for long; the undated joins the first stretch."""
    undated = [one for one in together if when(one) is None]
    dated = sorted((one for one in together if when(one) is not None), key=_order)
    stretch: list[Evidence] = undated[:]
    last: When | None = None
    for one in dated:
        at = when(one)
        assert at is not None
        if last is not None and (at.clock != last.clock or at.from_ms - last.to_ms > GAP_MS):
            yield tuple(sorted(stretch, key=_order))
            stretch = []
        stretch.append(one)
        end = max(at.to_ms, one.end_ms or 0) if at.clock == "utc" else at.to_ms
        last = When(at.clock, at.from_ms, max(end, last.to_ms if last and last.clock == at.clock else end))
    if stretch:
        yield tuple(sorted(stretch, key=_order))
