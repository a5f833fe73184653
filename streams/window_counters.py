"""Increases of counters: what each row adds to the one before it, over whole blocks of [columns, rows] at a time.

A block is a run of whole components. Nearly all blocks tell every value and none falls: there an increase is a plain
difference. The rules for what is missing, falls or comes after a silence are applied to the columns that need them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sickbay.schema import MISSING_COUNTER
from streams.window_rows import STUCK_32, STUCK_64, Counters, Ints, usable

# A counter's first value after a longer silence has no increase: nobody can tell when it grew, and a part that was
# swapped meanwhile brings its own lifetime count.
HORIZON_MS = 3_600_000
# A fall below this share of the value before is a restart from zero; a smaller one is a step back (two exporters a
# moment apart, a value rounded on its way), and what stands after it is no increase.
RESTART_SHARE = 0.5
# What a counter shows right after a restart counts as increase only when the sample before is no older than this (or
# two windows): after a longer gap it may hold a boot's own noise or another part's life.
RESTART_GAP_MS = 60_000
# [house] the most that a 32-bit counter grows between two samples, as the collectors have it: what falls from further
# down, or to further up, was cleared.
WRAP_STEP = 1 << 28
# Columns that an adapter counts in 32 bits and that go on from zero (queue counters of the kernel's driver for them).
# Collectors that read the files mend this themselves; exporters hand the bare value on.
WRAPS = frozenset({("port", "retransmits_total"), ("port", "retries_exceeded_total")})
_ROWS = 16_384  # of a block
_NEVER = -(1 << 62)
_MOST_SUM = (1 << 63) - 1


class Before(NamedTuple):
    """What was last heard of each component: int64 [components], [components, columns]; `never()` where nothing."""

    at_ms: Ints
    counters: Counters


class Increases(NamedTuple):
    """Of groups: covered time (int64 [groups], negative = unknown) and increases (float64 [groups, columns], NaN);
    of the components with rows: their codes, and what is now last heard of them."""

    covered_ms: Ints
    increase: NDArray[np.float64]
    code: Ints
    after: Before


def never(components: int, columns: int, dtype: np.dtype[np.int64] | np.dtype[np.float64]) -> Before:
    """Nothing heard yet."""
    return Before(
        np.full(components, _NEVER, np.int64),
        np.full((components, columns), MISSING_COUNTER, dtype),
    )


def increases(
    counters: Counters,
    columns: NDArray[np.intp],
    order: NDArray[np.intp],
    code: Ints,
    at_ms: Ints,
    starts: Ints,
    before: Before,
    *,
    restart_gap_ms: int,
    wraps: NDArray[np.bool_],
) -> Increases:
    """The increases of groups of rows (`starts` of each, in the order of `code` and `at_ms`, which are sorted), of the
    `columns` of the counters; -1 stands for one that the rows do not tell.

    A row's increase is from the last told value before it, across groups. It is missing where either is missing or
    more than HORIZON_MS of silence lies anywhere between them. A counter that falls by less than half has stepped back:
    0; else it was restarted: all that it shows, if the row before is at most `restart_gap_ms` old, else missing. One of
    the columns that `wraps` (bool [columns]) marks, that falls from the top of 32 bits to their bottom in that time,
    went on counting.
    """
    first = np.concatenate([[0], np.flatnonzero(code[1:] != code[:-1]) + 1]) if len(code) else np.empty(0, np.int64)
    gap = np.diff(at_ms, prepend=0)
    gap[first] = at_ms[first] - before.at_ms[code[first]]
    gap[(gap <= 0) | (gap > HORIZON_MS)] = -1
    covered = _covered(gap, starts)
    found = np.empty((len(starts), len(columns)))
    last = np.empty((len(first), len(columns)), counters.dtype)
    if len(columns):
        for run, groups in _runs(first, starts, len(code)):
            start, stop = int(first[run.start]), int(first[run.stop]) if run.stop < len(first) else len(code)
            heads, edges, prior = first[run] - start, starts[groups] - start, before.counters[code[first[run]]]
            if int(gap[start:stop].min()) > 0:
                plain = _plain(_chosen(counters, columns, order[start:stop]), heads, edges, prior)
                if plain is not None:
                    last[run], found[groups] = plain
                    continue
            now = _columns(counters, columns, order[start:stop])
            block = _Block(now, gap[start:stop], heads, prior.T)
            after, increase = _increase(block, edges, restart_gap_ms, wraps)
            last[run], found[groups] = after.T, increase.T
    ends = np.append(first[1:], len(code))[: len(first)] - 1
    return Increases(covered, found, code[first], Before(at_ms[ends], last))


class _Block(NamedTuple):
    now: Counters  # [columns, rows]: along the rows of a column numpy is at its fastest
    gap: Ints  # [rows], -1: unknown or too long
    first: Ints  # rows that are the first of their component
    last: Counters  # [columns, components]: the last told value before the block


def _chosen(counters: Counters, columns: NDArray[np.intp], rows: NDArray[np.intp]) -> Counters | None:
    """[rows, columns], as they are told; None where a column is not, or fractions are."""
    if counters.dtype != np.int64 or (columns < 0).any():
        return None
    now = np.take(counters, rows, axis=0)
    same = len(columns) == counters.shape[1] and bool((columns == np.arange(len(columns))).all())
    return now if same else np.take(now, columns, axis=1)


def _plain(
    now: Counters | None, first: Ints, starts: Ints, last: Counters
) -> tuple[Counters, NDArray[np.float64]] | None:
    """(last told value of each component, increase of each group), [..., columns] each, where every value is told,
    none falls and nobody was silent: there the increase is what lies between two rows. None: it is not so."""
    if now is None or int(last.min()) < 0 or int(now.min()) < 0:
        return None
    most = int(now.max())
    if most >= STUCK_64 or (most >= STUCK_32 and bool((now == STUCK_32).any())):
        return None
    step = now[1:] - now[:-1]
    step[first[1:] - 1] = now[first[1:]] - last[1:]
    if (len(step) and int(step.min()) < 0) or bool((now[0] < last[0]).any()):
        return None
    ends = np.append(starts[1:], len(now)) - 1
    base = now[starts - 1]  # of the first, and of each that begins a component, another
    base[np.searchsorted(starts, first)] = last
    return now[np.append(first[1:], len(now)) - 1], (now[ends] - base).astype(np.float64)


def _columns(counters: Counters, columns: NDArray[np.intp], rows: NDArray[np.intp]) -> Counters:
    if not counters.shape[1]:
        return np.full((len(columns), len(rows)), MISSING_COUNTER, counters.dtype)
    now = usable(np.take(counters, rows, axis=0).T[columns])
    now[columns < 0] = MISSING_COUNTER
    return now


def _covered(gap: Ints, starts: Ints) -> Ints:
    if not len(starts):
        return np.empty(0, np.int64)
    total = np.add.reduceat(np.maximum(gap, 0), starts)
    known = np.maximum.reduceat(gap, starts) > 0
    return np.where(known, total, -1)


def _runs(first: Ints, starts: Ints, rows: int) -> Iterator[tuple[slice, slice]]:
    """Blocks as (components, groups)."""
    at = 0
    while at < len(first):
        stop = max(at + 1, int(np.searchsorted(first, first[at] + _ROWS, side="right")) - 1)
        stop = len(first) if first[at] + _ROWS >= rows else stop
        edge = int(first[stop]) if stop < len(first) else rows
        yield slice(at, stop), slice(*np.searchsorted(starts, [first[at], edge]).tolist())
        at = stop


def _increase(
    block: _Block, starts: Ints, restart_gap_ms: int, wraps: NDArray[np.bool_]
) -> tuple[Counters, NDArray[np.float64]]:
    """(last told value of each component, increase of each group), [columns, ...] each."""
    now, ends = block.now, np.append(block.first[1:], block.now.shape[1]) - 1
    before = np.empty_like(now)
    before[:, 1:] = now[:, :-1]
    before[:, block.first] = block.last
    silent = np.flatnonzero(block.gap < 0)
    before[:, silent] = MISSING_COUNTER
    step = now - before
    last = now[:, ends]
    missing = now.min(axis=1) < 0
    odd = missing | (step.min(axis=1) < 0) | (before.min(axis=1) < 0)
    if not odd.any():
        return last, _total(step, starts)
    columns = np.flatnonzero(odd)
    before = before[columns]
    if missing.any():
        before = _filled(before, np.union1d(block.first, silent))
        last[columns] = np.where(last[columns] < 0, before[:, ends], last[columns])
    known, step[columns] = _judged(now[columns], before, block.gap, restart_gap_ms, wraps[columns])
    total = _total(step, starts)
    total[columns] = np.where(np.logical_or.reduceat(known, starts, axis=1), total[columns], np.nan)
    return last, total


def _total(step: Counters, starts: Ints) -> NDArray[np.float64]:
    """Sums of groups, exact in whole numbers, unless a sender tells such that their sum does not fit."""
    if int(step.max()) > _MOST_SUM // step.shape[1]:
        step = step.astype(np.float64)
    return np.add.reduceat(step, starts, axis=1).astype(np.float64)


def _filled(before: Counters, fresh: Ints) -> Counters:
    """Missing values take that of the row before, but not across rows that begin afresh."""
    given = before >= 0
    given[:, fresh] = True
    source = np.where(given, np.arange(before.shape[1]), 0)
    return np.take_along_axis(before, np.maximum.accumulate(source, axis=1), axis=1)


def _judged(
    now: Counters, before: Counters, gap: Ints, restart_gap_ms: int, wraps: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], Counters]:
    """(whether a row's increase is known, the increase, 0 where it is not)."""
    known = (now >= 0) & (before >= 0)
    step = np.where(known, now - before, 0).astype(now.dtype, copy=False)
    fell = np.nonzero(step < 0)  # few: what follows costs little
    after, prior, short = now[fell], before[fell], (gap[fell[1]] >= 0) & (gap[fell[1]] <= restart_gap_ms)
    restarted = after < RESTART_SHARE * prior
    around = after - prior + (STUCK_32 + 1)
    wrapped = wraps[fell[0]] & (prior <= STUCK_32) & (around <= WRAP_STEP)
    step[fell] = np.where(restarted & short, np.where(wrapped, around, after), 0)
    known[fell] = short | ~restarted
    return known, step
