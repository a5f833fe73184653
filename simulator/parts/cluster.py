"""A cluster: hosts with accelerators and NICs, and the switches that they hang on.

`build` without more makes what tests want: boards of eight H100 on leaves that nothing is above. A `Plan` puts tiers
above the leaves; `models`, `naming` and `hosts_per_rack` make it as varied as real ones are. What follows from it is
told elsewhere: `fabrics`, `racks`, `facility`; what a fault can hit: `targets`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Name
from sickbay.messages import Edge, Identity
from simulator.parts.cards import ACCELERATOR_PCI, NIC_PCI, ROOT_PORT, Card, edges_of, identities_of
from simulator.parts.fabrics import Fabric, Plan, Switches, port_name
from simulator.parts.models import USUAL, model, rows_of

__all__ = [
    "ACCELERATOR_PCI",
    "MODEL",
    "NIC_PCI",
    "ROOT_PORT",
    "Card",
    "Cluster",
    "Fabric",
    "Layout",
    "Naming",
    "Plan",
    "build",
    "edges_of",
    "identities_of",
]

Layout = Literal["leaf", "rail"]
Naming = Literal["rack", "flat", "dotted", "unit"]
MODEL = model(USUAL).title


@dataclass(frozen=True)
class Cluster:
    """Hosts in rack order; `cards` in host order, `per_host` each: a card's place is its row in every array."""

    hosts: tuple[str, ...]
    leaves: tuple[str, ...]
    cards: tuple[Card, ...]
    per_host: int = 8
    layout: Layout = "leaf"
    breakout: int = 1  # ports of a switch that one module serves
    site: str = ""
    racks: tuple[str, ...] = ()  # of each host
    plan: Plan | None = None  # None: nothing is above the leaves
    models: tuple[str, ...] = ()  # () = H100 everywhere
    model_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)  # of each card

    @cached_property
    def host_index(self) -> dict[str, int]:
        """Row of each host."""
        return {host: row for row, host in enumerate(self.hosts)}

    @cached_property
    def components(self) -> list[Name]:
        """Names of the accelerators, in row order."""
        return [card.component for card in self.cards]

    @cached_property
    def ports(self) -> list[Name]:
        """Names of the NIC ports, in row order."""
        return [card.port for card in self.cards]

    def rows(self, host: str) -> slice:
        """Rows of the cards of a host."""
        first = self.host_index[host] * self.per_host
        return slice(first, first + self.per_host)

    def of(self, host: str) -> tuple[Card, ...]:
        """Cards of a host."""
        return self.cards[self.rows(host)]

    def row(self, component: Name) -> int:
        """Row of an accelerator. Raises ValueError."""
        if component not in self._row_of:
            raise ValueError(component)
        return self._row_of[component]

    @cached_property
    def _row_of(self) -> dict[Name, int]:
        return {component: row for row, component in enumerate(self.components)}

    @cached_property
    def _under(self) -> dict[str, tuple[Card, ...]]:
        found: dict[str, list[Card]] = {}
        for card in self.cards:
            found.setdefault(card.leaf, []).append(card)
        return {leaf: tuple(cards) for leaf, cards in found.items()}

    def under(self, leaf: str) -> tuple[Card, ...]:
        """Cards whose NIC's first port hangs on a leaf switch."""
        return self._under.get(leaf, ())

    @cached_property
    def switches(self) -> Switches | None:
        """The tiers above the leaves, None where the cluster has no plan of them."""
        if self.plan is None:
            return None
        down = max(map(len, self._under.values()))
        twins = dict.fromkeys(card.second_leaf for card in self.cards if card.second_leaf)
        return Switches(self.plan, self.cards[0].fabric, self.site, (*self.leaves, *twins), down)

    def identities(self) -> list[Identity]:
        """All names of every accelerator and NIC, as the driver and `lspci` tell them."""
        return [identity for card in self.cards for identity in identities_of(card)]

    def edges(self) -> list[Edge]:
        """The topology: parts of hosts, both ends of every cable, hosts on their leaves, and what is above these."""
        return list(self.told_edges())

    def told_edges(self) -> Iterator[Edge]:
        """The edges one by one: of a large cluster they are millions."""
        for card in self.cards:
            yield from edges_of(card)
        if self.switches:
            yield from self.switches.edges()


def build(
    *, seed: int = 0, hosts: int = 8, per_host: int = 8, layout: Layout = "leaf", hosts_per_leaf: int = 2,
    names: Sequence[str] = (), breakout: int = 1, fabric: Fabric = "ethernet",
    plan: Plan | Mapping[str, Any] | None = None, models: Mapping[str, int] | Sequence[str] = (),
    naming: Naming = "rack", hosts_per_rack: int = 0,
) -> Cluster:  # fmt: skip
    """A cluster whose names depend on `seed` only, where none are given. `leaf`: a host hangs on one leaf; `rail`: a
    leaf per card index (of each unit of the plan).

    `models`: hosts of each accelerator model, in order, or models of equal parts; all have as many cards in a host as
    the first of them, which counts instead of `per_host`. `hosts_per_rack`: 0 = as the first model has it.
    """
    plan = Plan(**plan) if isinstance(plan, Mapping) else plan
    rng = np.random.default_rng([seed, 0xC1])
    site = "".join(rng.choice(list("abcdefghkmnpqrstuvwxz"), 3))
    rack = int(rng.integers(1, 60))
    count = len(names) or hosts
    first = model(next(iter(models), USUAL))
    step, per_host = hosts_per_rack or first.rack, first.cards if models else per_host
    racks = tuple(f"{site}-r{rack + i // step:02d}" for i in range(count))
    keys, model_of = rows_of(models, count, per_host) if models else ((), np.zeros(0, np.int64))
    hung = _Hung(site, count, per_host, layout, hosts_per_leaf, fabric, plan)
    own = tuple(names) or tuple(_named(naming, site, racks, step, i, plan) for i in range(count))
    cards = _cards(rng, own, hung, [keys[i] for i in model_of.tolist()] if keys else [USUAL] * count * per_host)
    return Cluster(own, hung.leaves, cards, per_host, layout, breakout, site, racks, plan, keys, model_of)


def _named(naming: Naming, site: str, racks: Sequence[str], step: int, row: int, plan: Plan | None) -> str:
    if naming == "flat":
        return f"{site}{row + 1:05d}"
    if naming == "dotted":
        return f"node-{row + 1:04d}.{site}.internal"
    if naming == "unit":
        unit = plan.unit if plan else step
        return f"{site}-su{row // unit + 1:02d}-n{row % unit + 1:03d}"
    return f"{racks[row]}-n{row % step + 1:02d}"


class _Hung(NamedTuple):
    """Which port of which leaf each card hangs on."""

    site: str
    hosts: int
    per_host: int
    layout: Layout
    hosts_per_leaf: int
    fabric: Fabric
    plan: Plan | None

    @property
    def unit(self) -> int:
        """Hosts that share leaves."""
        if self.layout == "leaf":
            return self.hosts_per_leaf
        return self.plan.unit if self.plan else self.hosts

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names of all."""
        count = -(-self.hosts // self.unit) * (self.per_host if self.layout == "rail" else 1)
        return tuple(self.leaf(number) for number in range(count))

    def leaf(self, number: int) -> str:
        """Name of one."""
        return f"leaf-{self.site}-{number + 1:02d}"

    def place(self, row: int, index: int) -> tuple[str, str]:
        """Leaf and its port."""
        unit, within = divmod(row, self.unit)
        rail = self.layout == "rail"
        number = unit * self.per_host + index if rail else unit
        socket = within if rail else within * self.per_host + index
        return self.leaf(number), port_name(self.fabric, socket)

    def second(self, leaf: str) -> str:
        """The twin of a leaf, "" where cards have one port."""
        return leaf.replace("leaf-", "twin-", 1) if self.plan and self.plan.ports == 2 else ""


def _cards(rng: np.random.Generator, hosts: Sequence[str], hung: _Hung, models: Sequence[str]) -> tuple[Card, ...]:
    raw = rng.bytes(16 * len(models)).hex()
    found = []
    for place, key in enumerate(models):
        row, index = divmod(place, hung.per_host)
        leaf, port = hung.place(row, index)
        found.append(_card(raw[32 * place : 32 * place + 32], hosts[row], row, index, leaf, port, hung, key))
    return tuple(found)


def _card(raw: str, host: str, row: int, index: int, leaf: str, port: str, hung: _Hung, key: str) -> Card:
    second = hung.second(leaf)
    return Card(
        host=host,
        index=index,
        uuid=f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}",
        serial=f"16{int(raw[:10], 16) % 10**11:011d}",
        leaf=leaf,
        leaf_port=port,
        fabric=hung.fabric,
        address=f"10.{20 + index}.{row // 250}.{row % 250 + 1}",
        model=key,
        second_leaf=second,
        second_leaf_port=port if second else "",
    )
