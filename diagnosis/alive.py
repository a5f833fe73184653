"""Shared parts that are seen to work on after a moment: a switch that still speaks, a unit that still gives."""

from functools import cached_property

import polars as pl

from diagnosis.case import Case
from diagnosis.frames import table
from sickbay.components import Kind, Name, host_of, kind_of

TABLES = ("port", "optic", "switch")
LINE_MS = 10_000  # [house] a switch that restarts may still write a line about it
WATTS, AMPERES = 20.0, 0.1  # as in `detectors.power_lost`: what is below is nothing


class Alive:
    """What is seen to live on after `at_ms`: by readings that begin two windows later, or lines after some seconds."""

    def __init__(self, case: Case, at_ms: int | None) -> None:
        self._case, self._at_ms = case, at_ms

    def __contains__(self, part: Name) -> bool:
        if self._at_ms is None:
            return False
        if kind_of(part) is Kind.SWITCH:
            return part.partition(":")[2] in self._switches
        return part in self._units

    @property
    def _after_ms(self) -> int:
        return (self._at_ms or 0) + 2 * self._case.window_ms

    @cached_property
    def _switches(self) -> frozenset[str]:
        """Names of hosts and switches that are seen, as components spell them."""
        read = {
            host_of(component) or ""
            for name in TABLES
            for component in self._late(table(self._case, name, ("up",)))["component"].unique()
        }
        least = (self._at_ms or 0) + LINE_MS
        told = {host_of(one.component) or "" for one in self._case.events if (one.at_ms or 0) > least}
        return frozenset((read | told) - {""})

    @cached_property
    def _units(self) -> frozenset[Name]:
        gives = (pl.col("power_watts") > WATTS) | (pl.col("current_amperes") > AMPERES)
        rows = self._late(table(self._case, "pdu", ("power_watts", "current_amperes"))).filter(gives.fill_null(False))
        return frozenset(rows["component"])

    def _late(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.filter(pl.col("end_ms") >= self._after_ms)
