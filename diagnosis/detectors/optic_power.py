"""Light that fades: received power well below its own past while the far end sends as before.

A fall at the receiver with a steady transmitter lies in between: connector or fibre. Both lasers and the host are well.
"""

from collections.abc import Iterable

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, GOOD, bucket_of, identity
from diagnosis.frames import table
from sickbay.components import Kind, Name
from sickbay.messages import Evidence, Severity

NAME, VERSION = "optic_power", "1"

FALL_DB = 2.0  # [house] loss that no temperature explains; dirt costs 2 dB and more
STEADY_DB = 1.0  # a transmitter within this of its past is steady
DARK_DBM = -30.0  # modules report -40 for no light at all
LEAST_WINDOWS = 3
COLUMNS = ("rx_power_dbm", "tx_power_dbm", "errors_before_correction_ratio")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per module whose received power fell, or whose own transmitter fades."""
    frame = table(case, "optic", COLUMNS)
    levels = (
        {rows["component"][0]: rows for rows in frame.partition_by("component", maintain_order=True)}
        if frame.height
        else {}
    )
    for component in sorted(levels):
        fall = fallen(levels[component], "rx_power_dbm")
        if fall is None:
            continue
        far = levels.get(_far(case, component, fall[0]) or "")
        faded = far is not None and fallen(far, "tx_power_dbm", STEADY_DB) is not None
        if faded:
            continue  # the far laser's own claim says it better
        yield _claim(component, fall, case, "light_lost" if fall[2] <= DARK_DBM else "light_fell", far is not None)
    for component in sorted(levels):
        if fade := fallen(levels[component], "tx_power_dbm"):
            yield _claim(component, fade, case, "laser_fades", True)


def fallen(rows: pl.DataFrame, column: str, by_db: float = FALL_DB) -> tuple[int, float, float] | None:
    """(when, before, now) where the last windows lie below the first ones; None where the level held or is unknown."""
    known = rows.filter(pl.col(column).is_not_null())
    if known.height < 2 * LEAST_WINDOWS:
        return None
    values = known[column].to_list()
    before = sorted(values)[3 * len(values) // 4]
    low = [value <= before - by_db for value in values]
    if not all(low[-LEAST_WINDOWS:]):
        return None
    first = next(i for i in range(len(low)) if all(low[i:]))
    return int(known["end_ms"][first]), before, values[-1]


def _far(case: Case, component: Name, at_ms: int) -> Name | None:
    port = Kind.PORT + ":" + component.partition(":")[2]
    other = case.topology.at(at_ms).other_end(port)
    return Kind.OPTIC + ":" + other.partition(":")[2] if other else None


def _claim(component: Name, fall: tuple[int, float, float], case: Case, says: str, far_known: bool) -> Evidence:
    at, before, now = fall
    return Evidence(
        id=identity(NAME, VERSION, component, "optic_fault", bucket_of(at)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="optic_fault",
        llr=CERTAIN if says != "light_fell" or far_known else GOOD,
        onset_from_ms=at - case.window_ms,
        onset_to_ms=at,
        window_end_ms=at,
        source_group=f"{component}|light",
        severity=Severity.ERROR if now <= DARK_DBM else Severity.WARNING,
        says=says,
        facts={"before": f"{before:.1f}", "now": f"{now:.1f}"},
    )
