"""A log of telemetry that is made when it is read: a day of a cluster, without the disk that would hold it.

Every record is a function of its offset, so a sink that was killed reads the same again. Each partition holds the
frames of its own hosts, a tick after each interval, and after the last one a tick an hour for `idle_h` hours.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np

from sickbay import wire
from sickbay.frames import Matrix
from sickbay.log import Bounds, Position, Record, Task
from sickbay.topics import BACKFILL, SCHEMAS, TELEMETRY, TOPICS
from simulator.telemetry import COLUMNS, Block, Fleet, lag_ms

HOUR_MS, MINUTE_S, INTERVAL_S = 3_600_000, 60, 5
BEGIN_MS = 1_796_000_400_000 // HOUR_MS * HOUR_MS
PARTITIONS = 16


@dataclass
class MadeLog:
    """`now_ms`: what was appended until then is there. `made_s`: processor time that making records took."""

    hosts: int
    hours: float
    idle_h: int = 0
    now_ms: int = 1 << 62
    made_s: float = 0.0
    fleet: Fleet = field(init=False)

    def __post_init__(self) -> None:
        self.fleet = Fleet(1, self.hosts)
        self.topics = {name: TOPICS[name] for name in (TELEMETRY, BACKFILL, SCHEMAS)}
        self.intervals = round(self.hours * 3600 / INTERVAL_S)
        self.end_ms = BEGIN_MS + self.intervals * INTERVAL_S * 1000
        self.minute = lru_cache(maxsize=PARTITIONS)(self._minute)
        self.names = cache(self.fleet.names)

    def reader(self) -> "MadeLog":
        """The log itself."""
        return self

    def own(self, partition: int) -> range:
        """The hosts of a partition."""
        return range(self.hosts * partition // PARTITIONS, self.hosts * (partition + 1) // PARTITIONS)

    def append_ms(self, partition: int, offset: int) -> int:
        """When a record was appended."""
        interval, place = divmod(offset, len(self.own(partition)) + 1)
        if interval < self.intervals:
            return BEGIN_MS + (interval + 1) * INTERVAL_S * 1000 + place
        return self.end_ms + (offset - self.intervals * (len(self.own(partition)) + 1) + 1) * HOUR_MS

    def bounds(self, task: Task) -> Bounds:
        """The offsets that are there."""
        if task.topic != TELEMETRY:
            return Bounds(0, 0)
        low, high = 0, self.intervals * (len(self.own(task.partition)) + 1) + self.idle_h
        while low < high:
            middle = (low + high) // 2
            if self.append_ms(task.partition, middle) < self.now_ms:
                low = middle + 1
            else:
                high = middle
        return Bounds(0, low)

    def read(self, task: Task, offset: int, limit: int = 500) -> list[Record]:
        """The next records."""
        end = min(self.bounds(task).end, offset + limit)
        began = time.process_time()
        found = [self._record(task, at) for at in range(offset, end)]
        self.made_s += time.process_time() - began
        return found

    def _record(self, task: Task, offset: int) -> Record:
        own = self.own(task.partition)
        interval, place = divmod(offset, len(own) + 1)
        append_ms = self.append_ms(task.partition, offset)
        if interval >= self.intervals or place == len(own):
            return Record(*task, offset, append_ms, b"", b"")
        minute, part = divmod(interval * INTERVAL_S, MINUTE_S)
        frame = self.minute(task.partition, minute)[part // INTERVAL_S][place]
        return Record(*task, offset, append_ms, self.fleet.host(own[place]).encode(), frame)

    def _minute(self, partition: int, minute: int) -> list[list[bytes]]:
        """The frames of a partition's hosts, by interval."""
        own, second = self.own(partition), BEGIN_MS // 1000 + minute * MINUTE_S
        blocks = [self.fleet.block(table, own, second, MINUTE_S) for table in COLUMNS]
        intervals = range(0, MINUTE_S, INTERVAL_S)
        return [
            [self._frame(blocks, place, row, second, at, minute) for place, row in enumerate(own)] for at in intervals
        ]

    def _frame(self, blocks: Sequence[Block], place: int, row: int, second: int, at: int, minute: int) -> bytes:
        tables = []
        for block in blocks:
            own = slice(at, at + INTERVAL_S)
            gauges, counters = block.gauges[place, own], block.counters[place, own]
            parts = gauges.shape[1]
            device = np.tile(np.arange(parts, dtype=np.uint16), INTERVAL_S)
            seconds = second + at + np.arange(INTERVAL_S, dtype=np.int64)
            at_ms = np.repeat(seconds * 1000 + lag_ms(row), parts)
            rows = INTERVAL_S * parts
            layout = block.layout
            names = self.names(layout.table, row)
            tables.append(Matrix(layout, names, device, at_ms, gauges.reshape(rows, -1), counters.reshape(rows, -1)))
        sequence = (minute * MINUTE_S + at) // INTERVAL_S
        sent_ms = (second + at + INTERVAL_S) * 1000
        return wire.encode(self.fleet.host(row), tables, sequence=sequence, incarnation=1, sent_ms=sent_ms)

    def committed(self, group: str, task: Task) -> Position | None:
        """Nobody commits here."""
        return None
