"""Pause storms: who sends pause holds the network, who receives it is held. Direction decides, never order.

All of it happens inside one sample, so the first to show it means nothing.
"""

from collections.abc import Iterable

import polars as pl

from diagnosis.case import Case
from diagnosis.detectors.explicit_code import build, bursts
from diagnosis.evidence import CERTAIN, FAIR, GOOD, bucket_of, identity
from diagnosis.frames import table
from sickbay.components import Kind
from sickbay.messages import Action, Evidence, Relation, Severity, replace

NAME, VERSION = "pause_sent", "1"

PER_SECOND = 1_000.0  # [house] pause frames a second that hold a link for a good part of the time
TIMES = 20.0  # [house] more than the median sender: a congested network makes everybody send a few
LEAST_HELD = 3  # ports that receive pause: fewer are a quarrel of two
COLUMNS = ("tx_pause_total__increase", "rx_pause_total__increase")


def claims(case: Case) -> Iterable[Evidence]:
    """One claim per host port that holds the network by itself."""
    yield from _told(case)
    frame = table(case, "port", COLUMNS)
    if frame.height == 0:
        return
    least = PER_SECOND * case.window_ms / 1000
    sums = frame.with_columns(
        pl.col(COLUMNS[0]).fill_null(0.0).alias("sent"), pl.col(COLUMNS[1]).fill_null(0.0).alias("held")
    ).with_columns(
        pl.col("sent").median().over("end_ms").alias("usual"),
        (pl.col("held") >= least).sum().over("end_ms").alias("held_ports"),
    )
    storm = sums.filter(
        (pl.col("sent") >= least) & (pl.col("sent") >= TIMES * pl.col("usual")) & (pl.col("held_ports") >= LEAST_HELD)
    )
    for rows in storm.partition_by("component", maintain_order=True):
        if not _on_switch(rows["component"][0], case):
            yield _claim(rows, case)


def _told(case: Case) -> Iterable[Evidence]:
    """A switch's own watchdog names the port at which the storm comes in: what hangs on it is the sender."""
    for burst in bursts(event for event in case.events if event.kind == "port.pause_storm"):
        if burst[0].severity is not Severity.INFO:
            port = burst[0].component
            sender = case.topology.at(burst[0].at_ms).other_end(port) or port
            claim = build(
                burst, "pause_sent", sender, detector=NAME, version=VERSION, says="pause_storm_told", llr=FAIR
            )
            told: Evidence = replace(claim, advice=Action.WATCH)  # counters at the sender must confirm it
            yield told


def _on_switch(port: str, case: Case) -> bool:
    """A switch that sends pause only passes on what somebody behind it began."""
    return any(part.startswith(f"{Kind.SWITCH}:") for part in case.topology.at(None).parents(port, Relation.PART_OF))


def _claim(rows: pl.DataFrame, case: Case) -> Evidence:
    component, first, last = rows["component"][0], int(rows["end_ms"][0]), int(rows["end_ms"][-1])
    return Evidence(
        id=identity(NAME, VERSION, component, "pause_sent", bucket_of(first)),
        detector=NAME,
        version=VERSION,
        component=component,
        fault="pause_sent",
        llr=CERTAIN if rows.height > 1 else GOOD,
        onset_from_ms=first - case.window_ms,
        onset_to_ms=first,
        end_ms=last,
        window_end_ms=last,
        source_group=f"{component}|pause",
        severity=Severity.ERROR,
        says="sends_pause",
        facts={"frames": str(round(float(rows["sent"].sum()))), "held": str(int(rows["held_ports"].max() or 0))},  # type: ignore[arg-type]
    )
