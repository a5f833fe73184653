"""What only the whole cluster tells: who was read when, and what is usual everywhere.

Live, detectors see the rows of few components (see `diagnosis.screen`); these few numbers about all come beside.
Offline all rows are there, and the same is counted from them: both give the same answers.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import polars as pl

from diagnosis.case import Case
from diagnosis.frames import table
from sickbay.components import UNKNOWN, Name

SEES: Final = "accelerator.sees"  # rows of accelerators that tell a sensor's value
TOLD: Final = "host.told"  # rows that a host's own agent or exporter told: a controller lives on where its host is dead
OWNED = ("accelerator", "port", "optic", "host", "filesystem", "switch")  # tables of parts that a host or switch has
SENSORS = ("power_watts", "utilisation_ratio", "temperature_celsius")
OWN = ("load_1m", "memory_available_bytes", "tasks_blocked", "clock_offset_seconds", "pressure_cpu_ratio")
BY_CONTROLLER = ("management_up", "powered", "inlet_temperature_celsius", "power_watts")
SENT = "tx_pause_total__increase"
EVER_MS = 2**60


class Wide(Protocol):
    """Answers about all rows of the case's windows. A sign is a table's name (any row of it), `SEES` or `TOLD`."""

    def owners(self, sign: str, from_ms: int = 0, to_ms: int = EVER_MS) -> frozenset[str]:
        """Hosts and switches with a row of that sign in a window that ends then."""

    def last(self, sign: str) -> Mapping[str, int]:
        """The end of the newest window with a row of that sign, by owner."""

    def span(self, name: str) -> tuple[int, int] | None:
        """The ends of the first and the newest window of a table."""

    def latest(self, name: str, column: str) -> Mapping[Name, float]:
        """The newest value above zero of each component of a table."""

    def usual_sent(self, ends: Collection[int], without: Collection[str], window_ms: int) -> Mapping[int, float]:
        """The median of pause frames that a port sent a second, by window, without those of some owners."""


def wide(case: Case) -> Wide:
    """The whole cluster's numbers of a case: those that came with it, else counted from its rows."""
    return case.wide or FromRows(case)


@dataclass(frozen=True, slots=True)
class FromRows:
    """Counted from the rows of a case that has all of them."""

    case: Case

    def owners(self, sign: str, from_ms: int = 0, to_ms: int = EVER_MS) -> frozenset[str]:
        """See `Wide`."""
        rows = self._rows(sign).filter(pl.col("end_ms").is_between(from_ms, to_ms))
        return frozenset(rows["host"].drop_nulls().unique()) - {UNKNOWN}

    def last(self, sign: str) -> Mapping[str, int]:
        """See `Wide`."""
        rows = self._rows(sign).filter(pl.col("host").is_not_null())
        return dict(rows.group_by("host").agg(pl.col("end_ms").max()).iter_rows())

    def span(self, name: str) -> tuple[int, int] | None:
        """See `Wide`."""
        ends = table(self.case, name, ())["end_ms"]
        return (int(ends.min()), int(ends.max())) if len(ends) else None  # type: ignore[arg-type]

    def latest(self, name: str, column: str) -> Mapping[Name, float]:
        """See `Wide`."""
        rows = table(self.case, name, (column,)).filter(pl.col(column) > 0)
        return dict(rows.group_by("component", maintain_order=True).agg(pl.col(column).last()).iter_rows())

    def usual_sent(self, ends: Collection[int], without: Collection[str], window_ms: int) -> Mapping[int, float]:
        """See `Wide`."""
        rows = table(self.case, "port", (SENT, "covered_ms"))
        rows = rows.filter(pl.col("end_ms").is_in([*ends]) & ~pl.col("host").is_in([*without]))
        return dict(rows.group_by("end_ms").agg(sent_per_second(window_ms).median()).iter_rows())

    def _rows(self, sign: str) -> pl.DataFrame:
        if sign == SEES:
            sees = pl.any_horizontal(pl.col(*SENSORS).is_not_null())
            return table(self.case, "accelerator", SENSORS).filter(sees)
        if sign == TOLD:
            return told_by_hosts(self.case)
        return table(self.case, sign, ())


def sent_per_second(window_ms: int) -> pl.Expr:
    """Pause frames that a port sent a second; 0 where it tells none."""
    seconds = pl.col("covered_ms").fill_null(window_ms).clip(lower_bound=1.0) / 1000
    return pl.col(SENT).fill_null(0.0) / seconds


def told_by_hosts(case: Case) -> pl.DataFrame:
    """Rows of hosts that their own agents or exporters told: a management controller lives on where its host is dead,
    and a row that says that it was silent is no sign of life at all."""
    frame = table(case, "host", ("up", *OWN, *BY_CONTROLLER))
    alone = pl.all_horizontal(pl.col("up", *OWN).is_null()) & pl.any_horizontal(pl.col(*BY_CONTROLLER).is_not_null())
    return frame.filter((pl.col("up").fill_null(1.0) > 0.5) & ~alone).select("component", "end_ms", "host", "up")
