"""Which ranks run in which pod of a job: by the place that its maker gave it, and the processes it says to hold."""

from collections.abc import Sequence

from collectors.formats.kubernetes_pods import Member
from sickbay.messages import RankPlace

MAX_RANKS = 50_000  # of one record: see job_slurm


def ranks_of(members: Sequence[Member]) -> tuple[RankPlace, ...]:
    """Where each rank runs; none where the pods do not tell how many processes each has, or some are missing."""
    numbers = numbers_of(members)
    processes = {_processes(one, len(members)) for one in members}
    if sorted(numbers) != list(range(len(members))) or len(processes) != 1 or 0 in processes:
        return ()
    each = processes.pop()
    worlds = {one.world for one in members if one.world}
    if not worlds <= {len(members), each * len(members)}:  # some have not begun: what is numbered is not all of it
        return ()
    if len(members) > 1 and any(one.numbers_itself for one in members):
        return ()
    if each * len(members) > MAX_RANKS:
        return ()
    placed = sorted(zip(numbers, members, strict=True), key=lambda pair: pair[0])
    return tuple(RankPlace(rank=number * each + own, host=one.node) for number, one in placed for own in range(each))


def numbers_of(members: Sequence[Member]) -> list[int]:
    """The place of each pod among the others: as its environment tells, else by the labels of its maker; -1: untold."""
    if all(one.node_rank >= 0 for one in members):
        return [one.node_rank for one in members]
    widths = [1 + max(column) for column in zip(*(one.place for one in members if one.place), strict=False)]
    first = sum(1 for one in members if one.place and not one.place[0])
    return [_number(one.place, widths, first) for one in members]


def _number(place: tuple[int, ...], widths: Sequence[int], first: int) -> int:
    """A place counted through, the slowest part first; after all pods whose role comes first where its own does not."""
    if not place or len(place) > len(widths):
        return -1
    number = 0
    for value, width in zip(place[1:], widths[1:], strict=False):
        number = number * width + value
    return number + (first if place[0] else 0)


def _processes(one: Member, pods: int) -> int:
    """Processes in a pod that are ranks; 0: not told."""
    if one.processes:
        return one.processes
    if one.accelerators == 1:
        return int(one.world == pods)
    return one.accelerators if one.accelerators and one.world == pods * one.accelerators else 0
