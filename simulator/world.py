"""The clock of a simulated night: effects, jobs and sensors, one second at a time.

A *second* is what everybody saw in it: telemetry of each host as its agent would read it, and the lines printed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sickbay.components import Kind, name
from sickbay.messages import Placement
from sickbay.schema import Samples
from simulator.moments import START_MS
from simulator.parts.cables import Cables
from simulator.parts.cluster import Cluster
from simulator.parts.facility import Gauges
from simulator.parts.overlay import Columns
from simulator.parts.physics import Conditions, Sensors, calm
from simulator.printing.lines import Printed
from simulator.workload.run import Job, Run


class Effect(Protocol):
    """Something that happens: a fault or a decoy. Called each second, before jobs and sensors."""

    def tick(self, at_s: int, world: "World") -> Iterator[Printed]:
        """What this second is like because of it, and what is printed."""
        ...


@dataclass(frozen=True, slots=True)
class Second:
    """One second as seen from outside."""

    at_ms: int
    samples: dict[str, tuple[Samples, ...]]  # by host; a host whose agent is gone is left out
    lines: tuple[Printed, ...]
    placements: tuple[Placement, ...] = ()  # of attempts that began or ended in this second
    site: tuple[Samples, ...] = ()  # readings of power and cooling
    cables: Cables | None = None  # both ends of every link, as they are in this second: read before the next one


@dataclass(slots=True)
class World:
    """All that the effects may touch."""

    cluster: Cluster
    runs: dict[str, Run]
    now: Conditions
    start_ms: int
    rng: np.random.Generator
    news: list[Placement] = field(default_factory=list)
    feeds: int = 1  # power units that feed a rack

    def run_on(self, host: str) -> Run | None:
        """The job that uses a host."""
        return next((run for run in self.runs.values() if host in run.job.hosts), None)

    def ms(self, at_s: int, plus_ms: int = 0) -> int:
        """UTC milliseconds of a second of the night."""
        return self.start_ms + at_s * 1000 + plus_ms


def seconds(
    cluster: Cluster, jobs: Sequence[Job], effects: Sequence[Effect], *, seed: int = 0, until_s: int = 600,
    start_ms: int = START_MS, feeds: int = 1,
) -> Iterator[Second]:  # fmt: skip
    """The night, second by second, the same for the same arguments."""
    rng = np.random.default_rng([seed, 0x1A])
    runs = {job.id: Run(job, cluster, np.random.default_rng([seed, 0x0B, i])) for i, job in enumerate(jobs)}
    world = World(cluster, runs, calm(cluster), start_ms, rng, feeds=feeds)
    gauges, cables = Gauges(cluster, seed, feeds), Cables(cluster, seed)
    sensors = Sensors(cluster, seed, boot_s=start_ms / 1000 - 912_344)
    world.news += [run.placement(start_ms) for run in runs.values()]
    for at_s in range(until_s):
        world.now = calm(cluster)
        printed = [line for effect in effects for line in effect.tick(at_s, world)]
        for run in runs.values():
            printed += run.tick(at_s, start_ms)
            for host in run.job.hosts:
                world.now.mode[cluster.rows(host)] = run.mode
                world.now.pace[cluster.rows(host)] = run.pace
        news, world.news = tuple(world.news), []
        printed.sort(key=lambda line: line.at_ms)
        up = dict(zip(cluster.hosts, world.now.host_up.tolist(), strict=True))
        site = gauges.read(world.ms(at_s), up, world.now.facility)
        cables.tick(world.now.cables, world.now.port_up)
        told = read(cluster, world.now, sensors, world.ms(at_s))
        yield Second(world.ms(at_s), told, tuple(printed), news, site, cables)


def read(cluster: Cluster, now: Conditions, sensors: Sensors, at_ms: int) -> dict[str, tuple[Samples, ...]]:
    """What each host's agent reads of its sensors; a host that is gone is left out."""
    accelerators, ports, hosts = sensors.accelerators(now), sensors.ports(now), sensors.hosts(now)
    told: dict[str, tuple[Samples, ...]] = {}
    for row, host in enumerate(cluster.hosts):
        if now.host_up[row]:
            rows = cluster.rows(host)
            told[host] = (
                *_rows("accelerator", cluster.components, accelerators, rows, at_ms, now.seen),
                *_rows("port", cluster.ports, ports, rows, at_ms),
                _host(host, row, hosts, at_ms),
            )
    return told


def _rows(
    table: str, names: list[str], columns: Columns, rows: slice, at_ms: int, seen: np.ndarray | None = None
) -> tuple[Samples, ...]:
    keep = np.arange(rows.start, rows.stop)
    if seen is not None:
        keep = keep[seen[rows]]
    if not len(keep):
        return ()
    values = {column: np.asarray(numbers[keep], float) for column, numbers in columns.items()}
    return (Samples(table, [names[i] for i in keep], np.full(len(keep), at_ms, np.int64), values),)


def _host(host: str, row: int, columns: Columns, at_ms: int) -> Samples:
    values = {column: np.asarray(numbers[row : row + 1], float) for column, numbers in columns.items()}
    return Samples("host", [name(Kind.HOST, host)], np.array([at_ms], np.int64), values)
