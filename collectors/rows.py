"""Rows of one moment as samples: component -> column -> value, what is not told is missing."""

from collections.abc import Mapping

import numpy as np

from sickbay.components import Name
from sickbay.schema import TABLES, Samples


def samples(table: str, cells: Mapping[Name, Mapping[str, float]], at_ms: int) -> list[Samples]:
    """One Samples of all components that tell something, none where nobody does."""
    told = {component: values for component, values in cells.items() if values}
    if not told:
        return []
    columns = [name for name in TABLES[table].names if any(name in values for values in told.values())]
    values = {name: np.array([row.get(name, np.nan) for row in told.values()], np.float64) for name in columns}
    return [Samples(table, list(told), np.full(len(told), at_ms, np.int64), values)]
