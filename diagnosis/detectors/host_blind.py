"""Accelerators that go blind as their job stalls, on a host that is alive: the fault is there.

Blindness alone is no evidence: a moving job vetoes it, and where everything is blind the monitoring is at fault.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from diagnosis.case import Case
from diagnosis.detectors.peers_idle import Stall, stalls
from diagnosis.evidence import FAIR, bucket_of, identity
from diagnosis.frames import table
from sickbay.components import Kind, Name, name
from sickbay.messages import Action, Evidence, Severity

NAME, VERSION = "host_blind", "1"

NINE_IN_TEN = math.log(9)  # night 8: blank cards, a live host and a stalled job are that host, 9 in 10
COINCIDENCE_MS = 5_000  # beside sampling and windows: going blind this close to the stall is evidence, not a gap
LEAST_WINDOWS = 2  # windows without a row before a gap counts as blindness
MANY = 0.5  # share of hosts blind at once from which on the monitoring itself is at fault
FEW_HOSTS = 2


class Gap(NamedTuple):
    """A live host whose accelerators tell nothing since `from_ms` .. `to_ms`."""

    host: str
    from_ms: int
    to_ms: int
    end_ms: int
    cards: int


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per host that went blind in the moment of its job's stall; a notice where all went blind."""
    gaps, hosts = blind_hosts(case)
    if len(gaps) > FEW_HOSTS and len(gaps) > MANY * hosts:
        yield _everywhere(gaps)
        return
    stopped = stalls(case) if gaps else []
    for gap in gaps:
        stall = next((stall for stall in stopped if _coincide(gap, stall, case)), None)
        if stall:
            yield _claim(gap, stall)


def blind_hosts(case: Case) -> tuple[list[Gap], int]:
    """(live hosts whose accelerators are blind now, hosts with accelerators in all)."""
    cards = table(case, "accelerator", ("power_watts", "utilisation_ratio", "temperature_celsius"))
    sees = pl.any_horizontal(pl.col("power_watts", "utilisation_ratio", "temperature_celsius").is_not_null())
    if cards.height == 0:
        return [], 0
    seen = cards.group_by("host").agg(
        pl.col("end_ms").filter(sees).max().alias("last"), pl.col("component").n_unique().alias("cards")
    )
    alive = _alive(case)
    grid = max([*(int(end) for end in alive.values()), int(cards["end_ms"].max())])  # type: ignore[arg-type]
    gaps = []
    for host, last, count in seen.sort("host").iter_rows():
        silent = last is not None and grid - last >= LEAST_WINDOWS * case.window_ms
        if silent and alive.get(host, -1) >= last + LEAST_WINDOWS * case.window_ms:
            gaps.append(Gap(host, int(last) - case.window_ms, int(last) + case.window_ms, grid, int(count)))
    return gaps, seen.height


def _alive(case: Case) -> dict[str, int]:
    """Host -> the last time that something else of it was received."""
    last: dict[str, int] = {}
    up = table(case, "host", ("up",)).filter(pl.col("up").is_null() | (pl.col("up") > 0))
    carriers = table(case, "port", ("rx_bytes_total__increase",))
    for frame in (up, carriers):
        for host, end in frame.group_by("host").agg(pl.col("end_ms").max()).iter_rows():
            last[host] = max(last.get(host, -1), int(end))
    return last


def _coincide(gap: Gap, stall: Stall, case: Case) -> bool:
    jobs = case.placements.at(stall.to_ms).jobs_of(name(Kind.HOST, gap.host))
    if len(case.placements) and stall.job not in {place.job for place in jobs}:
        return False
    slack = COINCIDENCE_MS + case.sampling_ms
    return gap.from_ms - slack <= stall.to_ms and stall.from_ms <= gap.to_ms + slack


def _claim(gap: Gap, stall: Stall) -> Evidence:
    component = name(Kind.HOST, gap.host)
    return Evidence(
        id=identity(NAME, VERSION, component, "host_blind", bucket_of(gap.to_ms)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="host_blind",
        llr=NINE_IN_TEN,
        onset_from_ms=max(gap.from_ms, stall.from_ms),
        onset_to_ms=max(gap.to_ms, stall.to_ms),
        end_ms=gap.end_ms,
        window_end_ms=gap.end_ms,
        source_group=f"{component}|blind",
        severity=Severity.ERROR,
        job=stall.job,
        count=gap.cards,
        says="blind_as_job_stalls",
        facts={"cards": str(gap.cards), "host": gap.host},
    )


def _everywhere(gaps: list[Gap]) -> Evidence:
    component: Name = name(Kind.MONITOR, "?")
    at = min(gap.to_ms for gap in gaps)
    return Evidence(
        id=identity(NAME, VERSION, component, "monitor_fault", bucket_of(at)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="monitor_fault",
        llr=FAIR,
        onset_from_ms=min(gap.from_ms for gap in gaps),
        onset_to_ms=at,
        window_end_ms=max(gap.end_ms for gap in gaps),
        severity=Severity.WARNING,
        advice=Action.IGNORE,
        count=len(gaps),
        says="blind_everywhere",
        facts={"count": str(len(gaps))},
    )
