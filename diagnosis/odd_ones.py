"""Accelerators of a stalled job that do not wait as the others do: silent, frozen or without work.

A card that waits spins: its matrix units rest, a kernel stays resident. The odd one out is where to look.
"""

from typing import Literal, NamedTuple, TypeAlias

import polars as pl

from diagnosis.detectors.peers_idle import LEAST_BEFORE, SEEN, Stall
from sickbay.components import Name

How: TypeAlias = Literal["silent", "frozen", "idle"]

LEAST_SILENT = 2  # windows without a row before a gap counts as blindness
LEAST_FROZEN = 3  # windows of the very same numbers: no sensor repeats itself that long
LEAST_IDLE = 2
SHORTLY = 6  # windows before the stall in which a card must have worked, to be missed in it
COINCIDENCE_MS = 5_000  # beside sampling and windows: a change this close to the stall is evidence
WORKS = 0.5  # of the job's usual value: a card that worked before, or that still tells of work
AT_REST = 0.1  # utilisation without a resident kernel
LESS_POWER = 0.9  # of what the spinning peers draw
VALUES = ("matrix_active_ratio", "power_watts", "utilisation_ratio", "temperature_celsius", "clock_megahertz")


class Odd(NamedTuple):
    """An accelerator that left the common picture between `from_ms` and `to_ms`."""

    component: Name
    host: str
    how: How
    from_ms: int
    to_ms: int


def odd_ones(stall: Stall, cards: pl.DataFrame, window_ms: int, sampling_ms: int) -> list[Odd]:
    """The odd ones of a job at its stall, by name; `cards` as `peers_idle.stalled` gives them."""
    rows = cards.filter(
        (pl.col("end_ms") <= stall.end_ms) & pl.any_horizontal(pl.col(column).is_not_null() for column in VALUES)
    )
    found = [*_silent(rows, stall, window_ms), *_frozen(rows, stall, window_ms), *_idle(rows, stall, window_ms)]
    slack = COINCIDENCE_MS + sampling_ms
    near = [odd for odd in found if odd.from_ms - slack <= stall.to_ms and stall.from_ms <= odd.to_ms + slack]
    return sorted(near)


def _silent(rows: pl.DataFrame, stall: Stall, window_ms: int) -> list[Odd]:
    last = rows.group_by("component", "host").agg(pl.col("end_ms").max().alias("last"))
    gone = last.filter(pl.col("last") <= stall.end_ms - LEAST_SILENT * window_ms)
    return [Odd(name, host, "silent", at - window_ms, at + window_ms) for name, host, at in gone.iter_rows()]


def _frozen(rows: pl.DataFrame, stall: Stall, window_ms: int) -> list[Odd]:
    """Cards that repeat the numbers of normal work to the last digit, while most peers' numbers move."""
    during = rows.filter(pl.col("end_ms") > stall.to_ms)
    power = pl.col("power_watts")
    seen = during.group_by("component", "host").agg(
        pl.len().alias("rows"),
        power.drop_nulls().n_unique().alias("powers"),
        pl.max_horizontal(pl.col(column).drop_nulls().n_unique() for column in VALUES).alias("values"),
        pl.sum_horizontal(pl.col(column).is_not_null().any().cast(pl.Int32) for column in VALUES).alias("told"),
        pl.col(SEEN[-1]).fill_null(0.0).max().alias("spread"),
        pl.col(stall.signal).min().alias("works"),
        power.first().alias("power"),
    )
    moving = seen.filter(pl.col("powers") > 1).height
    if 2 * moving <= seen.height:
        return []
    stuck = seen.filter(
        (pl.col("rows") >= LEAST_FROZEN) & (pl.col("values") == 1) & (pl.col("told") >= 2) & (pl.col("powers") == 1)
        & (pl.col("spread") == 0) & (pl.col("works") >= WORKS * stall.usual)
    )  # fmt: skip
    found = []
    for name, host, value in stuck.select("component", "host", "power").iter_rows():
        other = rows.filter((pl.col("component") == name) & (pl.col("power_watts") != value))["end_ms"].max()
        since = int(other) if isinstance(other, int) else stall.from_ms
        found.append(Odd(name, host, "frozen", since - window_ms, since + window_ms))
    return found


def _idle(rows: pl.DataFrame, stall: Stall, window_ms: int) -> list[Odd]:
    """Cards that worked before and have no kernel at all, while the peers spin in theirs."""
    during = rows.filter(pl.col("end_ms") > stall.to_ms)
    near = pl.col("end_ms").is_between(stall.from_ms - SHORTLY * window_ms, stall.from_ms)
    before = rows.filter(near & (pl.col(stall.signal) >= WORKS * stall.usual))
    worked = before.group_by("component").len().filter(pl.col("len") >= LEAST_BEFORE)["component"]
    spin = during["power_watts"].median()
    seen = during.group_by("component", "host").agg(
        pl.len().alias("rows"),
        pl.col("utilisation_ratio").max().alias("resident"),
        pl.col("matrix_active_ratio").max().fill_null(0.0).alias("matrix"),
        pl.col("power_watts").max().alias("power"),
    )
    rest = seen.filter(
        (pl.col("rows") >= LEAST_IDLE) & (pl.col("resident") <= AT_REST) & (pl.col("matrix") <= AT_REST / 10)
        & pl.col("component").is_in(worked.implode())
        & ((pl.col("power") <= LESS_POWER * pl.lit(spin, pl.Float64)).fill_null(True))
    )  # fmt: skip
    return [
        Odd(name, host, "idle", stall.from_ms, stall.to_ms + window_ms)
        for name, host in rest.select("component", "host").iter_rows()
    ]
