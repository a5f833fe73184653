"""What the training hook of each rank tells of the steps of one second: as columns, or as messages of some ranks.

A synchronous step ends for all ranks at the same moment. Where the hook stands around a rank's *own* work (before
gradients are exchanged) its time is that of its work, and who came last is seen; where it stands around the *whole*
step all ranks tell the same time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sickbay.messages import Progress, Step
from simulator.workload.groups import KINDS, Groups
from simulator.workload.shares import Shares

Floats = NDArray[np.float64]

OWN = 0.93  # of a usual step: a rank's own work, before gradients are exchanged
JITTER, TOGETHER_MS = 0.002, 0.4  # of a rank's own time; and where all wait for each other
OPEN_S = 20  # a step that lasts so long is told though it has not ended, as agents do
NAMES = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline", "ep": "expert"}


@dataclass(frozen=True, slots=True)
class Done:
    """One step that ended. `usual_s`: its length with nobody slow; `held`: a rank that held it up, and for how long."""

    step: int
    begin_ms: int
    end_ms: int
    usual_s: float
    held: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A phase that began: `load`, `checkpoint_begin`, `begin` of a step that does not end ... told by every rank."""

    phase: str
    step: int
    at_ms: int
    spared: frozenset[int] = frozenset()  # ranks that do not tell it: they are not there


def columns(
    done: Done, shares: Shares, clock: Floats | None, late: Mapping[int, float], extra: float
) -> Mapping[str, Floats]:
    """The records of one step, [ranks] each: `rank`, `step`, `at_ms`, `duration_ms`, `work` (tokens).

    `clock`: factors on the clocks of the ranks' cards; `late`: more own time of some; `extra`: a factor for all.
    """
    work = shares.of_ranks(done.step - 1)
    noise = shares.noise(done.step)
    whole_ms = float(done.end_ms - done.begin_ms)
    own = 1000 * OWN * extra * done.usual_s * work / work.max() * (1 + JITTER * noise)
    own = own if clock is None else own / clock
    for rank, share in late.items():
        own[rank] *= 1 + share
    if done.held:
        own[done.held[0]] += 1000 * done.held[1]
    told = np.minimum(own, whole_ms) if shares.plan.hook == "own" else whole_ms + TOGETHER_MS * noise
    return {
        "rank": np.arange(len(own), dtype=float),
        "step": np.full(len(own), float(done.step)),
        "at_ms": np.round(done.begin_ms + told),
        "duration_ms": told,
        "work": shares.plan.tokens * shares.tokens(done.step - 1),
    }


def messages(job: str, done: Sequence[Mapping[str, Floats]], said: Sequence[Said], ranks: Sequence[int]) -> list[Step]:
    """The same of some ranks, in the order of their times."""
    found = [
        Step(
            step=int(one["step"][rank]), job=job, rank=rank, at_ms=int(one["at_ms"][rank]),
            duration_ms=float(one["duration_ms"][rank]), work=float(one["work"][rank]),
        )
        for one in done
        for rank in ranks
    ]  # fmt: skip
    found += [
        Step(step=one.step, job=job, rank=rank, at_ms=one.at_ms, phase=one.phase)
        for one in said
        for rank in ranks
        if rank not in one.spared
    ]
    return sorted(found, key=lambda one: one.at_ms or 0)


def memberships(job: str, groups: Groups, ranks: Sequence[int]) -> list[Progress]:
    """Who belongs to which group; groups of one rank are not told of."""
    found = []
    for kind in KINDS:
        for rank in ranks if getattr(groups, kind) > 1 else ():
            members, title = groups.group_of(rank, kind), NAMES[kind]
            group = f"{title}:{members[0]}"
            found.append(Progress(rank=rank, job=job, group=group, group_name=title, group_ranks=members))
    return found
