"""States that a device holds until somebody repairs it: memory repairs that wait or failed, and new uncorrected errors.

Read as they stand, without history: a state that is as old as the boot never changes.
"""

from collections.abc import Iterable

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, STRONG, bucket_of, identity
from diagnosis.frames import table
from sickbay.messages import Evidence, Severity

NAME, VERSION = "device_state", "1"

# column -> (fault, weight, severity): the driver's own flags, and an error count that grew
SIGNS: dict[str, tuple[str, float, Severity]] = {
    "memory_repair_failed": ("accelerator_memory_repair_failed", CERTAIN, Severity.FATAL),
    "memory_repair_pending": ("accelerator_memory_repair_pending", CERTAIN, Severity.ERROR),
    "memory_uncorrected_total__increase": ("accelerator_memory_uncorrectable", STRONG, Severity.ERROR),
}


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per accelerator and state that its latest row shows."""
    frame = table(case, "accelerator", tuple(SIGNS))
    for column, (fault, llr, severity) in SIGNS.items():
        shows = frame.filter(pl.col(column) > 0)
        if not column.endswith("__increase"):  # a flag counts as long as it stands
            latest = frame.filter(pl.col(column).is_not_null()).group_by("component").agg(pl.col("end_ms").max())
            standing = shows.join(latest, on=["component", "end_ms"]).select("component")
            shows = shows.join(standing.unique(), on="component", how="semi")
        for rows in shows.sort("component", "end_ms").partition_by("component", maintain_order=True):
            yield _claim(rows, frame, column, fault, llr, severity, case.window_ms)


def _claim(
    rows: pl.DataFrame, frame: pl.DataFrame, column: str, fault: str, llr: float, severity: Severity, window_ms: int
) -> Evidence:
    component, first, last = rows["component"][0], int(rows["end_ms"][0]), int(rows["end_ms"][-1])
    since = frame.filter((pl.col("component") == component) & pl.col(column).is_not_null())["end_ms"][0]
    began = None if since == first and not column.endswith("__increase") else first
    return Evidence(
        id=identity(NAME, VERSION, component, fault, bucket_of(began)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault=fault,
        llr=llr,
        onset_from_ms=None if began is None else began - window_ms,
        onset_to_ms=began,
        end_ms=last,
        window_end_ms=last,
        source_group=f"{component}|{fault}|state",
        severity=severity,
        says=f"state_{column.removesuffix('__increase').removesuffix('_total')}",
    )
