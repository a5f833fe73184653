"""Whether an archive holds what the made log told: counts of all, values of some hours, and minutes."""

import random
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.archive_log import BEGIN_MS, HOUR_MS, MadeLog
from sickbay.archive_place import telemetry
from sickbay.history import History
from simulator.telemetry import COLUMNS

PER_HOST = 8


def parts(table: str) -> int:
    """Components of a host."""
    return 1 if table == "host" else PER_HOST


def counted(log: MadeLog, full: dict[str, dict[str, int]]) -> list[str]:
    """Tables that have not as many rows as the log told."""
    wanted = {table: round(log.hours * 3600) * log.hosts * parts(table) for table in COLUMNS}
    return [f"{table}: {full[table]['rows']} rows, {n} told" for table, n in wanted.items() if full[table]["rows"] != n]


def checked(folder: Path, log: MadeLog) -> list[str]:
    """Hours (three at most) of which any value or row is not as the log told it, once each."""
    wrong, chance = [], random.Random(2)
    whole = max(1, int(log.hours))
    for hour in sorted(chance.sample(range(whole), min(3, whole))):
        for table in COLUMNS:
            wrong += _hour_wrong(folder, log, table, BEGIN_MS + hour * HOUR_MS)
    return wrong


def _hour_wrong(folder: Path, log: MadeLog, table: str, begin_ms: int) -> list[str]:
    seconds = min(3600, round((log.end_ms - begin_ms) / 1000))
    history = History(folder / "archive")
    rows = history.scan(telemetry(table), begin_ms, begin_ms + seconds * 1000).sort("component", "at_ms").collect()
    found = []
    if not rows.select("component", "at_ms").is_unique().all():
        found.append(f"{table}: a row is there twice")
    at = 0
    for host in range(log.hosts):  # names are in the order of hosts
        block = log.fleet.block(table, range(host, host + 1), begin_ms // 1000, seconds)
        parts, names = block.gauges.shape[2], log.fleet.names(table, host)
        count = seconds * parts
        own, at = rows[at : at + count], at + count
        by_name = np.argsort(names)
        if own["component"].unique().sort().to_list() != sorted(names) or own.height != count:
            found.append(f"{table}: host {host} has other rows")
            continue
        for values, columns in ((block.gauges, block.layout.gauges), (block.counters, block.layout.counters)):
            told = values[0].transpose(1, 0, 2)[by_name].reshape(count, -1)
            found += [
                f"{table}.{name}: host {host} has other values"
                for place_, name in enumerate(columns)
                if not np.array_equal(own[name].to_numpy(), told[:, place_])
            ]
    return found


def minutes_wrong(folder: Path, log: MadeLog) -> list[str]:
    """Tables whose rows and minutes together are not all that was told, or some twice."""
    history, wrong = History(folder / "archive"), []
    for table in COLUMNS:
        best = history.telemetry_over(table).select("component", "time", "step_ms")
        once = best.collect().is_unique().all()
        minutes = history.minutes(table).select("n").sum().collect().item() or 0
        edge = history.minutes(table).select("time").max().collect().item()
        full = history.scan(telemetry(table))
        left = full.filter(pl.col("time") >= edge) if edge else full
        rows = minutes + left.select(pl.len()).collect().item()
        if rows != round(log.hours * 3600) * log.hosts * parts(table) or not once:
            wrong.append(f"{table}: {rows} rows in minutes and left, or a moment twice")
    return wrong
