"""Wider windows made from narrower ones that lie side by side: 60 s from six of 10 s, without the samples.

Counts, covered time, extremes and increases are those of the wide window itself, where no counter was restarted after
more than a minute of silence. A mean is that of the narrow means, each weighted with its samples: exact to float32
where a column tells every sample; where some are missing, a window's told ones stand for all of it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sickbay.components import Name
from streams.window_core import Features


def widened(parts: Sequence[Features]) -> Features:
    """One window out of those that make it up, in the order of their ends. A component has what its windows tell.

    Raises ValueError where a mean comes without `n`, or a spread without its maximum: it could not be told.
    """
    names, columns = _names(parts), tuple(dict.fromkeys(name for part in parts for name in part.columns))
    blocks = {column: np.full((len(parts), len(names)), np.nan) for column in columns}
    for at, part in enumerate(parts):
        places = _places(part.names, names)
        for column, values in zip(part.columns, part.values, strict=True):
            blocks[column][at, places] = values
    values = np.empty((len(columns), len(names)), np.float32)
    for place, column in enumerate(columns):
        values[place] = _wide(column, blocks)
    return Features(names, columns, values)


def _wide(column: str, blocks: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    block, (name, _, kind) = blocks[column], column.partition("__")
    if column in ("n", "covered_ms") or kind == "increase":
        return _total(block)
    if kind == "max":
        return np.asarray(np.fmax.reduce(block, axis=0))
    if kind == "min":
        return np.asarray(np.fmin.reduce(block, axis=0))
    if kind == "spread" and (most := blocks.get(f"{name}__max")) is not None:
        return np.asarray(np.fmax.reduce(most, axis=0) - np.fmin.reduce(most - block, axis=0))
    if kind or "n" not in blocks:
        raise ValueError(f"{column} of a wider window cannot be told from {', '.join(blocks)}")
    weight = np.where(np.isnan(block), np.nan, blocks["n"])
    with np.errstate(invalid="ignore"):
        return _total(block * weight) / _total(weight)


def _total(block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of what is told, one window after the other; missing where nothing is."""
    total = np.zeros(block.shape[1])
    for values in block:
        total += np.where(np.isnan(values), 0.0, values)
    return np.where(np.isnan(block).all(axis=0), np.nan, total)


def _names(parts: Sequence[Features]) -> tuple[Name, ...]:
    first = parts[0].names if parts else ()
    if all(part.names == first for part in parts):
        return first
    return tuple(sorted({name for part in parts for name in part.names}))


def _places(some: tuple[Name, ...], names: tuple[Name, ...]) -> slice | NDArray[np.intp]:
    if some == names:
        return slice(None)
    place = {name: at for at, name in enumerate(names)}
    return np.array([place[name] for name in some], np.intp)
