"""Means and extremes of gauges over groups of rows, whole blocks of [groups, columns] at a time.

Groups are taken in the order of their sizes, so that a block holds groups of nearly one size: its rows are laid out by
their rank in the group, and rank after rank is added, compared and kept over all groups and columns at once.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.window_rows import Gauges, Ints

_ROWS = 8_192  # of a block: with 25 columns of float32 800 kB, so that it stays in a core's cache


class Wanted(NamedTuple):
    """Places of the columns whose means, greatest and least values are wanted."""

    mean: list[int]
    most: list[int]
    least: list[int]


class Told(NamedTuple):
    """[columns, groups] each, in the order of `Wanted`; missing = NaN."""

    mean: NDArray[np.float32]
    most: NDArray[np.float64]
    least: NDArray[np.float64]


def told(gauges: Gauges, order: NDArray[np.intp], starts: Ints, counts: Ints, wanted: Wanted) -> Told:
    """What the groups `order[starts[i] : starts[i] + counts[i]]` of rows tell. Means are of the told values, added in
    float64 in the order of the rows; a group that tells nothing of a column has NaN."""
    groups = len(starts)
    found = Told(
        np.empty((len(wanted.mean), groups), np.float32),
        np.empty((len(wanted.most), groups)),
        np.empty((len(wanted.least), groups)),
    )
    if any(wanted):
        for chosen, places, absent in _blocks(starts, counts):
            block = np.take(gauges, order[places], axis=0)  # [ranks, groups, columns]
            if absent is not None:
                block[absent] = np.nan
            _into(found, chosen, block, wanted)
    return found


def _blocks(
    starts: Ints, counts: Ints
) -> Iterator[tuple[slice | NDArray[np.intp], NDArray[np.int64], NDArray[np.bool_] | None]]:
    """(groups, places of their rows [ranks, groups], which of them are no rows of the group)."""
    alike = not len(counts) or bool((counts == counts[0]).all())
    by_size = None if alike else np.argsort(-counts, kind="stable")
    at = 0
    while at < len(starts):
        ranks = int(counts[at if by_size is None else by_size[at]])
        stop = min(at + max(1, _ROWS // ranks), len(starts))
        chosen = slice(at, stop) if by_size is None else by_size[at:stop]
        rank = np.arange(ranks)[:, None]
        places, absent = starts[chosen] + rank, None
        if not alike and int(counts[chosen].min()) < ranks:
            absent = rank >= counts[chosen]
            places = np.where(absent, starts[chosen], places)
        yield chosen, places, absent
        at = stop


def _into(found: Told, chosen: slice | NDArray[np.intp], block: Gauges, wanted: Wanted) -> None:
    # A sum tells whether anything is missing at a fifth of the price of asking every value; opposite infinities only
    # send a block the longer way.
    with np.errstate(invalid="ignore", over="ignore"):
        whole = not np.isnan(block.sum(dtype=np.float32))
    # Columns are chosen from what a block gives, a rank's share of it: to choose before costs more than it saves.
    if wanted.mean:
        found.mean[:, chosen] = _mean(block, whole)[:, wanted.mean].T
    if wanted.most:
        found.most[:, chosen] = (np.maximum if whole else np.fmax).reduce(block, axis=0)[:, wanted.most].T
    if wanted.least:
        found.least[:, chosen] = (np.minimum if whole else np.fmin).reduce(block, axis=0)[:, wanted.least].T


def _mean(block: Gauges, whole: bool) -> NDArray[np.float64]:
    count: int | NDArray[np.int64] = len(block)
    if not whole:
        missing = np.isnan(block)
        count = len(block) - missing.sum(axis=0)
        block = np.where(missing, block.dtype.type(0), block)
    total = np.zeros(block.shape[1:])
    with np.errstate(invalid="ignore", divide="ignore"):
        for rank in block:  # one after the other: a sum's bits depend on its order
            total += rank
        return total / count
