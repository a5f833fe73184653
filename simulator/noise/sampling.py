"""Noise of when and whether samples are taken: jitter, gaps, clocks that are off, sweeps that see half."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from simulator.noise.kit import Rows, Spells, column, some, told_of
from simulator.parts.overlay import Columns
from simulator.parts.told import Told
from simulator.printing.clocks import skewed
from simulator.world import Second

JITTER_MS, MOST_MS = 60.0, 400  # [house] of an agent that wakes once a second
CARDS_PER_HOUR, HOSTS_PER_HOUR = 4.0, 6.0  # samples that are missing, per card and per host
SKEWED = 0.005  # share of the sources whose clock is off: at least one
SKEW_S = (0.5, 120.0)
SWEEP_EVERY_S, SWEEP_S = 60, 10
HALF_AN_HOUR = 2.0  # sweeps per hour that miss a part of the fabric


def jitter(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """Agents do not read at the full second: each has its own phase, and wavers about it."""
    phase: Rows | None = None
    for second in seconds:
        told = told_of(second)
        size = len(told.cluster.hosts)
        if phase is None:
            phase = np.round(rng.uniform(0, 400 * min(strength, 1.0), size)).astype(np.int64)
        waver = np.clip(JITTER_MS * strength * rng.standard_normal(size), -MOST_MS, MOST_MS)
        yield replace(second, samples=replace(told, at_ms=told.at_ms + phase + np.round(waver).astype(np.int64)))


def missing(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """A card, or a whole host, tells nothing in single seconds."""
    for second in seconds:
        told = told_of(second)
        up, seen = told.up.copy(), told.seen.copy()
        seen[some(rng, CARDS_PER_HOUR * strength, len(seen))] = False
        up[some(rng, HOSTS_PER_HOUR * strength, len(up))] = False
        yield replace(second, samples=replace(told, up=up, seen=seen))


def clock_skew(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """The clocks of single hosts and of a switch are off by up to two minutes: their rows and their lines are.

    Every other one of these hosts knows it and tells so in its metrics.
    """
    ahead: Rows | None = None
    by_name: dict[str, int] = {}
    knows = np.zeros(0, bool)
    for second in seconds:
        told = told_of(second)
        if ahead is None:
            ahead, by_name = _ahead(told, strength, rng)
            knows = (ahead != 0) & (np.cumsum(ahead != 0) % 2 == 1)
        tables = {**told.tables, "host": _offset(told, ahead, knows)}
        lines = tuple(skewed(second.lines, by_name))
        yield replace(second, samples=replace(told, at_ms=told.at_ms + ahead, tables=tables), lines=lines)


def _ahead(told: Told, strength: float, rng: np.random.Generator) -> tuple[Rows, dict[str, int]]:
    """Milliseconds by host row, and by name, switches included."""
    hosts, leaves = told.cluster.hosts, told.cluster.leaves
    ahead = np.zeros(len(hosts), np.int64)
    rows = rng.choice(len(hosts), min(len(hosts), max(1, round(SKEWED * strength * len(hosts)))), replace=False)
    ahead[rows] = _some_ms(len(rows), rng)
    named = {hosts[row]: int(ahead[row]) for row in rows.tolist()}
    leaf = leaves[int(rng.integers(len(leaves)))]
    return ahead, named | {leaf: int(_some_ms(1, rng)[0])}


def _some_ms(many: int, rng: np.random.Generator) -> Rows:
    least, most = np.log(SKEW_S[0]), np.log(SKEW_S[1])
    off = np.exp(rng.uniform(least, most, many)) * rng.choice([-1.0, 1.0], many)
    return np.asarray(np.round(1000 * off), np.int64)


def _offset(told: Told, ahead: Rows, knows: np.ndarray) -> Columns:
    values = column(told, "host", "clock_offset_seconds")
    if values is None:
        return dict(told.tables["host"])
    return {**told.tables["host"], "clock_offset_seconds": values + np.where(knows, ahead / 1000, 0.0)}


def partial_sweeps(seconds: Iterator[Second], strength: float, rng: np.random.Generator) -> Iterator[Second]:
    """Now and then a sweep of the fabric misses half of the leaves: their ports tell nothing until the next one."""
    spells = Spells(HALF_AN_HOUR * strength, SWEEP_S, SWEEP_EVERY_S)
    half: Rows = np.zeros(0, np.int64)
    for second in seconds:
        told = told_of(second)
        on, began, _ = spells.tick(rng, 1)
        order = rng.permutation(len(told.cluster.leaves)) if len(began) else half
        half = order[: max(1, len(order) // 2)] if len(began) else half
        yield _missed(second, told, [told.cluster.leaves[i] for i in half.tolist()]) if len(on) else second


def _missed(second: Second, told: Told, leaves: list[str]) -> Second:
    if second.cables is not None:
        second.cables.silent |= frozenset(leaves)  # of this second only: the next one begins anew
    gone = np.array([card.leaf in leaves for card in told.cluster.cards])
    ports = {name: np.where(gone, np.nan, values) for name, values in told.tables["port"].items()}
    return replace(second, samples=replace(told, tables={**told.tables, "port": ports}))
