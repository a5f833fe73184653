"""Accelerators that are slower than their peers and hold up the job.

Who is slow has a low clock, or is hot, held back or short of power while it works. Who waits is cool, draws little and
has its clock free: a victim. Two families of signs for 30 s and five steps make a claim; one for 120 s and twelve steps
is worth watching, no more. Compared are cards of one model in one job that work and were sampled alike.
"""

from collections.abc import Iterable

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import CERTAIN, FAIR, bucket_of, identity
from diagnosis.frames import runs, sorted_rows, table, with_jobs, with_models
from diagnosis.working import step_ms, working
from sickbay.messages import Action, Evidence, Severity

NAME, VERSION = "slow_accelerator", "2"

LEAST_WINDOWS = 2  # a single window is a single look
TWO_FAMILIES_MS, TWO_FAMILIES_STEPS = 30_000, 5  # design.md, section 6
ONE_FAMILY_MS, ONE_FAMILY_STEPS = 120_000, 12
LEAST_PEERS = 4  # fewer have no median worth the name
DEVIATIONS = 5.0  # robust standard deviations (1.4826 x MAD) from the peers' median
CLOCK_FLOOR = 0.03  # least deviation that matters, as a share of the peers' median
POWER_FLOOR = 0.10
HEAT_FLOOR_CELSIUS = 6.0
HELD_SHARE = 0.01  # time held back by heat: above 1 % counts [house, of field practice]
THERMAL_BITS, BRAKE_BIT = 32 | 64, 128
MOST_SLOW = 0.25  # a larger share of the job is not an outlier but the job
COLUMNS = (
    "n", "clock_megahertz", "power_watts", "temperature_celsius", "memory_temperature_celsius", "throttle_mask",
    "power_limit_watts", "utilisation_ratio", "matrix_active_ratio", "thermal_violation_nanoseconds_total__increase",
    "power_violation_nanoseconds_total__increase",
)  # fmt: skip
FAMILIES = ("clock", "heat", "power")
PEERS = ("job", "model", "end_ms")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per accelerator that stands out from its job for long enough."""
    signs = signs_of(case)
    if signs.height == 0:
        return
    suspects = signs.filter("clock")
    crowded = _crowded(signs, suspects)
    for rows in suspects.partition_by("component", maintain_order=True):
        if (rows["job"][0], rows["model"][0]) in crowded:
            continue
        if (claim := _claim(rows, case)) and (rows["model"][0] or _own_sign(claim, rows, signs)):
            yield claim


def signs_of(case: Case) -> pl.DataFrame:
    """For each working row of an accelerator with at least three peers: which families of signs stand out from them."""
    frame = with_jobs(table(case, "accelerator", COLUMNS), case).filter(pl.col("job").is_not_null())
    frame = working(with_models(frame, case).with_columns(pl.col("model").fill_null("")))
    frame = frame.filter(pl.len().over(*PEERS) >= LEAST_PEERS)
    middle = pl.col("clock_megahertz").median().over(*PEERS)
    frame = frame.with_columns(peers_clock=middle, low=middle - pl.col("clock_megahertz") >= CLOCK_FLOOR * middle)
    looked_at = pl.col("low").any().over(*PEERS)  # few windows of many, and all the rest costs
    calm = [pl.lit(False).alias(one) for one in ("clock", "heat", "power", "starved", "told")]
    others = frame.filter(~looked_at).with_columns(*calm, pl.lit(None, pl.Float64).alias("peers_temperature"))
    return sorted_rows(pl.concat([_signs(frame.filter(looked_at), case), others]))


def _signs(frame: pl.DataFrame, case: Case) -> pl.DataFrame:
    window_ns = case.window_ms * 1e6
    held = pl.col("thermal_violation_nanoseconds_total__increase").fill_null(0.0) / window_ns
    mask = pl.col("throttle_mask").fill_null(0.0).cast(pl.Int64, strict=False).fill_null(0)
    hot = _above("temperature_celsius") | _above("memory_temperature_celsius")
    held_by_heat = (held > HELD_SHARE) | ((mask & THERMAL_BITS) != 0)
    return frame.with_columns(
        _below("clock_megahertz", CLOCK_FLOOR).alias("clock"),
        (hot | held_by_heat).alias("heat"),
        (_below("power_watts", POWER_FLOOR) | _capped(window_ns) | ((mask & BRAKE_BIT) != 0)).alias("power"),
        (_capped(window_ns) | ((mask & BRAKE_BIT) != 0)).alias("starved"),
        (held_by_heat | ((mask & BRAKE_BIT) != 0)).alias("told"),
        pl.col("temperature_celsius").median().over(*PEERS).alias("peers_temperature"),
    )


def _spread(column: str) -> pl.Expr:
    away = (pl.col(column) - pl.col(column).median().over(*PEERS)).abs()
    return 1.4826 * away.median().over(*PEERS)


def _below(column: str, floor: float) -> pl.Expr:
    middle = pl.col(column).median().over(*PEERS)
    least = pl.max_horizontal(DEVIATIONS * _spread(column), floor * middle)
    return (middle - pl.col(column) >= least).fill_null(False)


def _above(column: str) -> pl.Expr:
    middle = pl.col(column).median().over(*PEERS)
    least = pl.max_horizontal(DEVIATIONS * _spread(column), pl.lit(HEAT_FLOOR_CELSIUS))
    return (pl.col(column) - middle >= least).fill_null(False)


def _capped(window_ns: float) -> pl.Expr:
    """A cap below that of the peers, or much time held back by power that the peers do not have."""
    limit = pl.col("power_limit_watts")
    low = limit < 0.95 * limit.median().over(*PEERS)
    held = pl.col("power_violation_nanoseconds_total__increase") / window_ns
    return low.fill_null(False) | (held - held.median().over(*PEERS) > 0.2).fill_null(False)


def _crowded(signs: pl.DataFrame, suspects: pl.DataFrame) -> set[tuple[str, str]]:
    counts = [
        frame.group_by("job", "model").agg(pl.col("component").n_unique()).iter_rows() for frame in (signs, suspects)
    ]
    cards = {(job, model): count for job, model, count in counts[0]}
    return {(job, model) for job, model, slow in counts[1] if slow > max(1.0, MOST_SLOW * cards[job, model])}


def _claim(rows: pl.DataFrame, case: Case) -> Evidence | None:
    """The claim for the latest stretch in which the clock was low for long enough."""
    step = step_ms(case, rows["job"][-1])
    for first, last in reversed(runs(rows["end_ms"].to_list(), case.window_ms)):
        stretch = rows.filter(pl.col("end_ms").is_between(first, last))
        lasted = last - first + case.window_ms
        shares = {family: float(stretch[family].mean() or 0.0) for family in FAMILIES}  # type: ignore[arg-type]
        also = [family for family in FAMILIES[1:] if shares[family] >= 0.5]
        least = max(TWO_FAMILIES_MS, TWO_FAMILIES_STEPS * step) if also else max(ONE_FAMILY_MS, ONE_FAMILY_STEPS * step)
        if lasted >= least and stretch.height >= LEAST_WINDOWS:
            return _evidence(stretch, _fault(stretch, also), also, first, last, case)
    return None


def _fault(rows: pl.DataFrame, also: list[str]) -> str:
    starved = float(rows["starved"].mean() or 0.0) >= 0.5  # type: ignore[arg-type]
    return "accelerator_thermal" if "heat" in also else "accelerator_power_limited" if starved else "accelerator_slow"


def _own_sign(claim: Evidence, rows: pl.DataFrame, signs: pl.DataFrame) -> bool:
    """Where no model is told, peers may be of another one: the card says so itself, or was faster before."""
    began = claim.onset_to_ms or 0
    now = rows.filter(pl.col("end_ms") >= began)
    if float(now["told"].mean() or 0.0) >= 0.5:  # type: ignore[arg-type]
        return True
    before = signs.filter((pl.col("component") == claim.component) & (pl.col("end_ms") < began) & ~pl.col("clock"))
    usual, clock = before["clock_megahertz"].median(), now["clock_megahertz"].median()
    if not isinstance(usual, float) or not isinstance(clock, float) or before.height < LEAST_WINDOWS:
        return False
    return clock <= (1 - CLOCK_FLOOR) * usual


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
