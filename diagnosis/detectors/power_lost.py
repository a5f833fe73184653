"""A power unit that stops giving power: nothing flows where much did.

A trip is one sample, and leaves nothing: machines that were shut down draw their standby still. Where what hangs on the
unit lives on, its twin feeds it: a feed is lost, and nobody is held.
"""

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, GOOD, bucket_of, identity
from diagnosis.frames import table
from diagnosis.wide import TOLD, wide
from sickbay.components import Name
from sickbay.messages import Evidence, Severity

NAME, VERSION = "power_lost", "1"

SIGNS = (("power_watts", 20.0, 200.0), ("current_amperes", 0.1, 1.0))  # [house] nothing is below, much is above
LEAST_BEFORE = 3  # windows that tell what it gave before
LEAST_AFTER = 2  # windows in which a host must be seen to live on
MOST_OF = 0.8  # share of the hosts


class Fall(NamedTuple):
    """When a unit stopped giving: the last window with power, the first without, the last seen; and what it gave."""

    before_ms: int
    first_ms: int
    last_ms: int
    gave: float


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per unit whose power or current is gone and stays away."""
    frame = table(case, "pdu", tuple(column for column, _, _ in SIGNS))
    for rows in _dead(frame).partition_by("component", maintain_order=True) if frame.height else ():
        fall = next((found for sign in SIGNS if (found := _gone(rows, *sign))), None)
        if fall is not None:
            yield _claim(rows["component"][0], fall, case)


def _dead(frame: pl.DataFrame) -> pl.DataFrame:
    """The units that give nothing by their newest word: few of many."""
    newest = [pl.col(column).drop_nulls().last() <= nothing for column, nothing, _ in SIGNS]
    last = frame.group_by("component").agg(pl.any_horizontal(newest).alias("dead"))
    return frame.filter(pl.col("component").is_in(last.filter("dead")["component"].implode()))


def _gone(rows: pl.DataFrame, column: str, nothing: float, much: float) -> Fall | None:
    """Of a unit that gives nothing now."""
    known = rows.filter(pl.col(column).is_not_null())
    values, ends = known[column].to_list(), known["end_ms"].to_list()
    first = next((i for i in range(len(values)) if all(value <= nothing for value in values[i:])), None)
    if first is None or first < LEAST_BEFORE:
        return None
    before = sorted(values[:first])[first // 2]
    return Fall(ends[first - 1], ends[first], ends[-1], before) if before >= much else None


def _living(component: Name, fall: Fall, case: Case) -> tuple[int, int]:
    """(hosts under the unit that live on, hosts that it had before) by what their own agents and exporters tell."""
    under = set(case.topology.at(fall.first_ms).hosts_under(component))
    before = wide(case).owners(TOLD, 0, fall.before_ms) & under
    after = wide(case).owners(TOLD, fall.first_ms + LEAST_AFTER * case.window_ms)
    return len(before & after), len(before)


def _claim(component: Name, fall: Fall, case: Case) -> Evidence:
    living, had = _living(component, fall, case)
    carried = had > 0 and living >= MOST_OF * had
    fault = "power_feed_lost" if carried else "power_lost"
    return Evidence(
        id=identity(NAME, VERSION, component, fault, bucket_of(fall.first_ms)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault=fault,
        llr=CERTAIN if had else GOOD,
        onset_from_ms=fall.before_ms - case.window_ms,
        onset_to_ms=fall.first_ms,
        end_ms=fall.last_ms,
        window_end_ms=fall.last_ms,
        source_group=f"{component}|power",
        severity=Severity.ERROR if carried else Severity.FATAL,
        says="unit_gives_nothing_hosts_live" if carried else "unit_gives_nothing",
        facts={"before": f"{fall.gave:.0f}", "living": str(living), "had": str(had)},
    )
