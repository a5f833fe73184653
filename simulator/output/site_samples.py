"""What is told of a site beside the hosts' own sensors: both ends of cables, power and cooling, by who reads it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from sickbay.components import Name, host_of, parts_of
from sickbay.schema import Samples
from simulator.parts.cables import Cables
from simulator.parts.told import Told
from simulator.world import Second

MODULES_S, COUNTERS_S = 60, 10  # how often modules are read (they are slow), and switches and units asked

# Of the hosts' own ends, what the adapters' statistics tell; what effects count there is in the port table already.
OF_ADAPTERS = ("corrected_bits_total", "received_bits_total", "rx_pause_total", "tx_pause_total",
               "bus_stalled_seconds_total")  # fmt: skip


def told_with(second: Second, at_s: int) -> tuple[Told, Mapping[str, tuple[Samples, ...]]]:
    """What hosts told in a second with what they read of their cables, and what switches and units told, by sender."""
    told, cables = second.samples, second.cables
    if cables is None:
        raise ValueError("nobody reads cables in this second")
    told, others = _with_adapters(told, cables, second.at_ms), dict[str, list[Samples]]()
    for one in _read(second, cables, at_s):
        for sender, samples in by_sender(one):
            others.setdefault(sender, []).append(samples)
    own = {host: (*told[host], *more) for host, more in others.items() if host in told}
    index = told.cluster.host_index
    return told.changed(own), {sender: tuple(more) for sender, more in others.items() if sender not in index}


def _read(second: Second, cables: Cables, at_s: int) -> Iterator[Samples]:
    if at_s % MODULES_S == 0:
        yield cables.modules(second.at_ms)
    if at_s % COUNTERS_S == 0:
        yield cables.leaf_ports(second.at_ms)
        yield cables.uplink_ports(second.at_ms)
        yield from second.site


def _with_adapters(told: Told, cables: Cables, at_ms: int) -> Told:
    """The port table with the adapters' own statistics, where anything is told of the port."""
    ports, seen = told.tables["port"], cables.host_ports(at_ms).values
    hidden = np.isnan(ports["up"])
    more = {column: np.where(hidden, np.nan, seen[column]) for column in OF_ADAPTERS}
    return replace(told, tables={**told.tables, "port": {**ports, **more}})


def by_sender(samples: Samples) -> Iterator[tuple[str, Samples]]:
    """The rows of each sender: the host or switch that a component is in, else the component itself."""
    rows: dict[str, list[int]] = {}
    for row, component in enumerate(samples.component):
        rows.setdefault(_sender(component), []).append(row)
    for sender, mine in rows.items():
        values = {column: numbers[mine] for column, numbers in samples.values.items()}
        yield sender, Samples(samples.table, [samples.component[row] for row in mine], samples.at_ms[mine], values)


def _sender(component: Name) -> str:
    return host_of(component) or parts_of(component)[0]
