"""What comes from around a job: the hall's heat, its neighbours on the network, and tests on idle hosts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulator.decoys.kit import around, idle_hosts, nothing, rows_of
from simulator.faults.facility import fed_with
from simulator.parts.cables import HOST, LEAF
from simulator.parts.facility import FLOW
from simulator.printing import lines
from simulator.printing.lines import Printed
from simulator.truth.expectation import Expectation
from simulator.workload.run import Mode
from simulator.world import World


@dataclass(slots=True)
class LessCoolant:
    """A coolant unit gives less at less load, as its controller is made to: nothing grows warmer (night 20's twin)."""

    at: int
    host: str
    flow: float = 0.75

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at:
            unit = fed_with(self.host, world).cdu
            world.now.facility[unit] = {"flow_litres_per_minute": FLOW * self.flow, "pump_ratio": 0.55}
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        also = {fed_with(self.host, world).cdu}
        hosts = around(world, self.host)
        return nothing(world, hosts, "less_coolant", "coolant follows the load", self.at, also=also, family="shared")


@dataclass(slots=True)
class WarmDay:
    """The hall grows warmer and cooler over the day: all cards with it, no clock is held back.

    `period_s`: of the swing; the day of a short night is made as short.
    """

    at: int
    host: str
    degrees: float = 6.0
    period_s: int = 1_200

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s >= self.at:
            phase = 2 * math.pi * (at_s - self.at) / self.period_s
            world.now.heat += self.degrees * (1 - math.cos(phase)) / 2
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        return nothing(world, world.cluster.hosts, "warm_day", "the hall follows the day", self.at, family="shared")


@dataclass(slots=True)
class Neighbours:
    """Another team's job fills the uplinks of a leaf in bursts: marks and a little pause at all hosts under it."""

    at: int
    host: str
    severity: float = 1.0
    every_s: int = 8
    burst_s: int = 3

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        if at_s < self.at:
            return
        if run := world.run_on(self.host):
            run.slow["neighbours"] = 0.06 * self.severity
        if (at_s - self.at) % self.every_s < self.burst_s:
            rng = np.random.default_rng([at_s, world.cluster.host_index[self.host], 0x2E])
            for row in self._rows(world):
                world.now.cables.pauses[row, LEAF] = float(rng.uniform(0.02, 0.2)) * self.severity
                world.now.cables.pauses[row, HOST] = float(rng.uniform(0.0, 0.03)) * self.severity
                world.now.cables.marked[row] = float(rng.uniform(2e4, 2e5)) * self.severity
        yield from ()

    def _rows(self, world: World) -> list[int]:
        leaf = world.cluster.of(self.host)[0].leaf
        return [row for row, card in enumerate(world.cluster.cards) if card.leaf == leaf]

    def expect(self, world: World) -> Expectation:
        """Nothing: the network is shared."""
        hosts = dict.fromkeys(world.cluster.cards[row].host for row in self._rows(world))
        every = {*hosts, *around(world, self.host)}
        return nothing(world, sorted(every), "neighbours", "another job on the same leaf", self.at, family="shared")


@dataclass(slots=True)
class BurnIn:
    """Idle hosts run a stress test, all at once: full power and heat with no job (night 41). None idle: nothing."""

    at: int
    host: str
    hosts: int = 2
    lasts_s: int = 120

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        tested = idle_hosts(world, self.hosts)
        if not tested or not self.at <= at_s < self.at + self.lasts_s:
            return
        rows = rows_of(world, tested)
        world.now.mode[rows] = Mode.STEP
        overlay = world.now.overlay
        overlay.scale("accelerator", "power_watts", rows, 1.1)
        overlay.scale("accelerator", "matrix_active_ratio", rows, 1.7)
        overlay.put("accelerator", "throttle_mask", rows, 4.0)
        yield from ()

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        tested = idle_hosts(world, self.hosts)
        ends = self.at + self.lasts_s
        return nothing(world, tested, "burn_in", "stress test on idle hosts", self.at, family="shared", ends=ends)


@dataclass(slots=True)
class CollectiveTest:
    """A bandwidth test on idle hosts, size after size; the last one is ended by hand, and its channels are torn down.

    None idle: nothing.
    """

    at: int
    host: str
    hosts: int = 2
    lasts_s: int = 100
    every_s: int = 10

    def tick(self, at_s: int, world: World) -> Iterator[Printed]:
        """See the class."""
        tested = idle_hosts(world, self.hosts)
        if not tested or not self.at <= at_s <= self.at + self.lasts_s:
            return
        since = at_s - self.at
        if since < self.lasts_s:
            busy = since % self.every_s < self.every_s - 3
            world.now.mode[rows_of(world, tested)] = Mode.WAIT if busy else Mode.IDLE
            return
        for place, card in enumerate(card for host in tested for card in world.cluster.of(host)):
            text, owner = f"Ch {place:08x}", f"{51_200 + place}/all_reduce_perf"
            yield lines.xid(world.ms(at_s, 200 + place), card, 45, text, owner)

    def expect(self, world: World) -> Expectation:
        """Nothing."""
        tested = idle_hosts(world, self.hosts)
        ends = self.at + self.lasts_s
        title = "bandwidth test on idle hosts"
        return nothing(world, tested, "collective_test", title, self.at, family="shared", ends=ends)
