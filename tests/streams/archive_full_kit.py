"""Telemetry of a few hosts on a log whose clock the test moves, and what an archive of it must hold, told naively."""

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sickbay import packs, wire
from sickbay.admission import Admission
from sickbay.app.archiving.archive_frames import ArchiveFrames
from sickbay.archive_place import Place, place
from sickbay.frames import Matrix
from sickbay.layouts import Layout, Schemas, decoded, layout_of
from sickbay.log import Appender, Log, Task, tick
from sickbay.schema import TABLES
from sickbay.selfmetrics import SelfMetrics
from sickbay.topics import BACKFILL, SCHEMAS, TELEMETRY, TOPICS
from streams.archive import Archive
from streams.archive_table import Keeping
from streams.archive_upkeep import Upkeep

SMALL = {name: replace(topic, partitions=min(2, topic.partitions)) for name, topic in TOPICS.items()}
KEEPING = Keeping(full_rate_hours=24)
HOUR_MS = 3_600_000
START = 1_796_000_400_000 // HOUR_MS * HOUR_MS
NEWER = Layout("accelerator", ("power_watts", "aura_ratio"), ("energy_millijoules_total", "sparks_total"))
CARDS = layout_of(TABLES["accelerator"], ("power_watts", "temperature_celsius", "bus_replays_total"))
LOW = {column.name for name in ("accelerator", "port") for column in TABLES[name].columns if column.low}
PORTS = layout_of(TABLES["port"], ("up", "rx_bytes_total", "link_downed_total"))


class Cluster:
    """Hosts that send frames; the same ones for the same seed."""

    def __init__(self, log: Log, seed: int = 0, hosts: int = 3) -> None:
        self.appender: Appender = log.appender()
        self._topics, self._random, self._sequence = log.topics, random.Random(seed), 0
        self.hosts = [f"n{number}" for number in range(hosts)]
        for layout in (NEWER, CARDS, PORTS):
            self.appender.append(SCHEMAS, layout.key, layout.encoded())

    def send(self, now_ms: int, seconds: int = 5, late_ms: int = 0, step_ms: int = 1000) -> None:
        """A frame of each host, of the seconds before `now_ms - late_ms`; and a tick of every partition."""
        for host in self.hosts:
            frame = self.frame(host, now_ms - late_ms, seconds, step_ms)
            self.appender.append(TELEMETRY if late_ms < HOUR_MS else BACKFILL, host.encode(), frame)
        self.tick()

    def tick(self) -> None:
        tick(self.appender, self._topics, [TELEMETRY])

    def pack(self, now_ms: int) -> None:
        frames = [self.frame(host, now_ms, 2, 1000) for host in self.hosts]
        self.appender.append(TELEMETRY, b"pod1", packs.pack(frames))

    def frame(self, host: str, end_ms: int, seconds: int, step_ms: int) -> bytes:
        self._sequence += 1
        cards = NEWER if self._sequence % 4 == 0 else CARDS
        tables = [
            self._matrix(cards, [f"accelerator:{host}/{n:04x}:00:00" for n in range(2)], end_ms, seconds, step_ms),
            self._matrix(PORTS, [f"port:{host}/p{n}" for n in range(2)], end_ms, seconds, step_ms),
        ]
        return wire.encode(host, tables, sequence=self._sequence, incarnation=9, sent_ms=end_ms)

    def _matrix(self, layout: Layout, names: list[str], end_ms: int, seconds: int, step_ms: int) -> Matrix:
        chance, rows = self._random, seconds * len(names)
        device = np.repeat(np.arange(len(names)), seconds).astype(np.uint16)
        at_ms = np.tile(end_ms - np.arange(seconds, 0, -1) * step_ms, len(names)).astype(np.int64)
        gauges = np.array([[chance.choice((math.nan, 400.5, chance.uniform(0, 700)))
                            for _ in layout.gauges] for _ in range(rows)], np.float32).reshape(rows, -1)  # fmt: skip
        told = [[chance.choice((-1, at // 1000 % 10_000, 7)) for _ in layout.counters] for at in at_ms.tolist()]
        counters = np.array(told, np.int64).reshape(rows, -1)
        return Matrix(layout, tuple(names), device, at_ms, gauges, counters)


def archive(log: Log, root: Path | Place) -> Archive:
    return Archive(log, root, topics=(), frames=ArchiveFrames(log, Admission(), SelfMetrics()))


def upkeep(made: Archive, root: Path | Place, keeping: Keeping) -> dict[str, Upkeep]:
    tables = zip(TABLES, made.feeds[TELEMETRY].tables, strict=True)
    return {
        name: Upkeep(place(root), name, table, keeping) for name, table in tables if name in ("accelerator", "port")
    }


def pieces(made: Archive, root: Path, keeping: Keeping = KEEPING) -> Iterator[str]:
    """Do all upkeep there is, piece by piece."""
    complete_ms = made.feeds[TELEMETRY].complete_ms()
    for one in upkeep(made, root, keeping).values():
        while done := one.step(complete_ms, date(2026, 12, 1)):
            yield done


Rows = list[tuple[Any, ...]]


def expected(log: Log) -> dict[str, Rows]:
    """All rows of telemetry that the log holds, by table: place, sender and values, one by one."""
    schemas, found = Schemas(), defaultdict(list)
    for record in _records(log, SCHEMAS):
        schemas.learn(decoded(record.value or b""))
    for topic in (TELEMETRY, BACKFILL):
        for record in _records(log, topic):
            payload = record.value or b""
            for member in packs.unpack(payload) if packs.is_pack(payload) else [payload] if payload else []:
                frame = wire.decode(member, schemas)
                for matrix in frame.tables:
                    place = (topic, record.partition, record.offset, record.append_ms, record.key.decode())
                    for row in _told(matrix):
                        found[matrix.layout.table].append((*place, frame.host, frame.sequence, *row))
    return {table: sorted(rows) for table, rows in found.items()}


def _records(log: Log, topic: str) -> Iterator[Any]:
    reader = log.reader()
    for partition in range(log.topics[topic].partitions):
        task, at = Task(topic, partition), 0
        while some := reader.read(task, at, 500):
            yield from some
            at = some[-1].offset + 1


def _told(matrix: Matrix) -> Iterator[tuple[Any, ...]]:
    for row in range(len(matrix.at_ms)):
        values = dict(zip(matrix.layout.gauges, matrix.gauges[row].tolist(), strict=True))
        values |= dict(zip(matrix.layout.counters, matrix.counters[row].tolist(), strict=True))
        kept = sorted((n, v) for n, v in values.items() if not math.isnan(v) and v != -1)
        yield matrix.names[int(matrix.device[row])], int(matrix.at_ms[row]), str(kept)


PLACE = ("topic", "partition", "offset", "append_ms", "key", "sender", "sequence", "component", "at_ms")
OTHER = {*PLACE, "day", "hour", "time", "incarnation"}


def stored(folder: Path, table: str) -> Rows:
    """The full rows of a table of the archive, in the same words."""
    rows = []
    for row in pl.read_delta(str(folder / f"telemetry_{table}")).iter_rows(named=True):
        kept = sorted((n, v) for n, v in row.items() if n not in OTHER and v is not None)
        rows.append((*(row[name] for name in PLACE), str(kept)))
    return sorted(rows)


def minutes(rows: Rows, hour: int) -> dict[tuple[str, int], dict[str, float]]:
    """One-minute rows of an hour (since 1970), value by value: `{(component, end_ms): {name: value}}`.

    Counters of these tests never stand at all ones, and no gap is longer than an hour.
    """
    values: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for *_, append_ms, _key, _sender, _sequence, component, at_ms, told in rows:
        time_ms = min(at_ms, append_ms + 2000)
        stray = append_ms >= (time_ms // HOUR_MS + 1) * HOUR_MS + 24 * HOUR_MS
        if not stray and time_ms // HOUR_MS in (hour - 1, hour):
            mine = values[component][time_ms]
            for name, value in eval(told):  # noqa: S307 - our own repr
                worse = min if name in LOW else max
                mine[name] = worse(mine.get(name, value), value)
    found: dict[tuple[str, int], dict[str, float]] = {}
    for component, times in values.items():
        _walked(component, times, hour, found)
    return found


def _walked(component: str, times: dict[int, dict[str, float]], hour: int, found: Any) -> None:
    last: dict[str, float] = {}
    before_ms: int | None = None
    gauges: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for at_ms in sorted(times):
        end_ms = (at_ms // 60_000 + 1) * 60_000
        row = found.setdefault((component, end_ms), {"n": 0}) if at_ms // HOUR_MS == hour else {"n": 0}
        row["n"] += 1
        if before_ms is not None:
            row["covered_ms"] = row.get("covered_ms", 0) + at_ms - before_ms
        for name, value in times[at_ms].items():
            if isinstance(value, int):
                rise = _rise(last.get(name), value, None if before_ms is None else at_ms - before_ms)
                if rise is not None:
                    row[f"{name}__increase"] = row.get(f"{name}__increase", 0) + rise
                last[name] = value
            elif at_ms // HOUR_MS == hour:
                gauges[end_ms][name].append(value)
        before_ms = at_ms
    for end_ms, told in gauges.items():
        for name, some in told.items():
            found[component, end_ms] |= {
                name: sum(some) / len(some),
                f"{name}__min": min(some),
                f"{name}__max": max(some),
            }


def _rise(before: float | None, now: float, gap_ms: int | None) -> float | None:
    if before is None or gap_ms is None:
        return None
    if now >= before:
        return now - before
    if now >= 0.5 * before:
        return 0.0
    return now if gap_ms <= 120_000 else None


def stored_minutes(folder: Path, table: str) -> dict[tuple[str, int], dict[str, float]]:
    """The one-minute rows of a table of the archive. Raises AssertionError where one is there twice."""
    frame = pl.read_delta(str(folder / f"telemetry_{table}_1m"))
    assert frame.select("component", "end_ms").is_unique().all()
    return {
        (row["component"], row["end_ms"]): {
            n: v for n, v in row.items() if n not in ("day", "time", "component", "end_ms") and v is not None
        }
        for row in frame.iter_rows(named=True)
    }
