"""Models of accelerators: what their sensors read, and which columns their maker's exporter tells, from models.toml.

Levels are factors on those of an H100 (workload/levels.py). Which columns a maker's exporter tells follows from what
the collectors read of it: a column that it does not tell is missing on every card of that maker.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collectors.formats.vendors import makers
from simulator.parts.overlay import Columns, Floats

if TYPE_CHECKING:
    from simulator.parts.cluster import Cluster

USUAL = "h100"
TABLES = ("accelerator", "port")


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model; its fields are explained in models.toml."""

    maker: str
    title: str
    codes: str
    source: str
    device: str = ""
    cards: int = 8
    domain: int = 8
    trays: int = 0
    rack: int = 4
    factors: dict[str, float] = {}
    values: dict[str, float] = {}
    assumed: tuple[str, ...] = ()

    @property
    def bus_ids(self) -> tuple[str, str]:
        """Vendor and device on the bus, "" for what no list tells."""
        return (makers()[self.maker].pci or ("",))[0], self.device

    @property
    def drivers(self) -> tuple[str, ...]:
        """Kernel modules of its driver."""
        return makers()[self.maker].drivers


@cache
def models() -> dict[str, Model]:
    """All models by their short names."""
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return msgspec.convert(rows, dict[str, Model])


def model(key: str) -> Model:
    """A model by its short name. Raises KeyError that names the others."""
    if key not in models():
        raise KeyError(f"no such accelerator model: {key}; one of {', '.join(models())}")
    return models()[key]


@cache
def columns_of(maker: str) -> frozenset[str]:
    """Columns of the accelerator table that a maker's exporter tells."""
    told = (source for source in makers()[maker].exporters.values() if source.table == "accelerator")
    return frozenset(metric.to for source in told for metric in source.metrics.values() if metric.to)


def fitted(cluster: "Cluster", table: str, columns: Columns) -> Columns:
    """The columns of a table at the levels of each card's model; those of other tables, and of H100s, as they are."""
    if not cluster.models or table not in TABLES:
        return columns
    built = {column: _levels(cluster, column, values) for column, values in columns.items()}
    if (
        table == "accelerator"
        and "health" not in built
        and any("health" in columns_of(one) for one in _makers(cluster))
    ):
        built["health"] = np.ones(len(cluster.cards))
    return built


def blanked(cluster: "Cluster", table: str, columns: Columns) -> Columns:
    """The columns of the accelerator table, missing where a card's maker has no series of them."""
    if not cluster.models or table != "accelerator":
        return columns
    return {column: _blank(cluster, column, values) for column, values in columns.items()}


def _levels(cluster: "Cluster", column: str, values: Floats) -> Floats:
    if any(column in model(key).values for key in cluster.models):
        own = [model(key).values.get(column, np.nan) for key in cluster.models]
        fixed = np.array(own)[cluster.model_of]
        return np.where(np.isnan(fixed), values, fixed)
    factors = np.array([model(key).factors.get(column, 1.0) for key in cluster.models])
    if (factors == 1.0).all():
        return values
    scaled: Floats = values * (factors[cluster.model_of] if len(factors) > 1 else factors[0])
    return np.round(scaled) if _whole(column) else scaled


def _whole(column: str) -> bool:
    return column.endswith(("_celsius", "_megahertz", "_total", "_used_bytes"))


def _blank(cluster: "Cluster", column: str, values: Floats) -> Floats:
    told = np.array([column in columns_of(model(key).maker) for key in cluster.models])
    if told.all():
        return values
    if not told.any():
        return np.broadcast_to(np.float64(np.nan), values.shape)
    return np.where(told[cluster.model_of], values, np.nan)


def _makers(cluster: "Cluster") -> set[str]:
    return {model(key).maker for key in cluster.models}


def rows_of(
    hosts: Mapping[str, int] | Sequence[str], count: int, per_host: int
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Models of a cluster of `count` hosts, and which of them each card is of (int64 [count * per_host]).

    `hosts`: how many hosts of each model, in order, the last ones of the last model; or models of whole equal parts.
    Raises ValueError where the models have not the same number of cards in a host, or not `per_host` of them.
    """
    keys = tuple(hosts)
    sizes = list(hosts.values()) if isinstance(hosts, Mapping) else [-(-count // len(keys))] * len(keys)
    for key in keys:
        if model(key).cards != per_host:
            raise ValueError(f"{key} has {model(key).cards} cards in a host, not {per_host}")
    bounds = np.cumsum(sizes)[:-1]
    return keys, np.repeat(np.searchsorted(bounds, np.arange(count), side="right"), per_host)
