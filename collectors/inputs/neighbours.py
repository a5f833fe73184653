"""Between which times an undated line was written: the dated lines around it in the same input.

A bound, not a date: a log that mixes writers with and without stamps is in order up to its buffers.
"""

from collections.abc import Sequence

Bounds = tuple[int | None, int | None]


def bounds(dates: Sequence[int | None]) -> list[Bounds]:
    """For each line in order, the latest date before it and the earliest behind it; (None, None) where they cross.

    Dated lines keep (None, None): they need no bounds.
    """
    before: list[int | None] = []
    latest: int | None = None
    for at in dates:
        before.append(latest)
        latest = at if latest is None else latest if at is None else max(latest, at)
    after: list[int | None] = []
    earliest: int | None = None
    for at in reversed(dates):
        after.append(earliest)
        earliest = at if earliest is None else earliest if at is None else min(earliest, at)
    return [
        (None, None) if at is not None or _crossed(low, high) else (low, high)
        for at, low, high in zip(dates, before, reversed(after), strict=True)
    ]


def _crossed(low: int | None, high: int | None) -> bool:
    return low is not None and high is not None and low > high
