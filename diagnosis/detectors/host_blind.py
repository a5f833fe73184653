"""Accelerators that go blind, or freeze, as their job stalls: the fault is there.

One card whose siblings are seen is that card; several, or all on a live host, are the host. A host that is dark
altogether may be lost for any reason: weaker. Blindness alone is no evidence: a moving job vetoes it, and where much is
blind at once the monitoring, the network or the power is at fault.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from diagnosis.case import Case
from diagnosis.detectors.peers_idle import Stall, stalled
from diagnosis.evidence import FAIR, GOOD, bucket_of, identity
from diagnosis.frames import table
from diagnosis.odd_ones import LEAST_SILENT, Odd, odd_ones
from diagnosis.wide import SEES, TOLD, wide
from sickbay.components import Kind, Name, name
from sickbay.messages import Action, Evidence, Severity

NAME, VERSION = "host_blind", "2"

NINE_IN_TEN = math.log(9)  # night 8: blank cards, a live host and a stalled job are that host, 9 in 10
MANY = 0.5  # share of hosts blind at once from which on the monitoring itself is at fault
FEW_HOSTS = 2  # more hosts that go at once have something in common


class Gap(NamedTuple):
    """A live host whose accelerators tell nothing since `from_ms` .. `to_ms`."""

    host: str
    from_ms: int
    to_ms: int
    end_ms: int


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per card or host that went blind in the moment of its job's stall; a notice where all went blind."""
    gaps, hosts = blind_hosts(case)
    if len(gaps) > FEW_HOSTS and len(gaps) > MANY * hosts:
        yield _everywhere(gaps)
        return
    for stall, cards in stalled(case):
        if not stall.moved:
            yield from _of_stall(stall, cards, case)


def _of_stall(stall: Stall, cards: pl.DataFrame, case: Case) -> Iterator[Evidence]:
    odd = [one for one in odd_ones(stall, cards, case.window_ms, case.sampling_ms) if one.how != "idle"]
    blind = {host: [one for one in odd if one.host == host] for host in sorted({one.host for one in odd})}
    everyone = set(cards["host"].unique().to_list())
    if not blind or len(blind) > FEW_HOSTS or len(blind) == len(everyone):
        return
    alive = _alive(case)
    for host, ones in blind.items():
        told = cards.filter(pl.col("host") == host)["component"].n_unique()
        last = max(one.from_ms for one in ones) + case.window_ms
        since = last + LEAST_SILENT * case.window_ms
        siblings = _siblings(case, host, ones) >= since
        if siblings or alive.get(host, -1) >= since or any(one.how == "frozen" for one in ones):
            yield _claim(ones, stall, told, siblings)
        elif not _many_dark(case, last, alive) and _others_seen(cards, everyone - set(blind), stall, case):
            yield _dark(ones, stall)


def _siblings(case: Case, host: str, blind: list[Odd]) -> int:
    """When another card of the host was last seen."""
    cards = table(case, "accelerator", ("power_watts",)).filter(
        (pl.col("host") == host) & ~pl.col("component").is_in([one.component for one in blind])
    )
    last = cards["end_ms"].max()
    return int(last) if isinstance(last, int) else -1


def _many_dark(case: Case, last_ms: int, alive: dict[str, int]) -> bool:
    """More than a few hosts, of whatever job, fell silent together: power, management or monitoring."""
    cards = wide(case).last("accelerator")
    grid = max(cards.values())
    gone = [
        host for host, end in cards.items()
        if end <= grid - LEAST_SILENT * case.window_ms and abs(end - last_ms) <= LEAST_SILENT * case.window_ms
        and alive.get(host, -1) < end + LEAST_SILENT * case.window_ms
    ]  # fmt: skip
    return len(gone) > FEW_HOSTS


def _others_seen(cards: pl.DataFrame, others: set[str], stall: Stall, case: Case) -> bool:
    late = cards.filter(pl.col("end_ms") >= stall.end_ms - case.window_ms)
    return bool(others) and others <= set(late["host"].unique().to_list())


def blind_hosts(case: Case) -> tuple[list[Gap], int]:
    """(live hosts whose accelerators are blind now, hosts with accelerators in all)."""
    cards = wide(case).last("accelerator")
    if not cards:
        return [], 0
    alive, sees = _alive(case), wide(case).last(SEES)
    grid, long = max(*alive.values(), *cards.values(), 0), LEAST_SILENT * case.window_ms
    gaps = [
        Gap(host, last - case.window_ms, last + case.window_ms, grid)
        for host, last in sorted(sees.items())
        if grid - last >= long and alive.get(host, -1) >= last + long
    ]
    return gaps, len(cards)


def _alive(case: Case) -> dict[str, int]:
    """Host -> the last time that something else of it was received."""
    last: dict[str, int] = {}
    for sign in (TOLD, "port"):
        for host, end in wide(case).last(sign).items():
            last[host] = max(last.get(host, -1), end)
    return last


def _claim(ones: list[Odd], stall: Stall, told: int, siblings: bool) -> Evidence:
    """The card where it is one of several; else the host."""
    first = ones[0]
    single = len(ones) == 1 and (told > 1 or siblings)
    component, fault = (first.component, "accelerator_blind") if single else (name(Kind.HOST, first.host), "host_blind")
    frozen = any(one.how == "frozen" for one in ones)
    some = "some_blind_as_job_stalls" if siblings else "blind_as_job_stalls"
    return _evidence(component, fault, ones, stall, NINE_IN_TEN, "frozen_as_job_stalls" if frozen else some)


def _dark(ones: list[Odd], stall: Stall) -> Evidence:
    return _evidence(name(Kind.HOST, ones[0].host), "host_down", ones, stall, GOOD, "dark_as_job_stalls")


def _evidence(component: Name, fault: str, ones: list[Odd], stall: Stall, llr: float, says: str) -> Evidence:
    onset = max(stall.to_ms, *(one.to_ms for one in ones))
    return Evidence(
        id=identity(NAME, VERSION, component, fault, bucket_of(onset)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault=fault,
        llr=llr,
        onset_from_ms=max(stall.from_ms, *(one.from_ms for one in ones)),
        onset_to_ms=onset,
        end_ms=stall.end_ms,
        window_end_ms=stall.end_ms,
        source_group=f"{component}|blind",
        severity=Severity.ERROR,
        job=stall.job,
        count=len(ones),
        says=says,
        facts={"cards": str(len(ones)), "host": ones[0].host},
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
