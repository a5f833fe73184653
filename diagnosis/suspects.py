"""How sure a finding is, and who else could be it."""

import math

from diagnosis.case import Case
from diagnosis.claims import Claim
from diagnosis.evidence import FAIR
from sickbay.components import Kind, Name, kind_of
from sickbay.messages import Suspect

MOST_P = 0.98  # [house] nothing is surer before outcomes were labelled
BLIND = frozenset({"host_blind", "accelerator_blind"})  # claimed because the job stands (night 8: 9 in 10) ...
STALLS = frozenset({"peers_idle", "collective_stall"})  # ... so that it does says nothing more
RIVAL_SHARE = 0.3  # [house] of the probability, for the other place that the same signs accuse


def probability_of(causes: list[Claim], symptoms: tuple[Claim, ...]) -> float:
    """Against "something else" with weight 1; that it explains what it should show adds a little, once."""
    llr = max(claim.llr for claim in causes)
    others = [claim.llr for claim in causes[:3] if claim.fault != causes[0].fault and claim.llr > 0]
    more = [claim for claim in symptoms if not (causes[0].fault in BLIND and claim.fault in STALLS)]
    shown = FAIR if more and causes[0].role != "symptom" else 0.0
    llr += min(math.fsum(others) / 2, FAIR) + shown if len(causes) > 1 else shown
    return round(min(MOST_P, 1.0 / (1.0 + math.exp(-max(-20.0, min(20.0, llr))))), 3)


def other_ends(head: Claim, case: Case) -> list[Name]:
    """The other end of the link whose fault one end shows."""
    if kind_of(head.component) not in (Kind.PORT, Kind.OPTIC) or head.kind.component not in (Kind.PORT, Kind.OPTIC):
        return []
    at = head.onset.from_ms if head.onset and head.onset.clock == "utc" else None
    port = Kind.PORT + ":" + head.component.partition(":")[2]
    other = case.topology.at(at).other_end(port)
    return [other] if other else []


def share_of(rival: Claim, head: Claim) -> float:
    """What the rival's prior and evidence leave to it; never more than half, as the headline was named for a reason."""
    weights = [math.exp(claim.llr) * claim.kind.prior for claim in (rival, head)]
    return min(0.5, weights[0] / sum(weights))


def suspects_of(head: Name, rivals: list[Name], probability: float, share: float) -> tuple[Suspect, ...]:
    """The headline's component first; all together no more than the finding's probability."""
    share = share if rivals else 0.0
    first = Suspect(component=head, probability=round(probability * (1 - share), 3))
    rest = [Suspect(component=name, probability=round(probability * share / len(rivals), 3)) for name in rivals]
    return (first, *rest)
