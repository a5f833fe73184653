"""Whether a device that was told to be lost goes on telling its sensors' values: a look at the source, after the word.

Then the word is old (a replayed log, a clock that is far behind) or not true: nothing that left its bus answers.
"""

import polars as pl

from diagnosis.case import Case
from diagnosis.frames import table
from sickbay.components import Name

LOST = frozenset({"accelerator_off_bus"})  # after that no device tells anything
LEAST, AMONG = 3, 4  # windows with values, of the first after the word; the first of them is one
SLACK_MS = 2_000  # clock error between well-kept sources


def still_there(case: Case, component: Name, told_ms: int) -> bool:
    """Live values right after it was told, without a break. Values that stand still are an exporter's memory.

    `told_ms`: when the word was read, else when it says that it was; 0 where nobody knows.
    """
    begin = told_ms + SLACK_MS + case.window_ms  # where the first window ends that lies after it
    cards = table(case, "accelerator", ("power_watts", "temperature_celsius", "power_watts__spread")).filter(
        (pl.col("component") == component)
        & (pl.col("end_ms") >= begin)
        & (pl.col("end_ms") < begin + AMONG * case.window_ms)
        & pl.any_horizontal(pl.col("power_watts", "temperature_celsius").is_not_null())
    )
    moves = cards.select(
        (pl.col("power_watts").n_unique() > 1)
        | (pl.col("temperature_celsius").n_unique() > 1)
        | (pl.col("power_watts__spread").fill_null(0.0).max() > 0)
    )
    at_once = bool((cards["end_ms"] < begin + case.window_ms).any())  # else it was away, and came back after a boot
    return told_ms > 0 and at_once and cards.height >= LEAST and bool(moves.item())
