"""Carriers as telemetry tells them: ports that were up and then were not, for those sites whose kernels say nothing.

A port that is down from its first sample on is unused; one that falls silent is blind, not down.
"""

import polars as pl

from diagnosis.case import Case
from diagnosis.frames import table
from diagnosis.wide import OWNED, wide
from sickbay.components import host_of
from sickbay.messages import Event, Severity

LEAST_WINDOWS = 2  # a second look at the source
UP, DOWN = 0.99, 0.01  # shares of a window's samples


def lost_in_telemetry(case: Case) -> list[Event]:
    """One loss per port that went down and stayed down for two windows, at the end of its last window up."""
    frame = table(case, "port", ("up",)).filter(pl.col("up").is_not_null() & pl.col("up").is_not_nan())
    if frame.height == 0:
        return []
    return [
        Event(component=component, kind="port.down", severity=Severity.ERROR, at_ms=at)
        for component, at in _losses(frame).iter_rows()
    ]


def _losses(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows (component, at_ms): the last windows up before LEAST_WINDOWS windows wholly down."""
    told = frame.sort("component", "end_ms").with_columns(
        pl.col("up").shift(-1).over("component").alias("next"),
        pl.col("up").shift(-LEAST_WINDOWS).over("component").alias("then"),
    )
    # The window of the loss itself is mixed: it may stand between the last one up and the first one down.
    falls = told.filter((pl.col("up") >= UP) & (pl.col("next") < UP) & (pl.col("then") <= DOWN))
    return falls.select("component", "end_ms").group_by("component").agg(pl.col("end_ms").min()).sort("component")


def hosts_seen(case: Case) -> frozenset[str]:
    """Hosts of which the inputs hold anything at all: about the others nothing is known, good or bad."""
    told = {event.host for event in case.events}
    told |= {host_of(event.component) or "" for event in case.events}
    return frozenset(told.union(*(wide(case).owners(name) for name in OWNED))) - {""}
