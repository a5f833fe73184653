"""What a scenario demands of whoever watches it: who must be named by when, and who must be left alone.

night.expect(by=90).incident(component="optic:leaf-07/Ethernet12", verdict="component")
night.expect().nothing_done_to("host:h2")
assert unmet(night.demands, incidents, found_s) == []
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sickbay.components import Name, host_of
from sickbay.messages import Incident
from simulator.truth.expectation import CONTAINMENT, TAKING


@dataclass(frozen=True, slots=True)
class Demand:
    """One demand. Empty fields are not asked for; `by_s` counts from the start of the night."""

    by_s: int | None = None
    component: Name = ""
    verdict: str = ""
    fault: str = ""
    action: str = ""
    spared: Name = ""  # nothing may be taken out of service on this component or its host

    def fits(self, incident: Incident) -> bool:
        """The incident is the one that is asked for."""
        asked = ((self.component, incident.component), (self.verdict, incident.verdict),
                 (self.fault, incident.fault), (self.action, incident.action))  # fmt: skip
        return incident.state != "merged" and all(wanted in ("", told) for wanted, told in asked)


@dataclass(frozen=True, slots=True)
class Asking:
    """The beginning of a demand; what follows completes it."""

    into: list[Demand]
    by_s: int | None = None

    def incident(self, *, component: Name = "", verdict: str = "", fault: str = "", action: str = "") -> None:
        """Such an incident must be open by then."""
        self.into.append(Demand(self.by_s, component, verdict, fault, action))

    def nothing_done_to(self, component: Name) -> None:
        """No incident and no plan may take it out of service."""
        self.into.append(Demand(spared=component))


def unmet(demands: Iterable[Demand], incidents: Sequence[Incident], found_s: Mapping[str, int]) -> list[str]:
    """What was asked for and did not come, or came and must not; `found_s`: incident id, second first said."""
    return [text for demand in demands if (text := _failure(demand, incidents, found_s))]


def _failure(demand: Demand, incidents: Sequence[Incident], found_s: Mapping[str, int]) -> str:
    if demand.spared:
        return next((text for incident in incidents if (text := _done_to(demand.spared, incident))), "")
    fitting = [incident for incident in incidents if demand.fits(incident)]
    if not fitting:
        return f"no incident for {demand}"
    first = min(found_s.get(incident.id, 0) for incident in fitting)
    late = demand.by_s is not None and first > demand.by_s
    return f"{fitting[0].component} was named at {first} s, not by {demand.by_s} s" if late else ""


def _done_to(component: Name, incident: Incident) -> str:
    host = host_of(component)
    if incident.action in CONTAINMENT and _same(component, host, incident.component):
        return f"{incident.action} of {incident.component}"
    for step in incident.plan:
        if step.do in TAKING and _same(component, host, step.target):
            return f"plan: {step.do} of {step.target}"
    return ""


def _same(component: Name, host: str | None, other: Name) -> bool:
    return component == other or (host is not None and other == f"host:{host}")
