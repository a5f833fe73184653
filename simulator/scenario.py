"""The testing kit: a night as a time line, written as it is told.

    night = scenario(seed=3)
    night.at(60).fault("accelerator_off_bus")
    night.at(100).decoy("checkpoint_pause")
    for second in night.seconds(until_s=300): ...
    scores, left = score(night.expectations(), incidents)      # what the effects themselves know to be right
    night.expect(by=90).incident(component="accelerator:...")   # or what the test asks for: see `demand.unmet`

What an effect happens to is drawn from the seed among the jobs that no other effect uses, unless `on` says it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np

from simulator.by_hand import BY_HAND
from simulator.decoys import DECOYS
from simulator.faults import FAULTS
from simulator.faults.kit import Happening
from simulator.moments import START_MS
from simulator.noise import Noise
from simulator.parts.cluster import Card, Cluster, Fabric, Layout, build
from simulator.parts.physics import calm
from simulator.truth.demand import Asking, Demand
from simulator.truth.expectation import Expectation
from simulator.workload.run import Job, Run
from simulator.world import Second, World, seconds

# What an effect may happen to, by the name of its parameter; the first that it has is what `on` stands for.
PARAMETERS = ("card", "host", "leaf", "job", "port", "link", "switch", "rack", "pdu", "cdu", "storage", "cohort")
KNOWN: dict[str, Callable[..., Happening]] = {**FAULTS, **DECOYS, **BY_HAND}


def wanted(made: Callable[..., Happening]) -> str:
    """The parameter that says what an effect happens to."""
    return next(name for name in PARAMETERS if name in signature(made).parameters)


@dataclass
class Scenario:
    """A cluster, its jobs, and what happens when."""

    cluster: Cluster
    jobs: tuple[Job, ...]
    seed: int
    start_ms: int = START_MS
    feeds: int = 1  # power units that feed a rack
    demands: list[Demand] = field(default_factory=list)
    recipes: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    acts: list[tuple[int, str, str]] = field(default_factory=list)  # of people and other controllers: s, what, on
    noise: Noise | None = None  # behind the world, where a scenario file asks for it
    _free: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng([self.seed, 0x5C])
        self._free = list(map(int, self._rng.permutation(len(self.jobs))))

    def at(self, at_s: int) -> "Moment":
        """A point of the time line, seconds from the start."""
        return Moment(self, at_s)

    def expect(self, by: int | None = None) -> Asking:
        """What must be said (by a second of the night), or must not be done: see `demand`."""
        return Asking(self.demands, by)

    def add(self, what: str, at_s: int, on: str | Card | None, settings: dict[str, object]) -> None:
        """Put an effect on the time line. `on`: a host, leaf or card, None = drawn."""
        wants = wanted(KNOWN[what])
        self.recipes.append((what, {"at": at_s, wants: on or self._draw(wants), **settings}))

    def _draw(self, wants: str) -> str | Card:
        """A part of the next job that nothing happens to yet."""
        job = self.jobs[self._free.pop() if self._free else int(self._rng.integers(len(self.jobs)))]
        host = job.hosts[int(self._rng.integers(len(job.hosts)))]
        card = self.cluster.of(host)[int(self._rng.integers(self.cluster.per_host))]
        drawn: dict[str, str | Card] = {
            "card": card, "host": host, "leaf": card.leaf, "switch": card.leaf, "job": job.id, "port": card.port,
            "link": card.port, "rack": self.cluster.racks[self.cluster.host_index[host]],
        }  # fmt: skip
        if wants not in drawn:
            raise ValueError(f"nothing is drawn for `{wants}`: say what it happens to")
        return drawn[wants]

    def effects(self) -> list[Happening]:
        """Fresh effects: they keep state, so each run has its own."""
        return [KNOWN[what](**settings) for what, settings in self.recipes]

    def seconds(self, until_s: int = 600, *, which: range | None = None, site: bool = True) -> Iterator[Second]:
        """The night, second by second; `which` and `site` as in `world.seconds`."""
        told = seconds(
            self.cluster, self.jobs, self.effects(), seed=self.seed, until_s=until_s, start_ms=self.start_ms,
            feeds=self.feeds, which=which, site=site,
        )  # fmt: skip
        return self.noise(told) if self.noise else told

    def expectations(self) -> list[Expectation]:
        """What must be said, and what must not be done."""
        runs = {job.id: Run(job, self.cluster, np.random.default_rng(0)) for job in self.jobs}
        world = World(self.cluster, runs, calm(self.cluster), self.start_ms, self._rng, feeds=self.feeds)
        happen = [KNOWN[what](**settings) for what, settings in self.recipes if what not in BY_HAND]
        return [effect.expect(world) for effect in happen]


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of a scenario, at which things are made to happen."""

    scenario: Scenario
    at_s: int

    def fault(self, name: str, on: str | Card | None = None, **settings: object) -> Scenario:
        """A fault of faults.toml begins here."""
        if name not in FAULTS:
            raise KeyError(f"no such fault: {name}; one of {', '.join(FAULTS)}")
        self.scenario.add(name, self.at_s, on, settings)
        return self.scenario

    def decoy(self, name: str, on: str | Card | None = None, **settings: object) -> Scenario:
        """Something harmless begins here."""
        if name not in DECOYS:
            raise KeyError(f"no such decoy: {name}; one of {', '.join(DECOYS)}")
        self.scenario.add(name, self.at_s, on, settings)
        return self.scenario


def scenario(
    *, seed: int = 0, hosts: int = 8, per_host: int = 8, hosts_per_job: int = 2, layout: Layout = "leaf",
    hosts_per_leaf: int = 2, step_s: float = 5.0, timeout_s: int = 600, spare_hosts: int = 0,
    feeds: int = 1, breakout: int = 1, fabric: Fabric = "ethernet", **wider: Any,
) -> Scenario:  # fmt: skip
    """A quiet cluster under load: every `hosts_per_job` neighbours run one job, and the last `spare_hosts` idle.

    `wider`: `plan`, `models`, `naming`, `hosts_per_rack` of `cluster.build`.
    """
    cluster = build(
        seed=seed, hosts=hosts + spare_hosts, per_host=per_host, layout=layout, hosts_per_leaf=hosts_per_leaf,
        breakout=breakout, fabric=fabric, **wider,
    )  # fmt: skip
    first = 4_400 + int(np.random.default_rng([seed, 0x10]).integers(500))
    jobs = tuple(
        Job(
            str(first + i), cluster.hosts[i * hosts_per_job : (i + 1) * hosts_per_job], step_s=step_s,
            timeout_s=timeout_s, checkpoint_every_s=240.0 + 15 * i,
        )
        for i in range(hosts // hosts_per_job)
    )  # fmt: skip
    return Scenario(cluster, jobs, seed, feeds=feeds)
