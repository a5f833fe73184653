"""From claims to causes: what explains what, through rows of the mechanism table only.

All claims of all jobs meet here. A primary claim that no row explains is never a symptom, so two faults stay two.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from diagnosis.case import Case
from diagnosis.claim_index import ClaimIndex
from diagnosis.claims import Claim, against_of, claims_of
from diagnosis.clocks import UNORDERED_S, offsets_of
from diagnosis.evidence import strongest
from diagnosis.mechanisms import Mechanism, rows_between
from diagnosis.relations import Relations
from diagnosis.suspects import RIVAL_SHARE, other_ends, probability_of, share_of, suspects_of
from sickbay.components import Kind, Name, kind_of
from sickbay.messages import Evidence, Severity, Suspect

TOGETHER_MS = 7_200_000  # [house] different signs of one component further apart are different incidents
SLACK_MS = 2_000  # clock error between well-kept sources, beside the sampling
CERTAIN_EDGES = frozenset({"same", "told", "part_of_host", "attached_to"})  # enough for undated evidence
HANGS = frozenset({"collective_stall", "rank_absent"})
_ROLES = {"primary": 2, "workload": 1, "symptom": 0}


class Link(NamedTuple):
    """Claim `cause` explains claim `symptom` (both by index), by a row."""

    worth: float
    cause: int
    symptom: int
    row: Mechanism


@dataclass(frozen=True)
class Finding:
    """One cause with all that it explains."""

    headline: Claim
    causes: tuple[Claim, ...]  # all claims about the cause, the headline first
    symptoms: tuple[Claim, ...]
    against: tuple[Evidence, ...]
    suspects: tuple[Suspect, ...]
    probability: float


def localise(evidence: Iterable[Evidence], case: Case) -> tuple[Finding, ...]:
    """The causes behind the evidence, the earliest first."""
    together = tuple(evidence)
    claims = claims_of(together, hosts_with_wrong_clock(case))
    against = against_of(together)
    links = _with_context(claims, _chosen(claims, _links(claims, case)))
    groups: dict[int, list[int]] = defaultdict(list)
    roots = _roots(claims, links, case)
    for index in range(len(claims)):
        groups[roots[index]].append(index)
    found = [_finding(claims, root, group, links, against, case) for root, group in groups.items()]
    return tuple(sorted(found, key=lambda finding: finding.headline.key))


def hosts_with_wrong_clock(case: Case) -> frozenset[str]:
    """Hosts whose own clock is known to be off: their order is neither blame nor acquittal."""
    return frozenset(host for host, seconds in offsets_of(case).items() if abs(seconds) > UNORDERED_S)


def in_time(row: Mechanism, cause: Claim, symptom: Claim, slack_ms: int) -> bool | None:
    """Whether the delay between the onsets is one that the row allows; None where no shared clock tells."""
    first, second = cause.onset, symptom.onset
    if not (first and second and cause.ordered and symptom.ordered) or first.clock != second.clock:
        return None
    least, greatest = second.from_ms - first.to_ms, second.to_ms - first.from_ms
    return greatest >= row.least_ms - slack_ms and least <= row.greatest_ms + slack_ms


def _links(claims: tuple[Claim, ...], case: Case) -> list[Link]:
    slack = SLACK_MS + case.sampling_ms
    relations, index = Relations(case), ClaimIndex(claims)
    found = []
    for place, cause in enumerate(claims):
        if cause.consequence:
            continue
        for fault in index.faults:
            for row in rows_between(cause.fault, fault):
                found += [
                    Link(row.probability * worth, place, other, row)
                    for other in index.candidates(row, cause, fault, slack)
                    if other != place and (worth := _admits(row, cause, claims[other], relations, slack))
                ]
    return found


def _admits(row: Mechanism, cause: Claim, symptom: Claim, relations: Relations, slack_ms: int) -> float:
    timely = in_time(row, cause, symptom, slack_ms)
    if timely is False or (timely is None and row.edge not in CERTAIN_EDGES and not _may_join(cause, symptom)):
        return 0.0
    return relations.related(row.edge, cause, symptom)


def _may_join(cause: Claim, symptom: Claim) -> bool:
    """Undated words of one job about one input or one named job may belong together: nothing is ordered by that.

    A primary claim needs a time, but for a broken path: transport errors are a consequence far more often than not.
    """
    if symptom.role == "primary" and symptom.fault != "path_broken":
        return False
    return bool(cause.paths & symptom.paths or cause.jobs & symptom.jobs) or not (cause.ordered and symptom.ordered)


def _chosen(claims: tuple[Claim, ...], links: list[Link]) -> dict[int, Link]:
    """The best explanation of each explained claim, without circles."""
    chosen: dict[int, Link] = {}

    def rank(link: Link) -> tuple[object, ...]:
        cause = claims[link.cause]
        return (-link.worth, -cause.llr, -cause.kind.prior, cause.key, link.symptom)

    for link in sorted(links, key=rank):
        if link.symptom not in chosen and _top(chosen, link.cause) != link.symptom:
            chosen[link.symptom] = link
    return chosen


def _with_context(claims: tuple[Claim, ...], chosen: dict[int, Link]) -> dict[int, Link]:
    """Undated transport failures in the log of a job whose hang is explained belong to what explains it.

    Libraries print them without a time. Their order is not used: only that a row admits them, and whose log it is.
    """
    found = dict(chosen)
    for index, claim in enumerate(claims):
        if claim.fault != "path_broken" or claim.onset is not None or index in found:
            continue
        for stall, link in sorted(chosen.items()):
            cause = _top(chosen, stall)
            rows = rows_between(claims[cause].fault, claim.fault)
            if claims[stall].fault in HANGS and claims[stall].paths & claim.paths and rows and cause != index:
                found[index] = Link(link.worth * RIVAL_SHARE, cause, index, rows[0])
                break
    return found


def _top(chosen: dict[int, Link], index: int) -> int:
    while index in chosen:
        index = chosen[index].cause
    return index


def _roots(claims: tuple[Claim, ...], links: dict[int, Link], case: Case) -> dict[int, int]:
    """For each claim the claim that its incident is about; claims about one component are one incident."""
    tops = {index: _top(links, index) for index in range(len(claims))}
    merged: dict[int, int] = {}
    by_component: dict[Name, list[int]] = defaultdict(list)
    for top in sorted(set(tops.values()), key=lambda top: _gravity(claims[top]), reverse=True):
        claim = claims[top]
        group = _unexplained_group(claim)
        same = next((other for other in by_component[group] if _one_stretch(claims[other], claim)), None)
        if same is None:
            by_component[group].append(top)
        merged[top] = top if same is None else same
    return {index: merged[top] for index, top in tops.items()}


def _unexplained_group(claim: Claim) -> str:
    """What claims are joined by: the component; symptoms or broken paths of one job are one question."""
    if claim.kind.role == "symptom" and kind_of(claim.component) in (Kind.JOB, Kind.RANK):
        return claim.component.partition(":")[2].split("/")[0]
    if kind_of(claim.component) is Kind.PATH and len(claim.jobs) == 1:
        return f"paths of {next(iter(claim.jobs))}"
    return claim.component


def _one_stretch(first: Claim, second: Claim) -> bool:
    a, b = first.onset, second.onset
    if a is None or b is None or a.clock != b.clock:
        return True
    return abs(a.from_ms - b.from_ms) <= TOGETHER_MS


def _gravity(claim: Claim) -> tuple[int, int, int, float, int, str]:
    action = strongest([claim.kind.action])
    rank = list(type(action)).index(action)
    at = claim.key[0]
    return (_ROLES[claim.role], list(Severity).index(claim.severity), rank, claim.llr, -at, claim.fault)


def _finding(
    claims: tuple[Claim, ...],
    root: int,
    group: list[int],
    links: dict[int, Link],
    against: tuple[Evidence, ...],
    case: Case,
) -> Finding:
    head, rival = claims[root], None
    for index in group:
        link = links.get(index)
        if link and link.row.names == "symptom" and link.cause == root:
            head, rival = claims[index], claims[root].component
    causes = [head, *(claims[i] for i in group if claims[i] is not head and _is_cause(claims[i], i, root, head, links))]
    symptoms = tuple(claims[i] for i in group if claims[i] not in causes)
    probability = probability_of(causes, symptoms)
    share = RIVAL_SHARE
    if rival and rival != head.component:
        rivals, share = [rival], share_of(claims[root], head)
    else:
        rivals = other_ends(head, case)
    suspects = suspects_of(head.component, rivals, probability, share)
    opposed = tuple(one for one in against if _opposes(one, head, suspects))
    return Finding(head, tuple(causes), symptoms, opposed, suspects, probability)


def _opposes(one: Evidence, head: Claim, suspects: tuple[Suspect, ...]) -> bool:
    """It speaks against a suspect, or it clears a part that the head's component hangs on."""
    if one.component in {suspect.component for suspect in suspects}:
        return True
    return head.component in one.facts.get("ports", "").split(", ")


def _is_cause(claim: Claim, index: int, root: int, head: Claim, links: dict[int, Link]) -> bool:
    return index == root or (claim.component == head.component and index not in links and claim.role != "symptom")
