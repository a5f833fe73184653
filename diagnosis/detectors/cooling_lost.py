"""A coolant unit that cools too little, told by its flow and its supply long before a card complains.

Flow and supply are two families: both for a minute are proof, one alone needs two minutes and is a reason to look. A
controller that gives less at less load keeps the supply where it was, and the return too.
"""

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, GOOD, bucket_of, identity
from diagnosis.frames import table
from sickbay.components import Name
from sickbay.messages import Evidence, Severity

NAME, VERSION = "cooling_lost", "1"

FALL = 0.12  # [house] of the flow before: controllers breathe by a few parts in a hundred
RISE_CELSIUS = 1.5  # [house] of the supply: halls swing by less than a degree
WARMER_CELSIUS = 1.0  # of the return where only the flow fell: less flow at less load warms nothing
TWO_FAMILIES_MS, ONE_FAMILY_MS = 60_000, 120_000
LEAST_BEFORE = 3  # windows that tell what it was
PAST_MS = 7_200_000  # [house] a hall swings by degrees over a day: the past ends here
FLOW, SUPPLY, RETURN, LEAK = (
    "flow_litres_per_minute", "supply_temperature_celsius", "return_temperature_celsius", "leak",
)  # fmt: skip


class Change(NamedTuple):
    """Since when a reading is another one, until when, and what it was before and is now."""

    first_ms: int
    last_ms: int
    before: float
    now: float


def claims(case: Case) -> Iterable[Evidence]:
    """At most one claim per unit: a leak, else what flow and supply tell together."""
    frame = table(case, "cdu", (FLOW, SUPPLY, RETURN, LEAK))
    for rows in frame.partition_by("component", maintain_order=True) if frame.height else ():
        yield from _of_unit(rows["component"][0], rows, case)


def _of_unit(component: Name, rows: pl.DataFrame, case: Case) -> Iterable[Evidence]:
    ends = rows["end_ms"].to_list()
    if wet := [end for end, leak in zip(ends, rows[LEAK].to_list(), strict=True) if leak is not None and leak >= 0.5]:
        yield _claim(component, "leaks", wet[0], wet[-1], CERTAIN, {}, case)
        return
    flow, supply = _changed(rows, FLOW, -FALL, relative=True), _changed(rows, SUPPLY, RISE_CELSIUS)
    both = flow is not None and supply is not None
    found = [change for change in (flow, supply) if change is not None]
    if not found:
        return
    first, last = min(change.first_ms for change in found), max(change.last_ms for change in found)
    lasted = min(change[1] - change.first_ms for change in found) + case.window_ms
    if lasted < (TWO_FAMILIES_MS if both else ONE_FAMILY_MS):
        return
    if not both and flow is not None and _changed(rows, RETURN, WARMER_CELSIUS) is None:
        return  # less flow for less load
    says = "flow_and_supply" if both else "flow_fell" if flow is not None else "supply_rose"
    yield _claim(component, says, first, last, CERTAIN if both else GOOD, _facts(flow, supply), case)


def _changed(rows: pl.DataFrame, column: str, by: float, *, relative: bool = False) -> Change | None:
    """How the last windows differ from the best that the unit held before; None where they do not, all of them."""
    known = rows.filter(pl.col(column).is_not_null() & (pl.col("end_ms") > pl.col("end_ms").max() - PAST_MS))
    values, ends = known[column].to_list(), known["end_ms"].to_list()
    if len(values) < 2 * LEAST_BEFORE:
        return None
    held = [median(values[i : i + LEAST_BEFORE]) for i in range(len(values) - LEAST_BEFORE + 1)]
    before = max(held) if by < 0 else min(held)
    limit = before * (1 + by) if relative else before + by
    beyond = [value <= limit if by < 0 else value >= limit for value in values]
    first = next((i for i in range(len(beyond)) if all(beyond[i:])), None)
    return None if first is None or first < LEAST_BEFORE else Change(ends[first], ends[-1], before, values[-1])


def _facts(*changes: Change | None) -> dict[str, str]:
    names = ("flow", "supply")
    return {
        key: value
        for name, change in zip(names, changes, strict=True)
        if change is not None
        for key, value in ((f"{name}_before", f"{change.before:.1f}"), (name, f"{change.now:.1f}"))
    }


def _claim(
    component: Name, says: str, first: int, last: int, llr: float, facts: dict[str, str], case: Case
) -> Evidence:  # fmt: skip
    return Evidence(
        id=identity(NAME, VERSION, component, "cooling_lost", bucket_of(first)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="cooling_lost",
        llr=llr,
        onset_from_ms=first - 2 * case.window_ms,
        onset_to_ms=first,
        end_ms=last,
        window_end_ms=last,
        source_group=f"{component}|coolant",
        severity=Severity.ERROR,
        says=f"coolant_{says}",
        facts=facts,
    )
