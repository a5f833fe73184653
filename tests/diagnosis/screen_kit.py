"""A case as live diagnosis sees it: its rows told window by window, and only those of interest given out."""

from dataclasses import replace

import numpy as np
import polars as pl

from diagnosis.case import Case
from sickbay.app.diagnosing.feature_windows import FeatureWindows, Told
from sickbay.app.diagnosing.interest import About
from sickbay.placement import Placements
from streams.feature_record import Block, block_of


def in_float32(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with values as precise as the log carries them."""
    numbers = [name for name, kind in frame.schema.items() if name != "end_ms" and kind.is_numeric()]
    return frame.with_columns(pl.col(numbers).cast(pl.Float32).fill_nan(None))


def blocks_of(case: Case) -> list[Block]:
    """All rows by window, the earliest first."""
    found = [
        block_of(name, int(end), in_float32(rows))
        for name, frame in case.features.items()
        for (end,), rows in frame.partition_by("end_ms", as_dict=True).items()
    ]
    return sorted(found, key=lambda one: one.end_ms)


def windows_of(case: Case) -> FeatureWindows:
    """Windows that give out nothing that is not of interest."""
    windows = FeatureWindows(case.window_ms, few_rows=0)
    for one in case.identities:
        windows.learn(one)
    return windows


def about(case: Case) -> About:
    """What else the case tells."""
    far, named = case.topology.at(None).other_end, [event.component for event in case.events]
    return About(case.named, True, case.placements, far, named)


def known_by(case: Case, at_ms: int) -> Placements:
    """The placements that had begun by then."""
    return Placements(one for one in case.placements if (one.from_ms or 0) <= at_ms)


def told(case: Case, *, every: int = 0, late_ms: int = 0) -> Told:
    """What the newest look is told. `every`: looks between, after so many blocks; placements come so late."""
    windows, others = windows_of(case), about(case)
    for number, block in enumerate(blocks_of(case)):
        windows.add(block)
        if every and number % every == 0:
            windows.look(block.end_ms, others._replace(placements=known_by(case, block.end_ms - late_ms)))
    return windows.look(None, others)


def screened(case: Case, *, every: int = 0, late_ms: int = 0) -> Case:
    """The case with the rows of interest only."""
    found = told(case, every=every, late_ms=late_ms)
    return replace(case, features=found.features, wide=found.wide, whole_jobs=found.whole_jobs)


def unscreened(case: Case) -> Case:
    """The same with all rows."""
    return replace(case, features={name: in_float32(frame) for name, frame in case.features.items()})


def rows(case: Case) -> int:
    """How many rows of features there are."""
    return int(np.sum([frame.height for frame in case.features.values()]))
