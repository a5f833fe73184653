"""What exporter series (codes/exporters) and files of /sys (codes/sysfs.toml) mean, for every reader of them.

A series name becomes a table's column and a conversion; `series_names` turns its labels into a component.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from sickbay.messages import Action, Blame, Severity
from sickbay.schema import TABLES

# Read for what they tell, never stored: whether a scrape succeeded, and which names belong together.
UP = "up"
HOST_INFO = "node_uname_info"
NIC_INFO = "node_ethtool_info"


class Told(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one value of a series says by itself: the event's kind, code and advice.

    `stands`: the device says it of now, else it may be as old as the exporter. `alone`: only where no time tells how
    long it has been so; over time detectors judge.
    """

    kind: str
    code: str = ""
    severity: Severity | None = None  # None: the kind's
    blame: Blame | None = None
    advice: Action | None = None
    when: str = ""  # the moment the advice is meant for
    stands: bool = False
    alone: bool = False


class Metric(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one series becomes: a row of an exporter; `collectors.codes.exporters` explains the fields."""

    to: str = ""
    unit: str = ""
    factor: float = 1.0
    convert: Literal["", "dbm", "positive", "zero_is_good", "percent_or_ratio"] = ""
    values: dict[str, float] = {}
    least: float | None = None
    saturates: float | None = None
    wraps: bool = False
    where: dict[str, str] = {}
    sum_over: tuple[str, ...] = ()
    names: bool = False
    code: str = ""
    code_label: str = ""
    codes: Literal["", "xid", "ascend"] = ""
    while_there: bool = False
    told: dict[str, Told] = {}
    rises: Told | None = None
    also: tuple[str, ...] = ()

    @property
    def speaks(self) -> bool:
        """Whether values of it may be events."""
        return bool(self.code or self.told or self.rises)


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exporter: a section of a file of codes/exporters, where the fields are explained."""

    source: str
    table: str
    metrics: dict[str, Metric]
    pci: tuple[str, ...] = ()
    uuid: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    serial: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    port: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    least: float | None = None
    jobs: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    prefixes: tuple[str, ...] = ()
    numbered: tuple[int, ...] = ()

    @property
    def of_accelerators(self) -> bool:
        """Whether the exporter speaks of accelerators and what is on them; else it is the host's own."""
        return bool(self.pci or self.uuid or self.index)


class Vendor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A maker of accelerators and its exporters, or the host's own exporters: a file of codes/exporters."""

    name: str
    pci: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    rest: str = ""
    absent: dict[str, tuple[str, ...]] = {}
    unread: dict[str, str] = {}
    exporters: dict[str, Source]
    tools: dict[str, Source] = {}


@dataclass(frozen=True, slots=True)
class Target:
    """A known series name: its row and its exporter, and the part of the device that the name itself tells."""

    name: str
    metric: Metric
    source: Source
    part: str = ""


@cache
def vendors() -> dict[str, Vendor]:
    """All files of codes/exporters by their name. Raises ValueError for one that contradicts the schema or another."""
    folder = resources.files("collectors.codes.exporters")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    found = {
        file.name.removesuffix(".toml"): msgspec.toml.decode(file.read_text(encoding="utf-8"), type=Vendor)
        for file in files
    }
    for vendor in found.values():
        refuse(vendor)
    return found


def refuse(vendor: Vendor) -> None:
    """Raises ValueError for a file that speaks of columns which there are not, or tells one that it calls absent."""
    told_by = (*vendor.exporters.values(), *vendor.tools.values())
    told = {(source.table, row.to) for source in told_by for row in source.metrics.values() if row.to}
    absent = {("accelerator", column) for columns in vendor.absent.values() for column in columns}
    for table, column in told | absent:
        if table not in TABLES or column not in TABLES[table].names:
            raise ValueError(f"{vendor.name}: there is no column {column} in a table {table}")
    if both := told & absent:
        raise ValueError(f"{vendor.name}: told and absent: {sorted(column for _, column in both)}")


@cache
def sources() -> dict[str, Source]:
    """All exporters by section name."""
    return {name: source for vendor in vendors().values() for name, source in vendor.exporters.items()}


@cache
def targets() -> dict[str, Target]:
    """All known series by name, under every alias and prefix. Raises ValueError where two rows claim one name."""
    return _by_name(sources()) | _read("otel.toml")


@cache
def files() -> dict[str, Target]:
    """All known files of /sys, by their path below the device or port."""
    return _read("sysfs.toml")


@cache
def statistics() -> dict[str, Target]:
    """All known statistics of network drivers, by their name without a priority."""
    return _read("statistics.toml")


def _read(name: str) -> dict[str, Target]:
    text = resources.files("collectors.codes").joinpath(name).read_text(encoding="utf-8")
    return _by_name(msgspec.toml.decode(text, type=dict[str, Source]))


def _by_name(sections: dict[str, Source]) -> dict[str, Target]:
    found: dict[str, Target] = {}
    for source in sections.values():
        for row, told in source.metrics.items():
            metric = msgspec.structs.replace(told, least=source.least) if told.least is None else told
            for name, part in _spellings(row, metric, source):
                if found.setdefault(name, Target(name, metric, source, part)).metric is not metric:
                    raise ValueError(f"{name} is claimed by two rows")
    return found


def _spellings(row: str, metric: Metric, source: Source) -> Iterator[tuple[str, str]]:
    """Every name of a row's series, and the part of the device that stands in it."""
    parts = ["_".join(map(str, numbers)) for numbers in product(*map(range, source.numbered))]
    for alias in (row, *metric.also):
        for prefix in ("", *source.prefixes):
            yield from ((f"{prefix}{alias}_{part}" if part else prefix + alias, part) for part in parts)


def is_known(name: str) -> bool:
    """Whether a series of this name tells us anything."""
    return name in targets() or name in (UP, HOST_INFO, NIC_INFO)


def converted(metric: Metric, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exporter's values in our unit; what is no measurement becomes NaN, never 0."""
    real = np.where(np.isfinite(values) & ~_blank(values), values, np.nan)
    if metric.saturates is not None:
        real[real == metric.saturates] = np.nan
    if metric.least is not None:
        real[real < metric.least] = np.nan
    if metric.values:
        told = {float(key): value for key, value in metric.values.items()}
        return np.array([told.get(value, math.nan) for value in real.tolist()])
    if metric.convert == "positive":
        return np.where(np.isnan(real), np.nan, (real > 0).astype(np.float64))
    if metric.convert == "zero_is_good":
        return np.where(np.isnan(real), np.nan, (real == 0).astype(np.float64))
    if metric.convert == "dbm":  # no light at all is minus infinity, which no average survives: missing
        return 10 * np.log10(np.where(real > 0, real, np.nan))
    if metric.convert == "percent_or_ratio":  # 1 may be one percent or all of it
        return np.where(real > 1, real / 100, np.where(real == 1, np.nan, real))
    return real * metric.factor


def is_blank(value: float) -> bool:
    """Whether the number is one of DCGM's words for "no value"."""
    return 2147483632 <= value <= 2147483635 or 140737488355328 <= value <= 140737488355331 or abs(value) >= 9.2e18


def _blank(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """DCGM's words for "no value" in its three number types, as they look after a float or JSON conversion."""
    if not (np.abs(values) >= 2147483632).any():  # nearly always
        return np.zeros(len(values), np.bool_)
    int32 = (values >= 2147483632) & (values <= 2147483635)
    float64 = (values >= 140737488355328) & (values <= 140737488355331)
    return int32 | float64 | (np.abs(values) >= 9.2e18)
