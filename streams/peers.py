"""Peers: how far each member of a group stands from the middle of its group, per column of one window.

A group is components of one role in one job. Median and median absolute deviation are robust: half of a group must be
ill before the middle moves. Columns are taken one by one, all groups of a column at once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROBUST = 1.4826  # makes the median absolute deviation of a normal distribution its standard deviation
NO_GROUP = -1

Floats = NDArray[np.float64]


class Peers(NamedTuple):
    """What a group's values say, missing = NaN: of groups float64 [columns, groups], of members [columns, members].

    `told`: members with a value. `median`; `mad`: median of the absolute distances from it. `deviation`: distance from
    the median in robust standard deviations. `rank`: how many of the group have a smaller value (int32, -1 = missing).
    """

    told: NDArray[np.int64]
    median: Floats
    mad: Floats
    deviation: Floats
    rank: NDArray[np.int32]


def compared(
    values: NDArray[np.float32], group: NDArray[np.int64], *, floor: float | Floats = 0.0, share: float | Floats = 0.0
) -> Peers:
    """Compares the members of each group. `values`: [columns, members]; `group`: [members], NO_GROUP = with nobody.

    A deviation is counted in 1.4826 MAD, or in `floor` (in the column's unit; one, or one per column) or `share` of the
    median, if that is more: of values that hardly differ at all none stands out. With nothing to count in, a value off
    the median is infinitely far.
    """
    columns, groups = len(values), int(group.max(initial=NO_GROUP)) + 1
    found = Peers(
        np.zeros((columns, groups), np.int64),
        np.full((columns, groups), np.nan),
        np.full((columns, groups), np.nan),
        np.full(values.shape, np.nan),
        np.full(values.shape, -1, np.int32),
    )
    # Members of a group side by side, once for all columns: what follows then reads memory in order.
    side_by_side = np.argsort(group, kind="stable")
    ordered, by_group = np.take(values, side_by_side, axis=1), group[side_by_side].astype(np.int64)
    floors, shares = (np.broadcast_to(np.asarray(one, np.float64), columns) for one in (floor, share))
    for at, column in enumerate(ordered):
        _compare(column, by_group, floors[at], shares[at], Peers(*(part[at] for part in found)))
    for part in (found.deviation, found.rank):
        part[:, side_by_side] = part.copy()
    return found


def medians(values: NDArray[np.float32], group: NDArray[np.int64], groups: int) -> Floats:
    """The median of each group's known values, as `compared` finds it but nothing else: float64 [groups], NaN = none.
    `values`, `group`: [members], NO_GROUP = of nobody."""
    member = np.flatnonzero((group >= 0) & ~np.isnan(values))
    key = np.sort(_key(values[member].astype(np.float32), group[member].astype(np.int64)))
    count = np.bincount(group[member], minlength=groups)
    some = count > 0
    start = (np.cumsum(count) - count)[some]
    middles = [_value(key[start + half[some]]) for half in ((count - 1) // 2, count // 2)]
    found = np.full(groups, np.nan)
    found[some] = (middles[0] + middles[1]) / 2
    return found


def _compare(column: NDArray[np.float32], group: NDArray[np.int64], floor: float, share: float, found: Peers) -> None:
    """One column, into the rows of `found`."""
    member = np.flatnonzero((group >= 0) & ~np.isnan(column))
    if not len(member):
        return
    key = _key(column[member], group[member])
    order = np.argsort(key)
    key, member = key[order], member[order]
    sorted_group, value = group[member], column[member].astype(np.float64) + 0.0  # -0.0 becomes 0.0, its equal
    start = np.flatnonzero(np.concatenate([[True], sorted_group[1:] != sorted_group[:-1]]))
    count = np.diff(start, append=len(member))
    at = sorted_group[start]
    with np.errstate(invalid="ignore"):  # infinities may meet: their distance is missing
        median = (value[start + (count - 1) // 2] + value[start + count // 2]) / 2
        mad = _mad(value, start, count, median)
        scale = np.maximum(np.maximum(ROBUST * mad, floor), share * np.abs(median))
        away = value - np.repeat(median, count)
        found.deviation[member] = _ratio(away, np.repeat(scale, count))
    found.told[at], found.median[at], found.mad[at] = count, median, mad
    found.rank[member] = _ranks(key) - np.repeat(start, count)


def _key(value: NDArray[np.float32], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number that sorts by group, then value: a float32's bits, those of negative ones turned about, are in order."""
    bits = (value + np.float32(0)).view(np.int32)
    return (group << 32) + np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)


def _value(key: NDArray[np.int64]) -> Floats:
    """The value that a key was made of."""
    bits = (key & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).view(np.float32).astype(np.float64)


def _ranks(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of sorted keys: where the first that equals each stands."""
    place = np.arange(len(key))
    place[1:][key[1:] == key[:-1]] = 0
    return np.maximum.accumulate(place)


def _mad(value: Floats, start: NDArray[np.int64], count: NDArray[np.int64], median: Floats) -> Floats:
    lower, upper = (_nearest(value, start, count, median, near) for near in ((count + 1) // 2, count // 2 + 1))
    return (lower + upper) / 2


def _nearest(
    value: Floats, start: NDArray[np.int64], count: NDArray[np.int64], median: Floats, near: NDArray[np.int64]
) -> Floats:
    """The distance from the median of the `near`-th nearest value of each group, without another sort.

    The nearest k of sorted values stand side by side, so it is the least, over all runs of k, of the run's farther end.
    """
    runs = count - near + 1
    first = np.repeat(start - np.concatenate([[0], np.cumsum(runs)[:-1]]), runs) + np.arange(int(runs.sum()))
    last = first + np.repeat(near - 1, runs)
    middle = np.repeat(median, runs)
    farther = np.maximum(middle - value[first], value[last] - middle)
    return np.asarray(np.minimum.reduceat(farther, np.concatenate([[0], np.cumsum(runs)[:-1]])))


def _ratio(away: Floats, scale: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.where(away == 0, 0.0, away / scale)
