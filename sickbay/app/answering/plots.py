"""Which numbers a report shows of an incident: the few columns in which the suspect differs most from its peers."""

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from dashboards.pictures import Plot
from diagnosis.case import Case
from sickbay.components import Kind, Name, host_of, kind_of, parts_of
from sickbay.messages import Incident
from sickbay.schema import TABLES, Table

MARGIN_MS = 300_000  # shown before the onset and after the last evidence
MOST = 3  # pictures of an incident
LEAST_SCORE = 2.0  # spreads of the peers: less is not worth a picture
SHOWN = {
    "accelerator": (
        "matrix_active_ratio", "power_watts", "clock_megahertz", "temperature_celsius", "bus_width_lanes",
        "thermal_violation_nanoseconds_total__increase", "memory_temperature_celsius", "bus_tx_bytes_per_second",
        "scale_up_tx_bytes_per_second", "bus_replays_total__increase", "memory_corrected_total__increase",
    ),
    "port": ("up", "rx_bytes_total__increase", "tx_bytes_total__increase", "symbol_errors_total__increase",
             "tx_pause_total__increase", "retransmits_total__increase"),
    "host": ("memory_available_bytes", "tasks_blocked", "load_1m", "corrected_memory_errors_total__increase"),
    "optic": ("rx_power_dbm", "tx_power_dbm", "errors_before_correction_ratio", "temperature_celsius"),
    "switch": ("up", "temperature_celsius", "power_watts"),
    "pdu": ("power_watts", "current_amperes", "voltage_volts"),
    "cdu": ("flow_litres_per_minute", "supply_temperature_celsius", "return_temperature_celsius", "pump_ratio"),
}  # fmt: skip


def plots_of(incident: Incident, case: Case) -> list[Plot]:
    """At most three pictures of an incident, the most telling first; none where no telemetry speaks of it."""
    found = [plot for table in SHOWN for plot in _of_table(incident, case, TABLES[table])]
    found.sort(key=lambda scored: -scored[0])
    return [plot for _, plot in found[:MOST]]


def _of_table(incident: Incident, case: Case, table: Table) -> Iterable[tuple[float, Plot]]:
    frame = case.features.get(table.name)
    suspects = frozenset(_suspects(incident, case, table, frame)) if frame is not None and frame.height else frozenset()
    if frame is None or not suspects:
        return
    peers = _peers(suspects, case, table, incident.onset_ms) - suspects
    frame = _around(frame, incident)
    of_suspects, of_peers = (pl.col("component").is_in(sorted(names)) for names in (suspects, peers))
    mine, theirs = frame.filter(of_suspects), frame.filter(of_peers if peers else ~of_suspects)
    for column in SHOWN[table.name]:
        if column in frame.columns and theirs.height:
            plot = _plot(incident, table, column, mine, theirs)
            score = _score(plot)
            if score >= LEAST_SCORE:
                yield score, plot


def _suspects(incident: Incident, case: Case, table: Table, frame: pl.DataFrame | None) -> Iterable[Name]:
    """Components of the table that stand for the incident's."""
    names = frame["component"].unique().to_list() if frame is not None else []
    kind, host = kind_of(incident.component), host_of(incident.component)
    if kind == table.component:
        return [incident.component]
    if kind in (Kind.JOB, Kind.SWITCH):
        placed, built = case.placements.at(incident.onset_ms), case.topology.at(None)
        hosts = (placed.hosts_of if kind is Kind.JOB else built.hosts_under)(incident.component)
        return [name for name in names if host_of(name) in hosts]
    if kind is Kind.PCIE:
        place = parts_of(incident.component)[-1].partition(".")[0]
        return [name for name in names if host_of(name) == host and parts_of(name)[-1] == place]
    return [name for name in names if host is not None and host_of(name) == host] if kind is Kind.HOST else []


def _peers(suspects: frozenset[Name], case: Case, table: Table, onset_ms: int | None) -> frozenset[Name]:
    if table.component != Kind.ACCELERATOR:
        return frozenset()
    view = case.placements.at(onset_ms)
    return frozenset(peer for suspect in suspects for peer in view.peers_of(suspect))


def _around(frame: pl.DataFrame, incident: Incident) -> pl.DataFrame:
    if incident.onset_ms is None:
        return frame
    last = max([incident.onset_ms, *(one.end_ms or one.onset_from_ms or 0 for one in incident.evidence)])
    return frame.filter(pl.col("end_ms").is_between(incident.onset_ms - MARGIN_MS, last + MARGIN_MS))


def _plot(incident: Incident, table: Table, column: str, mine: pl.DataFrame, theirs: pl.DataFrame) -> Plot:
    value = pl.col(column)
    band = theirs.group_by("end_ms").agg(
        value.median().alias("middle"), value.quantile(0.1).alias("low"), value.quantile(0.9).alias("high")
    )
    own = mine.group_by("end_ms").agg(value.median().alias("suspect"))
    rows = band.join(own, on="end_ms", how="left").sort("end_ms")
    told = table.column(column.removesuffix("__increase"))
    unit = told.unit + (" / window" if column.endswith("__increase") else "")
    return Plot(
        incident=incident.id, title=f"{told.name.replace('_', ' ')}: {told.meaning}", unit=unit,
        at_ms=rows["end_ms"].to_list(), onset_ms=incident.onset_ms, detected_ms=incident.detected_ms,
        **{name: _floats(rows[name]) for name in ("suspect", "middle", "low", "high")},
    )  # fmt: skip


def _floats(series: pl.Series) -> Sequence[float]:
    return [float("nan") if value is None else float(value) for value in series]


def _score(plot: Plot) -> float:
    """How much the suspect stands out, in spreads of its peers; a suspect gone silent counts by its peers' change."""
    mine, middle = np.array(plot.suspect), np.array(plot.middle)
    spread = np.nanmedian(np.array(plot.high) - np.array(plot.low)) if len(middle) else 0.0
    scale = max(float(spread), 0.02 * float(np.nanmedian(np.abs(middle))), 1e-9)
    apart = np.abs(mine - middle) / scale
    seen = ~np.isnan(apart)
    score = float(np.quantile(apart[seen], 0.9)) if seen.any() else 0.0
    silent = np.isnan(mine) & ~np.isnan(middle)
    if silent.any() and seen.any():
        score = max(score, abs(float(np.nanmedian(middle[silent]) - np.nanmedian(middle[seen]))) / scale)
    return min(score, 1e6)
