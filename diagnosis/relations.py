"""Whether two components hang together over an edge of the mechanism table, by topology, placement and their names.

1.0: known. Less: assumed, as no placement or topology is known that could tell. 0.0: not related.
"""

from diagnosis.case import Case
from diagnosis.claims import Claim
from diagnosis.mechanisms import Edge
from sickbay.components import (
    HOST_SCOPED,
    JOB_SCOPED,
    UNKNOWN,
    Kind,
    Name,
    ends_of,
    host_of,
    kind_of,
    name,
    parts_of,
)  # fmt: skip
from sickbay.messages import Relation

ASSUMED = 0.6  # [house] worth of an edge that nothing contradicts and nothing tells
DOMAINS = frozenset({Kind.FABRIC, Kind.RACK})
_BEFORE_MS = 60_000  # a job that has just ended still counts as running there


class Relations:
    """What hangs together in one case. Look-ups are remembered: one round asks the same thousands of times."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._jobs: dict[tuple[Name, int | None], frozenset[str]] = {}
        self._above: dict[tuple[Name, int | None], frozenset[Name]] = {}
        self._routes: dict[tuple[Name, int | None], frozenset[Name]] = {}
        self._ends: dict[int, frozenset[Name]] = {}  # by the claim: they live as long as the round

    def related(self, edge: Edge, cause: Claim, symptom: Claim) -> float:
        """How surely `symptom` hangs on `cause` over that edge."""
        if edge == "same":
            return float(cause.component == symptom.component)
        if edge == "told":
            return float(any(one.facts.get("victim_of") == cause.component for one in symptom.evidence))
        if edge == "part_of_host":
            return one_host(cause, symptom)
        if edge == "same_domain":
            return self.one_domain(cause, symptom)
        if edge == "attached_to":
            assumed = one_host(cause, symptom) if self._case.topology.components == 0 else 0.0
            return max(self.below(cause, symptom), assumed)
        if edge in ("same_group", "placed_on"):
            return self.one_group(cause, symptom)
        if edge == "link_end":
            return float(self._same_link(cause, symptom, _at(cause, symptom)))
        if edge == "lights":
            return float(_optic(symptom.component) in _told(cause, "lights"))
        if edge == "mounts":
            return self.mounted(cause, symptom)
        if edge == "routed_over":
            held = _told(cause, "hosts")
            return max(self._routed(cause, symptom), self._held(symptom, held) if held else 0.0)
        return self.below(cause, symptom)

    def _same_link(self, cause: Claim, symptom: Claim, at_ms: int | None) -> bool:
        """Two ports of one link, an optic and its port, or the same interface under other kinds and names."""
        first, second = self._ports(cause), self._ports(symptom)
        if first & second:
            return True
        view = self._case.topology.at(at_ms)
        return any(view.other_end(end) in second for end in first) or any(
            view.other_end(end) in first for end in second
        )

    def _ports(self, claim: Claim) -> frozenset[Name]:
        if id(claim) not in self._ends:
            self._ends[id(claim)] = _ports(claim)
        return self._ends[id(claim)]

    def below(self, cause: Claim, symptom: Claim) -> float:
        """The symptom's component, or its host, hangs below the cause's in the topology."""
        if cause.component in (one.peer for one in symptom.evidence):
            return 1.0
        return float(cause.component in self._ancestors(symptom.component, _at(symptom, cause)))

    def _routed(self, cause: Claim, symptom: Claim) -> float:
        """The symptom's component, its host or one of its job's hosts hangs below the cause, or routes over it."""
        at = _at(symptom, cause)
        over = self._over(cause.component, at)
        if self.below(cause, symptom) or not over.isdisjoint(self._ancestors(symptom.component, at)):
            return 1.0
        view = self._case.topology.at(at)
        hosts = {host for switch in over for host in view.hosts_under(switch)}
        return self._held(symptom, frozenset(hosts)) if kind_of(symptom.component) in JOB_SCOPED and hosts else 0.0

    def _over(self, component: Name, at_ms: int | None) -> frozenset[Name]:
        """Switches that route over a component, those that route over these too."""
        key = (component, at_ms)
        if key not in self._routes:
            found, waiting = set[Name](), [component]
            while waiting:
                fresh = {*self._case.topology.at(at_ms).children(waiting.pop(), Relation.ROUTED_OVER)} - found
                found |= fresh
                waiting += fresh
            self._routes[key] = frozenset(found)
        return self._routes[key]

    def one_domain(self, cause: Claim, symptom: Claim) -> float:
        """Both in one scale-up domain: one host, a fabric or rack in common, or told to be; else one job is assumed."""
        at = _at(cause, symptom)
        common = self._ancestors(cause.component, at) & self._ancestors(symptom.component, at)
        if one_host(cause, symptom) or any(kind_of(part) in DOMAINS for part in common):
            return 1.0
        near = self._case.topology.at(at).parents(cause.component, Relation.SAME_GROUP)
        if symptom.component in near:
            return 1.0
        return ASSUMED * bool(self.jobs_of(cause, at) & self.jobs_of(symptom, at))

    def one_group(self, cause: Claim, symptom: Claim) -> float:
        """Both work for one attempt. Where no placement is known at all, one is assumed."""
        first = self.jobs_of(cause, _at(cause, symptom))
        second = self.jobs_of(symptom, _at(symptom, cause))
        if first and second:
            return 1.0 if first & second else ASSUMED * (not (_known(first) and _known(second)))
        if kind_of(symptom.component) is Kind.PATH:
            return ASSUMED
        if len(self._case.placements):
            return one_host(cause, symptom)
        jobless = kind_of(symptom.component) in JOB_SCOPED or kind_of(cause.component) in JOB_SCOPED
        return max(ASSUMED * jobless, one_host(cause, symptom))

    def mounted(self, cause: Claim, symptom: Claim) -> float:
        """The symptom names the storage target, or its host is among those that did."""
        if cause.component in (one.peer for one in symptom.evidence):
            return 1.0
        host = _host(symptom.component)
        clients = _told(cause, "hosts")
        if host:
            return float(host in clients) or self.below(cause, symptom)
        return self.one_group(cause, symptom)

    def _held(self, symptom: Claim, hosts: frozenset[str]) -> float:
        """The symptom shows on one of the hosts, or in a job that ran on one of them."""
        if host := _host(symptom.component):
            return float(host in hosts)
        at = _at(symptom, symptom)
        view, own = self._case.placements.at(at), self.jobs_of(symptom, at)
        ran = {place.job for host in hosts for place in view.jobs_of(name(Kind.HOST, host))}
        return float(bool(own & ran)) if len(self._case.placements) else ASSUMED

    def jobs_of(self, claim: Claim, at_ms: int | None) -> frozenset[str]:
        """Jobs that the claim is about: named by it, or placed on its component at the time."""
        if kind_of(claim.component) in JOB_SCOPED:
            job = parts_of(claim.component)[0]
            return claim.jobs | ({job} if job not in ("", UNKNOWN) else frozenset())
        key = (claim.component, at_ms)
        if key not in self._jobs:
            self._jobs[key] = jobs_on(claim.component, self._case, at_ms)
        return claim.jobs | self._jobs[key]

    def _ancestors(self, component: Name, at_ms: int | None) -> frozenset[Name]:
        key = (component, at_ms)
        if key not in self._above:
            host, view = _host(component), self._case.topology.at(at_ms)
            far = view.other_end(_port(component))  # a carrier is lost with either end's parents
            starts = [component, *([name(Kind.HOST, host)] if host else []), *([far] if far else [])]
            self._above[key] = frozenset(part for start in starts for part in (start, *view.ancestors(start)))
        return self._above[key]


def _told(claim: Claim, fact: str) -> frozenset[str]:
    """What a list among the facts of a claim's evidence names."""
    return frozenset(one for each in claim.evidence for one in each.facts.get(fact, "").split(", ") if one)


def _optic(component: Name) -> Name:
    return Kind.OPTIC + ":" + component.partition(":")[2]


def one_host(cause: Claim, symptom: Claim) -> float:
    """Both on one host; unknown hosts count as one only within the same input."""
    first, second = _host(cause.component), _host(symptom.component)
    if first is None or second is None:
        scoped = kind_of(cause.component) in HOST_SCOPED and kind_of(symptom.component) in HOST_SCOPED
        return float(scoped and first == second and bool(cause.paths & symptom.paths))
    return float(first == second)


def jobs_on(component: Name, case: Case, at_ms: int | None) -> frozenset[str]:
    """Jobs that ran on a component at the time or shortly before."""
    targets = [component, *ends_of(component)]
    if kind_of(component) not in HOST_SCOPED:
        targets = [name(Kind.HOST, host) for host in case.topology.at(at_ms).hosts_under(component)]
    times = [None] if at_ms is None else [at_ms, at_ms - _BEFORE_MS]
    views = [case.placements.at(time) for time in times]
    return frozenset(place.job for target in targets for view in views for place in view.jobs_of(target))


def _host(component: Name) -> str | None:
    return host_of(component) if kind_of(component) in HOST_SCOPED else None


def _known(jobs: frozenset[str]) -> bool:
    """A job with a name of its own: a stand-in (`~...`) may be any job whose name its log did not tell."""
    return any(not job.startswith("~") for job in jobs)


def _at(cause: Claim, symptom: Claim) -> int | None:
    for claim in (cause, symptom):
        if claim.onset and claim.onset.clock == "utc":
            return claim.onset.from_ms
    return None


def _ports(claim: Claim) -> frozenset[Name]:
    """The component as a port, by its name and by the address that its lines tell beside it."""
    host = _host(claim.component)
    told = {address for one in claim.evidence if (address := one.facts.get("pci"))}
    own = ends_of(claim.component) or (_port(claim.component),)
    return frozenset({*own, *(name(Kind.PORT, host, address) for address in told if host)})


def _port(component: Name) -> Name:
    kind, _, rest = component.partition(":")
    return f"{Kind.PORT}:{rest}" if kind in (Kind.OPTIC, Kind.NIC) else component
