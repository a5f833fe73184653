"""Jobs whose accelerators all stand idle in a collective at once: a symptom that dates the fault and blames nobody.

Matrix units fall to nothing (or power by 60 %) while kernels stay resident. Idle without a resident kernel is a job
that ended, loads or writes; a checkpoint is not a stall.
"""

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from diagnosis.case import Case
from diagnosis.evidence import GOOD, bucket_of, identity
from diagnosis.frames import job_name, runs, table, with_last_jobs
from sickbay.messages import Action, Evidence, Severity

NAME, VERSION = "peers_idle", "1"

IDLE = 0.3  # of the job's own usual matrix activity
FALLS = 0.85  # a window in which the stall began shows a part of it
POWER_LEFT = 0.55  # power of a spinning collective is 20 to 40 % of normal [house, of field practice]
RESIDENT = 0.85  # utilisation of a spinning collective is 1
LEAST_BEFORE = 3  # windows of normal work that make a baseline
LEAST_WINDOWS = 2
COLUMNS = ("matrix_active_ratio", "power_watts", "utilisation_ratio")
SEEN = ("temperature_celsius", "clock_megahertz", "power_watts__spread")  # what tells a live card from a stale number


class Stall(NamedTuple):
    """A job whose peers stand since `from_ms` .. `to_ms`, last seen at `end_ms`."""

    job: str
    from_ms: int
    to_ms: int
    end_ms: int
    cards: int
    earlier: int  # how many stalls of at least half the length it had before: a habit, such as a checkpoint
    signal: str = ""  # the column that shows work
    usual: float = 0.0  # its value in normal work
    moved: bool = False  # the job worked again afterwards


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per stalled job."""
    for stall in stalls(case):
        if not checkpoints(case, stall):
            yield _claim(stall)


def stalls(case: Case) -> list[Stall]:
    """The latest stall of each job."""
    return [stall for stall, _ in stalled(case)]


def stalled(case: Case) -> list[tuple[Stall, pl.DataFrame]]:
    """The latest stall of each job, and what was told of the job's accelerators (`COLUMNS`, `SEEN`)."""
    if NAME not in case.memo:  # three detectors ask
        case.memo[NAME] = _stalled(case)
    found: list[tuple[Stall, pl.DataFrame]] = case.memo[NAME]
    return found


def _stalled(case: Case) -> list[tuple[Stall, pl.DataFrame]]:
    frame = with_last_jobs(table(case, "accelerator", (*COLUMNS, *SEEN)), case).filter(pl.col("job").is_not_null())
    if frame.height == 0:
        return []
    found = []
    for cards in frame.partition_by("job", maintain_order=True):
        medians = cards.group_by("job", "end_ms").agg(
            *(pl.col(column).median() for column in COLUMNS), pl.len().alias("cards")
        )
        if stall := _stall(medians.sort("end_ms"), case.window_ms):
            found.append((stall, cards))
    return sorted(found, key=lambda pair: pair[0].job)


def _stall(rows: pl.DataFrame, window_ms: int) -> Stall | None:
    signal, idle_at = ("matrix_active_ratio", IDLE)
    if rows["matrix_active_ratio"].drop_nulls().len() < rows.height // 2:
        signal, idle_at = ("power_watts", POWER_LEFT)
    values, ends = rows[signal].to_list(), rows["end_ms"].to_list()
    busy = [value for value in values if value is not None]
    usual = sorted(busy)[3 * len(busy) // 4] if busy else 0.0  # upper quartile: a long stall must not become the norm
    if usual <= 0 or sum(value >= FALLS * usual for value in busy) < LEAST_BEFORE:
        return None
    resident = [value is None or value >= RESIDENT for value in rows["utilisation_ratio"].to_list()]
    low = {e for e, v, r in zip(ends, values, resident, strict=True) if v is not None and v < idle_at * usual and r}
    found = [(first, last) for first, last in runs(low, window_ms) if (last - first) // window_ms + 1 >= LEAST_WINDOWS]
    if not found:
        return None
    first, last = found[-1]
    earlier = sum(2 * (b - a) >= last - first for a, b in found[:-1])
    began = _began(dict(zip(ends, values, strict=True)), first, window_ms, FALLS * usual)
    moved = any(e > last and v is not None and v >= FALLS * usual for e, v in zip(ends, values, strict=True))
    cards = int(rows["cards"].max() or 0)  # type: ignore[arg-type]
    return Stall(rows["job"][0], began - window_ms, first, last, cards, earlier, signal, usual, moved)


def _began(values: dict[int, float | None], first: int, window_ms: int, normal: float) -> int:
    """The window in which the stall began: the one before the first idle one, where it was already below normal."""
    before = values.get(first - window_ms)
    return first - window_ms if before is not None and before < normal else first


def checkpoints(case: Case, stall: Stall) -> bool:
    """The stall lies in a checkpoint that the job itself announced."""
    phases = [step for step in case.steps if step.job in (stall.job, "?") and step.at_ms is not None and step.phase]
    begun = [s.at_ms or 0 for s in phases if s.phase == "checkpoint_begin" and (s.at_ms or 0) <= stall.to_ms]
    ended = [s.at_ms or 0 for s in phases if s.phase == "checkpoint_end"]
    return bool(begun) and not any(max(begun) <= end < stall.from_ms for end in ended)


def _claim(stall: Stall) -> Evidence:
    component = job_name(stall.job)
    return Evidence(
        id=identity(NAME, VERSION, component, "peers_idle", bucket_of(stall.to_ms)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="peers_idle",
        llr=GOOD,
        onset_from_ms=stall.from_ms,
        onset_to_ms=stall.to_ms,
        end_ms=stall.end_ms,
        window_end_ms=stall.end_ms,
        source_group=f"{component}|stall",
        severity=Severity.WARNING,
        advice=Action.WATCH,
        count=stall.cards,
        job=stall.job,
        says="peers_stand_idle",
        facts={
            "cards": str(stall.cards),
            "seconds": str((stall.end_ms - stall.to_ms) // 1000),
            "habit": "yes" if stall.earlier else "",
        },
    )
