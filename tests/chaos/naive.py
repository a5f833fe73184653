"""Features by plain loops over rows, and rows of the archive by the most naive reading there is: no code is shared with
the stages but the readers of wire and messages."""

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sickbay import messages, packs
from sickbay.admission import Admission
from sickbay.app.running.live import WINDOWS_GROUP
from sickbay.frames import Frame, Matrix
from sickbay.layouts import Schemas, decoded
from sickbay.log import Log, Record
from sickbay.messages import Placement
from sickbay.placement import Placements
from sickbay.schema import LIVENESS, TABLES
from sickbay.topics import FEATURES, PLACEMENT, SCHEMAS, TELEMETRY, partition_of
from streams.feature_record import decode, is_clock
from streams.open_windows import AHEAD_MS, wanted
from streams.side_inputs import SIDE_MARGIN_MS
from tests.chaos.oracle import Known, everything, positions
from tests.chaos.site import LATENESS_MS, WIDTH_MS
from tests.streams.window_twins import Row, loops

# (features partition, upstream, table, end) -> component -> feature -> value
Windows = dict[tuple[int, int, str, int], dict[str, dict[str, float]]]


def frames(log: Log, admission: Admission, record: Record, schemas: Schemas) -> Iterator[Frame]:
    """The good frames of a record."""
    payload = record.value or b""
    packed = packs.is_pack(payload)
    try:
        members = packs.unpack(payload) if packed else [payload] if payload else []
    except ValueError:
        return
    for member in members:
        try:
            yield admission.frame(record._replace(value=member), schemas, packed=packed)
        except ValueError:
            continue


def schemas_of(log: Log) -> Schemas:
    """Every layout that was told."""
    schemas = Schemas()
    for record in everything(log, SCHEMAS):
        schemas.learn(decoded(record.value or b""))
    return schemas


def windows(log: Log, admission: Admission) -> tuple[Windows, int]:
    """What windows must hold, and how many rows came too late."""
    found: Windows = defaultdict(dict)
    schemas, places, late = schemas_of(log), Places(log, admission), 0
    for task, position in positions(log, WINDOWS_GROUP, [TELEMETRY]).items():
        rows: dict[str, list[Row]] = {table: [] for table in TABLES}
        clock, heard, signs = 0, set[tuple[str, int]](), defaultdict[str, list[int]](list)
        for record in everything(log, TELEMETRY):
            if record.task != task or record.offset >= position.offset:
                continue
            clock = max(clock, record.append_ms)
            for frame in frames(log, admission, record, schemas):
                signs[f"host:{frame.host}"].append(record.append_ms)
                if (frame.host, frame.sequence) in heard:
                    continue
                heard.add((frame.host, frame.sequence))
                for matrix in frame.tables:
                    late += _rows(matrix, record.append_ms, clock, rows)
        for end, silence in silences(signs, _frontier(clock)):
            for component, values in silence.items():
                found[places.of(component, end), task.partition, LIVENESS.name, end][component] = values
        for table, told in rows.items():
            for (component, end), values in loops(told, TABLES[table], WIDTH_MS).items():
                if end <= _frontier(clock):
                    chosen = {name: value for name, value in values.items() if name in wanted(TABLES[table])}
                    found[places.of(component, end), task.partition, table, end][component] = chosen
    return dict(found), late


def silences(signs: dict[str, list[int]], until_ms: int) -> Iterator[tuple[int, dict[str, dict[str, float]]]]:
    """By window how long each host had been silent, of those that were heard in the hour before."""
    first = min((min(told) for told in signs.values()), default=until_ms)
    for end in range((first // WIDTH_MS + 1) * WIDTH_MS, until_ms + 1, WIDTH_MS):
        before = {host: [at for at in told if end - 3_600_000 < at < end] for host, told in signs.items()}
        yield (
            end,
            {
                host: {"silent_ms": float(end - max(at)), "frames": float(sum(one >= end - WIDTH_MS for one in at))}
                for host, at in before.items()
                if at
            },
        )


def _frontier(clock_ms: int) -> int:
    return (clock_ms - LATENESS_MS) // WIDTH_MS * WIDTH_MS


def _rows(matrix: Matrix, append_ms: int, clock_ms: int, rows: dict[str, list[Row]]) -> int:
    late = 0
    for row, device in enumerate(matrix.device.tolist()):
        at_ms = min(int(matrix.at_ms[row]), append_ms + AHEAD_MS)
        if (at_ms // WIDTH_MS + 1) * WIDTH_MS <= _frontier(clock_ms):
            late += 1
            continue
        values = dict(zip(matrix.layout.gauges, map(float, matrix.gauges[row]), strict=True))
        values |= dict(zip(matrix.layout.counters, map(float, matrix.counters[row]), strict=True))
        rows[matrix.layout.table].append((matrix.names[device], at_ms, values))
    return late


class Places:
    """Where rows go, by what the log had taken of the facts a second before their window closed. Planes are not naive:
    tests/streams has their own tests."""

    def __init__(self, log: Log, admission: Admission) -> None:
        self._partitions, self._facts = log.topics[FEATURES].partitions, Known(log, admission)
        self._jobs = [(one.append_ms, messages.decode(one.value or b"")) for one in everything(log, PLACEMENT)]
        self._known: dict[int, Placements] = {}

    def of(self, component: str, end_ms: int) -> int:
        """The partition of a component's row."""
        cutoff, host = end_ms + LATENESS_MS - SIDE_MARGIN_MS, component.partition(":")[2].partition("/")[0]
        if component.startswith("port:"):
            plane = self._facts.at(cutoff, cutoff).fabric.planes(end_ms).get(component)
            return partition_of(host.encode(), self._partitions) if plane is None else plane % self._partitions
        told = [one for at, one in self._jobs if at <= cutoff and isinstance(one, Placement)]
        if len(told) not in self._known:
            self._known[len(told)] = Placements(told)
        job = self._known[len(told)].at(end_ms).job_of(component)
        return partition_of((job.job if job else host).encode(), self._partitions)


def put_out(log: Log) -> Windows:
    """The windows in the log, none twice."""
    found: Windows = {}
    for record in everything(log, FEATURES):
        if record.is_tick or is_clock(record.key):
            continue
        block = decode(record.value or b"")
        key = record.partition, block.upstream, block.table, block.end_ms
        assert key not in found, f"twice: {key}"
        rows = [zip(block.columns, row, strict=True) for row in block.values.T.tolist()]
        found[key] = {
            name: {column: value for column, value in row if value == value}
            for name, row in zip(block.names, rows, strict=True)
        }
    return found


def unlike(found: Windows, right: Windows) -> list[str]:
    """The first windows that differ, in words."""
    told = []
    for key in sorted({*found, *right}):
        mine, theirs = found.get(key), right.get(key)
        if mine != theirs:
            told.append(f"{key}: {str(mine)[:300]}, not {str(theirs)[:300]}")
    return told[:10]


Rows = list[tuple[Any, ...]]


def telemetry(log: Log, admission: Admission) -> dict[str, Rows]:
    """All rows of telemetry that the archive must hold, by table."""
    schemas, found = schemas_of(log), defaultdict[str, Rows](list)
    for record in everything(log, TELEMETRY):
        for frame in frames(log, admission, record, schemas):
            for matrix in frame.tables:
                place = record.partition, record.offset, record.append_ms, frame.host, frame.sequence
                found[matrix.layout.table] += ((*place, *row) for row in _told(matrix))
    return {table: sorted(rows) for table, rows in found.items()}


def _told(matrix: Matrix) -> Iterator[tuple[Any, ...]]:
    for row in range(len(matrix.at_ms)):
        values: dict[str, float] = dict(zip(matrix.layout.gauges, matrix.gauges[row].tolist(), strict=True))
        values |= dict(zip(matrix.layout.counters, matrix.counters[row].tolist(), strict=True))
        kept = sorted((name, value) for name, value in values.items() if not math.isnan(value) and value != -1)
        yield matrix.names[int(matrix.device[row])], int(matrix.at_ms[row]), str(kept)


PLACE = ("partition", "offset", "append_ms", "sender", "sequence", "component", "at_ms")
OTHER = {*PLACE, "day", "hour", "time", "incarnation", "topic", "key"}


def archived(folder: Path, table: str) -> Rows:
    """The rows of a table of telemetry, in the same words."""
    rows = []
    for row in pl.read_delta(str(folder / f"telemetry_{table}")).iter_rows(named=True):
        kept = sorted((name, value) for name, value in row.items() if name not in OTHER and value is not None)
        rows.append((*(row[name] for name in PLACE), str(kept)))
    return sorted(rows)


def messages_of(log: Log, admission: Admission, topic: str) -> list[tuple[int, int, int]]:
    """Place of every record of a topic that must be a row."""
    found = []
    for record in everything(log, topic):
        if record.is_tick or not record.value:
            continue
        try:
            admission.message(record)
        except ValueError:
            continue
        found.append((record.partition, record.offset, record.append_ms))
    return sorted(found)
