"""The peer rule as our processor works it out: frames in, windows, deviations from the middle of the job's peers.

`python -m benchmarks.peers_processor` with a JSON of `Task` as its argument: a process of its own, whose processor time
and memory are told when it is done. The frames are made before the time is taken, by a process before it, into a file.
"""

import json
import resource
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from benchmarks.accounting import peak_rss_mb
from sickbay import wire
from sickbay.frames import Matrix
from sickbay.layouts import Layout, Schemas, layout_of
from sickbay.schema import TABLES
from simulator.telemetry import PER_HOST, Fleet
from streams import window_core
from streams.open_windows import OpenWindows
from streams.peers import Peers, compared

TABLE = TABLES["accelerator"]
COLUMNS = tuple(column.name for column in TABLE.columns if column.peer)
WIDTH_S, FRAME_S = 10, 5
CYCLE_S = 10  # values of so many seconds are told over and over


class Task(Struct, frozen=True, kw_only=True):
    """`file`: frames, each with its length before it, `hosts` of them for each FRAME_S from `second` on."""

    file: str
    hosts: int
    second: int
    seconds: int


def layout() -> Layout:
    """The columns that the rule is about."""
    return layout_of(TABLE, COLUMNS)


def write(fleet: Fleet, task: Task) -> None:
    """The frames of a whole cluster, as its agents would send them."""
    with Path(task.file).open("wb") as file:
        for second in range(task.second, task.second + task.seconds, FRAME_S):
            shift_s = (second - task.second) // CYCLE_S * CYCLE_S
            for host, (matrix, *_) in fleet.matrices(range(task.hosts), second - shift_s, FRAME_S):
                places = [matrix.layout.gauges.index(name) for name in layout().gauges]
                chosen = Matrix(layout(), matrix.names, matrix.device, matrix.at_ms + shift_s * 1000,
                                np.ascontiguousarray(matrix.gauges[:, places]), matrix.counters[:, :0])  # fmt: skip
                frame = wire.encode(host, [chosen], sequence=second, incarnation=1, sent_ms=second * 1000)
                file.write(struct.pack("<I", len(frame)) + frame)


def frames(path: Path) -> Iterator[bytes]:
    """One after the other."""
    with path.open("rb") as file:
        while head := file.read(4):
            yield file.read(struct.unpack("<I", head)[0])


def windows(task: Task, jobs: NDArray[np.int64]) -> Iterator[tuple[window_core.Features, Peers]]:
    """Each window of the frames with its comparison. `jobs` int64 [hosts]: the number of each host's job."""
    schemas, open_, last = Schemas(), OpenWindows(TABLE, WIDTH_S * 1000), window_core.Last()
    schemas.learn(layout())
    group = np.repeat(jobs, PER_HOST)  # names are sorted by host, as hosts are numbered in order
    for number, frame in enumerate(frames(Path(task.file)), 1):
        (matrix,) = wire.decode(frame, schemas).tables
        open_.add(matrix, (task.second + task.seconds) * 1000)
        if open_.full:
            open_.settle(0, 0)
        done_s = number // task.hosts * FRAME_S
        if number % task.hosts == 0 and done_s % WIDTH_S == 0:
            open_.settle(0, 0)
            end_ms = (task.second + done_s) * 1000
            rows, names = open_.taken(end_ms)
            found, last = window_core.close(rows, names, last, TABLE, end_ms, WIDTH_S * 1000, COLUMNS)
            yield found, compared(found.values, group)


def jobs_of(fleet: Fleet) -> NDArray[np.int64]:
    """The number of each host's job."""
    return np.repeat(np.arange(len(fleet.jobs)), [len(job.hosts) for job in fleet.jobs])


def main() -> None:
    """The process."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    jobs = jobs_of(Fleet(1, task.hosts))
    before, count = _cpu_s(), 0
    for found, _ in windows(task, jobs):
        count += found.values.size * WIDTH_S
    print(json.dumps({"cpu_s": _cpu_s() - before, "values": count, "peak_rss_mb": peak_rss_mb()}))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
