"""The card without work while all its peers spin in a collective: the rank on it did not come.

It tells where to look, not why: the program of that rank may as well write, read or have ended.
"""

from collections.abc import Iterable

from diagnosis.case import Case
from diagnosis.detectors.peers_idle import Stall, checkpoints, stalled
from diagnosis.evidence import FAIR, bucket_of, identity
from diagnosis.odd_ones import Odd, odd_ones
from sickbay.components import Kind, Name, kind_of, name
from sickbay.messages import Action, Evidence, Severity

NAME, VERSION = "odd_one_out", "1"

LASTS_MS = 120_000  # [house] longer than a rank that writes a checkpoint alone holds up the others (night 23: 70 s)
MOST_OF = 4  # one in four of the job's cards may be odd: else it is the job


def claims(case: Case) -> Iterable[Evidence]:
    """At most one claim per stalled job: its idle cards are all on one host, and this is no habit of the job."""
    for stall, cards in stalled(case):
        if stall.moved or stall.earlier or stall.end_ms - stall.to_ms < LASTS_MS or checkpoints(case, stall):
            continue
        odd = odd_ones(stall, cards, case.window_ms, case.sampling_ms)
        idle = [one for one in odd if one.how == "idle"]
        if idle and len(idle) == len(odd) and len({one.host for one in idle}) == 1 and _few(idle, stall):
            yield _claim(idle, stall, case)


def _few(idle: list[Odd], stall: Stall) -> bool:
    return MOST_OF * len(idle) <= stall.cards


def _claim(idle: list[Odd], stall: Stall, case: Case) -> Evidence:
    component = _named(idle, stall, case)
    return Evidence(
        id=identity(NAME, VERSION, component, "rank_absent", bucket_of(stall.to_ms)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="rank_absent",
        llr=FAIR,
        onset_from_ms=stall.from_ms,
        onset_to_ms=stall.to_ms,
        end_ms=stall.end_ms,
        window_end_ms=stall.end_ms,
        source_group=f"{component}|idle",
        severity=Severity.ERROR,
        advice=Action.WATCH,
        peer="" if component == idle[0].component else idle[0].component,
        job=stall.job,
        count=len(idle),
        says="idle_while_peers_spin",
        facts={"cards": str(len(idle)), "part": ", ".join(one.component for one in idle[:4])},
    )


def _named(idle: list[Odd], stall: Stall, case: Case) -> Name:
    """The rank where placement tells it, else the card; the host where several of its cards are idle."""
    if len(idle) > 1:
        return name(Kind.HOST, idle[0].host)
    ranks = case.placements.at(stall.to_ms).ranks_of(idle[0].component)
    own = [rank for rank in ranks if kind_of(rank) is Kind.RANK and rank.startswith(f"rank:{stall.job}/")]
    return own[0] if len(own) == 1 else idle[0].component
