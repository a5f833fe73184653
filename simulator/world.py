"""The clock of a simulated night: effects, jobs and sensors, one second at a time.

A *second* is what everybody saw in it: telemetry of each host as its agent would read it, and the lines printed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sickbay.actions import Control
from sickbay.messages import Change, Placement, Step
from sickbay.schema import Samples
from simulator.moments import START_MS
from simulator.parts.cables import Cables
from simulator.parts.cluster import Cluster
from simulator.parts.facility import Gauges
from simulator.parts.physics import Conditions, Sensors, calm
from simulator.parts.told import Told
from simulator.printing.clocks import skewed
from simulator.printing.lines import Printed
from simulator.workload.levels import NETWORK
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
    samples: Told  # a mapping by host, made when asked for, and the columns of all hosts
    lines: tuple[Printed, ...]
    placements: tuple[Placement, ...] = ()  # of attempts that began or ended in this second
    site: tuple[Samples, ...] = ()  # readings of power and cooling
    cables: Cables | None = None  # both ends of every link, as they are in this second: read before the next one
    declared: tuple[Control, ...] = ()  # work that people declared in this second
    changes: tuple[Change, ...] = ()  # of versions and settings, where a feed of changes tells
    steps: tuple[Step, ...] = ()  # what training hooks told, where some are heard


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
    declared: list[Control] = field(default_factory=list)  # work that people declare in this second
    changes: list[Change] = field(default_factory=list)  # what is changed in this second
    _jobs: list[Job] = field(default_factory=list)  # that `_on` is of: an attempt elsewhere is another one
    _on: dict[str, Run] = field(default_factory=dict)

    def run_on(self, host: str) -> Run | None:
        """The job that uses a host: the first one, where some are told of it."""
        jobs = [run.job for run in self.runs.values()]
        if len(jobs) != len(self._jobs) or any(a is not b for a, b in zip(jobs, self._jobs, strict=True)):
            self._jobs, self._on = jobs, {}
            for run in self.runs.values():
                for one in run.job.hosts:
                    self._on.setdefault(one, run)
        return self._on.get(host)

    def ms(self, at_s: int, plus_ms: int = 0) -> int:
        """UTC milliseconds of a second of the night."""
        return self.start_ms + at_s * 1000 + plus_ms


@dataclass(slots=True)
class Cards:
    """Rows of the cards of each job: consecutive ones as a slice."""

    cluster: Cluster
    _found: dict[str, tuple[tuple[str, ...], NDArray[np.int64] | slice]] = field(default_factory=dict)

    def rows(self, job: Job) -> NDArray[np.int64] | slice:
        """As an index."""
        known = self._found.get(job.id)
        if known is None or known[0] is not job.hosts:
            known = self._found[job.id] = (job.hosts, self._look(job.hosts))
        return known[1]

    def _look(self, hosts: tuple[str, ...]) -> NDArray[np.int64] | slice:
        slices = [self.cluster.rows(host) for host in hosts]
        if all(one.stop == after.start for one, after in pairwise(slices)) and slices:
            return slice(slices[0].start, slices[-1].stop)
        return np.array([row for one in slices for row in range(one.start, one.stop)], np.int64)


def seconds(
    cluster: Cluster, jobs: Sequence[Job], effects: Sequence[Effect], *, seed: int = 0, until_s: int = 600,
    start_ms: int = START_MS, feeds: int = 1, which: range | None = None, site: bool = True,
    hooks: int = 0,
) -> Iterator[Second]:  # fmt: skip
    """The night, second by second, the same for the same arguments.

    `which`: rows of the hosts whose sensors are read, whole shelves of them; None: all. `site`: read units of power
    and cooling, and both ends of all cables; else nothing is told of those. `hooks`: of so many ranks of each job the
    training hook is heard.
    """
    rng = np.random.default_rng([seed, 0x1A])
    runs = {job.id: Run(job, cluster, np.random.default_rng([seed, 0x0B, i])) for i, job in enumerate(jobs)}
    world = World(cluster, runs, calm(cluster), start_ms, rng, feeds=feeds)
    gauges, cables = (Gauges(cluster, seed, feeds), Cables(cluster, seed)) if site else (None, None)
    sensors, cards = Sensors(cluster, seed, boot_s=start_ms / 1000 - 912_344, which=which), Cards(cluster)
    world.news += [run.placement(start_ms) for run in runs.values() if not run.begins_s]
    for at_s in range(until_s):
        world.now = calm(cluster)
        printed = [line for effect in effects for line in effect.tick(at_s, world)]
        for run in runs.values():
            rows = cards.rows(run.job)
            run.clock = world.now.clock[rows]
            printed += run.tick(at_s, start_ms)
            world.now.mode[rows] = run.modes(at_s)
            world.now.pace[rows] = run.pace
            if run.load is not None and run.flow is not None:
                world.now.load[rows], world.now.flow[rows] = run.load, run.flow
            world.news += run.news
            run.news = []
        steps = tuple(step for run in runs.values() for step in run.steps(run.sample(hooks))) if hooks else ()
        changes, world.changes = tuple(world.changes), []
        news, world.news = tuple(world.news), []
        declared, world.declared = tuple(world.declared), []
        printed.sort(key=lambda line: line.at_ms)
        if world.now.skew_ms.any():
            printed = skewed(printed, dict(zip(cluster.hosts, world.now.skew_ms.tolist(), strict=True)))
        units = _units(gauges, world, at_s) if gauges else ()
        if cables:
            cables.tick(world.now.cables, world.now.port_up, NETWORK[world.now.mode] * world.now.pace * world.now.flow)
        told = read(cluster, world.now, sensors, world.ms(at_s))
        yield Second(world.ms(at_s), told, tuple(printed), news, units, cables, declared, changes, steps)


def _units(gauges: Gauges, world: World, at_s: int) -> tuple[Samples, ...]:
    up = dict(zip(world.cluster.hosts, world.now.host_up.tolist(), strict=True))
    return gauges.read(world.ms(at_s), up, world.now.facility)


def read(cluster: Cluster, now: Conditions, sensors: Sensors, at_ms: int) -> Told:
    """What each host's agent reads of its sensors; a host that is gone is left out."""
    tables = {"accelerator": sensors.accelerators(now), "port": sensors.ports(now), "host": sensors.hosts(now)}
    times = at_ms + now.skew_ms
    heard = now.host_up.copy()
    heard[[cluster.host_index[host] for host in now.mute]] = False
    return Told(cluster, tables, times, heard, now.seen, sensors.which)
