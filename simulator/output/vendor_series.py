"""Series of the exporters of all makers of accelerators, made from what the collectors read of them.

Of a column the first series counts that can be undone: a factor, or a list of values. What needs labels of its own
series, or a conversion, is left out; so is what an exporter numbers.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from collectors.formats.metric_names import Source
from collectors.formats.vendors import makers
from simulator.parts.cards import Card
from simulator.parts.models import USUAL, model


class Metric(NamedTuple):
    """An exporter's name for a column, and what its value is multiplied by."""

    name: str
    column: str
    factor: float = 1.0


def usual(card: Card) -> bool:
    """Whether the card's maker is that of the usual model."""
    return model(card.model).maker == model(USUAL).maker


@cache
def exporter(maker: str) -> Source:
    """The maker's exporter of accelerators."""
    return next(one for one in makers()[maker].exporters.values() if one.table == "accelerator" and not one.numbered)


@cache
def series(maker: str) -> tuple[Metric, ...]:
    """Names, columns and factors of the series of a maker's exporter, a series a column."""
    return tuple({one.column: one for one in reversed(list(_series(maker)))}.values())


def _series(maker: str) -> Iterator[Metric]:
    for row, metric in exporter(maker).metrics.items():
        if metric.to and not (metric.convert or metric.where or metric.sum_over or metric.values):
            yield Metric(row, metric.to, 1 / metric.factor)


def labels(card: Card) -> dict[str, str]:
    """What names a card in the series of its maker's exporter: the first label of each sort that it has."""
    own = exporter(model(card.model).maker)
    told = {"pci": card.pci, "uuid": card.uuid, "index": str(card.index), "serial": card.serial}
    told["model"] = model(card.model).title
    sorts = {sort: getattr(own, sort) for sort in told}
    whole = dict.fromkeys(own.partition[:1], own.whole[0]) if own.partition and own.whole else {}
    return whole | {spelled[0]: told[sort] for sort, spelled in sorts.items() if spelled}


def scraped(card: Card) -> tuple[str, int]:
    """The scrape job's name, and the exporter's port."""
    own = exporter(model(card.model).maker)
    return (own.jobs or ("accelerator",))[0], (own.ports or (9400,))[0]
