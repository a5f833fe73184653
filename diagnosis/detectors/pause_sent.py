"""Pause storms: who sends pause holds the network, who receives it is held. Direction decides, never order.

All of it happens inside one sample, so the first to show it means nothing. A switch that sends pause only passes on
what somebody behind it began; its watchdog names the port at which the storm comes in, which on a trunk is nobody's.
"""

from collections.abc import Iterable, Iterator

import polars as pl

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts
from diagnosis.evidence import CERTAIN, FAIR, GOOD, bucket_of, identity
from diagnosis.frames import table
from diagnosis.known_hosts import is_switch, known_hosts
from diagnosis.wide import sent_per_second, wide
from sickbay.components import Kind, Name, host_of
from sickbay.messages import Action, Event, Evidence, Relation, Severity, replace

NAME, VERSION = "pause_sent", "2"

PER_SECOND = 1_000.0  # [house] pause frames a second that hold a link for a good part of the time
TIMES = 20.0  # [house] more than the median sender: a congested network makes everybody send a few
LEAST_HELD = 3  # ports that receive pause: fewer are a quarrel of two
MANY = 3  # ports of one owner that send pause at once: it passes on what it was told
MOST_TOLD = 1_000  # hosts that a claim names
COLUMNS = ("tx_pause_total__increase", "rx_pause_total__increase", "bus_stalled_seconds_total__increase", "covered_ms")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per host port that holds the network by itself, and what watchdogs of switches say."""
    storms = list(bursts(event for event in case.events if event.kind == "port.pause_storm"))
    spoken = [burst for burst in storms if burst[0].severity is not Severity.INFO]
    counted = [_claim(rows, held, case, bool(spoken)) for rows, held in _senders(case)]
    yield from counted
    for burst in spoken:
        yield _told(burst, [one.component for one in counted], case)


def _senders(case: Case) -> Iterator[tuple[pl.DataFrame, list[Name]]]:
    """Windows of each host port that sends far more than the others, and the ports that were held meanwhile."""
    frame = table(case, "port", COLUMNS)
    if frame.height == 0:
        return
    seconds = pl.col("covered_ms").fill_null(case.window_ms).clip(lower_bound=1.0) / 1000
    rates = frame.with_columns(
        pl.col(COLUMNS[0]).fill_null(0.0).alias("frames"),
        sent_per_second(case.window_ms).alias("sent"),
        (pl.col(COLUMNS[1]).fill_null(0.0) / seconds).alias("held"),
    )
    if rates.filter(pl.col("sent") >= PER_SECOND).height == 0:
        return
    switches = _switches(rates, case)
    ends = rates.filter(pl.col("sent") >= PER_SECOND)["end_ms"].unique().to_list()
    usual = wide(case).usual_sent(ends, switches, case.window_ms)
    sums = rates.filter(pl.col("end_ms").is_in(ends) & ~pl.col("host").is_in(switches)).with_columns(
        pl.col("end_ms").replace_strict(usual, default=0.0, return_dtype=pl.Float64).alias("usual"),
        (pl.col("held") >= PER_SECOND).sum().over("end_ms").alias("held_ports"),
    )
    alone = (pl.col("sent") >= PER_SECOND) & (pl.col("sent") >= TIMES * pl.col("usual"))
    storm = sums.filter(alone & (pl.col("held_ports") >= LEAST_HELD))
    for rows in storm.partition_by("component", maintain_order=True):
        held = sums.filter(pl.col("end_ms").is_in(rows["end_ms"].to_list()) & (pl.col("held") >= PER_SECOND))
        yield rows, held["component"].unique().sort().to_list()


def _told(burst: list[Event], senders: list[Name], case: Case) -> Evidence:
    """A switch's own watchdog names the port at which a storm comes in: what hangs on it sends it, or passes it on."""
    port, view = burst[0].component, case.topology.at(burst[0].at_ms)
    behind = view.other_end(port) or port
    trunk = behind != port and _on_switch(behind, case)
    if trunk or (behind == port and senders):  # where nobody knows what hangs there, and a sender was found
        held = build(burst, "pause_received", port, detector=NAME, version=VERSION, says="pause_passes", llr=FAIR)
        passed: Evidence = replace(held, peer=senders[0] if len(senders) == 1 else "")
        return passed
    claim = build(burst, "pause_sent", behind, detector=NAME, version=VERSION, says="pause_storm_told", llr=FAIR)
    told: Evidence = replace(claim, advice=Action.WATCH)  # counters at the sender must confirm it
    return told


def _switches(rates: pl.DataFrame, case: Case) -> list[str]:
    """Those owners of ports that are switches: known as such, or with several ports that send at once."""
    hosts = known_hosts(case)
    sending = rates.filter(pl.col("sent") >= PER_SECOND).group_by("host", "end_ms").agg(pl.col("component").n_unique())
    many = {one for one in sending.filter(pl.col("component") >= MANY)["host"].to_list() if one not in hosts}
    owners = [one for one in rates["host"].unique().to_list() if one]
    return [one for one in owners if one in many or is_switch(case, one, hosts)]


def _on_switch(port: Name, case: Case) -> bool:
    parents = case.topology.at(None).parents(port, Relation.PART_OF)
    own = is_switch(case, host_of(port) or "", known_hosts(case))
    return own or any(part.startswith(f"{Kind.SWITCH}:") for part in parents)


def _claim(rows: pl.DataFrame, held: list[Name], case: Case, watchdog: bool) -> Evidence:
    component, first, last = rows["component"][0], int(rows["end_ms"][0]), int(rows["end_ms"][-1])
    stalled = round(float(rows[COLUMNS[2]].fill_null(0.0).sum()))
    hosts = sorted({host for port in held if (host := host_of(port)) and host != host_of(component)})
    return Evidence(
        id=identity(NAME, VERSION, component, "pause_sent", bucket_of(first)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="pause_sent",
        llr=CERTAIN if rows.height > 1 or stalled else GOOD,
        onset_from_ms=first - case.window_ms,
        onset_to_ms=first,
        end_ms=last,
        window_end_ms=last,
        source_group=f"{component}|pause",
        severity=Severity.ERROR,
        says="sends_pause_as_its_bus_stalls" if stalled else "sends_pause",
        facts={
            "frames": str(round(float(rows["frames"].sum()))),
            "held": str(max(rows["held_ports"].to_list())),
            "stalled": str(stalled),
            "hosts": ", ".join(hosts[:MOST_TOLD]),
            "watchdog_spoke" if watchdog else "watchdog_silent": "yes",
        },
    )
