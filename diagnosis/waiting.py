"""Who waits for whom in the collectives of a job: the ranks that others wait for and that wait for nobody.

A rank that printed a time-out waited. A rank is waited for only where it is known to belong to the group and either
said that it had not come that far, or is the only kind of member that said nothing while all others waited. What a
truncated excerpt lacks is no evidence.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from sickbay.components import UNKNOWN
from sickbay.messages import Placement, Progress

Group: TypeAlias = str

_WORD = re.compile(r"[^a-z]")
# Operations in which every rank of a group passes the same sizes; in others sizes differ by right.
SAME_SIZE = ("allreduce", "broadcast")
PAIRWISE = ("send", "recv", "coalesced")  # numbered per pair or wrapped: no join across ranks
PAIRS = ":p2p"  # groups of sends and receives: their numbers mean something per pair only
DEFAULT = frozenset({"", "0", "default", "default_pg"})  # what the group of all ranks is called, or not
MOST_ABSENT = 8  # [house] one host's accelerators: more ranks missing at once point at nobody


@dataclass(frozen=True)
class Said:
    """What is told of one rank in one group: how far it came, what it completed, where it waits (None: nowhere).

    `absent`: the library itself says that it did not come.
    """

    rank: int
    entered: int
    completed: int
    waits_at: int | None
    absent: bool = False


@dataclass(frozen=True)
class GroupState:
    """All that is known of one group. `members` is empty where nobody told who belongs to it."""

    group: Group
    members: frozenset[int]
    said: dict[int, Said]

    @property
    def waiting(self) -> dict[int, int]:
        """Rank -> sequence number it waits at."""
        return {rank: one.waits_at for rank, one in self.said.items() if one.waits_at is not None}


def world_of(placement: Placement) -> frozenset[int]:
    """All ranks of a job whose placement is told completely: from 0 without a hole, as many on each host; else none."""
    numbers = frozenset(place.rank for place in placement.ranks)
    by_host = Counter(place.host for place in placement.ranks)
    known = set(placement.hosts) <= set(by_host) and UNKNOWN not in by_host and len(set(by_host.values())) == 1
    return numbers if known and numbers == frozenset(range(len(numbers))) else frozenset()


def groups_of(progress: Iterable[Progress], placement: Placement | None = None) -> list[GroupState]:
    """The groups of one job, by name; the default group's members are those that `placement` tells completely."""
    by_group: dict[Group, list[Progress]] = defaultdict(list)
    for one in progress:
        if not one.group.endswith(PAIRS):
            by_group[one.group or one.group_name].append(one)
    return [_state(group, by_group[group], placement) for group in sorted(by_group)]


def _state(group: Group, spoken: list[Progress], placement: Placement | None = None) -> GroupState:
    by_rank: dict[int, list[Progress]] = defaultdict(list)
    for one in spoken:
        if not is_pairwise(one.op):
            by_rank[one.rank].append(one)
    members = frozenset(rank for one in spoken for rank in one.group_ranks)
    told = {rank: _said(rank, by_rank[rank]) for rank in sorted(by_rank)}
    said = {rank: one for rank, one in told.items() if one}
    if not members and placement and {one.group for one in spoken} | {one.group_name for one in spoken} <= DEFAULT:
        members = _placed(placement, frozenset(said))
    return GroupState(group, members, said)


def _placed(placement: Placement, said: frozenset[int]) -> frozenset[int]:
    """The whole job, where those that are missing from the words are on one host: else words may be missing."""
    world = world_of(placement)
    homes = {place.host for place in placement.ranks if place.rank not in said}
    return world if said <= world and len(homes) == 1 else frozenset()


def is_pairwise(op: str) -> bool:
    """Whether an operation joins two ranks only."""
    return plain(op).startswith(PAIRWISE)


def plain(op: str) -> str:
    """The operation's name without the library's prefix, case and punctuation."""
    return _WORD.sub("", op.lower().rpartition(":")[2])


def _said(rank: int, spoken: list[Progress]) -> Said | None:
    entered = max(max(one.last_enqueued, one.last_started, _entered(one)) for one in spoken)
    completed = max(max(one.last_completed, one.seq if one.state == "completed" else -1) for one in spoken)
    told = [one.seq for one in spoken if one.state in ("waiting", "entered", "started") and one.seq > completed]
    waits = min(told, default=None)
    if waits is None and entered > completed >= 0:
        waits = completed + 1
    absent = waits is None and any(one.state == "absent" for one in spoken)
    if entered < 0 and completed < 0 and not absent:
        return None
    return Said(rank, max(entered, completed), completed, waits, absent)


def _entered(one: Progress) -> int:
    if one.state == "absent":
        return one.seq - 1
    return one.seq


def blockers(state: GroupState) -> dict[int, frozenset[int]]:
    """For each waiting rank the ranks that it waits for in this group, as far as that is known."""
    waiting = state.waiting
    silent = state.members - set(state.said)
    if silent and (set(waiting) != state.members - silent or len(waiting) < 2 or 3 * len(silent) > len(waiting)):
        silent = frozenset()
    found = {}
    for rank, seq in waiting.items():
        behind = {other for other, said in state.said.items() if said.entered < seq and other != rank}
        found[rank] = frozenset(behind | silent)
    return {rank: others for rank, others in found.items() if others}


def absent_ranks(states: Iterable[GroupState]) -> tuple[dict[int, frozenset[int]], bool]:
    """({rank at the end of the waiting: those that wait for it}, whether the waiting goes in a circle)."""
    waits_for: dict[int, set[int]] = defaultdict(set)
    told: set[int] = set()
    for state in states:
        told |= {rank for rank, said in state.said.items() if said.absent}
        for rank, others in blockers(state).items():
            waits_for[rank] |= others
    waited_for = {other for others in waits_for.values() for other in others}
    ends = {rank for rank in waited_for | told if not waits_for.get(rank)}
    circle = bool(waits_for) and not ends
    found = {rank: frozenset(who for who, others in waits_for.items() if rank in others) for rank in sorted(ends)}
    return found, circle


def mismatch(progress: Iterable[Progress]) -> tuple[Progress, Progress] | None:
    """Two ranks of one group in different operations, or the same one with different sizes, at one sequence number."""
    first: dict[tuple[Group, int], Progress] = {}
    for one in sorted(progress, key=lambda one: (one.group, one.seq, one.rank)):
        if one.seq < 0 or not one.op or is_pairwise(one.op) or one.state == "absent" or one.group.endswith(PAIRS):
            continue
        other = first.setdefault((one.group or one.group_name, one.seq), one)
        if other.rank != one.rank and _differ(other, one):
            return other, one
    return None


def _differ(first: Progress, second: Progress) -> bool:
    if plain(first.op) != plain(second.op):
        return True
    sized = plain(first.op).startswith(SAME_SIZE)
    return sized and bool(first.size and second.size) and first.size != second.size
