"""A small cluster whose frames, placements and cables go into a memory log, and what windows must make of it: an
oracle that walks over the input log row by row."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from sickbay import messages, wire
from sickbay.app.running.live import window_maker
from sickbay.edges import log_key
from sickbay.frames import matrix_of
from sickbay.layouts import Schemas, layout_of
from sickbay.log import Task, tasks_of
from sickbay.log.memory import MemoryLog
from sickbay.messages import Edge, Placement, Relation
from sickbay.placement import Placements
from sickbay.schema import TABLES, Samples, declared
from sickbay.topics import FEATURES, PLACEMENT, SCHEMAS, TELEMETRY, TOPICS, TOPOLOGY, partition_of
from streams.feature_record import decode, decode_clock, is_clock
from streams.open_windows import wanted
from streams.runner import Runner
from tests.streams.window_twins import Row, loops

SMALL = {name: replace(topic, partitions=min(3, topic.partitions)) for name, topic in TOPICS.items()}
PARTITIONS = SMALL[FEATURES].partitions
START = 1_773_194_400_000
WIDTH, LATENESS, MARGIN, AHEAD = 10_000, 5_000, 1_000, 2_000
UNTIL_S = 60
HOSTS, RAILS = 4, 2
COLUMNS = {
    "accelerator": ("power_watts", "power_limit_watts", "memory_corrected_total"),
    "port": ("up", "rx_errors_total", "link_recoveries_total"),  # the last is not declared
}

# (features partition, upstream, table, end) -> component -> feature -> value
Windows: TypeAlias = dict[tuple[int, int, str, int], dict[str, dict[str, float]]]


class Crash(Exception):
    """The process ends here."""


@dataclass(frozen=True)
class Sent:
    """A frame of a host, appended at `at_s` with rows of these ages. `less`: its agent does not tell the counters."""

    at_s: int
    host: int
    ages: tuple[int, ...]
    what: str = "fine"  # fine, twice, damaged
    less: bool = False


@dataclass(frozen=True)
class Placed:
    """A word about a job, appended at `at_s`: it runs on these hosts from and until then."""

    at_s: int
    job: int
    hosts: tuple[int, ...]
    from_s: int
    to_s: int | None = None


def samples(table: str, told: Sent) -> Samples:
    kinds = {"accelerator": [f"accelerator:h{told.host}/0000:{place}8:00" for place in range(2)]}
    kinds["port"] = [f"port:h{told.host}/r{rail}" for rail in range(RAILS)]
    at_ms = np.array([START + (told.at_s - age) * 1000 + 7 * told.host for age in told.ages], np.int64)
    values: dict[str, Any] = {}
    for place, column in enumerate(COLUMNS[table]):
        if not (told.less and column.endswith("_total")):
            values[column] = np.repeat(at_ms // 100 % (977 + place) + 10.0 * told.host, 2)
    names = kinds[table] * len(at_ms)
    return Samples(table, names, np.repeat(at_ms, 2), values)


def payload(told: Sent, number: int) -> bytes:
    tables = [matrix_of(samples(table, told)) for table in COLUMNS]
    frame = wire.encode(f"h{told.host}", tables, sequence=number, incarnation=1, sent_ms=START + told.at_s * 1000)
    return frame[:-9] + b"damaged.." if told.what == "damaged" else frame


def cables() -> list[Edge]:
    return [
        Edge(
            child=f"port:h{host}/r{rail}", parent=f"port:leaf{rail}/e{host}", relation=Relation.LINK_END, source="seen"
        )
        for host in range(HOSTS)
        for rail in range(RAILS)
    ] + [
        Edge(child=f"port:leaf{rail}/e0", parent=f"switch:leaf{rail}", relation=Relation.PART_OF, source="seen")
        for rail in range(RAILS)
    ]


@dataclass
class Site:
    """`cabled_s`: when the cables are told; None: never. `hook`: see `MemoryLog`."""

    sent: Sequence[Sent]
    placed: Sequence[Placed] = ()
    cabled_s: int | None = None
    seed: int = 0
    hook: Callable[[str], None] = lambda moment: None
    now: int = START
    log: MemoryLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = MemoryLog(SMALL, clock=lambda: self.now, seed=self.seed, hook=lambda moment: self.hook(moment))
        self.put = self.log.appender()
        for table, columns in COLUMNS.items():
            for chosen in (columns, [one for one in columns if not one.endswith("_total")]):
                layout = layout_of(TABLES[table], chosen)
                self.put.append(SCHEMAS, layout.key, layout.encoded())

    def runner(self, member: str = "a") -> Runner:
        return Runner(self.log.join("windows", [TELEMETRY], member), window_maker(self.log), group="windows")

    def second(self, at_s: int) -> None:
        """Everything that is appended in this second, and the ticks."""
        self.now = START + at_s * 1000
        for one in self.placed:
            if one.at_s == at_s:
                to_ms = None if one.to_s is None else START + one.to_s * 1000
                said = Placement(
                    job=str(one.job), hosts=tuple(f"h{host}" for host in one.hosts), from_ms=START + one.from_s * 1000,
                    to_ms=to_ms,
                )  # fmt: skip
                self.put.append(PLACEMENT, str(one.job).encode(), messages.encode(said))
        if self.cabled_s == at_s:
            for edge in cables():
                self.put.append(TOPOLOGY, log_key(edge).encode(), messages.encode(edge))
        for number, told in enumerate(self.sent):
            if told.at_s == at_s:
                for _ in range(1 + (told.what == "twice")):
                    self.put.append(TELEMETRY, f"h{told.host}".encode(), payload(told, number))
        for partition in range(SMALL[TELEMETRY].partitions):
            self.put.append(TELEMETRY, b"", b"", partition=partition)

    def windows(self) -> Windows:
        """What was put out. Nothing comes twice, and no clock is ahead of the windows that it speaks of."""
        found: Windows = {}
        reader = self.log.reader()
        for task in tasks_of(SMALL, [FEATURES]):
            clocks: dict[int, int] = {}
            for record in reader.read(task, 0, 1_000_000):
                if is_clock(record.key):
                    clock = decode_clock(record.value or b"")
                    assert clock.clock_ms > clocks.get(clock.upstream, 0)
                    clocks[clock.upstream] = clock.clock_ms
                    continue
                block = decode(record.value or b"")
                key = (task.partition, block.upstream, block.table, block.end_ms)
                assert record.key == f"{block.table}/{block.upstream}".encode()
                assert key not in found
                assert list(block.names) == sorted(set(block.names))
                assert block.end_ms + LATENESS > clocks.get(block.upstream, 0)
                rows = [zip(block.columns, row, strict=True) for row in block.values.T.tolist()]
                found[key] = {
                    name: {column: value for column, value in row if value == value}
                    for name, row in zip(block.names, rows, strict=True)
                }
        return found


def expected(log: MemoryLog) -> tuple[Windows, int]:
    """What windows must make of the input log, and how many rows came too late."""
    found: Windows = defaultdict(dict)
    late = 0
    for task in tasks_of(SMALL, [TELEMETRY]):
        rows: dict[str, list[Row]] = {table: [] for table in COLUMNS}
        clock, heard, schemas = 0, set[tuple[str, int]](), _schemas()
        for record in log.reader().read(task, 0, 1_000_000):
            clock = max(clock, record.append_ms)
            if not record.value:
                continue
            try:
                frame = wire.decode(record.value, schemas)
            except ValueError:
                continue
            if (frame.host, frame.sequence) in heard:
                continue
            heard.add((frame.host, frame.sequence))
            for matrix in frame.tables:
                for row, device in enumerate(matrix.device.tolist()):
                    at_ms = min(int(matrix.at_ms[row]), record.append_ms + AHEAD)
                    if (at_ms // WIDTH + 1) * WIDTH <= (clock - LATENESS) // WIDTH * WIDTH:
                        late += 1
                        continue
                    values = dict(zip(matrix.layout.gauges, map(float, matrix.gauges[row]), strict=True))
                    values |= dict(zip(matrix.layout.counters, map(float, matrix.counters[row]), strict=True))
                    rows[matrix.layout.table].append((matrix.names[device], at_ms, values))
        for table, told in rows.items():
            for (component, end), values in loops(told, TABLES[table], WIDTH).items():
                if end <= (clock - LATENESS) // WIDTH * WIDTH:
                    key = (_partition(log, component, end), task.partition, table, end)
                    chosen = {name: value for name, value in values.items() if name in wanted(TABLES[table])}
                    found[key][component] = chosen
        _liveness(log, task, clock, schemas, found)
    return dict(found), late


def _liveness(log: MemoryLog, task: Task, clock: int, schemas: Schemas, found: Windows) -> None:
    heard: dict[str, list[int]] = defaultdict(list)
    for record in log.reader().read(task, 0, 1_000_000):
        with suppress(ValueError):
            if record.value:
                heard[wire.decode(record.value, schemas).host].append(record.append_ms)
    for end in range(START + WIDTH, (clock - LATENESS) // WIDTH * WIDTH + 1, WIDTH):
        for host, told in heard.items():
            if before := [at for at in told if end - 3_600_000 < at < end]:
                frames = float(sum(at >= end - WIDTH for at in before))
                key = (_partition(log, f"host:{host}", end), task.partition, "liveness", end)
                found[key][f"host:{host}"] = {"silent_ms": float(end - max(before)), "frames": frames}


def _schemas() -> Schemas:
    schemas = Schemas()
    for table, columns in COLUMNS.items():
        schemas.learn(layout_of(TABLES[table], columns))
        schemas.learn(layout_of(TABLES[table], [one for one in columns if not one.endswith("_total")]))
    return schemas


def _partition(log: MemoryLog, component: str, end: int) -> int:
    """By what the log had taken of the side inputs a second before the window closed."""
    cutoff = end + LATENESS - MARGIN
    host = component.partition(":")[2].partition("/")[0]
    if component.startswith("port:"):
        cabled = any(one.append_ms <= cutoff for one in log.reader().read(Task(TOPOLOGY, 0), 0, 1000))
        return int(component[-1]) % PARTITIONS if cabled else partition_of(host.encode(), PARTITIONS)
    told = log.reader().read(Task(PLACEMENT, 0), 0, 1000)
    known = [messages.decode(one.value or b"") for one in told if one.append_ms <= cutoff]
    job = Placements(one for one in known if isinstance(one, Placement)).at(end).job_of(component)
    return partition_of((job.job if job else host).encode(), PARTITIONS)


assert all(len(declared(TABLES[table])) > 1 for table in COLUMNS)
