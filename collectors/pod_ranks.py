"""Which ranks run in which pod of a job: by the place that its maker gave it, and the processes it says to hold."""

from collections.abc import Sequence

from collectors.formats.kubernetes_pods import Member
from sickbay.messages import RankPlace

MAX_RANKS = 50_000  # of one record: see job_slurm


def ranks_of(members: Sequence[Member]) -> tuple[RankPlace, ...]:
    """Where each rank runs; none where the pods do not tell how many processes each has, or some are missing."""
    numbers = [number_of(one, members) for one in members]
    processes = {_processes(one, len(members)) for one in members}
    if sorted(numbers) != list(range(len(members))) or len(processes) != 1 or 0 in processes:
        return ()
    each = processes.pop()
    if each * len(members) > MAX_RANKS:
        return ()
    placed = sorted(zip(numbers, members, strict=True), key=lambda pair: pair[0])
    return tuple(RankPlace(rank=number * each + own, host=one.node) for number, one in placed for own in range(each))


def number_of(one: Member, all_of_them: Sequence[Member]) -> int:
    """The place of a pod among the others: as its environment tells, else by the labels of its maker."""
    if all(other.node_rank >= 0 for other in all_of_them):
        return one.node_rank
    if not one.place:
        return -1
    number = 0
    for at, value in enumerate(one.place[1:], start=1):
        number = number * (1 + max(other.place[at] if other.place else 0 for other in all_of_them)) + value
    if not one.place[0]:
        return number
    return number + sum(1 for other in all_of_them if other.place and not other.place[0])


def _processes(one: Member, pods: int) -> int:
    """Processes in a pod that are ranks; 0: not told."""
    if one.processes:
        return one.processes
    alone = one.accelerators == 1 and one.world in (0, pods)
    whole = one.accelerators > 1 and one.world == pods * one.accelerators
    return 1 if alone and one.world else one.accelerators if whole else 0
