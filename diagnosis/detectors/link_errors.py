"""Links that lose symbols or recover again and again, by the port's own counters. Corrected bits are normal."""

from collections.abc import Iterable

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, GOOD, bucket_of, identity
from diagnosis.frames import table
from sickbay.messages import Evidence, Severity

NAME, VERSION = "link_errors", "1"

PER_SECOND = 1.0  # [house] uncorrected symbol errors or received errors a second that matter
LEAST_WINDOWS = 3  # with 10 s windows the 30 s of two soft families: rate and persistence
COLUMNS = ("symbol_errors_total__increase", "rx_errors_total__increase", "link_downed_total__increase")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per port and finding: it lost its link, or it loses symbols for 30 s."""
    frame = table(case, "port", COLUMNS)
    if frame.height == 0:
        return
    symbols, received, downed = (pl.col(column).fill_null(0.0) for column in COLUMNS)
    least = PER_SECOND * case.window_ms / 1000
    bad = frame.with_columns((symbols + received).alias("errors"), downed.alias("downs"))
    for rows in bad.filter(pl.col("downs") > 0).partition_by("component", maintain_order=True):
        flaps = float(rows["downs"].sum()) > 1
        yield _claim(rows, "link_flap" if flaps else "link_down", "link_downed", CERTAIN, "downs", case)
    for rows in bad.filter(pl.col("errors") >= least).partition_by("component", maintain_order=True):
        if rows.height >= LEAST_WINDOWS:
            yield _claim(rows, "link_errors", "link_loses_symbols", GOOD, "errors", case)


def _claim(rows: pl.DataFrame, fault: str, says: str, llr: float, column: str, case: Case) -> Evidence:
    component, first, last = rows["component"][0], int(rows["end_ms"][0]), int(rows["end_ms"][-1])
    return Evidence(
        id=identity(NAME, VERSION, component, fault, bucket_of(first)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault=fault,
        llr=llr,
        onset_from_ms=first - case.window_ms,
        onset_to_ms=first,
        end_ms=last,
        window_end_ms=last,
        source_group=f"{component}|{fault}|counters",
        severity=Severity.ERROR if fault != "link_errors" else Severity.WARNING,
        says=says,
        facts={"errors": str(round(float(rows[column].sum()))), "seconds": str(rows.height * case.window_ms // 1000)},
    )
