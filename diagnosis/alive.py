"""Shared parts that are seen to work on after a moment: a switch that still speaks, a unit that still gives."""

from functools import cached_property

import polars as pl

from diagnosis.case import Case
from diagnosis.frames import table
from diagnosis.known_hosts import OF_HOSTS
from diagnosis.wide import EVER_MS, TOLD, wide
from sickbay.components import Kind, Name, host_of, kind_of

TABLES = ("port", "optic", "switch")
LINE_MS = 10_000  # [house] a switch that restarts may still write a line about it
SOON_MS = 90_000  # [house] fabrics are read each minute; a switch that restarts is not back by then
WATTS, AMPERES = 20.0, 0.1  # as in `detectors.power_lost`: what is below is nothing


class Alive:
    """What is seen to live on after `at_ms`: by readings that begin two windows later, or lines after some seconds.

    A switch that is heard minutes later only may have restarted.
    """

    def __init__(self, case: Case, at_ms: int | None) -> None:
        self._case, self._at_ms = case, at_ms

    def __contains__(self, part: Name) -> bool:
        if self._at_ms is None:
            return False
        return self.went_on(part) if kind_of(part) is Kind.SWITCH else part in self._units

    def went_on(self, switch: Name) -> bool:
        """Whether a switch is read again, or speaks, before it could have restarted."""
        return self._at_ms is not None and switch.partition(":")[2] in self._soon

    @cached_property
    def _soon(self) -> frozenset[str]:
        until = (self._at_ms or 0) + max(SOON_MS, 3 * self._case.window_ms)
        read = {one for name in TABLES for one in wide(self._case).owners(name, self._after_ms, until)}
        return frozenset(read | self._told(LINE_MS, SOON_MS)) - {""}

    def _told(self, least_ms: int, most_ms: int) -> set[str]:
        """Owners of what a line speaks of, so long after."""
        begin = self._at_ms or 0
        times = ((one.component, one.at_ms or 0) for one in self._case.events)
        return {host_of(component) or "" for component, at in times if begin + least_ms < at <= begin + most_ms}

    @cached_property
    def heard(self) -> frozenset[str]:
        """Hosts that told something of themselves afterwards."""
        signs = (TOLD, *(name for name in OF_HOSTS if name != "host"))
        read = {one for sign in signs for one in wide(self._case).owners(sign, self._after_ms)}
        return frozenset(read | self._told(LINE_MS, EVER_MS)) - {""}

    @property
    def _after_ms(self) -> int:
        return (self._at_ms or 0) + 2 * self._case.window_ms

    @cached_property
    def _units(self) -> frozenset[Name]:
        gives = (pl.col("power_watts") > WATTS) | (pl.col("current_amperes") > AMPERES)
        rows = self._late(table(self._case, "pdu", ("power_watts", "current_amperes"))).filter(gives.fill_null(False))
        return frozenset(rows["component"])

    def _late(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.filter(pl.col("end_ms") >= self._after_ms)
