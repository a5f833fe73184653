"""Power and cooling of a cluster: which rack hangs on what, and what the units read each second.

A rack is fed by one unit (`feeds` = 1) or by two, and cooled by one distribution unit for some racks. Readings carry a
noise of a few parts in a thousand, and the coolant breathes slowly with the hall.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sickbay.components import Kind, Name, name
from sickbay.messages import Edge, Relation
from sickbay.schema import Samples
from simulator.parts.cluster import Cluster

RACKS_PER_CDU = 2
HOST_WATTS, STANDBY_WATTS = 9_800.0, 90.0  # an eight-card machine under load; shut down, with its BMC alive
VOLTS = 415.0
FLOW, SUPPLY, RETURN, PRESSURE, PUMP = 620.0, 24.6, 33.8, 210.0, 0.71  # of a unit that cools two such racks
BREATH_S = 1_900.0  # period of the hall's own slow swing
HEADER = "time,component,column,value"


class Fed(NamedTuple):
    """What one rack hangs on."""

    hosts: tuple[str, ...]
    pdus: tuple[Name, ...]
    cdu: Name
    manager: Name  # the management switch of the rack


def feeds(cluster: Cluster, each: int = 1) -> dict[str, Fed]:
    """What each rack hangs on; `each`: units that feed a rack."""
    racks: dict[str, list[str]] = {}
    for host, rack in zip(cluster.hosts, cluster.racks, strict=True):
        racks.setdefault(rack, []).append(host)
    return {
        rack: Fed(
            tuple(hosts),
            tuple(name(Kind.PDU, f"pdu-{rack}-{side}") for side in "ab"[:each]),
            name(Kind.CDU, f"cdu-{place // RACKS_PER_CDU + 1:02d}"),
            name(Kind.SWITCH, f"mgmt-{rack}"),
        )
        for place, (rack, hosts) in enumerate(racks.items())
    }


def edges(cluster: Cluster, each: int = 1) -> Iterator[Edge]:
    """Power, cooling and management of every host."""
    for rack, fed in feeds(cluster, each).items():
        for host in fed.hosts:
            child = name(Kind.HOST, host)
            yield Edge(child=child, parent=name(Kind.RACK, rack), relation=Relation.PART_OF, source="simulator")
            yield from (
                Edge(child=child, parent=pdu, relation=Relation.POWERED_BY, source="simulator") for pdu in fed.pdus
            )
            yield Edge(child=child, parent=fed.cdu, relation=Relation.COOLED_BY, source="simulator")
            yield Edge(child=child, parent=fed.manager, relation=Relation.MANAGED_BY, source="simulator")


def inventory_csv(cluster: Cluster, each: int = 1) -> str:
    """The site's list of hosts."""
    columns = ["pdu_a", "pdu_b"][:each]
    rows = [",".join(["host", "rack", *columns, "cdu", "management_switch"])]
    for rack, fed in feeds(cluster, each).items():
        units = [unit.partition(":")[2] for unit in (*fed.pdus, fed.cdu, fed.manager)]
        rows += [",".join([host, rack, *units]) for host in fed.hosts]
    return "\n".join(rows) + "\n"


@dataclass(slots=True)
class Gauges:
    """The units' sensors. What an effect sets in `told` (component -> column -> value) stands instead of the usual."""

    cluster: Cluster
    seed: int
    each: int = 1
    _rng: np.random.Generator = field(init=False)
    _phase: float = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng([self.seed, 0xFA])
        self._phase = float(self._rng.uniform(0, BREATH_S))

    def read(self, at_ms: int, up: Mapping[str, bool], told: Mapping[Name, Mapping[str, float]]) -> tuple[Samples, ...]:
        """All readings of one second. `up`: hosts that draw power."""
        breath = float(np.sin(2 * np.pi * (at_ms / 1000 + self._phase) / BREATH_S))
        pdus: dict[Name, dict[str, float]] = {}
        cdus: dict[Name, dict[str, float]] = {}
        for fed in feeds(self.cluster, self.each).values():
            drawn = sum(HOST_WATTS if up[host] else STANDBY_WATTS for host in fed.hosts)
            watts = drawn / len(fed.pdus) * self._noise()
            for pdu in fed.pdus:
                usual = {"up": 1.0, "power_watts": watts, "current_amperes": watts / VOLTS, "voltage_volts": VOLTS}
                pdus[pdu] = usual | dict(told.get(pdu, {}))
            if fed.cdu not in cdus:
                cdus[fed.cdu] = self._coolant(breath) | dict(told.get(fed.cdu, {}))
        return (_samples("pdu", pdus, at_ms), _samples("cdu", cdus, at_ms))

    def _coolant(self, breath: float) -> dict[str, float]:
        return {
            "up": 1.0,
            "flow_litres_per_minute": FLOW * (1 + 0.01 * breath) * self._noise(),
            "supply_temperature_celsius": SUPPLY + 0.4 * breath + 0.05 * float(self._rng.standard_normal()),
            "return_temperature_celsius": RETURN + 0.5 * breath + 0.1 * float(self._rng.standard_normal()),
            "pressure_kilopascals": PRESSURE * self._noise(),
            "pump_ratio": PUMP,
            "leak": 0.0,
        }

    def _noise(self) -> float:
        return 1 + 0.004 * float(self._rng.standard_normal())


def _samples(table: str, rows: Mapping[Name, Mapping[str, float]], at_ms: int) -> Samples:
    columns = list(next(iter(rows.values()), {}))
    values = {column: np.array([row[column] for row in rows.values()]) for column in columns}
    return Samples(table, list(rows), np.full(len(rows), at_ms, np.int64), values)


def readings(samples: Samples) -> Iterator[str]:
    """The samples as rows of a file of readings."""
    for row, component in enumerate(samples.component):
        for column, values in samples.values.items():
            if not np.isnan(values[row]):
                yield f"{_stamp(int(samples.at_ms[row]))},{component},{column},{float(values[row]):.6g}"


def _stamp(at_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
