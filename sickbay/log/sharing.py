"""Who gets which task: balanced over the members, and nobody loses one without need."""

from collections.abc import Iterable, Mapping, Sequence

from sickbay.log import Task


def shared_out(tasks: Sequence[Task], members: Iterable[str], held: Mapping[Task, str]) -> dict[Task, str]:
    """Each task's member. Counts differ by at most one; `held` tasks stay where they are as far as that allows."""
    ranked = sorted(set(members), key=lambda member: (-sum(owner == member for owner in held.values()), member))
    if not ranked:
        return {}
    least, more = divmod(len(tasks), len(ranked))
    room = {member: least + (place < more) for place, member in enumerate(ranked)}
    given: dict[Task, str] = {}
    for task in sorted(tasks):
        owner = held.get(task)
        if owner is not None and room.get(owner, 0) > 0:
            given[task], room[owner] = owner, room[owner] - 1
    free = [member for member in sorted(room) for _ in range(room[member])]
    return given | dict(zip([task for task in sorted(tasks) if task not in given], free, strict=True))
