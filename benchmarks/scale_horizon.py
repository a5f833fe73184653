"""What a look of diagnosis costs where the cluster is large: 12,500 hosts of eight cards and eight ports, in jobs.

The horizon is filled with windows as they come out of the features topic (without decoding them), half an hour of them;
then scenes are put into the newest ones: all is well, one card is slow, one job stands still, a storm of lost links.
Each scene is some windows of 10 s, and a look after each.
"""

import resource
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnosis.engine import advanced, detectors
from sickbay.app.diagnosing.horizon import HORIZON_MS, Horizon
from sickbay.log import Record
from sickbay.messages import AnyMessage, Event, Identity, Incident
from sickbay.schema import TABLES, declared
from sickbay.vocabulary import event_kinds
from simulator.parts.cluster import ACCELERATOR_PCI
from simulator.telemetry import BEGIN_S, Fleet
from streams.feature_record import Block

HOSTS, WINDOWS, WINDOW_MS = 12_500, 180, 10_000
SIZES = (16, 16, 32, 16)  # of jobs, in hosts: some 600 of them
CHUNK = 200  # hosts of one block
STORM = 1_600
NOISE = 1 << 16
USUAL: Mapping[str, tuple[float, float]] = {  # column -> what is usual, and how far cards or ports differ
    "utilisation_ratio": (0.97, 0.01), "compute_active_ratio": (0.7, 0.01), "matrix_active_ratio": (0.5, 0.02),
    "memory_active_ratio": (0.4, 0.02), "power_watts": (620, 8), "power_limit_watts": (700, 0),
    "temperature_celsius": (62, 2), "memory_temperature_celsius": (78, 2), "clock_megahertz": (1755, 6),
    "bus_width_lanes": (16, 0), "bus_width_max_lanes": (16, 0), "power_watts__spread": (40, 3),
    "up": (1, 0), "speed_gigabits_per_second": (400, 0), "rx_bytes_total__increase": (2e11, 1e9),
    "tx_bytes_total__increase": (2e11, 1e9), "received_bits_total__increase": (1.6e12, 1e10),
    "corrected_bits_total__increase": (3e4, 3e3), "n": (10, 0), "covered_ms": (10_000, 0), "load_1m": (20, 1),
    "memory_available_bytes": (1e12, 1e9), "rx_power_dbm": (-1, 0.1), "tx_power_dbm": (1, 0.1),
    "rx_power_alarm_dbm": (-8, 0), "errors_before_correction_ratio": (2e-8, 2e-9), "health": (1, 0),
}  # fmt: skip
TOLD = ("accelerator", "port", "host", "optic")


@dataclass(slots=True)
class Scene:
    """What is not as usual: `job` by its place, of its hosts one card's clock, or all cards; `lost`: ports."""

    name: str
    slow_job: int | None = None
    still_job: int | None = None
    lost: int = 0


@dataclass
class Cluster:
    """A cluster as features tell of it."""

    hosts: int
    sizes: tuple[int, ...] = SIZES
    calm: dict[int, list[Block]] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    @cached_property
    def fleet(self) -> Fleet:
        """Its jobs, names and links."""
        return Fleet(7, self.hosts, self.sizes)

    @cached_property
    def chunks(self) -> list[range]:
        """The hosts of each block."""
        return [range(at, min(at + CHUNK, self.hosts)) for at in range(0, self.hosts, CHUNK)]

    @cached_property
    def names(self) -> dict[tuple[str, int], tuple[str, ...]]:
        """The rows of each block, by table and first host."""
        found = {}
        for rows in self.chunks:
            for table in TOLD:
                told = "port" if table == "optic" else table
                names = (one for row in rows for one in self.fleet.names(told, row))
                found[table, rows[0]] = tuple(one.replace("port:", f"{table}:", 1) for one in names)
        return found

    @cached_property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """As windows put them out."""
        of = {table: [one for _, ones in declared(TABLES[table]) for one in ones] for table in TOLD}
        return {table: (*ones, "n", "covered_ms") for table, ones in of.items()}

    @cached_property
    def noise(self) -> NDArray[np.float32]:
        """Numbers to draw from, at a place of one's own."""
        return self.rng.standard_normal(NOISE, np.float32)

    @cached_property
    def away(self) -> dict[str, list[float]]:
        """How far windows of one component differ, by column."""
        return {table: [0.3 * USUAL.get(one, (0.0, 0.0))[1] for one in ones] for table, ones in self.columns.items()}

    @cached_property
    def levels(self) -> dict[tuple[str, int], NDArray[np.float32]]:
        """What each card or port has as its own."""
        return {key: self._level(key[0], len(names)) for key, names in self.names.items()}

    def _level(self, table: str, rows: int) -> NDArray[np.float32]:
        found = np.zeros((len(self.columns[table]), rows), np.float32)
        for place, column in enumerate(self.columns[table]):
            usual, away = USUAL.get(column.removesuffix("__max"), (0.0, 0.0))
            found[place] = usual + away * self.rng.standard_normal(rows)
        return found

    def filled(self, end_ms: int) -> Iterator[Block]:
        """A calm window, of a few that come again and again: to draw each anew takes longer than all else."""
        number = end_ms // WINDOW_MS % 6
        if number not in self.calm:
            self.calm[number] = list(self.window(end_ms, Scene("calm")))
        return (replace(one, end_ms=end_ms) for one in self.calm[number])

    def window(self, end_ms: int, scene: Scene) -> Iterator[Block]:
        """All rows of a window. Modules are read once a minute."""
        for (table, first), names in self.names.items():
            if table == "optic" and end_ms // WINDOW_MS % 6:
                continue
            level = self.levels[table, first]
            values = np.empty_like(level)
            noise = self.noise[int(self.rng.integers(NOISE // 2)) :]
            for place, away in enumerate(self.away[table]):
                if away:
                    np.multiply(noise[place * 100 : place * 100 + level.shape[1]], away, out=values[place])
                    values[place] += level[place]
                else:
                    values[place] = level[place]
            self._put(scene, table, first, values)
            yield Block(table, end_ms, names, self.columns[table], values)

    def _put(self, scene: Scene, table: str, first: int, values: NDArray[np.float32]) -> None:
        at = self.columns[table].index
        if table == "port" and scene.lost and first == 0:
            values[at("up"), : scene.lost] = 0
        if table != "accelerator":
            return
        slow = -1 if scene.slow_job is None else (self.fleet.jobs[scene.slow_job].hosts[0] - first) * 8
        if 0 <= slow < values.shape[1]:
            values[at("clock_megahertz"), slow] = 1200
            values[at("temperature_celsius"), slow] = 88
        if scene.still_job is not None:
            hosts = self.fleet.jobs[scene.still_job].hosts
            mine = slice(max(0, hosts.start - first) * 8, max(0, hosts.stop - first) * 8)
            values[at("matrix_active_ratio"), mine] = 0.01
            values[at("power_watts"), mine] = 240
            values[at("utilisation_ratio"), mine] = 1

    def facts(self) -> Iterator[tuple[bytes, AnyMessage]]:
        """Placements, links, and what cards there are."""
        for one in self.fleet.placements():
            yield one.job.encode(), one
        for edge in self.fleet.edges():
            yield f"{edge.child} {edge.parent}".encode(), edge
        for row in range(self.hosts):
            for place, pci in enumerate(ACCELERATOR_PCI):
                host = self.fleet.host(row)
                card = Identity(host=host, index=str(place), pci=f"0000:{pci}", uuid=f"u-{row}-{place}", model="M1")
                yield f"{host}/{place}".encode(), card


@dataclass
class Looks:
    """A horizon, what it holds, and the incidents so far."""

    cluster: Cluster
    end_ms: int = BEGIN_S * 1000
    incidents: tuple[Incident, ...] = ()
    horizon: Horizon = field(default_factory=Horizon)

    def __post_init__(self) -> None:
        for key, message in self.cluster.facts():
            self.take(message, key)

    def take(self, message: AnyMessage, key: bytes = b"") -> None:
        """One message."""
        record = Record("sickbay.topology.v1", 0, 0, self.end_ms, key, b"x")
        self.horizon.take(record, message)

    def window(self, scene: Scene | None) -> float:
        """One more window of all (None: a calm one); the processor seconds that taking it in costs."""
        self.end_ms += WINDOW_MS
        blocks = list(self.cluster.window(self.end_ms, scene) if scene else self.cluster.filled(self.end_ms))
        began = time.process_time()
        for one in blocks:
            self.horizon.windows.add(one)
        self.horizon.forget(self.end_ms - HORIZON_MS)
        return time.process_time() - began

    def look(self) -> dict[str, float]:
        """Processor seconds of a look, in parts."""
        began = time.process_time()
        case = self.horizon.case(self.end_ms, before_ms=self.end_ms - HORIZON_MS, frontier_ms=self.end_ms)
        cased = time.process_time()
        spent: dict[str, float] = {}

        def timed(name: str, detector: Any) -> Any:
            def run(case: Any) -> Any:
                at = time.process_time()
                found = list(detector(case))
                spent[name] = time.process_time() - at
                return found

            return run

        using = {name: timed(name, one) for name, one in detectors().items()}
        self.incidents, _ = advanced(self.incidents, case, "en", using)
        judged = time.process_time()
        told = {"case": cased - began, "judge": judged - cased - sum(spent.values()), **spent, "all": judged - began}
        rows = {f"rows of {name}": float(frame.height) for name, frame in case.features.items()}
        return {one: round(value, 3) for one, value in told.items() if value >= 0.02} | rows


def storm(looks: Looks, lost: int) -> None:
    """Events of so many ports."""
    kind = event_kinds()["port.down"]
    for row in range(lost // 8):
        for port in looks.cluster.fleet.names("port", row):
            told = Event(
                component=port, kind="port.down", severity=kind.severity, at_ms=looks.end_ms, code="down",
                host=looks.cluster.fleet.host(row), path=f"{row}/kmsg", line=1, message="link down",
            )  # fmt: skip
            looks.take(told)


def measure(size: int | None) -> dict[str, Any]:
    """A horizon of so many hosts (12,500), and the scenes."""
    cluster = Cluster(size or HOSTS)
    looks, calm = Looks(cluster), Scene("calm")
    for number in range(WINDOWS):
        looks.window(None)
        if number % 30 == 0:
            print(number, looks.look(), file=sys.stderr, flush=True)
    cluster.calm.clear()
    looks.look()
    found: dict[str, Any] = {"megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}
    found["megabytes of windows"] = round(looks.horizon.windows.size / 2**20)
    scenes = (calm, Scene("slow card", slow_job=1), Scene("still job", still_job=2), Scene("storm", lost=STORM))
    for scene in scenes:
        if scene.lost:
            storm(looks, min(scene.lost, cluster.hosts * 8))
        for _ in range(6):
            added = looks.window(scene)
            told = looks.look()
        print(scene.name, told, file=sys.stderr, flush=True)
        found[scene.name] = {"taken in": round(added, 3), **told, "incidents": len(looks.incidents)}
    found["conditions"] = {"hosts": cluster.hosts, "jobs": len(cluster.fleet.jobs), "windows": WINDOWS}
    return found
