"""Accelerators that are slower than their peers and hold up the job.

Who is slow has a low clock, or is hot, held back or short of power while it works. Who waits is cool, draws little and
has its clock free: a victim. Two families of signs for 30 s make a claim; one for 120 s is worth watching, no more.
"""

from collections.abc import Iterable

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, FAIR, bucket_of, identity
from diagnosis.frames import runs, table, with_jobs
from sickbay.messages import Action, Evidence, Severity

NAME, VERSION = "slow_accelerator", "1"

TWO_FAMILIES_MS = 30_000  # [house]
ONE_FAMILY_MS = 120_000
LEAST_PEERS = 4  # fewer have no median worth the name
DEVIATIONS = 5.0  # robust standard deviations (1.4826 x MAD) from the peers' median
CLOCK_FLOOR = 0.03  # least deviation that matters, as a share of the peers' median
POWER_FLOOR = 0.10
HEAT_FLOOR_CELSIUS = 6.0
HELD_SHARE = 0.01  # time held back by heat: above 1 % counts [house, of field practice]
THERMAL_BITS, BRAKE_BIT = 32 | 64, 128
BUSY = 0.5  # utilisation below which a card does no work that could be slow
MOST_SLOW = 0.25  # a larger share of the job is not an outlier but the job
COLUMNS = (
    "clock_megahertz", "power_watts", "temperature_celsius", "memory_temperature_celsius", "throttle_mask",
    "power_limit_watts", "utilisation_ratio", "thermal_violation_nanoseconds_total__increase",
    "power_violation_nanoseconds_total__increase",
)  # fmt: skip
FAMILIES = ("clock", "heat", "power")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per accelerator that stands out from its job for long enough."""
    signs = signs_of(case)
    if signs.height == 0:
        return
    suspects = signs.filter(pl.col("clock") & (pl.col("utilisation_ratio").fill_null(1.0) >= BUSY))
    crowded = _crowded(signs, suspects)
    for rows in suspects.partition_by("component", maintain_order=True):
        if rows["job"][0] not in crowded and (claim := _claim(rows, case)):
            yield claim


def signs_of(case: Case) -> pl.DataFrame:
    """For each row of an accelerator in a job of at least four: which families of signs stand out from the peers."""
    frame = with_jobs(table(case, "accelerator", COLUMNS), case).filter(pl.col("job").is_not_null())
    frame = frame.filter(pl.len().over("job", "end_ms") >= LEAST_PEERS)
    window_ns = case.window_ms * 1e6
    held = pl.col("thermal_violation_nanoseconds_total__increase").fill_null(0.0) / window_ns
    mask = pl.col("throttle_mask").fill_null(0.0).cast(pl.Int64, strict=False).fill_null(0)
    hot = _above("temperature_celsius") | _above("memory_temperature_celsius")
    return frame.with_columns(
        _below("clock_megahertz", CLOCK_FLOOR).alias("clock"),
        (hot | (held > HELD_SHARE) | ((mask & THERMAL_BITS) != 0)).alias("heat"),
        (_below("power_watts", POWER_FLOOR) | _capped(window_ns) | ((mask & BRAKE_BIT) != 0)).alias("power"),
        (_capped(window_ns) | ((mask & BRAKE_BIT) != 0)).alias("starved"),
        pl.col("clock_megahertz").median().over("job", "end_ms").alias("peers_clock"),
        pl.col("temperature_celsius").median().over("job", "end_ms").alias("peers_temperature"),
    ).sort("component", "end_ms")


def _spread(column: str) -> pl.Expr:
    away = (pl.col(column) - pl.col(column).median().over("job", "end_ms")).abs()
    return 1.4826 * away.median().over("job", "end_ms")


def _below(column: str, floor: float) -> pl.Expr:
    middle = pl.col(column).median().over("job", "end_ms")
    least = pl.max_horizontal(DEVIATIONS * _spread(column), floor * middle)
    return (middle - pl.col(column) >= least).fill_null(False)


def _above(column: str) -> pl.Expr:
    middle = pl.col(column).median().over("job", "end_ms")
    least = pl.max_horizontal(DEVIATIONS * _spread(column), pl.lit(HEAT_FLOOR_CELSIUS))
    return (pl.col(column) - middle >= least).fill_null(False)


def _capped(window_ns: float) -> pl.Expr:
    """A cap below that of the peers, or much time held back by power that the peers do not have."""
    limit = pl.col("power_limit_watts")
    low = limit < 0.95 * limit.median().over("job", "end_ms")
    held = pl.col("power_violation_nanoseconds_total__increase") / window_ns
    return low.fill_null(False) | (held - held.median().over("job", "end_ms") > 0.2).fill_null(False)


def _crowded(signs: pl.DataFrame, suspects: pl.DataFrame) -> set[str]:
    cards = dict(signs.group_by("job").agg(pl.col("component").n_unique()).iter_rows())
    slow = suspects.group_by("job").agg(pl.col("component").n_unique()).iter_rows()
    return {job for job, count in slow if count > max(1.0, MOST_SLOW * cards[job])}


def _claim(rows: pl.DataFrame, case: Case) -> Evidence | None:
    """The claim for the latest stretch in which the clock was low."""
    first, last = runs(rows["end_ms"].to_list(), case.window_ms)[-1]
    rows = rows.filter(pl.col("end_ms").is_between(first, last))
    lasted = last - first + case.window_ms
    shares = {family: float(rows[family].mean() or 0.0) for family in FAMILIES}  # type: ignore[arg-type]
    also = [family for family in FAMILIES[1:] if shares[family] >= 0.5]
    if lasted < (TWO_FAMILIES_MS if also else ONE_FAMILY_MS):
        return None
    starved = float(rows["starved"].mean() or 0.0) >= 0.5  # type: ignore[arg-type]
    fault = "accelerator_thermal" if "heat" in also else "accelerator_power_limited" if starved else "accelerator_slow"
    return _evidence(rows, fault, also, first, last, case)


def _evidence(rows: pl.DataFrame, fault: str, also: list[str], first: int, last: int, case: Case) -> Evidence:
    component = rows["component"][0]
    return Evidence(
        id=identity(NAME, VERSION, component, fault, bucket_of(first)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault=fault,
        llr=CERTAIN if also else FAIR,
        onset_from_ms=first - case.window_ms,
        onset_to_ms=first,
        end_ms=last,
        window_end_ms=last,
        source_group=f"{component}|slow",
        severity=Severity.WARNING,
        advice=Action.WATCH,  # a drain does nothing to a running job: the plan swaps it at a committed checkpoint
        job=rows["job"][0],
        says=f"slow_{'hot' if 'heat' in also else 'starved' if 'power' in also else 'clock'}",
        facts=_facts(rows),
    )


def _facts(rows: pl.DataFrame) -> dict[str, str]:
    names = ("clock_megahertz", "peers_clock", "temperature_celsius", "peers_temperature")
    keys = ("clock", "peers_clock", "temperature", "peers_temperature")
    values = [rows[name].median() for name in names]
    return {
        key: str(round(value)) if isinstance(value, float) else "?" for key, value in zip(keys, values, strict=True)
    }
