"""Hours of a cluster's telemetry archived, sorted, made into minutes and asked, by a sink that is killed meanwhile.

`--accelerators N --hours H`: 1 Hz, all columns, frames of 5 s, archived in rounds of 4 minutes; then the clock goes on
so far that the first half of the hours becomes one-minute rows. The sink is a process of its own, killed 20 times.
"""

import argparse
import json
import multiprocessing
import os
import platform
import random
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.archive_checks import PER_HOST, checked, counted, minutes_wrong
from benchmarks.archive_log import BEGIN_MS, HOUR_MS, PARTITIONS, MadeLog
from sickbay import messages, post_mortem
from sickbay.admission import Admission
from sickbay.app.archiving.archive_frames import ArchiveFrames
from sickbay.archive_place import place, telemetry
from sickbay.history import History
from sickbay.log.memory import MemoryLog
from sickbay.messages import Change, Event, Severity
from sickbay.schema import TABLES
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import CHANGES, EVENTS, FEATURES, PLACEMENT, TELEMETRY, TOPICS, TOPOLOGY
from simulator.telemetry import COLUMNS, Fleet
from streams.archive import Archive
from streams.archive_table import Keeping
from streams.archive_upkeep import Upkeep
from streams.feature_record import Block, encode

KILLS = 20
STEP_MS = 240_000
TODAY = date(2026, 12, 1)
DID = ("sorted", "minutes", "removed")  # pieces of upkeep


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--hours", type=float, default=0.5, help="simulated hours (default 0.5; the whole run: 24)")
    parser.add_argument("--accelerators", type=int, default=128, help="accelerators, and as many ports (default 128)")
    parser.add_argument("--folder", type=Path, help="where the archive is left (default: removed at the end)")


def measure(size: int | None = None, hours: float = 0.5, accelerators: int = 128, folder: Path | None = None) -> Any:
    """Size, rows, speed, query times and exactness of so many hours; `size` counts accelerators too."""
    cards = size or accelerators
    with tempfile.TemporaryDirectory(prefix="sickbay-archive-") as own:
        return _measured(folder or Path(own), hours, max(1, cards // PER_HOST))


def _measured(folder: Path, hours: float, hosts: int) -> dict[str, Any]:
    began, log = time.monotonic(), MadeLog(hosts, hours)
    idle_h = 24 + max(1, round(hours / 2)) + 1
    work = Sink(folder, hosts, hours, idle_h)
    work.run(log.end_ms + 60_000, KILLS * 3 // 4)  # the last frames come a little after their interval
    full = {table: _full(folder, table) for table in COLUMNS}
    wrong = [*counted(log, full), *checked(folder, log)]
    data = work.told()
    work.run(log.end_ms + (idle_h + 1) * HOUR_MS, KILLS - KILLS * 3 // 4)
    wrong += minutes_wrong(folder, log)
    after = work.told()
    _facts(folder / "archive", log)
    rows = sum(one["rows"] for one in full.values())
    values = sum(one["rows"] * len(TABLES[table].columns) for table, one in full.items())
    wrote_s = data["wrote_s"]
    return {
        "rows": rows,
        "values": values,
        "full_mb": round(sum(one["bytes"] for one in full.values()) / 1e6, 1),
        "bytes_per_row": {table: round(one["bytes"] / max(1, one["rows"]), 1) for table, one in full.items()},
        "rows_per_s_core": round(rows / wrote_s),
        "values_per_s_core": round(values / wrote_s),
        "cpu_s": {
            "write": round(wrote_s, 1),
            "sort": round(after["sorted"], 1),
            "minutes": round(after["minutes"] + after["removed"], 1),
            "generator": round(after["made_s"], 1),
        },
        "peak_rss_mb": after["rss_mb"],
        "kills": KILLS,
        "exact": not wrong,
        "wrong": wrong[:5],
        "queries_s": _queries(History(folder / "archive"), log),
        "wall_s": round(time.monotonic() - began, 1),
        "conditions": {
            "hours": hours,
            "hosts": hosts,
            "accelerators": hosts * PER_HOST,
            "frames": "5 s of all columns of accelerator, port and host tables, 1 Hz",
            "sink": f"one process, rounds of {STEP_MS // 60_000} minutes; without starts and making frames",
            "cpus": os.cpu_count(),
            "load_1m": round(os.getloadavg()[0], 1),  # other work of this machine delays all of it
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
    }


class Sink:
    """The sink as a process that is killed and started again until it has come to a moment."""

    def __init__(self, folder: Path, hosts: int, hours: float, idle_h: int) -> None:
        self.folder, self._log = folder, (hosts, hours, idle_h)
        folder.mkdir(parents=True, exist_ok=True)
        self._chance, self._number = random.Random(1), 0

    def run(self, until_ms: int, kills: int) -> None:
        """Up to `until_ms`, killed so often, at moments spread over the work."""
        context = multiprocessing.get_context("spawn")
        begin = self._now()
        at = sorted(self._chance.uniform(begin, until_ms) for _ in range(kills))
        while True:
            self._number += 1
            process = context.Process(target=work, args=(self.folder, self._number, self._log, until_ms))
            process.start()
            stop = at.pop(0) if at else None
            while process.is_alive() and (stop is None or self._now() < stop):
                time.sleep(0.02)
            if stop is None or not process.is_alive():
                process.join()
                if process.exitcode:
                    raise RuntimeError(f"the sink ended with {process.exitcode}")
                if not at and stop is None:
                    return
                continue
            time.sleep(self._chance.uniform(0, 0.5))
            process.kill()
            process.join()

    def _now(self) -> int:
        """The simulated moment that any of its lives has come to."""
        return max((one["now_ms"] for one in self._lives()), default=BEGIN_MS)

    def told(self) -> dict[str, float]:
        """What all its lives took together."""
        lives = list(self._lives())
        upkeep_s = {what: sum(one["upkeep_s"][what] for one in lives) for what in ("looked", *DID)}
        cpu_s, made_s = (sum(one[name] for one in lives) for name in ("cpu_s", "made_s"))
        wrote_s = cpu_s - made_s - sum(upkeep_s.values())
        return {"wrote_s": wrote_s, "made_s": made_s, **upkeep_s, "rss_mb": max(one["rss_mb"] for one in lives)}

    def _lives(self) -> Iterator[dict[str, Any]]:
        for told in self.folder.glob("life-*.json"):
            yield json.loads(told.read_text())


def work(folder: Path, number: int, shape: tuple[int, float, int], until_ms: int) -> None:
    """One life of the sink: rounds of telemetry, and upkeep after each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = MadeLog(*shape)
    frames = ArchiveFrames(log, Admission(), SelfMetrics())  # type: ignore[arg-type]
    made = Archive(log, folder / "archive", topics=(), frames=frames)  # type: ignore[arg-type]
    feed = made.feeds[TELEMETRY]
    tables = zip(TABLES, feed.tables, strict=True)
    upkeep = [Upkeep(place(folder / "archive"), name, table, Keeping(24)) for name, table in tables if name in COLUMNS]
    log.now_ms = max(BEGIN_MS, min(feed.tables[0].last.values()))
    begin_s, upkeep_s = time.process_time(), dict.fromkeys(("looked", *DID), 0.0)
    while log.now_ms < until_ms:
        log.now_ms = min(until_ms, log.now_ms + (STEP_MS if log.now_ms < log.end_ms else HOUR_MS))
        made.drain()
        for one in upkeep:
            done = "looked"
            while done:
                piece_s = time.process_time()
                done = one.step(feed.complete_ms(), TODAY)
                upkeep_s[done or "looked"] += time.process_time() - piece_s
                _tell(folder, number, log, begin_s, upkeep_s)
    made.settle()


def _tell(folder: Path, number: int, log: MadeLog, begin_s: float, upkeep_s: dict[str, float]) -> None:
    told = {
        "now_ms": log.now_ms,
        "cpu_s": time.process_time() - begin_s,
        "made_s": log.made_s,
        "upkeep_s": upkeep_s,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    part = folder / f"part-{number}"
    part.write_text(json.dumps(told))
    part.rename(folder / f"life-{number}.json")


def _full(folder: Path, table: str) -> dict[str, int]:
    from deltalake import DeltaTable

    files = pl.DataFrame(DeltaTable(place(folder / "archive").table(telemetry(table))).get_add_actions(flatten=True))
    return {"rows": int(files["num_records"].sum()), "bytes": int(files["size_bytes"].sum()), "files": files.height}


def _facts(root: Path, log: MadeLog) -> None:
    """What else a site's archive holds: jobs, links, changes, events, and the windows of its ports, hour by hour."""
    clock = [BEGIN_MS]
    made, chance = MemoryLog(TOPICS, clock=lambda: clock[0]), random.Random(3)
    appender, archive = made.appender(), Archive(made, root)
    for number, job in enumerate(log.fleet.placements()):
        appender.append(PLACEMENT, str(number).encode(), messages.encode(job))
    for number, link in enumerate(log.fleet.edges()):
        appender.append(TOPOLOGY, str(number).encode(), messages.encode(link))
    for clock[0] in range(BEGIN_MS, log.end_ms, HOUR_MS):
        for topic, message in _of_hour(log.fleet, clock[0], chance):
            appender.append(topic, b"k", messages.encode(message))
        _windows(appender, log, clock[0], chance)
        archive.drain()


def _of_hour(fleet: Fleet, now_ms: int, chance: random.Random) -> Iterator[tuple[str, Event | Change]]:
    for _ in range(max(4, fleet.hosts // 4)):
        host = fleet.host(chance.randrange(fleet.hosts))
        at_ms = now_ms + chance.randrange(HOUR_MS)
        yield (
            EVENTS,
            Event(component=f"host:{host}", kind="kernel.message", at_ms=at_ms, host=host, severity=Severity.WARNING),
        )
    yield CHANGES, Change(target=f"host:{fleet.host(chance.randrange(fleet.hosts))}", what="driver", at_ms=now_ms)


def _windows(appender: Any, log: MadeLog, now_ms: int, chance: random.Random) -> None:
    names = tuple(name for host in range(log.hosts) for name in log.fleet.names("port", host))
    columns = ("n", "covered_ms", "link_downed_total__increase", "carrier_changes_total__increase")
    for end_ms in range(now_ms + 10_000, min(now_ms + HOUR_MS, log.end_ms) + 1, 10_000):
        values = np.zeros((4, len(names)), np.float32)
        values[:2] = [[10], [10_000]]
        values[2:, chance.randrange(len(names))] = chance.random() < 0.1
        block = Block("port", end_ms, names, columns, values)
        appender.append(FEATURES, b"port/0", encode(block), partition=end_ms // 10_000 % PARTITIONS)


def _queries(history: History, log: MadeLog) -> dict[str, dict[str, float]]:
    """Seconds and rows of the five questions: asked once cold (by us, not the disk)."""
    end = datetime.fromtimestamp(log.end_ms / 1000, UTC)
    begin = datetime.fromtimestamp(BEGIN_MS / 1000, UTC)
    host, job = log.fleet.host(0), log.fleet.jobs[0]
    hosts = [log.fleet.host(row) for row in job.hosts]
    asked: dict[str, Callable[[], pl.DataFrame]] = {
        "what_hit_my_ranks": lambda: post_mortem.hits(history, job.id),
        "a_hosts_day": lambda: pl.concat(
            [frame.select("time") for frame in post_mortem.host_day(history, host, begin.date()).values()]
        ),
        "which_link_flapped_most": lambda: post_mortem.flaps(history, begin, end),
        "power_before_the_hang": lambda: post_mortem.power_before(history, hosts, end - timedelta(minutes=5)),
        "power_before_a_hang_of_the_first_hour": lambda: post_mortem.power_before(
            history, hosts, begin + timedelta(minutes=20)
        ),
        "what_changed_on_these_hosts_before": lambda: post_mortem.changes_before(history, hosts, end),
    }
    found = {}
    for name, ask in asked.items():
        began = time.perf_counter()
        rows = ask().height
        found[name] = {"s": round(time.perf_counter() - began, 3), "rows": rows}
    return found
